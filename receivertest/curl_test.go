package receivertest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/receivertest"
)

// recorder accepts all messages, and records the first one.
type recorder struct {
	mu    sync.Mutex
	first recorded // since the last call of take
}

type recorded struct {
	Method, Target, Host string
	Header               http.Header
	Encoding             []string
	Body                 string // its length and hash
}

func (c *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first.Method != "" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	c.first = recorded{r.Method, r.RequestURI, r.Host, r.Header.Clone(), r.TransferEncoding, fmt.Sprintf("%d %x", len(body), sha256.Sum256(body))}
	w.WriteHeader(http.StatusNoContent)
}

func (c *recorder) take() recorded {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.first
	c.first = recorded{}
	return first
}

// TestFinding_Curl runs the commands of all rules, which fail because the receiver accepts all
// messages, and compares the requests with those of the examination.
func TestFinding_Curl(t *testing.T) {
	t.Parallel()
	requireCurl(t)
	for _, kind := range []receivertest.Kind{receivertest.KindCallback, receivertest.KindRedirect} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			var c recorder
			srv := httptest.NewServer(&c)
			t.Cleanup(srv.Close)
			sent := make(map[string]recorded)
			current := ""
			r := receivertest.Receiver{
				Keys: newKeys(t), Kind: kind, URL: "https://api.example.com/hook?a=1", Addr: srv.URL, Strict: true,
				Header: http.Header{"Cookie": {"a=$b; c='d'"}},
				Progress: func(_, _ int, rule string) {
					sent[current] = c.take()
					current = rule
				},
			}
			r.Probe.Session = func(context.Context) (receivertest.Session, error) {
				return receivertest.Session{CheckID: "00000000-0000-4000-8000-000000000000"}, nil
			}

			commands := 0
			for _, f := range examine(t, r).Failed() {
				name := strings.TrimPrefix(f.Rule, string(kind)+"/")
				if strings.HasPrefix(name, "key-set-") {
					continue
				}
				commands++
				if strings.Contains(f.Curl, "a=$b") {
					t.Errorf("%s: the command contains the value of a header:\n%s", f.Rule, f.Curl)
				}
				run(t, f.Curl, "HEADER_COOKIE=a=$b; c='d'")
				if diff := cmp.Diff(sent[f.Rule], c.take()); diff != "" {
					t.Errorf("%s (-examination +command):\n%.3000s\n%.3000s", f.Rule, diff, f.Curl)
				}
			}
			if commands < 50 {
				t.Errorf("%d commands, want at least 50", commands)
			}
		})
	}
}

// TestFinding_CurlTLS runs a command for a receiver with TLS at another address.
func TestFinding_CurlTLS(t *testing.T) {
	t.Parallel()
	requireCurl(t)
	var c recorder
	srv := httptest.NewTLSServer(&c)
	t.Cleanup(srv.Close)
	config := srv.Client().Transport.(*http.Transport).TLSClientConfig
	config.ServerName = "example.com"
	file := t.TempDir() + "/ca.pem"
	if err := os.WriteFile(file, pemOf(srv.Certificate().Raw), 0o600); err != nil {
		t.Fatal(err)
	}

	report := examine(t, receivertest.Receiver{
		Keys: newKeys(t), URL: callbackURL, Addr: srv.Listener.Addr().String(), TLSConfig: config, Only: []string{"callback/changed-match"},
	})

	f := finding(t, report, "callback/changed-match")
	c.take()
	run(t, f.Curl, "CA_FILE="+file)
	if got := c.take(); got.Host != "api.example.com" || got.Target != "/callbacks?tenant=7" {
		t.Errorf("request = %v, want that of the rule:\n%s", got, f.Curl)
	}
}

// TestFinding_CurlOfHandler runs a command for a receiver that was examined in memory.
func TestFinding_CurlOfHandler(t *testing.T) {
	t.Parallel()
	requireCurl(t)
	var c recorder
	srv := httptest.NewServer(&c)
	t.Cleanup(srv.Close)

	report := examine(t, receivertest.Receiver{Keys: newKeys(t), URL: callbackURL, Handler: &c, Only: []string{"callback/body-of-10-mib"}})

	f := finding(t, report, "callback/body-of-10-mib")
	c.take()
	run(t, f.Curl, "RECEIVER="+srv.URL)
	if got := c.take(); got.Method != "POST" || !strings.HasPrefix(got.Body, "1048") || len(f.Curl) > 10_000 {
		t.Errorf("request = %v, want 10 MiB by a short command of %d bytes", got, len(f.Curl))
	}
}

// run runs a script with sh and curl.
func run(t *testing.T, script string, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh")
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = append(os.Environ(), append(env, "no_proxy=*")...)
	if output, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(output, []byte("204 No Content")) {
		t.Errorf("sh: %v\n%.1000s\n%.3000s", err, output, script)
	}
}

// requireCurl skips the test if a program is missing that the printed commands run.
func requireCurl(t *testing.T) {
	t.Helper()
	tooltest.Require(t, tooltest.Installed("sh", "curl", "head", "tr"), "run script/setup interop, which installs curl")
}

func pemOf(certificate []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
}

// TestFinding_CurlHeader runs a command with a header whose value is shell syntax.
func TestFinding_CurlHeader(t *testing.T) {
	t.Parallel()
	requireCurl(t)
	var c recorder
	srv := httptest.NewServer(&c)
	t.Cleanup(srv.Close)

	report := examine(t, receivertest.Receiver{
		Keys: newKeys(t), URL: callbackURL, Addr: srv.URL, Only: []string{"callback/changed-match"}, Header: http.Header{"X_a-1": {"v"}},
	})

	f := finding(t, report, "callback/changed-match")
	c.take()
	file := filepath.Join(t.TempDir(), "pwned")
	value := `"; touch ` + file + `; : "$(touch ` + file + `)`
	run(t, f.Curl, "HEADER_X_A_1="+value)
	if got := c.take().Header.Get("X_a-1"); got != value {
		t.Errorf("header = %q, want %q:\n%s", got, value, f.Curl)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the value of the header was run as a command")
	}
}
