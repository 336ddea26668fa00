// Package stack runs the reference backend on this machine: two replicas of it behind nginx, with
// PostgreSQL and a fake of the service. All of them listen on loopback or on Unix sockets,
// keep their data in a temporary directory and end with the stack.
package stack

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// Stack is a running stack. Create one with [Start]. Do not stop or restart the same part of it
// concurrently.
type Stack struct {
	// URL is the public base URL of the backend: nginx, with the path /api.
	URL string

	// Service is the fake of the service, and Project the project whose credentials the replicas
	// use.
	Service *sandboxfake.Server
	Project *sandboxfake.Project

	Postgres *Postgres
	Replicas []*Replica

	// Dir is the directory of all data, logs and sockets. The log of the process x is x.log.
	Dir string

	proxy       *process
	credentials idverify.Credentials // in the file of the replicas
	roots       *x509.CertPool       // of nginx and of the service
}

// Options configures [Start].
type Options struct {
	// Replicas is the number of replicas of the backend. Default 2.
	Replicas int

	// OTEL is the exporter of the replicas, "stdout" or "none". Default "none".
	OTEL string

	// JournalLimit is the number of requests, and of callbacks, that the fake remembers. Default
	// 1024.
	JournalLimit int
}

// ErrNotInstalled means that a program is not installed. The text of the error contains the names
// of the packages.
var ErrNotInstalled = errors.New("programs are not installed")

// Start starts the stack, and returns when all replicas are ready. The caller must call
// [Stack.Close]. The working directory must be in the module of the backend, which Start builds. If
// a program is missing, the error is [ErrNotInstalled]. opts may be nil.
func Start(ctx context.Context, opts *Options) (_ *Stack, err error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Replicas, o.OTEL, o.JournalLimit = cmp.Or(o.Replicas, 2), cmp.Or(o.OTEL, "none"), cmp.Or(o.JournalLimit, 1024)
	programs, err := findPrograms()
	if err != nil {
		return nil, fmt.Errorf("stack: %w", err)
	}
	// The paths of Unix sockets must be short.
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		return nil, fmt.Errorf("stack: %w", err)
	}
	s := &Stack{Dir: dir}
	defer func() {
		if err != nil {
			err = fmt.Errorf("stack: %w\n%s", err, s.Logs())
			s.Close()
		}
	}()
	return s, s.start(ctx, programs, o)
}

func (s *Stack) start(ctx context.Context, programs map[string]string, o Options) error {
	// nginx starts last, because its configuration contains the ports of the replicas. Its own port
	// is reserved until then: the replicas have to know the public URL.
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer port.Close()
	_, number, _ := net.SplitHostPort(port.Addr().String())
	s.URL = "https://" + publicHost + ":" + number + "/api"

	if err := s.startService(o); err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	s.Postgres = newPostgres(s.Dir, programs["initdb"])
	if err := s.Postgres.create(ctx); err != nil {
		return err
	}
	program := filepath.Join(s.Dir, "backend")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/idverify/idverify-go/examples/backend")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the backend: %w\n%s", err, output)
	}
	for i := range o.Replicas {
		s.Replicas = append(s.Replicas, s.newReplica(i+1, program, o.OTEL))
		if err := s.Replicas[i].Start(ctx); err != nil {
			return err
		}
	}
	if err := s.configureProxy(number); err != nil {
		return err
	}
	port.Close()
	return s.startProxy(ctx, programs["nginx"])
}

// Close stops all processes and removes all data. It may be called again.
func (s *Stack) Close() {
	if s.proxy != nil {
		_ = s.proxy.stop() // the exit code does not matter
	}
	var replicas sync.WaitGroup
	for _, r := range s.Replicas {
		replicas.Go(func() { _ = r.Stop() }) // the exit code does not matter
	}
	replicas.Wait()
	if s.Service != nil {
		_ = s.Service.Close() // always nil
	}
	if s.Postgres != nil {
		s.Postgres.stop()
	}
	_ = os.RemoveAll(s.Dir) // the operating system removes temporary files later
}

// CAFile returns the PEM file with the certificates of nginx and of the service, for curl.
func (s *Stack) CAFile() string { return filepath.Join(s.Dir, "ca.pem") }

// Phone returns an HTTP client that trusts the certificates of the stack, connects from the IP
// address from, such as "127.0.0.2", and follows redirects. An empty address is the default. The
// jar of its cookies may be set.
func (s *Stack) Phone(from string) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	return &http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{
			DialContext:         dialer.DialContext,
			TLSClientConfig:     &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12},
			MaxIdleConnsPerHost: 64,
		},
	}
}

// Logs returns the ends of the logs of all processes.
func (s *Stack) Logs() string {
	const end = 4096
	var text strings.Builder
	files, _ := filepath.Glob(filepath.Join(s.Dir, "*.log"))
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err == nil && len(content) > 0 {
			fmt.Fprintf(&text, "%s:\n%s\n", filepath.Base(file), content[max(0, len(content)-end):])
		}
	}
	return text.String()
}
