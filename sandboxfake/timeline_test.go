package sandboxfake_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// failedTest is a test that has failed, for a server. end runs its cleanup functions.
type failedTest struct {
	testing.TB
	passed   bool
	dir      string
	log      strings.Builder
	cleanups []func()
}

func newFailedTest(t *testing.T) *failedTest {
	f := &failedTest{TB: t, dir: t.TempDir()}
	t.Cleanup(func() { f.end() }) // if t fails earlier
	return f
}

func (f *failedTest) Helper()             {}
func (f *failedTest) Cleanup(do func())   { f.cleanups = append(f.cleanups, do) }
func (f *failedTest) Failed() bool        { return !f.passed }
func (f *failedTest) ArtifactDir() string { return f.dir }
func (f *failedTest) Logf(format string, args ...any) {
	fmt.Fprintf(&f.log, format+"\n", args...)
}

func (f *failedTest) end() string {
	for _, do := range f.cleanups {
		do()
	}
	f.cleanups = nil
	return f.log.String()
}

func TestNew_TimelineText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		test := newFailedTest(t)
		useServer(t, sandboxfake.New(test, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt)))

		got := test.end()

		const want = `sandboxfake: 24 events:
  clock real
    +0s   0s  token.create             200  scope phone_check
    +0s   0s  phone_check.create       201  96da897a created, number …12
    +0s   0s  phone_check.open         302  96da897a opened
    +0s   0s  check 96da897a                redirected to https://shop.sandbox.test/back
    +0s   0s  phone_check.complete     200  96da897a exchanged, completed: match, callback queued
    +0s   0s  clock advances           5s
    +0s 20ms  callback attempt 1       503  failed in 20ms, next after 10s; 96da897a COMPLETED
    +5s 20ms  faults injected          2    phone_check.get, repeated: 502; none
    +5s 20ms  faults removed                phone_check.get, repeated: 502; none
    +5s 20ms  faults injected          3    callback: connection dropped; 2 times signed with a wrong key
    +5s 20ms  token.create             200  scope phone_check
    +5s 20ms  phone_check.create       201  66ca9426 created, number …99
    +5s 20ms  phone_check.open         200  66ca9426 opened, failed: mno_server_error, callback queued
    +5s 20ms  callback attempt 1       –    unreachable in 0s; 66ca9426 ERROR; injected: connection dropped
    +5s 20ms  phone_check.create       201  73508084 created, number …13
    +5s 20ms  check 73508084                expired, callback queued
    +5s 20ms  callback attempt 1       200  acknowledged in 0s; 73508084 EXPIRED; injected: signed with a wro…
    +5s 20ms  token.create             200  scope sim_check
    +5s 20ms  sim_check.create         201  b04e5343 created, number …16, completed: SIM change
    +5s 20ms  token.create             200  scope subscriber_check
    +5s 20ms  subscriber_check.create  201  625505dc created, number …16
    +5s 20ms  subscriber_check.open    200  625505dc opened, completed: match, SIM change, no callback URL
   +10s  due  callback attempt 2            in 5s; 96da897a COMPLETED
         due  faults not used          1    callback: signed with a wrong key
`
		wantEqual(t, want, got, "log")
	})
}

// useServer causes events of most kinds. The first attempt of the first callback fails.
func useServer(t *testing.T, srv *sandboxfake.Server) {
	t.Helper()
	statuses := []int{http.StatusServiceUnavailable}
	url := srv.Handle("shop.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/callbacks" && len(statuses) > 0 {
			time.Sleep(20 * time.Millisecond)
			w.WriteHeader(statuses[0])
			statuses = statuses[1:]
		}
	}))
	client := srv.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))
	check := createCheck(t, client, "447700900012", url+"/callbacks", url+"/back")
	must(client.PhoneChecks.Complete(t.Context(), check.CheckID, openIdle(t, srv, check.CheckURL)))(t)
	advance(t, srv, 5*time.Second)
	srv.Inject(sandboxfake.Match{Operation: "phone_check.get", Repeat: true}, sandboxfake.Fault{Status: 502}, sandboxfake.Fault{})()
	srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{Drop: true}, sandboxfake.Fault{WrongKey: true}, sandboxfake.Fault{WrongKey: true})
	client = srv.Client()
	openIdle(t, srv, createCheck(t, client, "447700900099", url+"/callbacks", "").CheckURL)
	srv.Expire(createCheck(t, client, "447700900013", url+"/callbacks", "").CheckID)
	waitIdle(t, srv)
	must(client.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: "447700900016"}))(t)
	subscriber := must(client.SubscriberChecks.Create(t.Context(), idverify.SubscriberCheckParams{PhoneNumber: "447700900016"}))(t)
	openIdle(t, srv, subscriber.CheckURL)
}

func createCheck(t *testing.T, client *idverify.Client, number, callbackURL, redirectURL string) *idverify.PhoneCheck {
	t.Helper()
	return must(client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: number, CallbackURL: callbackURL, RedirectURL: redirectURL}))(t)
}

