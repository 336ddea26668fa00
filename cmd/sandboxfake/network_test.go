package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// addr returns the host and port of a URL.
func addr(url string) string {
	_, hostport, _ := strings.Cut(url, "://")
	return hostport
}

// mappedShop starts a receiver on this machine whose public host is shop.example.com, and the
// program with -map. It returns what the program printed, and the requests that the receiver got.
func mappedShop(t *testing.T) (a announced, requests chan *http.Request) {
	t.Helper()
	requests = make(chan *http.Request, 8)
	var handler http.Handler
	ready := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-ready
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(receiver.Close)
	_, a = startJSON(t, "-fixed-keys", "-map", "Shop.example.com="+addr(receiver.URL))
	keys := must(signature.NewJWKS(a.URL+"/.well-known/jwks.json", &signature.JWKSOptions{HTTPClient: tooltest.WithoutDeadlines(a.client(t))}))(t)
	verifier := must(signature.NewVerifier(keys, []string{"shop.example.com"}, &signature.VerifierOptions{ClockSkew: time.Hour}))(t)
	callbacks := idverify.CallbackHandler(verifier, func(context.Context, *idverify.Callback) error { return nil })
	handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r
		callbacks.ServeHTTP(w, r)
	})
	close(ready)
	return a, requests
}

func TestProgram_MapFlag(t *testing.T) {
	t.Parallel()
	a, accepted := mappedShop(t)
	for _, row := range []struct{ url, target, proto string }{
		{"https://shop.example.com/callbacks", "/callbacks", "https"},
		{"http://shop.example.com/callbacks", "/callbacks", "http"},
		{"https://SHOP.example.com:443", "/", "https"},
		// The signature covers the path and the query as the service sent them.
		{"https://shop.example.com//a/../b%2Fc%7e?b=2&a=1;c=%zz&d=a+b%20c&", "//a/../b%2Fc%7e?b=2&a=1;c=%zz&d=a+b%20c&", "https"},
		{"https://shop.example.com/callbacks?", "/callbacks?", "https"},
	} {
		delivery := a.deliver(t, row.url)

		r := <-accepted
		attempts := delivery["attempts"].([]any)
		if delivery["acknowledged"] != true || len(attempts) != 1 {
			t.Errorf("%s: delivery = %v, want it verified and acknowledged at the first attempt", row.url, delivery)
		}
		if r.RequestURI != row.target || r.Header.Get("X-Forwarded-Proto") != row.proto || r.Header.Get("X-Forwarded-Host") != r.Host || r.Header.Get("X-Forwarded-For") != "127.0.0.1" {
			t.Errorf("%s: request for %s with header %v, want %s and the headers of a proxy", row.url, r.RequestURI, r.Header, row.target)
		}
		// The receiver gets every header as signed and recorded, and the host of the URL.
		recorded := attempts[0].(map[string]any)["header"].(map[string]any)
		for name, values := range recorded {
			if diff := cmp.Diff(values, any(toAny(r.Header.Values(name)))); diff != "" {
				t.Errorf("%s: header %s (-recorded +received):\n%s", row.url, name, diff)
			}
		}
	}
}

func toAny(values []string) []any {
	var all []any
	for _, value := range values {
		all = append(all, value)
	}
	return all
}

