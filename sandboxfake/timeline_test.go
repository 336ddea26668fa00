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
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
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
		srv := sandboxfake.New(test, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
		statuses := []int{http.StatusServiceUnavailable}
		url := srv.Handle("shop.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/callbacks" && len(statuses) > 0 {
				time.Sleep(20 * time.Millisecond)
				w.WriteHeader(statuses[0])
				statuses = statuses[1:]
			}
		}))
		client := srv.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))
		create := func(number, redirectURL string) *idverify.PhoneCheck {
			check, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: number, CallbackURL: url + "/callbacks", RedirectURL: redirectURL})
			if err != nil {
				t.Fatal(err)
			}
			return check
		}
		open := func(url string) (code string) {
			visit, err := srv.Device().Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			if err := srv.Idle(t.Context()); err != nil {
				t.Fatal(err)
			}
			return visit.URL.Query().Get("code")
		}
		check := create("447700900012", url+"/back")
		if _, err := client.PhoneChecks.Complete(t.Context(), check.CheckID, open(check.CheckURL)); err != nil {
			t.Fatal(err)
		}
		if err := srv.Advance(t.Context(), 5*time.Second); err != nil {
			t.Fatal(err)
		}
		srv.Inject(sandboxfake.Match{Operation: "phone_check.get", Repeat: true}, sandboxfake.Fault{Status: 502}, sandboxfake.Fault{})()
		srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{Drop: true}, sandboxfake.Fault{WrongKey: true}, sandboxfake.Fault{WrongKey: true})
		client = srv.Client()
		open(create("447700900099", "").CheckURL)
		srv.Expire(create("447700900013", "").CheckID)
		if err := srv.Idle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := client.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: "447700900016"}); err != nil {
			t.Fatal(err)
		}
		subscriber, err := client.SubscriberChecks.Create(t.Context(), idverify.SubscriberCheckParams{PhoneNumber: "447700900016"})
		if err != nil {
			t.Fatal(err)
		}
		open(subscriber.CheckURL)

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
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

// runFailing runs tests of testdata/failing with go test, and returns the output.
func runFailing(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", append([]string{"test", "-count=1", "-v", "-timeout=60s"}, append(args, "./testdata/failing")...)...)
	output, err := command.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Fatalf("go test %q: %v, want failed tests\n%s", args, err, output)
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
	output := runFailing(t, "-artifacts", "-outputdir", dir, "-skip", "TestPanic|TestAcknowledged")
	const token, create = "token.create        200  scope phone_check", "phone_check.create  201  96da897a created, number …12"
	total := 0
	for _, row := range []struct {
		name  string
		lines []string // in order
		files []string
	}{
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
		if diff := cmp.Diff(row.files, files); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", row.name, diff)
		}
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
	for _, args := range [][]string{{"-run", "TestPanic"}, {"-run", "NONE", "-bench", ".", "-benchtime", "1x"}} {
		output := runFailing(t, args...)

		if len(logLine.FindAllString(output, -1)) != 1 || !strings.Contains(output, "phone_check.create  201") {
			t.Errorf("%q: the output does not contain the timeline:\n%s", args, output)
		}
		if strings.Contains(output, "timeline:") || strings.Contains(output, ".html") {
			t.Errorf("%q: the output names a file, want none without -artifacts:\n%s", args, output)
		}
	}
}

var (
	durations = regexp.MustCompile(`\b[\d.]+m?s\b`)
	spaces    = regexp.MustCompile(` +`)
)

// setArtifacts sets the flag -artifacts until the test ends.
func setArtifacts(t *testing.T) {
	t.Helper()
	artifacts := flag.Lookup("test.artifacts").Value
	before := artifacts.String()
	t.Cleanup(func() { _ = artifacts.Set(before) })
	if err := artifacts.Set("true"); err != nil {
		t.Fatal(err)
	}
}
