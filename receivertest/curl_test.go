package receivertest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
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
	if c.first.Method == "" {
		c.first = recorded{r.Method, r.RequestURI, r.Host, r.Header.Clone(), r.TransferEncoding, fmt.Sprintf("%d %x", len(body), sha256.Sum256(body))}
	}
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
				Keys: newKeys(t), Kind: kind, URL: "https://api.example.com/hook?a='1%25", Addr: srv.URL, Strict: true,
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
				if strings.Contains(f.Curl, "a=$b") || !strings.Contains(f.Curl, "--header 'Host: ") {
					t.Errorf("%s: the command contains the value of a header, or no readable Host:\n%s", f.Rule, f.Curl)
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

// sendAgain examines a receiver with one rule and runs the command of its finding. It returns the
// request that the recorder received, and the command.
func (c *recorder) sendAgain(t *testing.T, r receivertest.Receiver, rule string, env ...string) (again recorded, command string) {
	t.Helper()
	r.Keys, r.URL, r.Only = newKeys(t), callbackURL, []string{rule}
	f := finding(t, examine(t, r), rule)
	if !strings.Contains(f.Curl, " --max-time 10 ") {
		t.Errorf("command without --max-time 10:\n%s", f.Curl)
	}
	c.take()
	run(t, strings.Replace(f.Curl, " --max-time 10 ", " --max-time 600 ", 1), env...) // the machine can be busy
	return c.take(), f.Curl
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

	got, command := c.sendAgain(t, receivertest.Receiver{Addr: srv.Listener.Addr().String(), TLSConfig: config}, "callback/changed-match", "CA_FILE="+caFile(t, srv))

	if got.Host != "api.example.com" || got.Target != "/callbacks?tenant=7" {
		t.Errorf("request = %v, want that of the rule:\n%s", got, command)
	}
}

// TestFinding_CurlOfHandler runs commands for a receiver that was examined in memory.
func TestFinding_CurlOfHandler(t *testing.T) {
	t.Parallel()
	requireCurl(t)
	var c recorder
	srv := httptest.NewServer(&c)
	t.Cleanup(srv.Close)

	var sent recorded // the last message with a special body
	rejectChunked := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.take()
		c.ServeHTTP(httptest.NewRecorder(), r)
		received := c.take()
		if received.Encoding != nil || strings.HasPrefix(received.Body, "1048") {
			sent = received
		}
		if received.Encoding != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	})

	for _, rule := range []string{"callback/body-of-10-mib", "callback/accepts-chunked-body"} {
		got, command := c.sendAgain(t, receivertest.Receiver{Handler: rejectChunked, Strict: true}, rule, "RECEIVER="+srv.URL)

		if diff := cmp.Diff(sent, got); diff != "" || got.Method != "POST" || len(command) > 10_000 {
			t.Errorf("%s (-examination +command), by %d bytes:\n%s", rule, len(command), diff)
		}
	}
}

// TestFinding_CurlHeader runs a command with a header whose value is shell syntax.
func TestFinding_CurlHeader(t *testing.T) {
	t.Parallel()
	requireCurl(t)
	var c recorder
	srv := httptest.NewServer(&c)
	t.Cleanup(srv.Close)
	file := filepath.Join(t.TempDir(), "pwned")
	value := `"; touch ` + file + `; : "$(touch ` + file + `)`

	got, command := c.sendAgain(t, receivertest.Receiver{Addr: srv.URL, Header: http.Header{"X_a-1": {"first", value}}}, "callback/changed-match", "HEADER_X_A_1=first", "HEADER_X_A_1_2="+value)

	if diff := cmp.Diff([]string{"first", value}, got.Header["X_a-1"]); diff != "" {
		t.Errorf("header (-want +got):\n%s\n%s", diff, command)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the value of the header was run as a command")
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