// A delivery through -map has the same result as a direct one, whatever the receiver does.
func TestProgram_MapSameResult(t *testing.T) {
	t.Parallel()
	hijacked := func(response string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(conn, response)
			conn.Close()
		}
	}
	for _, row := range []struct {
		name     string
		receiver http.HandlerFunc // nil: nothing listens, as on port 9
		fault    string
		result   string
		status   any
	}{
		{"down", nil, "", "unreachable", nil},
		{"connection lost before the response", hijacked(""), "", "unreachable", nil},
		{"malformed response", hijacked("SSH-2.0\r\n\r\n"), "", "unreachable", nil},
		{"connection lost in the header", hijacked("HTTP/1.1 204 No Con"), "", "unreachable", nil},
		{"connection lost after the header", hijacked("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"), "", "acknowledged", 200.0},
		{"connection lost in a chunked body", hijacked("HTTP/1.1 500 Internal Server Error\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"), "", "failed", 500.0},
		{"interim response", hijacked("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"), "", "acknowledged", 204.0},
		{"chunked response", func(w http.ResponseWriter, _ *http.Request) {
			http.NewResponseController(w).Flush()
			io.WriteString(w, "thanks")
		}, "", "acknowledged", 200.0},
		{"long response", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 1<<20)) }, "", "acknowledged", 200.0},
		{"redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, "", "rejected", 302.0},
		{"rejection", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, "", "rejected", 403.0},
		{"gateway error of the receiver", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "", "failed", 502.0},
		{"truncated callback", func(http.ResponseWriter, *http.Request) {}, `{"truncate":true}`, "unreachable", nil},
		{"changed body", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }, `{"body":"{}"}`, "rejected", 400.0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			bodies := make(chan string, 8)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				bodies <- fmt.Sprintf("%d of %d bytes, complete: %v", len(body), r.ContentLength, err == nil)
				row.receiver(w, r)
			}))
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.Start()
			t.Cleanup(server.Close)
			direct := server.URL
			if row.receiver == nil {
				direct = "http://127.0.0.1:9"
			}
			p, a := startJSON(t, "-fixed-keys", "-map", "shop.example.com="+addr(direct))
			var results, errors []string
			for _, url := range []string{direct + "/callbacks", "http://shop.example.com/callbacks", "https://shop.example.com/callbacks"} {
				if row.fault != "" {
					a.control(t, http.MethodPost, "faults", `{"match":{"operation":"callback"},"faults":[`+row.fault+`]}`)
				}

				attempt := a.firstAttempt(t, url)

				if attempt["result"] != row.result || attempt["status"] != row.status {
					t.Errorf("%s: result %v with status %v (%v), want %s with %v", url, attempt["result"], attempt["status"], attempt["error"], row.result, row.status)
				}
				if row.receiver != nil {
					results = append(results, <-bodies)
				}
				errors = append(errors, fmt.Sprint(attempt["error"]))
			}

			p.stop(os.Interrupt) // it has then logged everything
			for i := range results {
				if results[i] != results[0] {
					t.Errorf("body through -map = %s\nwant that of the direct delivery, %s", results[i], results[0])
				}
			}
			if row.receiver == nil && !strings.Contains(p.log.String(), "sandboxfake: -map: no response from the receiver of shop.example.com: connection refused\n") {
				t.Errorf("the log does not say why the deliveries failed (%v):\n%s", errors, p.log.String())
			}
			if row.fault != "" && strings.Contains(p.log.String(), "-map:") {
				t.Errorf("the log names a failure of the receiver, want none: it has responded, or the service disconnected:\n%s", p.log.String())
			}
		})
	}
}

// firstAttempt queues a callback and returns its first attempt.
func (a announced) firstAttempt(t *testing.T, callbackURL string) map[string]any {
	t.Helper()
	check := a.create(t, a.token(t, a.client(t)), callbackURL)
	a.open(t, check)
	a.control(t, http.MethodPost, "idle", "")
	deliveries := a.control(t, http.MethodGet, fmt.Sprintf("deliveries?check_id=%s", check["check_id"]), "")["deliveries"].([]any)
	return deliveries[0].(map[string]any)["attempts"].([]any)[0].(map[string]any)
}

// A request to a receiver ends with the attempt of the service.
func TestMapping_Timeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disconnected := make(chan struct{})
		began := time.Now()

		delivery, failures := deliverMapped(t, silentServer(t, func() { close(disconnected) }))
		<-disconnected

		if waited := time.Since(began); waited != 10*time.Second || delivery.Attempts[0].Result != sandboxfake.ResultTimedOut || failures != "" {
			t.Errorf("delivery = %+v after %v, log %q, want a timeout after 10 s and no failure of the receiver", delivery, waited, failures)
		}
	})
}

