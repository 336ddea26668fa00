// Package tooltest contains helpers of several packages' tests. It checks errors, finds, builds and
// runs the programs that some tests need, finds the race detector, creates certificates, removes
// deadlines of requests, caches signatures, and finds texts in printed values.
package tooltest

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// NoError fails the test if err is not nil.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must returns a function that returns v, or fails the test if err is not nil.
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T { t.Helper(); NoError(t, err); return v }
}

// Require skips the test if a tool is missing, or fails it if IDVERIFY_INTEROP is set, as in
// continuous integration. what says how to install the tool.
func Require(t testing.TB, installed bool, what string) {
	t.Helper()
	switch {
	case installed:
	case os.Getenv("IDVERIFY_INTEROP") != "":
		t.Fatalf("the test did not run: %s", what)
	default:
		t.Skipf("the test did not run: %s", what)
	}
}

// Installed reports whether all programs are in the PATH.
func Installed(programs ...string) bool {
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return false
		}
	}
	return true
}

// Notations returns the verbs of package fmt, and the handlers of package slog, that print text as
// part of v.
func Notations(v any, text string) (notations []string) {
	add := func(name, printed string) {
		if strings.Contains(printed, text) || strings.Contains(printed, fmt.Sprintf("%x", text)) {
			notations = append(notations, name)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		add(verb, fmt.Sprintf(verb, v))
	}
	var printed strings.Builder
	for name, handler := range map[string]slog.Handler{"slog JSON": slog.NewJSONHandler(&printed, nil), "slog text": slog.NewTextHandler(&printed, nil)} {
		printed.Reset()
		slog.New(handler).Info("printed", "value", v)
		add(name, printed.String())
	}
	return notations
}

// Python returns a Python that has the modules, or the empty string. It prefers the one for which
// script/setup installs packages: with that in the PATH, which may have other versions of the
// packages, the result of a test would depend on the PATH.
func Python(t testing.TB, modules string) string {
	t.Helper()
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import "+modules).Run() == nil {
			return python
		}
	}
	return ""
}

// Program is a program of this repository that the tests of a package run. TestMain must call
// Remove.
type Program struct {
	Root    string   // of the repository, such as "../.."
	Package string   // relative to Root, such as "./cmd/sandboxfake"
	Flags   []string // of go build

	once sync.Once // guards the fields below
	dir  string    // of the executable
	err  error
}

// Build builds the program once for all tests, and returns its path.
func (p *Program) Build(t testing.TB) string {
	t.Helper()
	p.once.Do(func() {
		if p.dir, p.err = os.MkdirTemp("", "program-"); p.err != nil {
			return
		}
		p.err = build(p.Root, filepath.Join(p.dir, path.Base(p.Package)), p.Package, p.Flags...)
	})
	if p.err != nil {
		t.Fatal(p.err)
	}
	return filepath.Join(p.dir, path.Base(p.Package))
}

// Remove removes the executable.
func (p *Program) Remove() { os.RemoveAll(p.dir) }

// Start starts a command, and returns its standard output. A command of exec.CommandContext ends
// with its context: with t.Context, before the cleanup functions of t. Any other command is killed
// when the test ends, after the cleanup functions that t gets later.
func Start(t testing.TB, command *exec.Cmd) *bufio.Reader {
	t.Helper()
	stdout, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if command.Cancel == nil {
			_ = command.Process.Kill()
		}
		_ = command.Wait()
	})
	return bufio.NewReader(stdout)
}

// Build builds a program from a package or a source file.
func Build(program, source string) error { return build("", program, source) }

// build builds a program in a directory. It needs no program other than go.
func build(dir, program, source string, flags ...string) error {
	// With -trimpath, the executable does not depend on the directory of the source file.
	command := exec.Command("go", slices.Concat([]string{"build", "-trimpath", "-o", program}, flags, []string{source})...)
	command.Dir = dir
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", source, err, output)
	}
	return nil
}

// Overlap runs 16 tests at once unless the flag -parallel is set. Call it in TestMain of a package
// whose tests mostly wait for processes and connections.
func Overlap() {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		_ = flag.Set("test.parallel", "16") // cannot fail
	}
}

