package inspector_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// requireTool skips the test if a tool is missing, or fails it if IDVERIFY_INTEROP is set, as in
// continuous integration.
func requireTool(t *testing.T, tool string) {
	t.Helper()
	_, err := exec.LookPath(tool)
	switch {
	case err == nil:
	case os.Getenv("IDVERIFY_INTEROP") != "":
		t.Fatalf("%s is not installed: run 'script/setup interop'", tool)
	default:
		t.Skipf("%s is not installed: run 'script/setup interop'", tool)
	}
}

// snippet evaluates an expression of JavaScript with the functions of snippets.js in s and the
// value input, and returns the result.
func snippet[T any](t *testing.T, expression string, input any) T {
	t.Helper()
	requireTool(t, "node")
	source, err := os.ReadFile("assets/snippets.js")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := `import fs from 'node:fs';
import * as s from './snippets.mjs';
const input = JSON.parse(fs.readFileSync(0, 'utf8'));
process.stdout.write(JSON.stringify(` + expression + `));`
	for name, content := range map[string][]byte{"snippets.mjs": source, "main.mjs": []byte(script)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stdin, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	node := exec.CommandContext(t.Context(), "node", "main.mjs")
	node.Dir, node.Stdin = dir, strings.NewReader(string(stdin))

	output, err := node.Output()
	if err != nil {
		t.Fatalf("node: %v", err)
	}

	var result T
	if err := json.Unmarshal(output, &result); err != nil {
		t.Fatal(err)
	}
	return result
}

// checkView is a check of the control plane, as far as snippets.js uses it.
type checkView struct {
	Product     string `json:"product"`
	Version     string `json:"version"`
	PhoneNumber string `json:"phone_number"`
	ReferenceID string `json:"reference_id,omitempty"`
	Status      string `json:"status"`
	Match       *bool  `json:"match,omitempty"`
	NoSIMChange *bool  `json:"no_sim_change,omitempty"`
}

// goTestCase is a check, and the injected fault of its callback.
type goTestCase struct {
	Check checkView      `json:"check"`
	Fault map[string]any `json:"fault,omitempty"`
}

// goTestCases are checks of each product and version, with each status. In some, the result is not
// the one that the number determines.
func goTestCases() []goTestCase {
	check := func(product, version, number, status string, match, noSIMChange *bool) goTestCase {
		return goTestCase{Check: checkView{product, version, number, "", status, match, noSIMChange}}
	}
	var cases []goTestCase
	for _, version := range []string{"v0.1", "v0.2"} {
		cases = append(cases,
			check("phone_check", version, "447700900012", "COMPLETED", new(true), nil),
			check("phone_check", version, "447700900012", "COMPLETED", new(false), nil),
			check("phone_check", version, "447700900012", "ERROR", new(false), nil),
			check("phone_check", version, "447700900013", "EXPIRED", nil, nil),
			check("phone_check", version, "447700900013", "ACCEPTED", nil, nil),
			check("subscriber_check", version, "447700900012", "COMPLETED", new(true), new(true)),
			check("subscriber_check", version, "447700900012", "COMPLETED", new(true), new(false)),
			check("subscriber_check", version, "447700900016", "COMPLETED", new(false), nil),
			check("subscriber_check", version, "447700900099", "ERROR", nil, nil),
		)
	}
	cases = append(cases,
		check("sim_check", "v0.1", "447700900012", "COMPLETED", nil, new(true)),
		check("sim_check", "v0.1", "447700900017", "COMPLETED", nil, new(false)),
		check("sim_check", "v0.1", "447700900099", "ERROR", nil, nil))
	for _, fault := range []map[string]any{{"wrong_key": true}, {"drop": true}, {"truncate": true}, {"status": 503}} {
		c := check("phone_check", "v0.1", "447700900012", "COMPLETED", new(true), nil)
		c.Fault = fault
		cases = append(cases, c)
	}
	hostile := check("phone_check", "v0.1", "447700900012", "COMPLETED", new(true), nil)
	hostile.Check.ReferenceID = "\"`\\ \u202e\u2028\ufeff\U000e0001'; panic(1) //\t\x01\x7f"
	return append(cases, hostile)
}

// expected returns a part of the test of the case, which verifies its result.
func (c goTestCase) expected() string {
	switch {
	case c.Fault != nil:
		return "sandboxfake.Fault{"
	case c.Check.Match != nil && c.Check.Status == "COMPLETED":
		return "want " + map[bool]string{true: "yes", false: "no"}[*c.Check.Match] + `"`
	case c.Check.Status == "ACCEPTED":
		return "want COMPLETED"
	}
	return "want " + c.Check.Status
}

var testFunc = regexp.MustCompile(`func (Test\w+)\(`)

func TestSnippets_GoTest(t *testing.T) {
	t.Parallel()
	cases := goTestCases()
	tests := snippet[[]string](t, "input.map(({ check, fault }) => s.goTest(check, fault))", cases)
	dir := newModule(t)
	for i, source := range tests {
		if want := cases[i].expected(); !strings.Contains(source, want) {
			t.Errorf("test %d does not contain %q\n%s", i, want, source)
		}
		// All tests are in one package, which is faster.
		source = testFunc.ReplaceAllString(source, fmt.Sprintf("func ${1}_%d(", i))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("snippet%d_test.go", i)), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	unformatted, err := exec.CommandContext(t.Context(), "gofmt", "-l", dir).CombinedOutput()
	if err != nil || len(unformatted) > 0 {
		t.Errorf("gofmt: %v\n%s", err, unformatted)
	}
	command := exec.CommandContext(t.Context(), "go", "test", "-mod=mod", "-timeout=60s", "-v", ".")
	command.Dir = dir
	command.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOPROXY=off")

	output, err := command.CombinedOutput()

	if passed := strings.Count(string(output), "--- PASS"); err != nil || passed != len(tests) {
		t.Errorf("%d of %d tests pass, error %v\n%s", passed, len(tests), err, output)
	}
}

// newModule returns the directory of a new module that requires this one.
func newModule(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(content)
		if name == "go.mod" {
			text = strings.Replace(text, "module github.com/idverify/idverify-go\n", "module example.com/foo\n", 1)
			text += fmt.Sprintf("\nrequire github.com/idverify/idverify-go v0.0.0\nreplace github.com/idverify/idverify-go => %q\n", root)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSnippets_Outcome(t *testing.T) {
	t.Parallel()
	type outcome struct {
		Status      string `json:"status"`
		Match       *bool  `json:"match"`
		NoSIMChange *bool  `json:"no_sim_change"`
		ErrorCode   string `json:"error_code"`
	}
	outcomes := map[string]func(string) sandboxfake.Outcome{
		"phone_check": sandboxfake.PhoneCheckOutcome, "sim_check": sandboxfake.SIMCheckOutcome, "subscriber_check": sandboxfake.SubscriberCheckOutcome,
	}
	want := make(map[string][]outcome)
	for product, determine := range outcomes {
		for i := range 100 {
			o := determine(fmt.Sprintf("4477009000%02d", i))
			if o.Status == idverify.StatusError {
				o.Match = nil // valid only if COMPLETED
			}
			want[product] = append(want[product], outcome{string(o.Status), o.Match, o.NoSIMChange, o.ErrorCode})
		}
	}

	got := snippet[map[string][]outcome](t, `Object.fromEntries(input.map((product) => [product,
		Array.from({ length: 100 }, (_, i) => s.outcomeOf(product, '4477009000' + String(i).padStart(2, '0')))]))`, []string{"phone_check", "sim_check", "subscriber_check"})

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results by number (-fake +page):\n%s", diff)
	}
}

// received is a request that a receiver got.
type received struct {
	target, body string
	header       http.Header
}

// newReceiver returns the URL of a server, and a function that returns its only request.
func newReceiver(t *testing.T) (url string, request func() received) {
	t.Helper()
	requests := make(chan received, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- received{r.RequestURI, string(body), r.Header}
	}))
	t.Cleanup(server.Close)
	return server.URL, func() received {
		t.Helper()
		if len(requests) != 1 {
			t.Fatalf("receiver got %d requests, want 1", len(requests))
		}
		return <-requests
	}
}

