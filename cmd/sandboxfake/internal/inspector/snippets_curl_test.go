package inspector_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

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
