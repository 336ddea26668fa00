package sandboxfake_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// threeMethods has only the methods of sandboxfake.TB.
type threeMethods struct{ test *failedTest }

func (m threeMethods) Helper()                           {}
func (m threeMethods) Cleanup(do func())                 { m.test.Cleanup(do) }
func (m threeMethods) Fatalf(format string, args ...any) { m.test.Fatalf(format, args...) }

func TestNew_WithoutTimeline(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		tb   func(*failedTest) sandboxfake.TB
		opts []sandboxfake.Option
	}{
		{"passed", func(f *failedTest) sandboxfake.TB { f.passed = true; return f }, nil},
		{"option", func(f *failedTest) sandboxfake.TB { return f }, []sandboxfake.Option{sandboxfake.WithoutTimeline()}},
		{"three methods", func(f *failedTest) sandboxfake.TB { return threeMethods{f} }, nil},
	} {
		test := newFailedTest(t)
		srv := sandboxfake.New(row.tb(test), append(row.opts, sandboxfake.WithInMemory())...)
		a := newAPI(t, srv)
		a.create(phoneChecks, `{"phone_number":"447700900012"}`)
		srv.Inject(sandboxfake.Match{}, sandboxfake.Fault{Drop: true})
		if err := srv.Advance(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		srv.RotateKeys()
		srv.Reset()

		if got := test.end(); got != "" {
			t.Errorf("%s: the log contains %s", row.name, got)
		}
		if err := srv.Redeliver(t.Context(), "none"); !errors.Is(err, sandboxfake.ErrClosed) {
			t.Errorf("%s: error after the test = %v, want ErrClosed", row.name, err)
		}
	}
}

// timelineFile ends a failed test with a file, and returns the log and the page. The flag
// -artifacts is that of the test process, so the caller does not call t.Parallel.
func timelineFile(t *testing.T, test *failedTest) (log, page string) {
	t.Helper()
	setArtifacts(t)
	log = test.end()
	content, err := os.ReadFile(filepath.Join(test.dir, "timeline.html"))
	if err != nil {
		t.Fatalf("%v; log:\n%s", err, log)
	}
	return log, string(content)
}

func TestNew_TimelineRedacts(t *testing.T) {
	test := newFailedTest(t)
	srv := sandboxfake.New(test, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt), sandboxfake.WithControl(sandboxfake.ControlOptions{}))
	a := newAPI(t, srv)
	target := srv.Handle("shop.sandbox.test", new(recordingReceiver))
	const number, secret = "447700900012", "s3cr3t-1234-abcd"
	client := srv.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))
	check, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{
		PhoneNumber: number, ReferenceID: secret, RedirectURL: target + "/back?state=" + secret, CallbackURL: "https://shop.sandbox.test/callbacks/" + secret + "?token=" + secret,
	})
	if err != nil {
		t.Fatal(err)
	}
	visit, err := srv.Device().Open(t.Context(), check.CheckURL)
	if err != nil {
		t.Fatal(err)
	}
	code := visit.URL.Query().Get("code")
	a.call(http.MethodGet, phoneChecks+"?search=phone_number=="+number+"&token="+secret, "")
	a.call(http.MethodGet, "/device_ip/203.0.113.77/"+number+"?x="+secret, "")
	a.call(http.MethodPost, phoneChecks, `{"phone_number":"`+number+`x","reference_id":"`+secret+`"}`)
	a.call(http.MethodPost, "/oauth2/v1/revoke", "token="+a.token)
	if _, err := client.PhoneChecks.Complete(t.Context(), check.CheckID, code); err != nil {
		t.Fatal(err)
	}
	srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback, CheckID: secret}, sandboxfake.Fault{Body: secret + number})
	if err := srv.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	deliveries := srv.Deliveries()
	signature := deliveries[0].Attempts[0].Header.Get("Authorization")

	log, page := timelineFile(t, test)

	_, signature, _ = strings.Cut(signature, `signature="`)
	signature, _, _ = strings.Cut(signature, `"`)
	for name, hidden := range map[string]string{
		"phone number": number, "part of the phone number": number[:7], "secret of the caller": secret, "code": code, "token": a.token, "address": "203.0.113.77",
		"client secret": srv.Credentials().ClientSecret.Reveal(), "control token": srv.ControlToken(), "signature": signature,
	} {
		if hidden == "" {
			t.Errorf("the %s is empty: the test cannot find it", name)
		}
		for output, text := range map[string]string{"log": log, "page": page} {
			if strings.Contains(text, hidden) {
				t.Errorf("the %s contains the %s:\n%s", output, name, text)
			}
		}
	}
	for _, shown := range []string{"completed: match", "https://shop.sandbox.test/callbacks/[redacted]?token=[redacted]", check.CheckID, "…12", "acknowledged in"} {
		if !strings.Contains(page, shown) {
			t.Errorf("the page does not contain %q:\n%s", shown, page)
		}
	}
}

