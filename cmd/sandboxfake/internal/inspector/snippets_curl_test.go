package inspector_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// received is a request that a receiver got.
type received struct {
	target, body string
	header       http.Header
}

// newReceiver returns the URL of a server, and its requests.
func newReceiver(t *testing.T) (baseURL string, requests chan received) {
	t.Helper()
	requests = make(chan received, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- received{r.RequestURI, string(body), r.Header}
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

// shells are the shells that the page names, and options that exclude the user's configuration.
var shells = map[string][]string{"sh": nil, "bash": nil, "zsh": {"-f", "-o", "rcquotes"}, "fish": {"--no-config"}}

// shell runs a command in an empty directory and returns its output.
func shell(t *testing.T, name, command string, env ...string) string {
	t.Helper()
	args := append(slices.Clone(shells[name]), "-c", command)
	sh := exec.CommandContext(t.Context(), name, args...)
	sh.Dir = t.TempDir()
	sh.Env = append(os.Environ(), append(env, "HOME="+t.TempDir())...)
	output, err := sh.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s\n%s", name, err, command, output)
	}
	if left, _ := os.ReadDir(sh.Dir); len(left) > 0 {
		t.Errorf("%s created %s: a value was run as a command\n%s", name, left[0].Name(), command)
	}
	return string(output)
}

// eachShell runs a test with each shell.
func eachShell(t *testing.T, test func(t *testing.T, name string)) {
	for name := range shells {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tooltest.Require(t, tooltest.Installed("curl", name), "run script/setup interop")
			test(t, name)
		})
	}
}

// hostile are values that run a command, or change, in a shell that they are not quoted for.
var hostile = []string{
	`b\';touch owned;#`, "'; touch owned; '$(touch owned)`touch owned`\"; touch owned; \"", `\\'; touch owned; '\`,
	`@/etc/passwd !! !touch ^a^b ${HOME} ~ * ? [a] {b,c} & | < > (touch owned)`, `''"; touch owned; "`, `; touch owned \`,
	"-n %25s %25d\\0471 żółć 漢字 😀 \ufdd0\uf600", "a\ntouch owned\n\t\x1b[201~\r\x07touch owned\n\u202e\x00" + "7 end\n",
}

// commands evaluates the JavaScript expressions for each hostile value v and returns the resulting
// commands.
func commands(t *testing.T, base string, expressions []string) [][]string {
	t.Helper()
	return snippet[[][]string](t, `input.values.map((v) => { const url = input.url; return [`+strings.Join(expressions, ",\n")+`]; })`,
		map[string]any{"values": hostile, "url": base})
}

// places are commands with a hostile value v at each place that a client without credentials, or
// a user of the page, can choose.
var places = []string{
	`s.requestCurl({ method: v, path: '/', header: {}, body: '' }, { url })`,
	`s.requestCurl({ method: 'GET', path: '/' + v, header: {} }, { url })`,
	`s.requestCurl({ method: 'GET', path: v, header: {} }, { url })`,
	`s.requestCurl({ method: 'GET', path: '/?' + v, header: {} }, { url })`,
	`s.requestCurl({ method: 'GET', path: '/', header: { [v]: ['1'] } }, { url })`,
	`s.requestCurl({ method: 'GET', path: '/', header: { 'X-A': [v, ''] } }, { url })`,
	`s.requestCurl({ method: 'GET', path: '/', header: { Authorization: [v] } }, { url })`,
	`s.requestCurl({ method: 'POST', path: '/', header: { 'Content-Type': [v] }, body: v }, { url })`,
	`s.requestCurl({ method: 'POST', path: '/', header: {}, operation: 'token.create', client_id: v }, { url, credentials: [{ client_id: v, client_secret: v }] })`,
	`s.requestCurl(s.eventRequest({ kind: 'created' }, { product: 'phone_check', version: 'v0.1', reference_id: v, callback_url: v, redirect_url: v, phone_number: v }), { url })`,
	`s.requestCurl(s.eventRequest({ kind: 'opened' }, { product: v, version: v, check_id: v }), { url })`,
	`s.attemptCurl({ header: { Authorization: [v], Date: [v], [v]: [v] }, body: v }, url)`,
	`s.attemptCurl({ header: {}, body: '' }, url + '/' + v + '?' + v)`,
}

func TestSnippets_HostileValues(t *testing.T) {
	t.Parallel()
	tooltest.Require(t, tooltest.Installed("curl"), "run script/setup interop")
	env := []string{"CLIENT_ID=c", "CLIENT_SECRET=s", "TOKEN=t", "CA="}
	base, requests := newReceiver(t)
	rows := commands(t, base, places)
	want := make([]string, len(rows))
	for i, row := range rows {
		shell(t, "sh", strings.Join(row, "\n"), env...)
		want[i] = shell(t, "sh", printCurl("sh")+strings.Join(row, "\n"), env...)

		if got := len(requests); got != len(places) {
			t.Errorf("%q: the receiver got %d requests, want %d", hostile[i], got, len(places))
		}
		for len(requests) > 0 {
			<-requests
		}
	}
	eachShell(t, func(t *testing.T, name string) {
		for i, row := range rows {
			got := shell(t, name, printCurl(name)+strings.Join(row, "\n"), env...)

			if diff := cmp.Diff(want[i], got); diff != "" {
				t.Errorf("%q: arguments and input of curl (-sh +%s):\n%s", hostile[i], name, diff)
			}
			if n := strings.Count(got, "--globoff\x00"); n != len(places) {
				t.Errorf("%q: %d curl commands with --globoff in %s, want %d", hostile[i], n, name, len(places))
			}
		}
	})
}

// printCurl returns the definition of a function curl that prints its arguments and its input.
// Given the same arguments and input, curl sends the same request, but starting curl takes longer.
func printCurl(name string) string {
	if name == "fish" {
		return `function curl; printf '%s\0' $argv; cat; end` + "\n"
	}
	return `curl() { printf '%s\0' "$@"; cat; }` + "\n"
}

func TestSnippets_KeepsValues(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, name string) {
		base, requests := newReceiver(t)
		header := map[string]string{"Authorization": `Signature keyId="k1",signature="a+b=="`, "Digest": "SHA-256=0a", "X-Quote": "\"$(touch owned) ${HOME} `!!", "X-Empty": ""}
		lists := make(map[string][]string)
		for key, value := range header {
			lists[key] = []string{value}
		}
		rows := snippet[[]string](t, `input.values.map((body) => s.attemptCurl({ header: input.header, body }, input.url + '/a[]={1,2}%2f?b=' + encodeURIComponent(body)))`,
			map[string]any{"values": hostile, "url": base, "header": lists})
		for i, command := range rows {
			shell(t, name, command)

			if len(requests) != 1 {
				t.Fatalf("%q: the receiver got %d requests, want one", hostile[i], len(requests))
			}
			got := <-requests
			query, ok := strings.CutPrefix(got.target, "/a[]={1,2}%2f?b=")
			if value, _ := url.QueryUnescape(query); !ok || got.body != hostile[i] || value != hostile[i] {
				t.Errorf("receiver got body %q at %s, want %q", got.body, got.target, hostile[i])
			}
			for key, value := range header {
				if got.header.Get(key) != value || len(got.header.Values(key)) != 1 {
					t.Errorf("header %s = %q, want %q", key, got.header.Values(key), value)
				}
			}
		}
	})
}