// shell runs a command in an empty directory and returns its output.
func shell(t *testing.T, command string, env ...string) string {
	t.Helper()
	requireTool(t, "curl")
	sh := exec.CommandContext(t.Context(), "sh", "-c", command)
	sh.Dir, sh.Env = t.TempDir(), append(os.Environ(), env...)
	output, err := sh.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, command, output)
	}
	if left, _ := os.ReadDir(sh.Dir); len(left) > 0 {
		t.Fatalf("the command created %s: a value was run as a command", left[0].Name())
	}
	return string(output)
}

func TestSnippets_AttemptCurl(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"JSON":          `{"check_id":"c1","match":true}`,
		"shell":         "'; touch owned; '$(touch owned)`touch owned`\\ \"${HOME}\" !! #\n\n",
		"control":       "%s\\n\t\x1b[201~\r\x07touch owned\n\u202e\x00end\n",
		"file":          "@/etc/passwd",
		"leading minus": "-n\x01",
		"unicode":       "żółć 漢字 😀",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, request := newReceiver(t)
			header := http.Header{"Authorization": {`Signature keyId="k'1",signature="a+b=="`}, "Digest": {"SHA-256=0a"}, "Date": {"Sun, 22 Nov 2026 19:44:59 GMT"}, "X-Service-Callback": {"phone_check"}, "Content-Type": {"application/json"}, "X-Quote": {`'$(touch owned)"`}}
			attempt := map[string]any{"header": header, "body": body}
			command := snippet[string](t, "s.attemptCurl(input.attempt, input.url)", map[string]any{"attempt": attempt, "url": url + "/callbacks?a[]={1,2}&b='"})

			shell(t, command)

			got := request()
			if got.body != body || got.target != "/callbacks?a[]={1,2}&b='" {
				t.Errorf("receiver got body %q at %s, want %q", got.body, got.target, body)
			}
			for name := range header {
				if got.header.Get(name) != header.Get(name) {
					t.Errorf("header %s = %q, want %q", name, got.header.Get(name), header.Get(name))
				}
			}
		})
	}
}

