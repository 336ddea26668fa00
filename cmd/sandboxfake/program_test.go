package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// buildDir contains the built program. TestMain creates and removes it.
var buildDir string

// buildProgram builds the program once for all tests and returns its path.
var buildProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "sandboxfake")
	if output, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build sandboxfake: %w\n%s", err, output)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "sandboxfake-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(buildDir)
	os.Exit(code)
}

// program is a running sandboxfake.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout *bufio.Reader
	log    syncBuffer
}

// syncBuffer is a buffer that is safe for concurrent use.
type syncBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start runs the program until the test ends. Its temporary files are in the test's directory.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	return startEnv(t, nil, args...)
}

// startEnv is start with additional environment variables.
func startEnv(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	path, err := buildProgram()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(path, args...)
	command.Env = append(append(os.Environ(), "TMPDIR="+t.TempDir()), env...)
	return startCommand(t, command)
}

// startCommand starts a command that becomes the program, until the test ends.
func startCommand(t *testing.T, command *exec.Cmd) *program {
	t.Helper()
	p := &program{t: t, cmd: command}
	p.cmd.Stderr = &p.log
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(stdout)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	})
	return p
}

// stop sends a signal, waits for the program and returns its exit code and the rest of its standard
// output.
func (p *program) stop(signal os.Signal) (code int, rest string) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
	text, err := io.ReadAll(p.stdout)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			p.t.Fatal(err)
		}
	}
	return p.cmd.ProcessState.ExitCode(), string(text)
}

// announced is the line that -json prints, with its documented fields.
type announced struct {
	Inspector string               `json:"inspector_url"`
	URL       string               `json:"url"`
	PublicURL string               `json:"public_url"`
	CAFile    string               `json:"ca_file"`
	CASHA256  string               `json:"ca_sha256"`
	Project   announcedCredentials `json:"project"`
	Workspace announcedCredentials `json:"workspace"`
	Token     string               `json:"control_token"`
}

type announcedCredentials struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
}

// startJSON runs the program with -json and parses its first line.
func startJSON(t *testing.T, args ...string) (*program, announced) {
	t.Helper()
	return startJSONEnv(t, nil, args...)
}

// startJSONEnv is startJSON with additional environment variables.
func startJSONEnv(t *testing.T, env []string, args ...string) (*program, announced) {
	t.Helper()
	p := startEnv(t, env, append([]string{"-json"}, args...)...)
	return p, p.readJSON()
}

// readJSON reads the line that -json prints.
func (p *program) readJSON() announced {
	t := p.t
	t.Helper()
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		t.Fatalf("read the line of JSON: %v\n%s", err, p.log.String())
	}
	return parseAnnounced(t, line)
}

func parseAnnounced(t *testing.T, line string) (a announced) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&a); err != nil {
		t.Fatalf("the line has undocumented fields: %v", err)
	}
	return a
}

// client returns an HTTP client that trusts the program's CA certificate.
func (a announced) client(t *testing.T) *http.Client {
	t.Helper()
	cert, err := os.ReadFile(a.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(cert) {
		t.Fatal("the CA file contains no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

// token returns a token for PhoneCheck and reachability.
func (a announced) token(t *testing.T, client *http.Client) string {
	t.Helper()
	return a.tokenFor(t, client, "phone_check coverage")
}

// tokenFor returns a token of the project for scopes.
func (a announced) tokenFor(t *testing.T, client *http.Client, scopes string) string {
	t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {scopes}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.URL+"/oauth2/v1/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth(a.Project.ClientID, a.Project.ClientSecret)
	var token struct {
		AccessToken string `json:"access_token"`
	}
	if status, body := do(t, client, request); status != http.StatusOK || json.Unmarshal(body, &token) != nil || token.AccessToken == "" {
		t.Fatalf("get token with the printed credentials: %d %s", status, body)
	}
	return token.AccessToken
}

func do(t *testing.T, client *http.Client, request *http.Request) (status int, body []byte) {
	t.Helper()
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body
}

// signals lists the signals that stop the program.
var signals = []os.Signal{os.Interrupt, syscall.SIGTERM}
