package signature

import (
	"fmt"
	"strings"
)

// hostSet contains the allowed hosts of messages. The service signs for all customers with the same
// keys, so messages to the hosts of other customers must be rejected.
type hostSet map[hostPort]bool

// hostPort is a host in lower case with a port. An empty port means the default port, "*" any port.
type hostPort struct{ name, port string }

func newHostSet(hosts []string) (hostSet, error) {
	if len(hosts) == 0 {
		return nil, fmt.Errorf("signature: new verifier: no hosts (list the hosts of your callback and redirect URLs)")
	}
	set := make(hostSet, len(hosts))
	for _, host := range hosts {
		h := splitHost(host)
		if !validHostName(h.name) || h.port != "*" && !validPort(h.port) || strings.HasSuffix(host, ":") {
			return nil, fmt.Errorf("signature: new verifier: %q is not a host (use \"name\", \"name:port\" or \"name:*\", without scheme and path)", host)
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
	if colon < 0 || colon < strings.LastIndexByte(host, ']') { // an IPv6 address has its colons in brackets
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

// validHostName reports whether name, in lower case, can occur in a Host header, where names are
// ASCII or punycode. NewVerifier uses it to detect configuration errors.
func validHostName(name string) bool {
	if ip, ok := strings.CutPrefix(name, "["); ok {
		ip, ok = strings.CutSuffix(ip, "]")
		return ok && ip != "" && strings.Trim(ip, "0123456789abcdef:.") == ""
	}
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-._") == ""
}
