// Sandboxfake runs a fake of the mobile-identity service on this machine. Clients in any
// language can use it over HTTPS. Its checks cost no money.
//
//	go run ./cmd/sandboxfake
//
// It prints the URL of the inspector, a page for browsers that shows and controls the service, its
// own URL, the path of its CA certificate, the credentials of a project and a workspace, a control
// token, and commands to paste. It then logs each request and each delivery attempt until SIGINT or
// SIGTERM.
//
// The inspector uses the control plane below /_sandbox/, a JSON API that shows and controls a
// [sandboxfake.Server]. It requires the control token as a bearer token and, unless -remote-control
// is set, a connection from this machine. These paths require neither: GET /_sandbox/ lists the
// operations, and browsers receive the page instead; GET /_sandbox/health returns 200 once the
// program is ready; GET /_sandbox/service.json describes the service in OpenAPI 3.1; /_sandbox/ca
// and the paths below it return the CA certificate; /_sandbox/page/, except page/private/, contains
// the files of the page; and GET and POST /_sandbox/open/{check_id} are the page where a person
// chooses the result of a check on a phone.
//
// Each run has its own keys, credentials and control token, unless these flags fix them:
//
//	-addr host:port        listen on this address; 127.0.0.1:0 by default, a free port
//	-json                  print one line of JSON instead of text, for scripts
//	-seed n                the same IDs, credentials, codes and tokens in every run with this n
//	-new-ids-after-reset   use other IDs after each reset, but the same credentials
//	-fixed-keys            use public test keys: it starts faster, and clients can keep the CA file
//	-ca-file path          write the CA certificate to this path; by default a temporary file
//	-control-token token   the token that /_sandbox/ requires
//	-client-id id          client ID of the project, for programs with fixed credentials
//	-client-secret secret  client secret of the project
//	-live                  make the project a live project, for clients with idverify.WithLiveOnly
//	-remote-control        serve /_sandbox/ to any address, for example other containers
//	-quiet                 do not log requests
//
// These flags determine how others reach the service, and how it reaches receivers:
//
//	-public-url url      base of all links, such as that of a tunnel; by default the program's own
//	-tls-cert path       present this certificate, in PEM, for the names that it is valid for
//	-tls-key path        the private key of -tls-cert, in PEM
//	-lan                 listen on all addresses, on port 8443 unless -addr has another one, and use
//	                     the address of this machine on the local network in links
//	-phone-page          show a browser that opens a Check URL the page /_sandbox/open/{check_id},
//	                     where a person chooses the result
//	-map host=address    send callbacks for a public host to a local receiver, such as
//	                     shop.example.com=127.0.0.1:3000; repeatable
//	-receiver-ca path    trust the CA certificates in this file for callbacks over https
//
// These flags run no server:
//
//	-version      print the version, the commit, the version of Go and the platform
//	-healthcheck  exit with 0 if a server with the same -addr on this machine is ready, else with 1
//	-openapi      print the description of the service in OpenAPI 3.1; -openapi=control prints that
//	              of the control plane
//
// These flags change how the service behaves:
//
//	-digest hex|base64               encoding of the Digest of callbacks; hex by default
//	-callback-header name            header with the product of a callback; by default
//	                                 x-service-callback
//	-rate-limit n                    requests per workspace and hour; 0, the default, for no limit
//	-price product=amount            price of a check of a live project, such as
//	                                 phone_check=0.05; repeatable
//	-frozen-clock time               freeze the clock at an RFC 3339 time; only advance moves it
//	-signature-dates system|sandbox  the clock that dates signatures: the system's by default, or
//	                                 the one that advance moves
//	-caller-ip address               the address of callers on a loopback or private address that look
//	                                 up their own reachability; 192.0.2.10 by default
//	-phone-ip-check                  end a check with ip_mismatch if its Check URL is opened from
//	                                 another address than its phone_ip
//	-extra-scopes a,b                also grant these scopes, which open no path
//	-journal-limit n                 requests and deliveries that the journals keep; 1024 by default
//
// Each flag has an environment variable, SANDBOXFAKE_ and its name in upper case with underscores,
// such as SANDBOXFAKE_CA_FILE=ca.pem or SANDBOXFAKE_QUIET=true. The flag takes precedence. Prefer
// the variable for secrets, because other users of the machine can see flags. A health check
// accepts any certificate: it contains no secret and connects only to this machine.
//
// The certificate is valid for loopback and the hosts of -addr and -public-url. In a container
// called sandbox, pass -addr :8443 -public-url https://sandbox:8443 -remote-control. With
// -fixed-keys, only localhost, 127.0.0.1 and [::1] are possible, unless -tls-cert is valid for the
// other host.
//
// A receiver behind -map gets the request as the service signed it, with the public Host header and
// the headers X-Forwarded-For, X-Forwarded-Host and X-Forwarded-Proto of a proxy.
//
// The exit code is 0 after a signal, -h, -openapi or -version, 1 if the program cannot start, which
// includes an unusable flag value, and 2 if a flag cannot be parsed.
package main