// A receiver may respond and close the connection before it has read the body, for example if the
// path is unknown. A second write would then fail.
func TestMapping_OneWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		delivery, failures := deliverMapped(t, func(context.Context, string, string) (net.Conn, error) {
			client, receiver := net.Pipe()
			go func() {
				defer receiver.Close()
				first := make([]byte, 8<<10)
				n, _ := receiver.Read(first)
				if bytes.Contains(first[:n], []byte("\r\n\r\n{")) {
					io.WriteString(receiver, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
				}
			}()
			return client, nil
		})

		if status := delivery.Attempts[0].Status; status != http.StatusNotFound || failures != "" {
			t.Errorf("status %d, log %q, want 404: the header and the body in one write", status, failures)
		}
	})
}

// deliverMapped delivers a callback through a mapping whose connections dial returns, and returns
// the delivery and the log.
func deliverMapped(t *testing.T, dial dialFunc) (sandboxfake.Delivery, string) {
	t.Helper()
	m := must(parseMapping("shop.example.com=127.0.0.1:3000"))(t)
	var failures tooltest.Buffer
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	transport := new(flags).forwardTransport()
	transport.DialContext = dial
	shop := srv.Handle(m.host, m.handler(transport, &failures))
	check := must(srv.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", CallbackURL: shop + "/callbacks"}))(t)
	must(srv.Device().Open(t.Context(), check.CheckURL))(t)
	delivery := must(srv.WaitDelivery(t.Context(), func(d sandboxfake.Delivery) bool { return d.Done }))(t)
	synctest.Wait() // until the handler has logged everything
	return delivery, failures.String()
}

func TestProgram_MapToTLS(t *testing.T) {
	t.Parallel()
	receiver := tlsReceiver(t)
	ca := writePEM(t, "CERTIFICATE", receiver.Certificate().Raw)
	_, port, err := net.SplitHostPort(addr(receiver.URL))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, target string
		args         []string
		acknowledged bool
		log          string
	}{
		{"with its CA", receiver.URL + "/", []string{"-receiver-ca", ca}, true, ""},
		{"unknown CA", receiver.URL, nil, false, "unknown authority"},
		{"certificate for another name", "https://localhost:" + port, []string{"-receiver-ca", ca}, false, "the certificate is for another host"},
		{"without TLS", addr(receiver.URL), nil, false, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p, a := startJSON(t, append(row.args, "-fixed-keys", "-map", "shop.example.com="+row.target)...)

			delivery := a.deliver(t, "https://shop.example.com/callbacks")
			p.stop(os.Interrupt) // it has then logged everything

			if delivery["acknowledged"] != row.acknowledged || !strings.Contains(p.log.String(), row.log) {
				t.Errorf("acknowledged = %v, log %q, want %v and %q", delivery["acknowledged"], p.log.String(), row.acknowledged, row.log)
			}
		})
	}
}

func TestProgram_LANFlag(t *testing.T) {
	t.Parallel()
	p, a := startJSON(t, "-lan", "-addr", ":0", "-public-url", "https://sandbox.example.com:0")
	block, _ := pem.Decode([]byte(readFile(t, a.CAFile)))
	sum := sha256.Sum256(block.Bytes)
	fingerprint := strings.ReplaceAll(fmt.Sprintf("% X", sum), " ", ":")
	if a.URL == a.PublicURL || !strings.HasPrefix(a.PublicURL, "https://sandbox.example.com:") {
		t.Fatalf("url = %s, public_url = %s, want -public-url with the port of the listener", a.URL, a.PublicURL)
	}
	// The program has printed everything before it responds to a signal.
	p.stop(os.Interrupt)

	for _, want := range []string{"Everyone on the network can reach the service", "accepts only connections from this machine", a.PublicURL + "/_sandbox/ca", fingerprint} {
		if !strings.Contains(p.log.String(), want) {
			t.Errorf("output = %q, want it to contain %q", p.log.String(), want)
		}
	}
}

