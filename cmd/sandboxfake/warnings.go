package main

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// warnAboutPublic prints warnings if other machines can reach the service with credentials or keys
// that they may know. The program starts, because a container may publish its port on loopback
// only.
func (f *flags) warnAboutPublic(w io.Writer) {
	host, _, _ := net.SplitHostPort(f.addr)
	public, err := url.Parse(f.publicURL)
	listens := !isLoopback(host)
	linked := err == nil && f.publicURL != "" && !isLoopback(public.Hostname())
	if f.seedSet && (listens || linked) {
		fmt.Fprintln(w, "sandboxfake: warning: -seed: other machines may reach the service, and anyone who knows the seed has the credentials and IDs; use a random 64-bit seed and keep it secret")
	}
	if f.clientSecret != "" && (listens || linked) {
		fmt.Fprintln(w, "sandboxfake: warning: -client-secret: other machines may reach the service, and anyone who knows the secret can create checks; use a long random secret")
	}
	if f.fixedKeys && listens {
		fmt.Fprintln(w, "sandboxfake: warning: -fixed-keys: other machines may reach the service, and anyone can impersonate it, because the private keys are public; use new keys")
	}
}

// isLoopback reports whether a host is this machine. An empty one stands for all addresses.
func isLoopback(host string) bool {
	ip, _ := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || ip.Unmap().IsLoopback()
}