import (
	"context"
	"crypto/tls"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/idverify/idverify-go/cmd/sandboxfake/internal/inspector"
	"github.com/idverify/idverify-go/internal/atomicfile"
	"github.com/idverify/idverify-go/sandboxfake"
)

func main() {
	// Register first, because a script that has read the URL may send a signal immediately.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal kills the program.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// run serves until ctx ends and returns the exit code.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	flags, code := parseFlags(args, getenv, stdout, stderr)
	switch {
	case flags == nil:
		return code
	case flags.version:
		info, _ := debug.ReadBuildInfo()
		fmt.Fprint(stdout, versionLine(info))
		return exitOK
	case flags.openAPI == serviceAPI:
		_, _ = stdout.Write(sandboxfake.OpenAPI())
		return exitOK
	case flags.openAPI == controlAPI:
		_, _ = stdout.Write(openAPI)
		return exitOK
	case flags.healthcheck:
		if err := checkHealth(ctx, flags.addr, dialLocal); err != nil {
			fmt.Fprintln(stderr, err)
			return exitError
		}
		fmt.Fprintln(stderr, "sandboxfake: ready")
		return exitOK
	}
	if err := serve(ctx, flags, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, err)
		return exitError
	}
	return exitOK
}

// openAPI describes the control plane. internal/e2e/openapi compares it with the program.
//
//go:embed openapi.json
var openAPI []byte

// serve runs the server until ctx ends.
func serve(ctx context.Context, f *flags, stdout, stderr io.Writer) error {
	options, err := f.options(stderr)
	if err != nil {
		return err
	}
	caFile, remove, err := caPath(f.caFile)
	if err != nil {
		return fmt.Errorf("sandboxfake: write CA file: %w (set -ca-file)", err)
	}
	defer remove()
	var caErr error
	control := f.control()
	control.Page = func(s *sandboxfake.Server) http.Handler {
		// The server responds after this function, so that the file exists once health reports ok.
		caErr = atomicfile.Replace(caFile, s.CACertPEM(), 0o644)
		return inspector.New(inspector.Config{
			URL:          s.URL(),
			PublicURL:    s.PublicURL(),
			Client:       s.HTTPClient(),
			ControlToken: s.ControlToken(),
			CACertPEM:    s.CACertPEM(),
			FixedKeys:    f.fixedKeys,
			CAFile:       caFile,
			OpenAPI:      openAPI,
		})
	}
	server, err := sandboxfake.Start(append(options, sandboxfake.WithControl(control))...)
	if err != nil {
		return err
	}
	defer server.Close()
	f.forward(server, stderr)
	switch {
	case caErr != nil && f.caFile != "":
		return fmt.Errorf("sandboxfake: write CA file %s (-ca-file): %w (use the path of a file in a directory that exists and is writable)", f.caFile, plainError(caErr))
	case caErr != nil:
		return fmt.Errorf("sandboxfake: write CA file: %w (set -ca-file)", caErr)
	}
	own, err := f.presents(ctx, server, stderr)
	if err != nil {
		return fmt.Errorf("sandboxfake: connect to the server: %w", err)
	}
	f.warnAboutPublic(stderr)
	if err := announce(stdout, f, server, caFile, own); err != nil {
		return fmt.Errorf("sandboxfake: print server address: %w", err)
	}
	if f.lan {
		fmt.Fprint(stderr, f.lanNotice(server.PublicURL(), server.CACertPEM()))
	}
	<-ctx.Done()
	return nil
}