// Other machines reach the service, and not the control plane. The certificate is valid for the
// address of this machine.
func TestProgram_LANAddress(t *testing.T) {
	t.Parallel()
	p := start(t, "-json", "-lan", "-addr", ":0")
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		if !strings.Contains(p.log.String(), "this machine has no address on a local network (connect it, or set -public-url)") {
			t.Fatalf("the program prints no line: %v %s", err, p.log.String())
		}
		t.Skip("this machine has no address on a local network")
	}
	a := parseAnnounced(t, line)
	public := must(url.Parse(a.PublicURL))(t)

	conn, err := tls.Dial("tcp", public.Host, &tls.Config{RootCAs: a.roots(t)})

	if err != nil {
		t.Fatalf("connect to the public URL: %v", err)
	}
	conn.Close()
	if ip := net.ParseIP(public.Hostname()); ip == nil || ip.IsLoopback() || ip.IsUnspecified() {
		t.Errorf("public_url = %s, want an address on the local network", a.PublicURL)
	}
	lan := a
	lan.URL = a.PublicURL
	lan.token(t, a.client(t))
	if status, _ := lan.call(t, "", http.MethodGet, "/_sandbox/health", ""); status != http.StatusOK {
		t.Errorf("health at the public URL = %d, want 200", status)
	}
}

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
		want       string // empty means none
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
	t.Parallel()
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

// pair is a certificate and the paths of its PEM files.
type pair struct {
	tls.Certificate
	certificate, key string
}

// newPair writes a self-signed certificate for names, which expires at the given time.
func newPair(t *testing.T, expiry time.Time, names ...string) pair {
	t.Helper()
	return writePair(t, tooltest.NewCertificate(t, x509.Certificate{Subject: pkix.Name{CommonName: "own"}, NotAfter: expiry}, nil, names...))
}

// writePair writes a certificate and its key.
func writePair(t *testing.T, c tls.Certificate) pair {
	t.Helper()
	key := must(x509.MarshalPKCS8PrivateKey(c.PrivateKey))(t)
	return pair{c, writePEM(t, "CERTIFICATE", c.Leaf.Raw), writePEM(t, "PRIVATE KEY", key)}
}