// A server keeps a bounded number of events.
func TestNew_TimelineLimits(t *testing.T) {
	test := newFailedTest(t)
	srv := sandboxfake.New(test, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	for range 4999 {
		srv.RotateKeys()
		srv.Inject(sandboxfake.Match{}, sandboxfake.Fault{Status: 500, Code: "<script>\x1b[2J\u202e"})()
	}
	a := newAPI(t, srv)
	request := a.request(http.MethodGet, "/<script>alert(1)</script>", "")
	request.Header.Set("User-Agent", "<script>")
	a.do(request)
	a.call(http.MethodPost, phoneChecks, `{"phone_number":"<script>`+strings.Repeat("x", 60<<10))

	log, page := timelineFile(t, test)

	if !strings.Contains(log, "the last 25 of 15000 events:") || strings.Count(log, "\n") > 30 {
		t.Errorf("log = %s, want the last 25 of 15000 events", log)
	}
	if !strings.Contains(page, "The last 1000 of 15000 events.") || len(page) > 1<<20 {
		t.Errorf("the page has %d bytes, want the last 1000 of 15000 events", len(page))
	}
	if strings.Contains(page, "<script") || strings.ContainsAny(log+page, "\x1b\u202e") {
		t.Errorf("the page contains a script, or one of both an escape sequence:\n%s%s", log, page)
	}
}

// A limit of the journals also limits the requests that the timeline keeps in memory.
func TestWithJournalLimit_Timeline(t *testing.T) {
	t.Parallel()
	test := newFailedTest(t)
	a := newAPI(t, sandboxfake.New(test, sandboxfake.WithInMemory(), sandboxfake.WithJournalLimit(3)))
	for i := range 9 {
		a.get(fmt.Sprint(phoneChecks, "/", i))
	}

	if log := test.end(); !strings.Contains(log, "the last 3 of 10 events:") {
		t.Errorf("log = %s, want the last 3 of 10 events", log)
	}
}

// A running clock that was advanced differs from the system's.
func TestNew_TimelineOfAdvancedClock(t *testing.T) {
	t.Parallel()
	for _, steps := range []int{0, 1} {
		test := newFailedTest(t)
		srv := sandboxfake.New(test, sandboxfake.WithInMemory())
		newAPI(t, srv)
		for range steps {
			if err := srv.Advance(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
		}

		if log := test.end(); strings.Contains(log, " real\n") != (steps > 0) {
			t.Errorf("log after %d steps of the clock = %s, want the system's time only after a step", steps, log)
		}
	}
}

// The example of docs/testing.md is the log of a test. Its durations differ in each run.
func TestNew_TimelineInDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	output := runFailing(t, "-test.run", "TestAcknowledged")

	got := plainTimes(output[strings.Index(output, "    failing_test.go"):strings.Index(output, "--- FAIL")])

	if !strings.Contains(plainTimes(string(page)), got) {
		t.Errorf("docs/testing.md does not contain the output, apart from durations:\n%s", output)
	}
}

// plainTimes replaces durations in milliseconds and aligned columns.
func plainTimes(text string) string {
	text = durations.ReplaceAllString(text, "…")
	return spaces.ReplaceAllString(text, " ")
}
