package main

import (
	"io"
	"net"
	"net/netip"
	"testing"
)

func TestLANAddress(t *testing.T) {
	t.Parallel()
	const up = net.FlagUp | net.FlagRunning | net.FlagBroadcast
	type list = []networkInterface
	i := func(name string, flags net.Flags, addresses ...string) networkInterface {
		found := networkInterface{name: name, flags: flags}
		for _, address := range addresses {
			found.addresses = append(found.addresses, netip.MustParseAddr(address))
		}
		return found
	}
	lo := i("lo", up|net.FlagLoopback, "127.0.0.1", "::1")
	docker := i("docker0", up, "172.17.0.1")
	vpn := i("tun0", up|net.FlagPointToPoint, "10.8.0.2")
	for _, row := range []struct {
		name       string
		interfaces list
		want       string // empty: none
	}{
		{"laptop", list{lo, docker, i("wlan0", up, "192.168.1.5", "2001:db8::5", "fe80::5"), vpn}, "192.168.1.5"},
		{"first of two", list{lo, i("eth0", up, "10.0.0.5"), i("wlan0", up, "192.168.1.5")}, "10.0.0.5"},
		{"private before public address", list{i("eth0", up, "198.51.100.5", "10.0.0.5")}, "10.0.0.5"},
		{"public address", list{lo, i("eth0", up, "2001:db8::5", "198.51.100.5")}, "198.51.100.5"},
		{"public address before a bridge", list{docker, i("eth0", up, "198.51.100.5")}, "198.51.100.5"},
		{"IPv6 before a bridge", list{docker, i("eth0", up, "fe80::5", "fd00::5")}, "fd00::5"},
		{"unplugged cable", list{i("eth0", net.FlagUp|net.FlagBroadcast, "192.168.1.4"), i("wlan0", up, "192.168.1.5")}, "192.168.1.5"},
		{"interface that is down", list{i("eth0", net.FlagBroadcast, "192.168.1.4"), docker}, "172.17.0.1"},
		{"virtual machines", list{i("vEthernet (WSL)", up, "172.20.0.1"), i("vboxnet0", up, "192.168.56.1"), i("br-0123456789ab", up, "172.18.0.1"), i("Wi-Fi", up, "192.168.1.5")}, "192.168.1.5"},
		{"only a bridge", list{lo, i("br0", up, "192.168.1.5")}, "192.168.1.5"},
		{"only a container bridge", list{lo, docker}, "172.17.0.1"},
		{"link-local addresses", list{lo, i("eth0", up, "169.254.1.5", "fe80::5")}, ""},
		{"only a VPN", list{lo, vpn}, ""},
		{"only loopback", list{lo}, ""},
		{"no interface", nil, ""},
	} {
		got, ok := lanAddress(row.interfaces)

		if ok != (row.want != "") || ok && got.String() != row.want {
			t.Errorf("%s: address %v (found: %v), want %q", row.name, got, ok, row.want)
		}
	}
}

func TestFlags_LANURL(t *testing.T) {
	t.Parallel()
	connected := []networkInterface{{name: "eth0", flags: net.FlagUp | net.FlagRunning, addresses: []netip.Addr{netip.MustParseAddr("192.168.1.5")}}}
	overIPv6 := []networkInterface{{name: "eth0", flags: net.FlagUp | net.FlagRunning, addresses: []netip.Addr{netip.MustParseAddr("fd00::5")}}}
	const public = "https://sandbox.example.com"
	for _, row := range []struct {
		name       string
		flags      flags
		interfaces []networkInterface
		want, err  string
	}{
		{"default port", flags{addr: lanAddr}, connected, "https://192.168.1.5:8443", ""},
		{"over IPv6", flags{addr: lanAddr}, overIPv6, "https://[fd00::5]:8443", ""},
		{"other port", flags{addr: ":9443"}, connected, "https://192.168.1.5:9443", ""},
		{"free port", flags{addr: ":0"}, connected, "https://192.168.1.5:0", ""},
		{"all IPv4 addresses", flags{addr: "0.0.0.0:8443"}, connected, "https://192.168.1.5:8443", ""},
		{"all addresses", flags{addr: "[::]:8443"}, connected, "https://192.168.1.5:8443", ""},
		{"public URL", flags{addr: lanAddr, publicURL: public}, connected, public, ""},
		{"public URL without network", flags{addr: lanAddr, publicURL: public}, nil, public, ""},
		{"without network", flags{addr: lanAddr}, nil, "", errNoLANAddress.Error()},
		{"fixed keys", flags{addr: lanAddr, fixedKeys: true}, connected, "", "sandboxfake: -lan requires new keys: anyone on the network could use the public ones of -fixed-keys"},
		{"fixed keys and public URL", flags{addr: lanAddr, fixedKeys: true, publicURL: public}, connected, "", "sandboxfake: -lan requires new keys: anyone on the network could use the public ones of -fixed-keys"},
		{"address", flags{addr: "127.0.0.1:8443"}, connected, "", "sandboxfake: -lan listens on all addresses: -addr must have no host, as in -addr :9443"},
		{"host", flags{addr: "sandbox:8443"}, connected, "", "sandboxfake: -lan listens on all addresses: -addr must have no host, as in -addr :9443"},
	} {
		got, err := row.flags.lanURL(row.interfaces)

		message := ""
		if err != nil {
			message = err.Error()
		}
		if got != row.want || message != row.err {
			t.Errorf("%s: %q, error %q, want %q, error %q", row.name, got, message, row.want, row.err)
		}
	}
}

func TestParseFlags_LANPort(t *testing.T) {
	for _, row := range []struct {
		env  string
		args []string
		want string
	}{
		{"", []string{"-lan"}, ":8443"},
		{"", []string{"-lan", "-addr", ":9443"}, ":9443"},
		{"", []string{"-lan", "-addr", "127.0.0.1:0"}, "127.0.0.1:0"}, // rejected later
		{"0.0.0.0:9443", []string{"-lan"}, "0.0.0.0:9443"},
		{"", nil, "127.0.0.1:0"},
	} {
		getenv := func(name string) string { return map[string]string{"SANDBOXFAKE_ADDR": row.env}[name] }

		f, _ := parseFlags(row.args, getenv, io.Discard, io.Discard)

		if f == nil || f.addr != row.want {
			t.Errorf("%v with %q in the environment: flags %+v, want to listen on %s", row.args, row.env, f, row.want)
		}
	}
}