// openIdle opens a Check URL, awaits its callback, and returns the code of the redirect, if any.
func openIdle(t *testing.T, srv *sandboxfake.Server, url string) (code string) {
	t.Helper()
	visit := must(srv.Device().Open(t.Context(), url))(t)
	waitIdle(t, srv)
	return visit.URL.Query().Get("code")
}

// The receiver rejects the callback. After an injected fault, the cause is known.
func TestNew_TimelineOfRejectedCallback(t *testing.T) {
	t.Parallel()
	for _, fault := range []sandboxfake.Fault{{}, {WrongKey: true}} {
		test := newFailedTest(t)
		srv := sandboxfake.New(test, sandboxfake.WithInMemory())
		url := srv.Handle("shop.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
		}))
		srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, fault)
		openIdle(t, srv, createCheck(t, srv.Client(), "447700900012", url, "").CheckURL)

		log := test.end()

		if !strings.Contains(log, "400  rejected in ") || strings.Contains(log, "; cause: see VerifierOptions.Logger\n") == fault.WrongKey {
			t.Errorf("fault %+v: log = %s, want the hint only without a fault", fault, log)
		}
	}
}

var (
	durations = regexp.MustCompile(`\b[\d.]+m?s\b`)
	spaces    = regexp.MustCompile(` +`)
)

// threeMethods has only the methods of sandboxfake.TB.
type threeMethods struct{ sandboxfake.TB }

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
		advance(t, srv, time.Minute)
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
	artifacts := flag.Lookup("test.artifacts").Value
	before := artifacts.String()
	t.Cleanup(func() { _ = artifacts.Set(before) })
	noError(t, artifacts.Set("true"))
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
	check := must(client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{
		PhoneNumber: number, ReferenceID: secret, RedirectURL: target + "/back?state=" + secret, CallbackURL: "https://shop.sandbox.test/callbacks/" + secret + "?token=" + secret,
	}))(t)
	visit := must(srv.Device().Open(t.Context(), check.CheckURL))(t)
	code := visit.URL.Query().Get("code")
	a.call(http.MethodGet, phoneChecks+"?search=phone_number=="+number+"&token="+secret, "")
	a.call(http.MethodGet, "/device_ip/203.0.113.77/"+number+"?x="+secret, "")
	a.call(http.MethodPost, phoneChecks, `{"phone_number":"`+number+`x","reference_id":"`+secret+`"}`)
	a.call(http.MethodPost, "/oauth2/v1/revoke", "token="+a.token)
	must(client.PhoneChecks.Complete(t.Context(), check.CheckID, code))(t)
	srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback, CheckID: secret}, sandboxfake.Fault{Body: secret + number})
	waitIdle(t, srv)
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
	for _, shown := range []string{"completed: match", "https://shop.sandbox.test/callbacks/[REDACTED]?token=[REDACTED]", check.CheckID, "…12", "acknowledged in"} {
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
	a.sendHeader(http.MethodGet, "/<script>alert(1)</script>", http.Header{"User-Agent": {"<script>"}})
	a.call(http.MethodPost, phoneChecks, `{"phone_number":"<script>`+strings.Repeat("x", 60<<10))

	log, page := timelineFile(t, test)

	if !strings.Contains(log, "the last 25 of 15000 events:") || strings.Count(log, "\n") > 30 {
		t.Errorf("log = %s, want the last 25 of 15000 events", log)
	}
	if !strings.Contains(page, "The last 1000 of 15000 events.") || len(page) > 1<<20 {
		t.Errorf("the page has %d bytes, want the last 1000 of 15000 events", len(page))
	}
	if strings.Contains(page, "<script") || strings.ContainsAny(log+page, "\x1b\u202e") {
		t.Errorf("the page contains a script, or the log or the page contains an escape sequence:\n%s%s", log, page)
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
			advance(t, srv, time.Hour)
		}

		if log := test.end(); strings.Contains(log, " real\n") != (steps > 0) {
			t.Errorf("log after %d steps of the clock = %s, want the system's time only after a step", steps, log)
		}
	}
}

