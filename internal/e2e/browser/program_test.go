package browser

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/idverify/idverify-go"
)

// buildProgram builds the program once for all tests and returns its path.
var buildProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "sandboxfake")
	cmd := exec.Command("go", "build", "-o", path, ".")
	cmd.Dir = "../../../cmd/sandboxfake"
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build sandboxfake: %w\n%s", err, output)
	}
	return path, nil
})

// scratch is a directory for the built program and the browser's profile. TestMain creates and
// removes it.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "inspector-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	defer stopBrowser()
	return m.Run()
}

// program is a running sandboxfake, with the fields that it prints.
type program struct {
	URL          string      `json:"url"`
	PublicURL    string      `json:"public_url"`
	InspectorURL string      `json:"inspector_url"`
	CAFile       string      `json:"ca_file"`
	Token        string      `json:"control_token"`
	Project      credentials `json:"project"`
	Workspace    credentials `json:"workspace"`

	t    *testing.T
	cmd  *exec.Cmd
	log  *logBuffer
	http *http.Client
}

type credentials struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
}

func (c credentials) secret() idverify.Credentials {
	return idverify.Credentials{ClientID: c.ClientID, ClientSecret: idverify.NewSecret(c.ClientSecret)}
}

// logBuffer is a buffer that is safe for concurrent use.
type logBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start runs the program with the public test keys, which the browser trusts, until the test ends.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	return startFresh(t, append([]string{"-fixed-keys"}, args...)...)
}

// startFresh runs the program with keys of its own.
func startFresh(t *testing.T, args ...string) *program {
	t.Helper()
	path, err := buildProgram()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, cmd: exec.Command(path, append([]string{"-json", "-quiet"}, args...)...), log: new(logBuffer)}
	p.cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	p.cmd.Stderr = p.log
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, p)
	}
	if err != nil {
		t.Fatalf("read what sandboxfake prints: %v\n%s", err, p.log)
	}
	p.http = p.newHTTPClient()
	return p
}

// stop ends the program.
func (p *program) stop() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// newHTTPClient returns a client that trusts the program's CA certificate.
func (p *program) newHTTPClient() *http.Client {
	p.t.Helper()
	cert, err := os.ReadFile(p.CAFile)
	if err != nil {
		p.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(cert) {
		p.t.Fatal("the CA file contains no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8}
	p.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: timeout}
}

// client returns a client of the service. It does not retry.
func (p *program) client(opts ...idverify.Option) *idverify.Client {
	p.t.Helper()
	c, err := idverify.NewClient(p.URL, p.Project.secret(), append([]idverify.Option{idverify.WithHTTPClient(p.http), idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1})}, opts...)...)
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// console returns a client of the console API.
func (p *program) console() *idverify.Console {
	p.t.Helper()
	c, err := idverify.NewConsole(p.URL, p.Workspace.secret(), idverify.WithHTTPClient(p.http))
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// control calls an operation of the control plane and returns the response. A body is sent as JSON.
func control[T any](p *program, method, operation string, body any) T {
	p.t.Helper()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			p.t.Fatal(err)
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.URL+"/_sandbox/"+operation, content)
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+p.Token)
	request.Header.Set("Content-Type", "application/json")
	status, text := p.do(request)
	var got T
	if status/100 != 2 {
		p.t.Fatalf("%s %s: status %d: %s", method, operation, status, text)
	}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &got); err != nil {
			p.t.Fatalf("%s %s: %v", method, operation, err)
		}
	}
	return got
}

// do sends a request and returns the status and body of the response.
func (p *program) do(request *http.Request) (status int, body []byte) {
	p.t.Helper()
	response, err := p.http.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, body
}

// call is a request in the program's journal.
type call struct {
	Operation string `json:"operation"`
	Method    string `json:"method"`
	Path      string `json:"path"`
	Status    int    `json:"status"`
}

// calls returns the requests of an operation that the service received.
func (p *program) calls(operation string) []call {
	p.t.Helper()
	return control[struct{ Requests []call }](p, http.MethodGet, "requests?operation="+url.QueryEscape(operation), nil).Requests
}

// delivery is a callback in the program's journal.
type delivery struct {
	DeliveryID string `json:"delivery_id"`
	CheckID    string `json:"check_id"`
	Attempts   []struct {
		Status int    `json:"status"`
		Result string `json:"result"`
	} `json:"attempts"`
}

// deliveries returns the callbacks of a check, oldest first.
func (p *program) deliveries(checkID string) []delivery {
	p.t.Helper()
	return control[struct{ Deliveries []delivery }](p, http.MethodGet, "deliveries?check_id="+url.QueryEscape(checkID), nil).Deliveries
}
