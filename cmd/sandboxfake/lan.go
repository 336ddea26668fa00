package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/idverify/idverify-go/cmd/sandboxfake/internal/inspector"
	"github.com/idverify/idverify-go/cmd/sandboxfake/internal/qr"
)

// lanAddr is the default of -addr with -lan.
const lanAddr = ":8443"

var errNoLANAddress = errors.New("sandboxfake: -lan: this machine has no address on a local network (connect it, or set -public-url)")

// lanURL returns the public URL for -lan, with the address of this machine on the local network and
// the port of -addr. It is -public-url if that is set.
func (f *flags) lanURL(interfaces []networkInterface) (string, error) {
	host, service, err := net.SplitHostPort(f.addr)
	if err != nil {
		return "", fmt.Errorf("sandboxfake: -addr: %w", err)
	}
	port, err := net.LookupPort("tcp", service)
	ip, _ := netip.ParseAddr(host)
	switch {
	case f.fixedKeys:
		return "", errors.New("sandboxfake: -lan requires new keys: anyone on the network could use the public ones of -fixed-keys")
	case host != "" && !ip.IsUnspecified():
		return "", errors.New("sandboxfake: -lan listens on all addresses: -addr must have no host, as in -addr :9443")
	case err != nil:
		return "", fmt.Errorf("sandboxfake: -addr: %w", err)
	case f.publicURL != "":
		return f.publicURL, nil
	}
	address, ok := lanAddress(interfaces)
	if !ok {
		return "", errNoLANAddress
	}
	return fmt.Sprintf("https://%s", netip.AddrPortFrom(address, uint16(port))), nil
}

// networkInterface is a network interface of this machine.
type networkInterface struct {
	name      string
	flags     net.Flags
	addresses []netip.Addr
}

// networkInterfaces returns the network interfaces of this machine.
func networkInterfaces() ([]networkInterface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var interfaces []networkInterface
	for _, i := range all {
		found := networkInterface{name: i.Name, flags: i.Flags}
		prefixes, err := i.Addrs()
		if err != nil { // the interface was removed
			continue
		}
		for _, prefix := range prefixes {
			if p, err := netip.ParsePrefix(prefix.String()); err == nil {
				found.addresses = append(found.addresses, p.Addr().Unmap())
			}
		}
		interfaces = append(interfaces, found)
	}
	return interfaces, nil
}

// lanAddress returns the address at which other machines on the local network most probably reach
// this one: a private IPv4 address of a physical interface if possible. Otherwise it prefers any
// address of a physical interface to one of a virtual bridge, and IPv4 to IPv6.
func lanAddress(interfaces []networkInterface) (netip.Addr, bool) {
	type candidate struct {
		address netip.Addr
		rank    int
	}
	var candidates []candidate
	for _, i := range interfaces {
		if i.flags&net.FlagUp == 0 || i.flags&(net.FlagLoopback|net.FlagPointToPoint) != 0 {
			continue
		}
		rank := 0
		if isVirtual(i.name) || i.flags&net.FlagRunning == 0 { // an unplugged cable is up, but not running
			rank = 10
		}
		for _, address := range i.addresses {
			switch {
			case !address.IsGlobalUnicast(): // for example link-local
			case address.Is4() && address.IsPrivate():
				candidates = append(candidates, candidate{address, rank})
			case address.Is4():
				candidates = append(candidates, candidate{address, rank + 1})
			default:
				candidates = append(candidates, candidate{address, rank + 2})
			}
		}
	}
	if len(candidates) == 0 {
		return netip.Addr{}, false
	}
	best := slices.MinFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.rank, b.rank) })
	return best.address, true
}

// isVirtual reports whether an interface probably connects only containers and virtual machines of
// this machine.
func isVirtual(name string) bool {
	prefixes := []string{"docker", "br-", "bridge", "veth", "virbr", "vmnet", "vboxnet", "vEthernet", "podman", "cni", "flannel", "cali", "lxc", "lxdbr"}
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// lanNotice is the text that -lan prints after the start.
func (f *flags) lanNotice(publicURL string, caPEM []byte) string {
	access := "and accepts only connections from this machine"
	if f.remoteControl {
		access = "and, with -remote-control, accepts connections from any machine"
	}
	notice := fmt.Sprintf(`Everyone on the network can reach the service at %[1]s
Its control plane below /_sandbox/ requires the control token, %[2]s.
To install the CA certificate on a phone, open %[1]s/_sandbox/ca there. Compare its SHA-256 fingerprint:
%[3]s

`, publicURL, access, strings.Join(inspector.Fingerprint(caPEM), ":"))
	// With -json, the reader is a script.
	if code, err := qr.Encode(publicURL + "/_sandbox/ca"); err == nil && !f.json {
		notice += code.Terminal() + "\n"
	}
	return notice
}
