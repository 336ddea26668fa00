package browser

import (
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
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/tooltest"
)

var (
	sandboxfakeProgram = tooltest.Program{Root: "../../..", Package: "./cmd/sandboxfake"}
	// shopProgram serves the pages of examples/passwordless. It is built as a package of that example,
	// whose package signin is internal.
	shopProgram = tooltest.Program{
		Root: "../../..", Package: "./examples/passwordless/internal/shop",
		Flags: []string{"-overlay", "internal/e2e/browser/testdata/shop/overlay.json"},
	}
)

func TestMain(m *testing.M) {
	defer sandboxfakeProgram.Remove()
	defer shopProgram.Remove()
	defer stopBrowser()
	m.Run()
}

// program is a running sandboxfake, with the fields that it prints.
type program struct {
	URL          string      `json:"url"`
	InspectorURL string      `json:"inspector_url"`
	CAFile       string      `json:"ca_file"`
	Token        string      `json:"control_token"`
	Project      credentials `json:"project"`
	Workspace    credentials `json:"workspace"`

	t    *testing.T
	cmd  *exec.Cmd
	log  *tooltest.Buffer
	http *http.Client
}

type credentials struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
}

func (c credentials) secret() idverify.Credentials {
	return idverify.Credentials{ClientID: c.ClientID, ClientSecret: idverify.NewSecret(c.ClientSecret)}
}

// start runs the program with the public test keys, which the browser trusts, until the test ends.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	return startFresh(t, append([]string{"-fixed-keys"}, args...)...)
}

// startFresh runs the program with keys of its own.
func startFresh(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{t: t, log: new(tooltest.Buffer)}
	p.cmd = exec.Command(sandboxfakeProgram.Build(t), append([]string{"-json", "-quiet"}, args...)...)
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), "TMPDIR="+t.TempDir()), p.log
	line, err := tooltest.Start(t, p.cmd).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, p)
	}
	if err != nil {
		t.Fatalf("read what sandboxfake prints: %v\n%s", err, p.log)
	}
	p.http = p.newHTTPClient()
	return p
}

// stop ends the program before the test does.
func (p *program) stop() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// newHTTPClient returns a client that trusts the program's CA certificate.
func (p *program) newHTTPClient() *http.Client {
	p.t.Helper()
	cert := must(os.ReadFile(p.CAFile))(p.t)
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
	return must(idverify.NewClient(p.URL, p.Project.secret(), append([]idverify.Option{idverify.WithHTTPClient(p.http), idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1})}, opts...)...))(p.t)
}

// console returns a client of the console API.
func (p *program) console() *idverify.Console {
	p.t.Helper()
	return must(idverify.NewConsole(p.URL, p.Workspace.secret(), idverify.WithHTTPClient(p.http)))(p.t)
}

// control calls an operation of the control plane and returns the response. A body is sent as JSON.
func control[T any](p *program, method, operation string, body any) T {
	p.t.Helper()
	var content io.Reader
	if body != nil {
		text := must(json.Marshal(body))(p.t)
		content = bytes.NewReader(text)
	}
	request := must(http.NewRequestWithContext(p.t.Context(), method, p.URL+"/_sandbox/"+operation, content))(p.t)
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
	response := must(p.http.Do(request))(p.t)
	defer response.Body.Close()
	body = must(io.ReadAll(response.Body))(p.t)
	return response.StatusCode, body
}

// calls returns the number of requests of an operation that the service received.
func (p *program) calls(operation string) int {
	p.t.Helper()
	return len(control[struct{ Requests []any }](p, http.MethodGet, "requests?operation="+url.QueryEscape(operation), nil).Requests)
}

// delivery is a callback in the program's journal.
type delivery struct {
	Attempts []struct {
		Status int
		Result string
	}
}

// attempts returns the status and the result of each attempt to deliver the callbacks of a check.
func (p *program) attempts(checkID string) (attempts []string) {
	p.t.Helper()
	for _, d := range control[struct{ Deliveries []delivery }](p, http.MethodGet, "deliveries?check_id="+url.QueryEscape(checkID), nil).Deliveries {
		for _, a := range d.Attempts {
			attempts = append(attempts, fmt.Sprintf("%d %s", a.Status, a.Result))
		}
	}
	return attempts
}
