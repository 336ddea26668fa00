package sandboxfake_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
		if raceDetector {
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
	if diff := cmp.Diff(row.files, files); diff != "" {
		t.Errorf("%s: files (-want +got):\n%s", row.name, diff)
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
