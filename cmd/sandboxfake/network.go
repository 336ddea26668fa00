package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"rsc.io/qr"

	"github.com/idverify/idverify-go/cmd/sandboxfake/internal/inspector"
	"github.com/idverify/idverify-go/sandboxfake"
)

// mapping is a value of -map. Callbacks for host go to target.
type mapping struct {
	host   string   // a DNS name in lower case
	target *url.URL // http or https, without a path
}

// parseMapping parses host=target.
func parseMapping(text string) (mapping, error) {
	host, target, ok := strings.Cut(text, "=")
	if !ok {
		return mapping{}, errors.New("must be host=address, such as shop.example.com=127.0.0.1:3000")
	}
	host = strings.ToLower(host)
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return mapping{}, errors.New("the host must be a DNS name, not an IP address")
	}
	if strings.Contains(host, ":") {
		return mapping{}, errors.New("the host must have no port: all ports are mapped")
	}
	if !isHostName(host) {
		return mapping{}, errors.New("the host must be a DNS name, in ASCII, such as shop.example.com")
	}
	if host == "localhost" || host == memoryHost {
		return mapping{}, fmt.Errorf("%s cannot be mapped", host)
	}
	u, err := parseTarget(target)
	return mapping{host, u}, err
}

// memoryHost is the host of a server of package sandboxfake without a socket, which
// [sandboxfake.Server.Handle] rejects.
const memoryHost = "idverify.sandbox.test"

// isHostName reports whether name is a DNS name in lower case. Names may contain underscores.
func isHostName(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return len(name) <= 253
}

// parseTarget parses host:port, http://host or https://host.
func parseTarget(text string) (*url.URL, error) {
	errTarget := errors.New("the address must be host:port, http://host:port or https://host:port, without a path")
	if !strings.Contains(text, "://") {
		text = "http://" + text
		if u, err := url.Parse(text); err != nil || u.Port() == "" {
			return nil, errTarget
		}
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || strings.ContainsAny(text, "?#") {
		return nil, errTarget
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || port == 0) {
		return nil, errors.New("the port of the address must be a number from 1 to 65535")
	}
	return u, nil
}

// addMapping is the flag function of -map.
func (f *flags) addMapping(text string) error {
	added, err := parseMapping(text)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(f.mappings, func(m mapping) bool { return m.host == added.host }) {
		return errors.New("the host is already mapped")
	}
	f.mappings = append(f.mappings, added)
	return nil
}

// checkMappings returns an error if a host of -map is the service's own.
func (f *flags) checkMappings() error {
	var own []string
	if host, _, err := net.SplitHostPort(f.addr); err == nil {
		own = append(own, strings.ToLower(host))
	}
	if u, err := url.Parse(f.publicURL); err == nil {
		own = append(own, strings.ToLower(u.Hostname()))
	}
	for _, m := range f.mappings {
		if slices.Contains(own, m.host) {
			return fmt.Errorf("sandboxfake: -map: %s is the service itself (use the host of your receiver)", m.host)
		}
	}
	return nil
}

// forward makes the requests of server for the hosts of -map go to their targets. It prints failed
// requests to failures.
func (f *flags) forward(server *sandboxfake.Server, failures io.Writer) {
	if len(f.mappings) == 0 {
		return
	}
	transport := f.forwardTransport()
	for _, m := range f.mappings {
		server.Handle(m.host, m.handler(transport, failures))
	}
}

// forwardTransport returns the transport of the requests to receivers.
func (f *flags) forwardTransport() *http.Transport {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AppendCertsFromPEM(f.receiverCAs)
	return &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots},
		// A receiver may close an idle connection while a callback is sent on it.
		DisableKeepAlives: true,
	}
}

// forwardTimeout limits a request to a receiver. It is longer than the timeout of a callback, which
// ends the request earlier if the service disconnects.
const forwardTimeout = 30 * time.Second

