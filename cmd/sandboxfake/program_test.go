package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/idverify/idverify-go/internal/tooltest"
)

// buildDir contains the program, which is a link to this test binary, and the receiver in Go.
// TestMain creates and removes it.
var buildDir string

// asProgram makes this test binary run as sandboxfake, so that most tests do not build the program.
const asProgram = "RUN_SANDBOXFAKE=1"

// programPath returns the path of the program, which requires asProgram in its environment.
func programPath() string { return filepath.Join(buildDir, "sandboxfake") }

func TestMain(m *testing.M) {
	if slices.Contains(os.Environ(), asProgram) {
		main()
	}
	tooltest.Overlap()
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	if buildDir, err = os.MkdirTemp("", "sandboxfake-test-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(buildDir)
	own, err := os.Executable()
	if err != nil {
		return 0, err
	}
	if err := os.Symlink(own, programPath()); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// program is a running sandboxfake.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout *bufio.Reader
	log    tooltest.Buffer
}

// start runs the program until the test ends. Its temporary files are in the test's directory.
func start(t *testing.T, args ...string) *program { t.Helper(); return startEnv(t, nil, args...) }

// startEnv is start with additional environment variables.
func startEnv(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	command := exec.Command(programPath(), args...)
	command.Env = append(append(os.Environ(), asProgram, "TMPDIR="+t.TempDir()), env...)
	return startCommand(t, command)
}

// startCommand starts a command that becomes the program, until the test ends.
func startCommand(t *testing.T, command *exec.Cmd) *program {
	t.Helper()
	p := &program{t: t, cmd: command}
	p.cmd.Stderr = &p.log
	p.stdout = tooltest.Start(t, p.cmd)
	return p
}

// stop sends a signal and waits for the program.
func (p *program) stop(signal os.Signal) (code int, rest string) {
	p.t.Helper()
	noError(p.t, p.cmd.Process.Signal(signal))
	return p.wait()
}

// wait waits for the program, and returns its exit code and the rest of its standard output.
func (p *program) wait() (code int, rest string) {
	p.t.Helper()
	text := must(io.ReadAll(p.stdout))(p.t)
	if err := p.cmd.Wait(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			p.t.Fatal(err)
		}
	}
	return p.cmd.ProcessState.ExitCode(), string(text)
}

// runToEnd runs the program in this process, with environment variables, until it exits.
func runToEnd(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, log tooltest.Buffer
	code = run(t.Context(), args, func(name string) string { return env[name] }, &out, &log)
	return code, out.String(), log.String()
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

// readUntil reads the output up to the line that contains text.
func (p *program) readUntil(text string) string {
	p.t.Helper()
	output := ""
	for !strings.Contains(output, text) {
		line, err := p.stdout.ReadString('\n')
		if err != nil {
			p.t.Fatalf("the program prints %q: %v %s", output, err, p.log.String())
		}
		output += line
	}
	return output
}

// readJSON reads the line that -json prints.
func (p *program) readJSON() announced {
	p.t.Helper()
	return parseAnnounced(p.t, p.readUntil("\n"))
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

// roots returns the certificates of the CA file.
func (a announced) roots(t *testing.T) *x509.CertPool {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(readFile(t, a.CAFile))) {
		t.Fatal("the CA file contains no certificate")
	}
	return roots
}

// client returns an HTTP client that trusts the program's CA certificate.
func (a announced) client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.roots(t)}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
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
	request := must(http.NewRequestWithContext(t.Context(), http.MethodPost, a.URL+"/oauth2/v1/token", strings.NewReader(form.Encode())))(t)
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
	response := must(client.Do(request))(t)
	defer response.Body.Close()
	body = must(io.ReadAll(response.Body))(t)
	return response.StatusCode, body
}

// signals lists the signals that stop the program.
var signals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// call sends a request with a bearer token, or without one if bearer is empty, and returns the
// decoded response.
func (a announced) call(t *testing.T, bearer, method, path, body string) (status int, got map[string]any) {
	t.Helper()
	request := must(http.NewRequestWithContext(t.Context(), method, a.URL+path, strings.NewReader(body)))(t)
	request.Header.Set("Content-Type", "application/json")
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	status, text := do(t, a.client(t), request)
	if len(text) > 0 {
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s %s = %d %q: %v", method, path, status, text, err)
		}
	}
	return status, got
}

// control sends a request to the control plane. The test fails unless it succeeds.
func (a announced) control(t *testing.T, method, path, body string) map[string]any {
	t.Helper()
	status, got := a.call(t, a.Token, method, "/_sandbox/"+path, body)
	if status/100 != 2 {
		t.Fatalf("%s %s = %d %v, want success", method, path, status, got)
	}
	return got
}

// create creates a PhoneCheck.
func (a announced) create(t *testing.T, token, callbackURL string) map[string]any {
	t.Helper()
	status, check := a.call(t, token, http.MethodPost, "/phone_check/v0.1/checks", `{"phone_number":"447700900012","callback_url":"`+callbackURL+`"}`)
	if status != http.StatusCreated {
		t.Fatalf("create = %d %v, want 201", status, check)
	}
	return check
}

// open opens the Check URL of a check.
func (a announced) open(t *testing.T, check map[string]any) {
	t.Helper()
	a.call(t, "", http.MethodGet, strings.TrimPrefix(check["_links"].(map[string]any)["check_url"].(map[string]any)["href"].(string), a.URL), "")
}

// deliver creates a PhoneCheck with a callback URL, opens its Check URL and returns the delivery.
func (a announced) deliver(t *testing.T, callbackURL string) map[string]any {
	t.Helper()
	check := a.create(t, a.token(t, a.client(t)), callbackURL)
	a.open(t, check)
	deliveries := a.control(t, http.MethodGet, fmt.Sprintf("deliveries?wait_seconds=30&check_id=%s", check["check_id"]), "")["deliveries"].([]any)
	if len(deliveries) != 1 {
		t.Fatalf("%d deliveries, want 1", len(deliveries))
	}
	return deliveries[0].(map[string]any)
}

// received is a callback as received.
type received struct {
	header http.Header
	body   []byte
}

// receive starts a receiver and returns its URL and the channel of its callbacks.
func receive(t *testing.T) (url string, got chan received) {
	t.Helper()
	got = make(chan received, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- received{r.Header, body}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

// tlsReceiver starts a receiver with its own CA, which acknowledges every callback.
func tlsReceiver(t *testing.T) *httptest.Server {
	t.Helper()
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	receiver.Config.ErrorLog = log.New(io.Discard, "", 0)
	receiver.StartTLS()
	t.Cleanup(receiver.Close)
	return receiver
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	return string(must(os.ReadFile(path))(t))
}