// plainError unwraps a *fs.PathError or an *os.LinkError, which names a temporary file.
func plainError(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	if linkErr, ok := errors.AsType[*os.LinkError](err); ok {
		return linkErr.Err
	}
	return err
}

// caPath returns the absolute path for the CA certificate. If path is empty, it is in a new
// temporary directory, which remove deletes.
func caPath(path string) (file string, remove func(), err error) {
	if path != "" {
		file, err = filepath.Abs(path)
		return file, func() {}, err
	}
	dir, err := os.MkdirTemp("", "sandboxfake-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	if file, err = filepath.Abs(filepath.Join(dir, "ca.pem")); err != nil {
		remove()
	}
	return file, remove, err
}

// healthTimeout limits the duration of a health check.
const healthTimeout = 3 * time.Second

// checkHealth returns nil if the server that listens on addr is ready. addr is the server's -addr:
// it must be an address of this machine, and its port must not be 0. An empty or unspecified host
// means this machine, as for a listener. dial is dialLocal, unless a test replaces it.
func checkHealth(ctx context.Context, addr string, dial dialFunc) error {
	if err := checkHealthAddr(addr); err != nil {
		return fmt.Errorf("sandboxfake: health check: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	err := requestHealth(ctx, addr, dial)
	// Remove the URL, whose host is only a placeholder.
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("sandboxfake: health check: no response within %v", healthTimeout)
	case err != nil:
		return fmt.Errorf("sandboxfake: health check: %w", err)
	}
	return nil
}

// checkHealthAddr returns an error unless addr has a port other than 0.
func checkHealthAddr(addr string) error {
	_, service, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	port, err := net.LookupPort("tcp", service)
	if err == nil && port == 0 {
		err = errors.New("the port of the server is unknown (use the same -addr as the server, or " + envName("addr") + ", with a port other than 0)")
	}
	return err
}

// dialFunc connects to an address.
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// requestHealth requests the status of the server that listens on addr.
func requestHealth(ctx context.Context, addr string, dial dialFunc) error {
	client := &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) { return dial(ctx, network, addr) },
			// This process does not have the CA certificate, which each run generates. Any
			// certificate is safe: the request contains no secret, and dialLocal ensures that it
			// does not leave this machine.
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
			DisableKeepAlives: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://localhost/_sandbox/health", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var health struct {
		Status string `json:"status"`
	}
	err = json.NewDecoder(io.LimitReader(response.Body, 1<<10)).Decode(&health)
	if response.StatusCode != http.StatusOK || err != nil || health.Status != "ok" {
		return fmt.Errorf("status %d: this is not the response of a sandboxfake that is ready", response.StatusCode)
	}
	return nil
}

// versionLine describes the program in one line: its version, the commit and its time if they are
// known, the version of Go and the platform. info may be nil.
func versionLine(info *debug.BuildInfo) string {
	version, commit := "(unknown version)", ""
	if info != nil {
		settings := make(map[string]string)
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if info.Main.Version != "" {
			version = info.Main.Version
		}
		// "go run" and builds from a module archive record no commit.
		if revision := settings["vcs.revision"]; revision != "" {
			parts := []string{"commit " + revision, settings["vcs.time"]}
			if settings["vcs.modified"] == "true" {
				parts = append(parts, "modified")
			}
			commit = " (" + strings.Join(parts, ", ") + ")"
		}
	}
	return fmt.Sprintf("sandboxfake %s%s %s %s/%s\n", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