// handler returns a handler that forwards requests to the target. A receiver sees the request that
// the service sent, with the headers that a proxy in front of it adds. If the receiver is down or
// drops the connection, so does the handler.
func (m mapping) handler(transport *http.Transport, failures io.Writer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The transport sends the header and a body in memory in one write if both fit into its buffer.
		// A receiver may respond and close the connection before it has read the body, and a second
		// write would then fail.
		body, err := io.ReadAll(r.Body)
		service, ctx, forwarded := r.Context(), r.Context(), io.Reader(bytes.NewReader(body))
		if err != nil { // the service has disconnected; a truncated body in memory would not be sent
			ctx, forwarded = context.WithoutCancel(ctx), io.MultiReader(forwarded)
		}
		ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
		defer cancel()
		proxy := &httputil.ReverseProxy{
			Transport: transport,
			Rewrite: func(r *httputil.ProxyRequest) {
				r.Out.URL.Scheme, r.Out.URL.Host = m.target.Scheme, m.target.Host
				// The signature covers the Host, which stays, and the query, which ReverseProxy
				// normalizes.
				r.Out.URL.RawQuery = r.In.URL.RawQuery
				r.SetXForwarded()
				if r.Out.Body != nil {
					r.Out.Body = io.NopCloser(forwarded)
				}
			},
			ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
				if service.Err() == nil {
					fmt.Fprintf(failures, "%s sandboxfake: -map: no response from the receiver of %s: %s\n", time.Now().Format("15:04:05.000"), m.host, rootCause(err))
				}
				panic(http.ErrAbortHandler)
			},
			ErrorLog: log.New(io.Discard, "", 0),
		}
		proxy.ServeHTTP(promptWriter{w}, r.WithContext(ctx))
	})
}

