// Package proxytest tests the client and the verifier behind real proxies: nginx, HAProxy and
// Caddy. Each proxy runs as a child process, with TLS and HTTP/2 in front.
//
// A test whose proxy is not installed is skipped. If IDVERIFY_INTEROP is set, as in continuous
// integration, it fails.
package proxytest

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/idverify/idverify-go/internal/tooltest"
)

func TestMain(m *testing.M) {
	tooltest.Overlap()
	os.Exit(m.Run())
}

// command is the command line of each proxy, without the name of its configuration file.
var command = map[string][]string{
	"nginx":   {"nginx", "-e", "stderr", "-c"},
	"haproxy": {"haproxy", "-db", "-f"},
	"caddy":   {"caddy", "run", "--adapter", "caddyfile", "--config"},
}

// setup contains the values for the configuration templates in testdata.
type setup struct {
	Dir         string // for files of the proxy
	Socket      string // the Unix socket to listen on; a port could be in use
	Certificate string // a PEM file with certificate and key
	Routes      []route
	Documented  string // a configuration of docs/production.md, instead of Routes
}

// route is a virtual host of a proxy and the backend that it forwards to.
type route struct {
	Host    string
	Backend string
}

// expand returns the configuration of the named proxy.
func (s setup) expand(t *testing.T, name string) string {
	t.Helper()
	config := must(template.ParseFiles(filepath.Join("testdata", name+".conf")))(t)
	var text strings.Builder
	noError(t, config.Execute(&text, s))
	return text.String()
}

// proxy is a running proxy.
type proxy struct {
	socket  string
	roots   *x509.CertPool
	command []string
	output  *os.File
	stop    func()
}

// startProxy starts the named proxy with routes.
func startProxy(t *testing.T, name string, routes ...route) *proxy {
	t.Helper()
	return startConfig(t, name, func(s setup) string {
		s.Routes = routes
		return s.expand(t, name)
	})
}

// startConfig starts a proxy with the configuration that config returns, waits until it accepts
// connections, and stops it when the test ends.
func startConfig(t *testing.T, name string, config func(setup) string) *proxy {
	t.Helper()
	path := find(t, name)
	tooltest.Require(t, tooltest.Installed("sh"), "install a POSIX shell")
	dir := must(os.MkdirTemp("", name))(t) // the path of t.TempDir is too long for a socket
	t.Cleanup(func() { os.RemoveAll(dir) })
	certificate := tooltest.NewCertificate(t, x509.Certificate{}, nil, "example.com", "*.example.com")
	key := must(x509.MarshalPKCS8PrivateKey(certificate.PrivateKey))(t)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Leaf.Raw})
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	p := &proxy{socket: filepath.Join(dir, "socket"), roots: x509.NewCertPool()}
	p.roots.AddCert(certificate.Leaf)
	s := setup{Dir: dir, Socket: p.socket, Certificate: filepath.Join(dir, "tls.pem")}
	file := filepath.Join(dir, "config")
	for name, content := range map[string]string{s.Certificate: string(text), file: config(s)} {
		noError(t, os.WriteFile(name, []byte(content), 0o600))
	}
	output := must(os.Create(filepath.Join(dir, "output")))(t)
	t.Cleanup(func() {
		output.Close()
		if text, err := os.ReadFile(output.Name()); err == nil && t.Failed() {
			t.Logf("output of %s:\n%s", name, text)
		}
	})

	p.command, p.output = slices.Concat([]string{path}, command[name][1:], []string{file}), output
	p.start(t)
	return p
}

// start starts the process of the proxy and waits until it accepts connections.
func (p *proxy) start(t *testing.T) {
	t.Helper()
	exited, stop := runChild(t, p.output, p.command...)
	p.stop = stop
	p.waitUntilReady(t, exited)
}

// restart stops the process of the proxy, which closes all its connections, and starts a new one.
func (p *proxy) restart(t *testing.T) {
	t.Helper()
	p.stop()
	if err := os.Remove(p.socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	p.start(t)
}

// runChild runs a command until stop is called or the test ends. If this process is killed, the
// command ends too: a shell in the background waits until the pipe that this process keeps open is
// closed. The channel exited is closed when the command has exited.
func runChild(t *testing.T, output *os.File, command ...string) (exited <-chan struct{}, stop func()) {
	t.Helper()
	lifeline, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	const script = `(read -r _; kill $$) <&3 >/dev/null 2>&1 & exec "$@" 3<&-`
	cmd := exec.Command("sh", append([]string{"-c", script, "sh"}, command...)...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = output, output, []*os.File{lifeline}
	cmd.Dir = filepath.Dir(output.Name())
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "XDG_DATA_HOME="+cmd.Dir, "XDG_CONFIG_HOME="+cmd.Dir)
	err = cmd.Start()
	lifeline.Close()
	if err != nil {
		hold.Close()
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		cmd.Wait() // a signal stops the proxy, so the error is expected
	}()
	stop = func() {
		hold.Close()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			cmd.Process.Kill()
			<-done
		}
	}
	t.Cleanup(stop)
	return done, stop
}

// waitUntilReady waits until the proxy completes a TLS handshake.
func (p *proxy) waitUntilReady(t *testing.T, exited <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		conn, err := p.dial(ctx)
		if err == nil {
			conn.Close()
			return
		}
		if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("connect to the proxy: %v", err)
		}
		select {
		case <-exited:
			t.Fatal("the proxy exited at startup")
		case <-ctx.Done():
			t.Fatalf("the proxy does not accept connections: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (p *proxy) dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", p.socket)
}

// find returns the path of a proxy. If the proxy is not installed, it skips the test, or fails it
// if IDVERIFY_INTEROP is set.
func find(t *testing.T, name string) string {
	t.Helper()
	for _, file := range []string{name, "/usr/sbin/" + name} { // often not in PATH
		if path, err := exec.LookPath(file); err == nil {
			return path
		}
	}
	tooltest.Require(t, false, "run script/setup proxies, which installs "+name)
	return ""
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }
