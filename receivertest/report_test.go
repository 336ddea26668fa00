package receivertest_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/receivertest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func testReport() receivertest.Report {
	return receivertest.Report{
		Kind: receivertest.KindCallback, URL: "https://api.example.com/callbacks?tenant=7",
		Started: time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC), Duration: 1234 * time.Millisecond,
		Findings: []receivertest.Finding{
			{Rule: "callback/valid", Title: "The receiver accepts a valid message", Reason: "A receiver that rejects valid messages loses all results.", Severity: receivertest.SeverityHigh, Result: receivertest.ResultPass},
			{Rule: "callback/replay", Title: "The receiver does not act again on a copy of a message", Reason: "Anyone who has recorded a message can send it again.", Severity: receivertest.SeverityHigh, Result: receivertest.ResultNotApplicable, Detail: "needs a probe with Effects (GET), which observes whether the receiver acts"},
			{
				Rule: "callback/changed-match", Title: "The receiver rejects an invalid message: changed match", Reason: "Anyone who sees one callback can send it with any result.", Severity: receivertest.SeverityCritical, Result: receivertest.ResultFail,
				Detail: "accepted an invalid message (changed match): response 200 OK; the body is <b>&\"]]>\x00\x1b[31m\xff",
				Curl:   "# A comment.\nprintf %s '{}' |\ncurl --request 'POST' \\\n  'http://127.0.0.1:3000'",
			},
			{Rule: "callback/still-accepts", Title: "The receiver accepts a valid message at the end", Reason: "Anyone could block results.", Severity: receivertest.SeverityMedium, Result: receivertest.ResultFail, Detail: "did not accept a valid message at the end: response 429 Too Many Requests",
				Causes: []receivertest.Cause{{Code: receivertest.CauseRateLimit, Text: "The receiver limits the rate. Raise the limit for the examination."}}},
		},
	}
}

// formats returns the functions that write a report, by the name of the golden file.
func formats(r receivertest.Report) map[string]func(io.Writer) error {
	return map[string]func(io.Writer) error{
		"report.txt":  func(w io.Writer) error { return r.WriteText(w, false) },
		"report.json": r.WriteJSON,
		"report.xml":  r.WriteJUnit,
	}
}

func TestReport_Formats(t *testing.T) {
	t.Parallel()
	r := testReport()
	for file, write := range formats(r) {
		golden := filepath.Join("testdata", file)
		var got bytes.Buffer
		noError(t, write(&got))
		if *update {
			noError(t, os.WriteFile(golden, got.Bytes(), 0o600))
		}
		want := must(os.ReadFile(golden))(t)
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s (-want +got), -update rewrites it:\n%s", file, diff)
		}
	}
}

// TestReport_Verbose compares the rules that a text lists. Without verbose, those that passed are
// only counted.
func TestReport_Verbose(t *testing.T) {
	t.Parallel()
	r := receivertest.Report{Kind: receivertest.KindCallback, URL: "https://api.example.com/callbacks"}
	for _, row := range []struct {
		name   string
		result receivertest.Result
		detail string
	}{
		{"a", receivertest.ResultPass, ""},
		{"b", receivertest.ResultPass, "late"},
		{"c", receivertest.ResultNotApplicable, "needs Effects"},
		{"d", receivertest.ResultNotApplicable, "needs Session"},
		{"e", receivertest.ResultNotApplicable, "needs Session"},
		{"f", receivertest.ResultNotApplicable, "needs Session"},
	} {
		r.Findings = append(r.Findings, receivertest.Finding{Rule: "callback/" + row.name, Result: row.result, Detail: row.detail})
	}
	const (
		first = "Examination of the callback receiver https://api.example.com/callbacks\n"
		last  = "\n2 passed, 0 failed, 4 not applicable, in 0 s\n"
	)
	for verbose, want := range map[bool]string{
		false: "\nn/a   callback/c: needs Effects\nn/a   callback/d and 2 more: needs Session\n",
		true: "\nn/a   callback/c: needs Effects\nn/a   callback/d: needs Session\nn/a   callback/e: needs Session\n" +
			"n/a   callback/f: needs Session\n\npass  callback/a\npass  callback/b: late\n",
	} {
		var got strings.Builder

		noError(t, r.WriteText(&got, verbose))

		if diff := cmp.Diff(first+want+last, got.String()); diff != "" {
			t.Errorf("verbose = %t (-want +got):\n%s", verbose, diff)
		}
	}
}