// writePEM writes a PEM block to a file and returns its path.
func writePEM(t *testing.T, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.pem")
	noError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

func TestProgram_TLSCertFlag(t *testing.T) {
	t.Parallel()
	own := newPair(t, time.Now().Add(time.Hour), "sandbox.example.com", "127.0.0.1")
	p, a := startJSON(t, "-fixed-keys", "-public-url", "https://sandbox.example.com", "-tls-cert", own.certificate, "-tls-key", own.key)
	for name, want := range map[string]bool{"sandbox.example.com": true, "127.0.0.1": true, "localhost": false} {
		conn := must(tls.Dial("tcp", strings.TrimPrefix(a.URL, "https://"), &tls.Config{ServerName: name, InsecureSkipVerify: true}))(t)
		got := conn.ConnectionState().PeerCertificates[0].Raw
		conn.Close()

		if (string(got) == string(own.Leaf.Raw)) != want {
			t.Errorf("client of %s gets the certificate of the flag: %v, want %v", name, !want, want)
		}
	}
	p.stop(os.Interrupt)
	if log := p.log.String(); log != "" {
		t.Errorf("log = %q, want no warning", log)
	}
}

// The CA file verifies the URL, with or without a known issuer.
func TestProgram_TLSCertPrintedCommands(t *testing.T) {
	t.Parallel()
	root := writePair(t, tooltest.NewCertificate(t, x509.Certificate{
		Subject: pkix.Name{CommonName: "development CA"}, IsCA: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil))
	leaf := writePair(t, tooltest.NewCertificate(t, x509.Certificate{
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, &root.Certificate, "localhost", "127.0.0.1"))
	chain := leaf
	chain.certificate = filepath.Join(t.TempDir(), "chain.pem")
	noError(t, os.WriteFile(chain.certificate, []byte(readFile(t, leaf.certificate)+readFile(t, root.certificate)), 0o600))
	const own, generated = "Its certificate is that of -tls-cert", "Your browser warns about its certificate."
	for _, row := range []struct {
		name     string
		pair     pair
		env      []string
		want     string
		warnings bool
	}{
		{"self-signed", newPair(t, time.Now().Add(time.Hour), "localhost", "127.0.0.1"), nil, own, false},
		{"chain with its root", chain, nil, own, false},
		{"root of the system", leaf, []string{"SSL_CERT_FILE=" + root.certificate}, own, false},
		{"unknown root", leaf, nil, generated, true},
		{"other name", newPair(t, time.Now().Add(time.Hour), "sandbox.example.com"), nil, generated, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if row.env != nil && runtime.GOOS != "linux" {
				t.Skip("SSL_CERT_FILE has no effect")
			}
			p := startEnv(t, row.env, "-fixed-keys", "-quiet", "-tls-cert", row.pair.certificate, "-tls-key", row.pair.key)

			text := p.runPrinted()

			p.stop(os.Interrupt)
			if !strings.Contains(text, row.want) {
				t.Errorf("output = %s, want %q", text, row.want)
			}
			if got := strings.Contains(p.log.String(), "root certificate is unknown"); got != row.warnings {
				t.Errorf("log = %q, want a warning: %v", p.log.String(), row.warnings)
			}
		})
	}
}

// Users test their clients with an expired certificate.
func TestProgram_TLSCertExpired(t *testing.T) {
	t.Parallel()
	expired := newPair(t, time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC), "sandbox.example.com", "127.0.0.1")
	p, a := startJSON(t, "-fixed-keys", "-tls-cert", expired.certificate, "-tls-key", expired.key)

	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	a.token(t, &http.Client{Transport: transport})
	p.stop(os.Interrupt) // it has then logged everything

	if want := "warning: the certificate of -tls-cert expired at 2020-01-02T03:04:05Z"; !strings.Contains(p.log.String(), want) {
		t.Errorf("log = %q, want %q", p.log.String(), want)
	}
}

func TestProgram_TLSCertErrors(t *testing.T) {
	t.Parallel()
	own, other := newPair(t, time.Now().Add(time.Hour), "sandbox.example.com"), newPair(t, time.Now().Add(time.Hour), "sandbox.example.com")
	noNames := newPair(t, time.Now().Add(time.Hour))
	keys := must(attackKeys())(t)
	missing := filepath.Join(t.TempDir(), "none.pem")
	for _, row := range []struct {
		name, certificate, key string
		want                   string
	}{
		{"certificate without key", own.certificate, "", "-tls-cert requires -tls-key"},
		{"key without certificate", "", own.key, "-tls-key requires -tls-cert"},
		{"missing certificate file", missing, own.key, "-tls-cert: open " + missing},
		{"missing key file", own.certificate, missing, "-tls-key: open " + missing},
		{"key as certificate", own.key, own.key, "-tls-cert: the file contains no certificate"},
		{"certificate as key", own.certificate, own.certificate, "-tls-key: the file contains no private key"},
		{"malformed certificate", writePEM(t, "CERTIFICATE", []byte("x")), own.key, "-tls-cert: the certificate is malformed"},
		{"malformed key", own.certificate, writePEM(t, "PRIVATE KEY", []byte("x")), "-tls-key: the private key is unusable"},
		{"encrypted key", own.certificate, writePEM(t, "ENCRYPTED PRIVATE KEY", []byte("x")), "-tls-key: the private key is encrypted"},
		{"key of another certificate", own.certificate, other.key, "-tls-key: the private key does not match"},
		{"key of another type", own.certificate, writePEM(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(keys[0])), "-tls-key: the private key does not match"},
		{"certificate without names", noNames.certificate, noNames.key, "subject alternative names"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			code, _, log := runToEnd(t, nil, "-fixed-keys", "-tls-cert", row.certificate, "-tls-key", row.key)

			if code != 1 || !strings.Contains(log, row.want) {
				t.Errorf("exit code = %d, output %q, want 1 and %q", code, log, row.want)
			}
		})
	}
}

