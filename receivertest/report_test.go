package receivertest_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/receivertest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func testReport() receivertest.Report {
	return receivertest.Report{
		Kind: "callback", URL: "https://api.example.com/callbacks?tenant=7",
		Started: time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC), Duration: 1234 * time.Millisecond,
		Findings: []receivertest.Finding{
			{Rule: "callback/valid", Title: "The receiver accepts a valid message", Reason: "A receiver that rejects valid messages loses all results.", Severity: receivertest.High, Result: receivertest.Pass},
			{Rule: "callback/replay", Title: "The receiver does not act again on a copy of a message", Reason: "Anyone who has recorded a message can send it again.", Severity: receivertest.High, Result: receivertest.NotApplicable, Detail: "set Probe.Effects to observe whether the receiver acts"},
			{
				Rule: "callback/changed-match", Title: "The receiver rejects an invalid message: changed match", Reason: "Anyone who sees one callback can send it with any result.", Severity: receivertest.Critical, Result: receivertest.Fail,
				Detail: "accepted: response 200 OK\nthe body is <b>&\"]]>\x00\x1b[31m\xff",
				Curl:   "# A comment.\nprintf %s '{}' |\ncurl --request 'POST' \\\n  'http://127.0.0.1:3000'",
			},
			{Rule: "callback/still-accepts", Title: "The receiver accepts a valid message at the end", Reason: "Anyone could block results.", Severity: receivertest.Medium, Result: receivertest.Fail, Detail: "response 429 Too Many Requests"},
		},
	}
}

func TestReport_Formats(t *testing.T) {
	t.Parallel()
	r := testReport()
	for file, write := range map[string]func(io.Writer) error{"report.txt": r.WriteText, "report.json": r.WriteJSON, "report.xml": r.WriteJUnit} {
		golden := filepath.Join("testdata", file)
		var got bytes.Buffer
		if err := write(&got); err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s (-want +got), -update rewrites it:\n%s", file, diff)
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
		"":            "\n\npass",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
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

				if err := report.WriteText(&text); err != nil {
					t.Fatal(err)
				}

				if _, rest, _ := strings.Cut(text.String(), callbackURL); !strings.HasPrefix(rest, want) {
					t.Errorf("the report continues with %.300q, want %q", rest, want)
				}
				failed, commands := len(report.Failed()), strings.Count(text.String(), "Send the message again:")
				if commands != min(failed, 3) || strings.Count(text.String(), "examine only this rule") != failed-commands {
					t.Errorf("%d commands of %d failed rules, want at most 3:\n%s", commands, failed, &text)
				}
			})
		})
	}
}

func TestReport_JSONRoundTrip(t *testing.T) {
	t.Parallel()
	want := testReport()
	want.Findings[2].Detail = "control characters \x00\x1b"
	var b bytes.Buffer
	if err := want.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}

	var got receivertest.Report
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestReport_Failed(t *testing.T) {
	t.Parallel()

	failed := testReport().Failed()

	if len(failed) != 2 || failed[0].Rule != "callback/changed-match" || failed[1].Rule != "callback/still-accepts" {
		t.Errorf("failed = %v, want changed-match and still-accepts", failed)
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
	for name, write := range map[string]func(io.Writer) error{"text": r.WriteText, "JSON": r.WriteJSON, "JUnit": r.WriteJUnit} {
		if err := write(&failingWriter{100}); err == nil {
			t.Errorf("%s: no error for a full disk", name)
		}
	}
}