// TestReport_Conclusion examines receivers that accept forged messages.
func TestReport_Conclusion(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]string{
		noSignature:   "\n\nCRITICAL: the receiver does not verify signatures: it accepts messages, and has never requested the key set.\n",
		"accepts all": "\n\nCRITICAL: the receiver does not verify signatures: it accepts messages that anyone can make.\n",
		noDigest:      "\n\nCRITICAL: anyone can forge a result, see callback/",
		"":            "\n\n",
	} {
		bubble(t, fault, func(t *testing.T) {
			r := handmadeReceiver(t, fault)
			if fault == "accepts all" {
				r.Handler = http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
					r.Keys.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(request.Context(), http.MethodGet, receivertest.KeySetPath, nil))
					w.WriteHeader(http.StatusNoContent)
				})
				r.Probe = receivertest.Probe{}
			}
			r.Only = []string{"callback/no-*", "callback/zero-signature", "callback/*changed*", "callback/signed-*"}
			report := examine(t, r)
			var text strings.Builder

			noError(t, report.WriteText(&text, false))

			if _, rest, _ := strings.Cut(text.String(), callbackURL); !strings.HasPrefix(rest, want) {
				t.Errorf("the report continues with %.300q, want %q", rest, want)
			}
			reasons := make(map[string]bool)
			for _, f := range report.Failed() {
				reasons[f.Reason] = true
				if !strings.Contains(text.String(), "\nFAIL  "+f.Detail+"\n      "+f.Rule+" (") {
					t.Errorf("the text does not begin the row of %s with %q", f.Rule, f.Detail)
				}
				if note := " This message is valid for seconds: "; strings.Count(f.Curl, note) != 1 {
					t.Errorf("%s: the command does not contain %q:\n%s", f.Rule, note, f.Curl)
				}
			}
			if commands := strings.Count(text.String(), "Send the message again (its date is valid for seconds):"); commands != min(len(reasons), 3) {
				t.Errorf("%d commands of failures with %d reasons, want one of each, and at most 3:\n%s", commands, len(reasons), &text)
			}
		})
	}
}

func TestReport_JSONRoundTrip(t *testing.T) {
	t.Parallel()
	want := testReport()
	want.Findings[2].Detail = "control characters \x00\x1b"
	var b bytes.Buffer
	noError(t, want.WriteJSON(&b))

	var got struct {
		receivertest.Report
		DurationSeconds float64 `json:"duration_seconds"`
	}
	noError(t, json.Unmarshal(b.Bytes(), &got))

	got.Duration = time.Duration(got.DurationSeconds * float64(time.Second))
	if diff := cmp.Diff(want, got.Report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// failingWriter fails after some bytes.
type failingWriter struct{ n int }

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.n -= len(p); w.n < 0 {
		return 0, os.ErrClosed
	}
	return len(p), nil
}

func TestReport_WriteError(t *testing.T) {
	t.Parallel()
	r := testReport()
	for name, write := range formats(r) {
		if err := write(&failingWriter{100}); err == nil {
			t.Errorf("%s: no error for a full disk", name)
		}
	}
}

// TestReport_RedactsHeaders examines receivers that include the headers of requests in responses.
func TestReport_RedactsHeaders(t *testing.T) {
	t.Parallel()
	const secret = `session="top/secret&7"; other=further-secret`
	for name, respond := range map[string]func(cookie string) string{
		"plain":     func(cookie string) string { return "unknown session: " + cookie + "\n" },
		"quoted":    func(cookie string) string { return fmt.Sprintf(`{"session":%q}`, cookie) },
		"part":      func(string) string { return "unknown: top/secret&7" },
		"path":      func(cookie string) string { return "/login/" + url.PathEscape(cookie) },
		"truncated": func(cookie string) string { return strings.Repeat(" ", 4<<10-len(cookie)/2) + cookie },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				text := respond(r.Header.Get("Cookie"))
				if name == "path" {
					w.Header().Set("Location", text)
					w.WriteHeader(http.StatusFound)
					return
				}
				w.WriteHeader(http.StatusTeapot)
				io.WriteString(w, text)
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