// The example of docs/testing.md is the log of a test. Its durations differ in each run.
func TestNew_TimelineInDocs(t *testing.T) {
	t.Parallel()
	page := must(os.ReadFile("../docs/testing.md"))(t)
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

// failing is the test program of testdata/failing. TestMain removes its directory.
var failing struct {
	build sync.Once
	dir   string
	err   error
}

// runFailing runs tests of testdata/failing, and returns the output. The first call builds them, as
// far as possible from packages that are already built for this program.
func runFailing(t *testing.T, args ...string) string {
	t.Helper()
	failing.build.Do(func() {
		if failing.dir, failing.err = os.MkdirTemp("", ""); failing.err != nil {
			return
		}
		build := []string{"test", "-c", "-o", failing.dir + "/failing.test"}
		if tooltest.RaceDetector() {
			build = append(build, "-race")
		}
		if output, err := exec.Command("go", append(build, "./testdata/failing")...).CombinedOutput(); err != nil {
			failing.err = fmt.Errorf("go %q: %w\n%s", build, err, output)
		}
	})
	if failing.err != nil {
		t.Fatal(failing.err)
	}
	command := exec.CommandContext(t.Context(), failing.dir+"/failing.test", append([]string{"-test.count=1", "-test.v", "-test.timeout=60s"}, args...)...)
	output, err := command.CombinedOutput()
	// The status of failed tests is 1, that of a panic is 2.
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 && exit.ExitCode() != 2 {
		t.Fatalf("%q: %v, want failed tests\n%s", args, err, output)
	}
	return string(output)
}

var (
	logLine = regexp.MustCompile(`(?m)^    failing_test\.go:\d+: sandboxfake: (\d+|no) events?`)
	path    = regexp.MustCompile(`sandboxfake: timeline: (\S+)`)
)

func TestNew_TimelineOfFailedTests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	output := runFailing(t, "-test.artifacts", "-test.outputdir", dir, "-test.skip", "TestPanic|TestAcknowledged")
	const token, create = "token.create        200  scope phone_check", "phone_check.create  201  96da897a created, number …12"
	total := 0
	for _, row := range []failedRow{
		{"TestParent", []string{": 2 events:", token, create}, []string{"timeline.html"}},
		{"TestParallel/first", []string{": 2 events:", token, create}, []string{"timeline.html"}},
		{"TestParallel/second", nil, nil},
		{"TestClosed", []string{token, create, "server closed"}, []string{"timeline.html"}},
		{"TestReset", []string{token, create, "keys rotated             key 976bb94a signs", "server reset", token, create}, []string{"timeline.html"}},
		{"TestBubble", []string{"  +0s  " + token, "  +3s  phone_check.create  201  66ca9426 created"}, []string{"timeline.html"}},
		{"TestFailNow", []string{"phone_check.open    200  96da897a opened, completed: match, callback queued", "due  callback attempt 1       in flight; 96da897a COMPLETED"}, []string{"timeline.html"}},
		{"TestTwoServers", []string{create, create}, []string{"timeline.html", "timeline-2.html"}},
		{"TestUnused", []string{": no events"}, []string{"timeline.html"}},
		{"TestWithout", nil, nil},
		{"TestPasses", nil, nil},
		{"FuzzFails", []string{token, create}, []string{"timeline.html"}},
	} {
		log := logOf(output, row.name)
		if strings.Contains(log, "--- SKIP") { // a bubble in FIPS mode
			continue
		}
		total += len(row.files)
		row.check(t, log)
	}
	written := 0
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			written++
		}
		return err
	})
	if written != total {
		t.Errorf("the tests wrote %d files, want %d, one for each server of a failed test", written, total)
	}
	if n := len(logLine.FindAllString(output, -1)); n != 9 { // in a bubble, the line is that of package testing
		t.Errorf("%d timelines have the line that calls New, want 9:\n%s", n, output)
	}
}

// failedRow is a test of testdata/failing with its timelines.
type failedRow struct {
	name  string
	lines []string // of the log, in order
	files []string
}

func (row *failedRow) check(t *testing.T, log string) {
	t.Helper()
	rest := log
	for _, line := range row.lines {
		_, after, ok := strings.Cut(rest, line)
		if !ok {
			t.Errorf("%s: the log does not contain %q in this order:\n%s", row.name, line, log)
		}
		rest = after
	}
	if row.lines == nil && strings.Contains(log, "sandboxfake:") {
		t.Errorf("%s: the log contains a timeline, want none:\n%s", row.name, log)
	}
	var files []string
	for _, match := range path.FindAllStringSubmatch(log, -1) {
		files = append(files, filepath.Base(match[1]))
		if page, err := os.ReadFile(match[1]); err != nil || !strings.Contains(string(page), "<h1>"+row.name+"</h1>") {
			t.Errorf("%s: the file is not the timeline of the test (error %v):\n%s", row.name, err, page)
		}
	}
	wantEqual(t, row.files, files, "%s: files", row.name)
}

// logOf returns the lines of go test -v that belong to a test.
func logOf(output, name string) string {
	var log strings.Builder
	current := ""
	for line := range strings.Lines(output) {
		for _, prefix := range []string{"=== RUN   ", "=== NAME  ", "=== CONT  ", "=== PAUSE "} {
			if test, ok := strings.CutPrefix(line, prefix); ok {
				current = strings.TrimSpace(test)
			}
		}
		if current == name {
			log.WriteString(line)
		}
	}
	return log.String()
}

// A panic ends the process. Without -artifacts, there is no file. A benchmark is a test, too.
func TestNew_TimelineWithoutArtifacts(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-test.run", "TestPanic"}, {"-test.run", "NONE", "-test.bench", ".", "-test.benchtime", "1x"}} {
		output := runFailing(t, args...)

		if len(logLine.FindAllString(output, -1)) != 1 || !strings.Contains(output, "phone_check.create  201") {
			t.Errorf("%q: the output does not contain the timeline:\n%s", args, output)
		}
		if strings.Contains(output, "timeline:") || strings.Contains(output, ".html") {
			t.Errorf("%q: the output names a file, want none without -artifacts:\n%s", args, output)
		}
	}
}
