package signature

import (
	"fmt"
	"strings"
)

// hostSet are the hosts that messages may be meant for. One key set signs for every customer of the service, so a message that was validly signed for another customer's host must fail here.
type hostSet map[hostPort]bool

// hostPort is a host in lower case and a port; no port stands for the default, "*" for any.
type hostPort struct{ name, port string }

func newHostSet(hosts []string) (hostSet, error) {
	if len(hosts) == 0 {
		return nil, fmt.Errorf("signature: new verifier: no hosts given: name those that the service calls and redirects to, as in the callback URL")
	}
	set := make(hostSet, len(hosts))
	for _, host := range hosts {
		h := splitHost(host)
		if !validHostName(h.name) || h.port != "*" && !validPort(h.port) || strings.HasSuffix(host, ":") {
			return nil, fmt.Errorf("signature: new verifier: %q is not a host: give \"name\", \"name:port\" or \"name:*\", without scheme and path", host)
		}
		set[h] = true
	}
	return set, nil
}

func (s hostSet) allows(host string) bool {
	h := splitHost(host)
	return validPort(h.port) && (s[h] || s[hostPort{h.name, "*"}])
}

func sameHost(a, b string) bool { return splitHost(a) == splitHost(b) }

func splitHost(host string) hostPort {
	host = strings.ToLower(host)
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || colon < strings.LastIndexByte(host, ']') { // the colons of an IPv6 address are in brackets
		return hostPort{name: host}
	}
	h := hostPort{name: host[:colon], port: host[colon+1:]}
	if h.port == "80" || h.port == "443" {
		h.port = ""
	}
	return h
}

func validPort(port string) bool {
	for i := range len(port) {
		if port[i] < '0' || port[i] > '9' {
			return false
		}
	}
	return len(port) <= len("65535")
}

// validHostName refuses what can never come in a Host header, so that a mistake shows at start and not as refused messages. Names outside ASCII come as punycode.
func validHostName(name string) bool {
	if ip, ok := strings.CutPrefix(name, "["); ok {
		ip, ok = strings.CutSuffix(ip, "]")
		return ok && ip != "" && strings.Trim(ip, "0123456789abcdef:.") == ""
	}
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-._") == ""
}