// tunnel starts a public HTTPS server, with its own certificate, that forwards requests to the
// program that startProgram starts with the tunnel's URL.
func tunnel(t *testing.T, keepHost bool, startProgram func(publicURL string) announced) (a announced, phone *http.Client) {
	t.Helper()
	ready := make(chan *httputil.ReverseProxy, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxy := <-ready
		ready <- proxy
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	a = startProgram(server.URL)
	local := must(url.Parse(a.URL))(t)
	ready <- &httputil.ReverseProxy{
		Transport: a.client(t).Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(local)
			r.SetXForwarded()
			r.Out.Header.Set("X-Forwarded-Host", "evil.example")
			if keepHost {
				r.Out.Host = r.In.Host
			}
		},
	}
	return a, server.Client()
}

// All parties reach the program through a tunnel, and use the links that it returns.
func TestProgram_PublicURLFlag(t *testing.T) {
	t.Parallel()
	for name, keepHost := range map[string]bool{"tunnel that rewrites Host": false, "tunnel that keeps Host": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, phone := tunnel(t, keepHost, func(publicURL string) announced {
				_, a := startJSON(t, "-public-url", publicURL)
				return a
			})
			if !strings.HasPrefix(a.URL, "https://127.0.0.1:") || a.URL == a.PublicURL {
				t.Fatalf("url = %s, public_url = %s, want a local URL and that of the tunnel", a.URL, a.PublicURL)
			}
			credentials := idverify.Credentials{ClientID: a.Project.ClientID, ClientSecret: idverify.NewSecret(a.Project.ClientSecret)}
			client := must(idverify.NewClient(a.PublicURL, credentials, idverify.WithHTTPClient(tooltest.WithoutDeadlines(phone))))(t)
			receiver := newShop(t, client)

			t.Run("v0.1", func(t *testing.T) {
				check := must(client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", CallbackURL: receiver.URL + "/callbacks"}))(t)
				response := must(phone.Get(check.CheckURL))(t)
				response.Body.Close()

				callback := <-receiver.callbacks

				if !strings.HasPrefix(check.CheckURL, a.PublicURL+"/") || callback.CheckID != check.CheckID || callback.Match != idverify.VerdictYes {
					t.Errorf("Check URL %s, callback %s, want the tunnel's URL and a match", check.CheckURL, callback.Body)
				}
			})
			t.Run("v0.2", func(t *testing.T) {
				client := client.WithVersions(idverify.Versions{PhoneCheck: "v0.2"})
				check := must(client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900013", RedirectURL: receiver.URL + "/back?order=a+b"}))(t)
				response := must(phone.Get(check.CheckURL))(t) // follows the redirect to the shop
				response.Body.Close()
				if response.StatusCode != http.StatusOK {
					t.Fatalf("the shop responds with %d, want 200 to a redirect with a valid signature", response.StatusCode)
				}
				redirect := <-receiver.redirects

				check, err := client.PhoneChecks.Complete(t.Context(), redirect.CheckID, redirect.Code)

				if err != nil || check.Match != idverify.VerdictNo {
					t.Errorf("Complete = %+v, %v, want a check that does not match", check, err)
				}
			})
		})
	}
}

// shop is a customer's web server, which verifies callbacks and redirects.
type shop struct {
	*httptest.Server
	callbacks chan *idverify.Callback
	redirects chan *idverify.Redirect
}

func newShop(t *testing.T, client *idverify.Client) *shop {
	t.Helper()
	s := &shop{callbacks: make(chan *idverify.Callback, 8), redirects: make(chan *idverify.Redirect, 8)}
	mux := http.NewServeMux()
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	keys := must(client.NewJWKS(nil))(t)
	verifier := must(signature.NewVerifier(keys, []string{strings.TrimPrefix(s.URL, "http://")}, &signature.VerifierOptions{ClockSkew: time.Hour}))(t)
	mux.Handle("/callbacks", idverify.CallbackHandler(verifier, func(_ context.Context, c *idverify.Callback) error {
		s.callbacks <- c
		return nil
	}))
	mux.Handle("/back", idverify.RedirectHandler(verifier, func(_ http.ResponseWriter, _ *http.Request, r *idverify.Redirect) { s.redirects <- r }))
	return s
}

