package receivertest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/receivertest"
)

// TestExamine_SessionHeader examines with sessions whose headers are invalid or override a part of
// the message. They must not become a part of a command.
func TestExamine_SessionHeader(t *testing.T) {
	t.Parallel()
	for _, name := range []string{`X"; touch pwned; : "`, "X\ntouch pwned\n", "$(touch pwned)", "host", "Authorization", "Date", "Digest", ""} {
		session := func(context.Context) (receivertest.Session, error) {
			return receivertest.Session{CheckID: "00000000-0000-4000-8000-000000000000", Header: http.Header{name: {"v"}}}, nil
		}

		report, err := receivertest.Examine(t.Context(), receivertest.Receiver{
			Keys: newKeys(t), Kind: receivertest.Redirect, URL: "https://api.example.com/hook",
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
			Probe:   receivertest.Probe{Session: session}, Only: []string{"redirect/no-*"},
		})

		if err == nil || !strings.Contains(err.Error(), "probe Session: Header ") || strings.Contains(err.Error(), "pwned") {
			t.Errorf("%q: error = %v, want one about the header", name, err)
		}
		if n := len(report.Findings); n != 0 {
			t.Errorf("%q: %d findings, want none", name, n)
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

// TestReport_RedactsHeaders examines receivers that include the headers of requests in responses.
func TestReport_RedactsHeaders(t *testing.T) {
	t.Parallel()
	const secret = `session="top/secret&7"; other=further-secret`
	for name, respond := range map[string]func(w http.ResponseWriter, cookie string){
		"plain":  func(w http.ResponseWriter, cookie string) { fmt.Fprintln(w, "unknown session:", cookie) },
		"quoted": func(w http.ResponseWriter, cookie string) { fmt.Fprintf(w, `{"session":%q}`, cookie) },
		"part":   func(w http.ResponseWriter, _ string) { io.WriteString(w, "unknown: top/secret&7") },
		"path": func(w http.ResponseWriter, cookie string) {
			w.Header().Set("Location", "/login/"+url.PathEscape(cookie))
		},
		"truncated": func(w http.ResponseWriter, cookie string) {
			io.WriteString(w, strings.Repeat(" ", 4<<10-len(cookie)/2)+cookie)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				recorder := httptest.NewRecorder()
				respond(recorder, r.Header.Get("Cookie"))
				status := http.StatusTeapot
				if location := recorder.Header().Get("Location"); location != "" {
					w.Header().Set("Location", location)
					status = http.StatusFound
				}
				w.WriteHeader(status)
				recorder.Body.WriteTo(w)
			})

			report := examine(t, receivertest.Receiver{
				Keys: newKeys(t), URL: callbackURL, Handler: handler, Header: http.Header{"Cookie": {secret}}, Only: []string{"callback/valid"},
			})

			detail := report.Findings[0].Detail
			if strings.Contains(detail, "secret") || name != "truncated" && !strings.Contains(detail, "[REDACTED]") {
				t.Errorf("detail = %s, want [REDACTED] in place of the cookie", detail)
			}
		})
	}
}