func TestSnippets_RequestCurl(t *testing.T) {
	t.Parallel()
	tooltest.Require(t, tooltest.Installed("curl"), "run script/setup interop")
	srv := sandboxfake.New(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	noError(t, os.WriteFile(ca, srv.CACertPEM(), 0o600))
	client := srv.Client()
	check := must(client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", ReferenceID: "it's $(touch owned)"}))(t)
	must(client.PhoneChecks.Get(t.Context(), check.CheckID))(t)
	token := must(client.Token(t.Context(), idverify.ScopePhoneCheck))(t)
	credentials := map[string]string{"client_id": srv.Credentials().ClientID, "client_secret": srv.Credentials().ClientSecret.Reveal()}
	for _, request := range srv.Requests() {
		view := map[string]any{"method": request.Method, "path": request.Path, "operation": request.Operation, "header": request.Header, "body": string(request.Body), "client_id": request.ClientID}
		command := snippet[string](t, "s.requestCurl(input.request, input)", map[string]any{"request": view, "url": srv.URL(), "credentials": []any{credentials}})

		output := shell(t, "sh", command, "CA="+ca, "TOKEN="+token.AccessToken)

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
		request := map[string]any{"method": "GET", "path": path, "header": http.Header{"Authorization": {"Bearer [REDACTED]"}}}

		command := snippet[string](t, "s.requestCurl(input, { url: 'https://127.0.0.1:8443' })", request)

		if !strings.Contains(command, "--url 'https://127.0.0.1:8443/") {
			t.Errorf("path %q: %s\nthe command sends the token to another host", path, command)
		}
	}
}