func TestSnippets_RequestCurl(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, srv.CACertPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	client := srv.Client()
	check, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", ReferenceID: "it's $(touch owned)"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.PhoneChecks.Get(t.Context(), check.CheckID); err != nil {
		t.Fatal(err)
	}
	token, err := client.Token(t.Context(), idverify.ScopePhoneCheck)
	if err != nil {
		t.Fatal(err)
	}
	credentials := map[string]string{"client_id": srv.Credentials().ClientID, "client_secret": srv.Credentials().ClientSecret.Reveal()}
	for _, request := range srv.Requests() {
		view := map[string]any{"method": request.Method, "path": request.Path, "operation": request.Operation, "header": request.Header, "body": string(request.Body), "client_id": request.ClientID}
		command := snippet[string](t, "s.requestCurl(input.request, input)", map[string]any{"request": view, "url": srv.URL(), "credentials": []any{credentials}})

		output := shell(t, command, "CA="+ca, "TOKEN="+token.AccessToken)

		if want := fmt.Sprintf("HTTP/1.1 %d ", request.Status); !strings.HasPrefix(output, want) {
			t.Errorf("%s: the command prints %q, want status %d\n%s", request.Operation, output, request.Status, command)
		}
	}
	if sent := srv.Requests(); len(sent) != 6 || string(sent[1].Body) != string(sent[4].Body) {
		t.Errorf("journal has %d requests, want 3 and their 3 copies", len(sent))
	}
}

func TestSnippets_RequestCurlKeepsToken(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"@evil.example.com/", ".evil.example.com/", "https://evil.example.com/"} {
		request := map[string]any{"method": "GET", "path": path, "header": http.Header{"Authorization": {"Bearer [masked]"}}}

		command := snippet[string](t, "s.requestCurl(input, { url: 'https://127.0.0.1:8443' })", request)

		if !strings.Contains(command, "--url 'https://127.0.0.1:8443/") {
			t.Errorf("path %q: %s\nthe command sends the token to another host", path, command)
		}
	}
}