// Without a tunnel, the certificate of the program is valid for the public host.
func TestProgram_PublicURLCertificate(t *testing.T) {
	t.Parallel()
	_, a := startJSON(t, "-public-url", "https://Sandbox.example.com:0")
	_, port, _ := strings.Cut(strings.TrimPrefix(a.URL, "https://"), ":")

	conn, err := tls.Dial("tcp", strings.TrimPrefix(a.URL, "https://"), &tls.Config{RootCAs: a.roots(t), ServerName: "sandbox.example.com"})

	if err != nil {
		t.Fatalf("a client that trusts the CA file rejects the public host: %v", err)
	}
	conn.Close()
	if want := "https://sandbox.example.com:" + port; a.PublicURL != want {
		t.Errorf("public_url = %s, want %s: port 0 is that of the listener", a.PublicURL, want)
	}
}

// endpoints is a connection with fixed addresses.
type endpoints struct {
	net.Conn
	local, remote string
}

func (e endpoints) LocalAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(e.local))
}
func (e endpoints) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(e.remote))
}

func TestHealthcheck_IsLocal(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, local, remote string
		want                bool
	}{
		{"loopback", "127.0.0.1:40000", "127.0.0.1:8443", true},
		{"IPv6 loopback", "[::1]:40000", "[::1]:8443", true},
		{"address of this machine", "192.0.2.1:40000", "192.0.2.1:8443", true},
		{"mapped address of this machine", "192.0.2.1:40000", "[::ffff:192.0.2.1]:8443", true},
		{"other machine", "192.0.2.1:40000", "192.0.2.2:8443", false},
		{"other machine over IPv6", "[2001:db8::1]:40000", "[2001:db8::2]:8443", false},
	} {
		if got := isLocal(endpoints{local: row.local, remote: row.remote}); got != row.want {
			t.Errorf("%s: local = %v, want %v", row.name, got, row.want)
		}
	}
}

// TestProgram_LANCode reads the QR code in the output with zbar, an independent decoder.
func TestProgram_LANCode(t *testing.T) {
	t.Parallel()
	tooltest.Require(t, tooltest.Installed("zbarimg"), "run script/setup qr")
	p := start(t, "-lan", "-addr", ":0", "-public-url", "https://sandbox.example.com:0")
	text := p.readUntil("Ctrl-C")
	publicURL := regexp.MustCompile(`https://sandbox\.example\.com:\d+`).FindString(text)
	p.stop(os.Interrupt)

	got := tooltest.ReadQRCode(t, rasterize(t, p.log.String()))

	if want := publicURL + "/_sandbox/ca"; publicURL == "" || got != want {
		t.Errorf("the QR code contains %q, want %q, the page of the CA certificate\n%s", got, want, text)
	}
}

// rasterize returns an image, in the format PGM, of the lines that set and reset the colors.
func rasterize(t *testing.T, output string) string {
	t.Helper()
	const scale = 4
	var pixels strings.Builder
	width, height := 0, 0
	for line := range strings.Lines(output) {
		line, ok := strings.CutPrefix(line, "\x1b[38;5;16;48;5;231m")
		line, end := strings.CutSuffix(line, "\x1b[0m\n")
		if ok != end {
			t.Fatalf("line = %q, want it to set and reset the colors", line)
		}
		if !ok {
			continue
		}
		for _, dark := range []string{"█▀", "█▄"} { // the upper and the lower modules
			row := strings.Map(func(r rune) rune {
				if strings.ContainsRune(dark, r) {
					return '0'
				}
				return '9'
			}, line)
			for range scale {
				for _, module := range row {
					pixels.WriteString(strings.Repeat(string(module)+" ", scale))
				}
			}
			width, height = scale*len(row), height+scale
		}
	}
	return fmt.Sprintf("P2 %d %d 9 %s", width, height, pixels.String())
}