// RaceDetector reports whether the race detector is enabled, which allocates memory.
func RaceDetector() bool {
	build, _ := debug.ReadBuildInfo()
	return build != nil && slices.Contains(build.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// NewCertificate returns a certificate with a new ECDSA key for the DNS names and IP addresses in
// names. Its issuer signs it, or its own key if issuer is nil. The other fields are those of
// template. By default, it is valid for a day.
func NewCertificate(t testing.TB, template x509.Certificate, issuer *tls.Certificate, names ...string) tls.Certificate {
	t.Helper()
	template.NotBefore, template.BasicConstraintsValid = time.Unix(0, 0), true
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(24 * time.Hour)
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := &template, crypto.PrivateKey(key)
	if issuer != nil {
		parent, signer = issuer.Leaf, issuer.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// TLSConfig returns a configuration for httptest.Server.TLS, with a certificate for the same hosts
// as that of package httptest. Without it, the server has an RSA key, which makes handshakes slow.
func TLSConfig(t testing.TB) *tls.Config {
	t.Helper()
	return &tls.Config{Certificates: []tls.Certificate{NewCertificate(t, x509.Certificate{IsCA: true}, nil, "example.com", "127.0.0.1", "::1")}}
}

// ReservedAddress returns an address that rejects connections until something listens on it. A
// connection reserves the port: the system assigns it to no other listener.
func ReservedAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return listener.Addr().String()
}

// WithoutDeadlines returns a client like c, which must have a Transport. Its requests do not end
// with their contexts: on a busy machine, a key set may need more than the 3 s of a fetch.
func WithoutDeadlines(c *http.Client) *http.Client {
	patient := *c
	patient.Transport = withoutDeadlines{c.Transport}
	return &patient
}

type withoutDeadlines struct{ http.RoundTripper }

func (t withoutDeadlines) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.RoundTripper.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
}

// CachingSigner returns a signer with an RSA key that computes each signature once. Most tables of
// messages contain many with the same signature.
func CachingSigner(key *rsa.PrivateKey) crypto.Signer { return &cachingSigner{PrivateKey: key} }

type cachingSigner struct {
	*rsa.PrivateKey
	signatures sync.Map // by hash function and hash
}

func (s *cachingSigner) Sign(rand io.Reader, hash []byte, opts crypto.SignerOpts) ([]byte, error) {
	id := opts.HashFunc().String() + string(hash)
	if signature, ok := s.signatures.Load(id); ok {
		return bytes.Clone(signature.([]byte)), nil
	}
	signature, err := s.PrivateKey.Sign(rand, hash, opts)
	if err == nil {
		s.signatures.Store(id, bytes.Clone(signature))
	}
	return signature, err
}

// ReadQRCode returns the text that zbarimg, an independent decoder, reads from an image.
func ReadQRCode(t testing.TB, image string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "zbarimg", "--quiet", "--nodbus", "--raw", "--set", "disable", "--set", "qrcode.enable", "-")
	command.Stdin = strings.NewReader(image)
	text, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("zbarimg: %v: %s", err, text)
	}
	return strings.TrimSuffix(string(text), "\n")
}

// Buffer is a bytes.Buffer that is safe for concurrent use, such as by a logger.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns what was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// CompareTimes runs base and other alternately, because a busy machine slows both. It reports the
// ratio of other's median time to base's as the metric name.
func CompareTimes(b *testing.B, name string, base, other func() error) {
	b.Helper()
	var bases, others []time.Duration
	for b.Loop() {
		began := time.Now()
		if err := base(); err != nil {
			b.Fatal(err)
		}
		between := time.Now()
		if err := other(); err != nil {
			b.Fatal(err)
		}
		ended := time.Now() // before the results are stored, which is not part of other
		bases, others = append(bases, between.Sub(began)), append(others, ended.Sub(between))
	}
	slices.Sort(bases)
	slices.Sort(others)
	b.ReportMetric(float64(others[len(others)/2])/float64(bases[len(bases)/2]), name)
}