// promptWriter sends the header of a response before the body is known. If the receiver drops the
// connection after the header, the delivery has the status of the header, as without the proxy.
type promptWriter struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w promptWriter) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status)
	if status >= 200 {
		http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// Unwrap is for http.ResponseController.
func (w promptWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// rootCause returns the text of the innermost error. The outer errors contain addresses.
func rootCause(err error) string {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return "host lookup failed: " + dns.Err
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate is for another host"
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

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
	if code, err := qr.Encode(publicURL+"/_sandbox/ca", qr.M); err == nil && !f.json {
		notice += drawCode(code) + "\n"
	}
	return notice
}

// drawCode returns a QR code for a terminal that supports 256 colors: two modules per character,
// black on white on terminals with any color scheme.
func drawCode(code *qr.Code) string {
	const quietZone = 4 // the width of the light border that readers require
	var b strings.Builder
	for y := -quietZone; y < code.Size+quietZone; y += 2 {
		// Unlike colors 0 to 15, color schemes do not change black (16) and white (231).
		b.WriteString("\x1b[38;5;16;48;5;231m")
		for x := -quietZone; x < code.Size+quietZone; x++ {
			switch upper, lower := code.Black(x, y), code.Black(x, y+1); {
			case upper && lower:
				b.WriteRune('█')
			case upper:
				b.WriteRune('▀')
			case lower:
				b.WriteRune('▄')
			default:
				b.WriteRune(' ')
			}
		}
		b.WriteString("\x1b[0m\n")
	}
	return b.String()
}

// certificate returns the certificate of -tls-cert and -tls-key. ok reports whether the flags are
// set. If the certificate is not valid now, it prints a warning.
func (f *flags) certificate(now time.Time, warnings io.Writer) (certificate tls.Certificate, ok bool, err error) {
	switch {
	case f.tlsCert == "" && f.tlsKey == "":
		return certificate, false, nil
	case f.tlsKey == "":
		return certificate, false, errors.New("sandboxfake: -tls-cert requires -tls-key, the file with the private key")
	case f.tlsCert == "":
		return certificate, false, errors.New("sandboxfake: -tls-key requires -tls-cert, the file with the certificate")
	}
	certificates, err := os.ReadFile(f.tlsCert)
	if err != nil {
		return certificate, false, fmt.Errorf("sandboxfake: -tls-cert: %w", err)
	}
	key, err := os.ReadFile(f.tlsKey)
	if err != nil {
		return certificate, false, fmt.Errorf("sandboxfake: -tls-key: %w", err)
	}
	if certificate, err = tls.X509KeyPair(certificates, key); err != nil {
		return certificate, false, keyPairError(certificates, key, err)
	}
	switch leaf := certificate.Leaf; {
	case now.After(leaf.NotAfter):
		fmt.Fprintf(warnings, "sandboxfake: warning: the certificate of -tls-cert expired at %s\n", leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		fmt.Fprintf(warnings, "sandboxfake: warning: the certificate of -tls-cert is not valid before %s\n", leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return certificate, true, nil
}

// presents reports whether the server presents the certificate of -tls-cert to clients of its URL.
// If the certificate is valid for the URL but not presented, it prints a warning.
func (f *flags) presents(ctx context.Context, server *sandboxfake.Server, warnings io.Writer) (bool, error) {
	base, err := url.Parse(server.URL())
	if err != nil || f.ownCertificate == nil || f.ownCertificate.VerifyHostname(base.Hostname()) != nil {
		return false, err
	}
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // only the certificate is read
	conn, err := dialer.DialContext(ctx, "tcp", base.Host)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Equal(f.ownCertificate) {
		return true, nil
	}
	fmt.Fprintf(warnings, "sandboxfake: warning: the certificate of -tls-cert is not used on loopback: its root certificate is unknown (append it to the file)\n")
	return false, nil
}

// keyPairError returns the error for files that tls.X509KeyPair rejects with err. It names the flag
// of the file to replace.
func keyPairError(certificates, key []byte, err error) error {
	leaf, keyBlock := findBlock(certificates, "CERTIFICATE"), findBlock(key, "PRIVATE KEY")
	switch {
	case leaf == nil:
		return errors.New("sandboxfake: -tls-cert: the file contains no certificate in PEM")
	case !isCertificate(leaf.Bytes):
		return errors.New("sandboxfake: -tls-cert: the certificate is malformed")
	case keyBlock == nil:
		return errors.New("sandboxfake: -tls-key: the file contains no private key in PEM")
	case keyBlock.Type == "ENCRYPTED PRIVATE KEY" || keyBlock.Headers["DEK-Info"] != "":
		return errors.New("sandboxfake: -tls-key: the private key is encrypted (decrypt it first)")
	case strings.Contains(err.Error(), "does not match"):
		return errors.New("sandboxfake: -tls-key: the private key does not match the first certificate of -tls-cert")
	}
	return fmt.Errorf("sandboxfake: -tls-key: the private key is unusable: %w", err)
}

// findBlock returns the first PEM block whose type ends with suffix, or nil.
func findBlock(text []byte, suffix string) *pem.Block {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, suffix) {
			return block
		}
	}
	return nil
}

func isCertificate(der []byte) bool {
	_, err := x509.ParseCertificate(der)
	return err == nil
}

// dialLocal connects to a server on this machine.
func dialLocal(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if !isLocal(conn) {
		conn.Close()
		return nil, errors.New("the address belongs to another machine")
	}
	return conn, nil
}

// isLocal reports whether both ends of a connection are on this machine: the peer has a loopback
// address or the address of this end.
func isLocal(conn net.Conn) bool {
	local, peer := ip(conn.LocalAddr()), ip(conn.RemoteAddr())
	return peer.IsLoopback() || peer.IsValid() && peer == local
}

// ip returns the IP address of a TCP address, or the zero value for other addresses.
func ip(addr net.Addr) netip.Addr {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}

// isLoopback reports whether a host is this machine. An empty one stands for all addresses.
func isLoopback(host string) bool {
	ip, _ := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || ip.Unmap().IsLoopback()
}
