package sandboxfake

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/idverify/idverify-go/internal/timeline"
)

// WithoutTimeline makes a server of [New] write no timeline when its test fails. The server then
// keeps no events for it. A server of [Start] never writes one.
func WithoutTimeline() Option {
	return func(o *options) error {
		o.noTimeline = true
		return nil
	}
}

// reporter contains the methods of a test that a timeline needs.
type reporter interface {
	Failed() bool
	Logf(format string, args ...any)
}

// recordFor returns a log of events if tb can report them, and otherwise nil.
func (o *options) recordFor(tb TB) *recentEvents {
	if _, ok := tb.(reporter); !ok || o.noTimeline {
		return nil
	}
	return newRecentEvents(o.journalLimit)
}

// reportFailure writes the timeline if the test has failed. The server may be closed already.
func (s *Server) reportFailure() {
	if s.recent == nil {
		return
	}
	s.tb.Helper()
	test := s.tb.(reporter) // see recordFor
	if !test.Failed() && !panicking() {
		return
	}
	t := s.timeline()
	var text strings.Builder
	_ = t.WriteText(&text) // a strings.Builder returns no error
	test.Logf("sandboxfake: %s", strings.TrimSuffix(text.String(), "\n"))
	switch path, err := s.storeTimeline(t); {
	case err != nil:
		test.Logf("sandboxfake: the timeline was not written: %v", err)
	case path != "":
		test.Logf("sandboxfake: timeline: %s", path)
	}
}

// panicking reports whether a panic of the goroutine has caused the call. Package testing runs the
// cleanup functions of a test that panics before it marks the test as failed.
func panicking() bool {
	var calls [32]uintptr
	for _, pc := range calls[:runtime.Callers(1, calls[:])] {
		if f := runtime.FuncForPC(pc - 1); f != nil && f.Name() == "runtime.gopanic" {
			return true
		}
	}
	return false
}

// storeTimeline writes the page to the directory for artifacts of the test, and returns its path.
// Without the flag -artifacts, that directory would be temporary: it then writes nothing.
func (s *Server) storeTimeline(t *timeline.Timeline) (path string, err error) {
	test, ok := s.tb.(interface{ ArtifactDir() string })
	if artifacts := flag.Lookup("test.artifacts"); !ok || artifacts == nil || artifacts.Value.String() != "true" {
		return "", nil
	}
	file, err := createNumbered(test.ArtifactDir(), "timeline", ".html")
	if err != nil {
		return "", err
	}
	return file.Name(), errors.Join(t.WriteHTML(file), file.Close())
}

// maxNumbered is the maximum number of files of createNumbered.
const maxNumbered = 10_000

// createNumbered creates a file such as timeline.html or, because a test can have several servers,
// timeline-2.html.
func createNumbered(dir, name, extension string) (*os.File, error) {
	path := filepath.Join(dir, name+extension)
	for n := 2; ; n++ {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) || n > maxNumbered {
			return file, err
		}
		path = filepath.Join(dir, fmt.Sprintf("%s-%d%s", name, n, extension))
	}
}

// timeline returns the timeline of the server.
func (s *Server) timeline() *timeline.Timeline {
	svc := s.lock()
	defer svc.mu.Unlock()
	t, events := s.recent.timeline()
	t.Title = "sandboxfake"
	if named, ok := s.tb.(interface{ Name() string }); ok {
		t.Title = named.Name()
	}
	clock := "running"
	if svc.clock.Frozen() {
		clock = "frozen"
	}
	t.Facts = []timeline.Field{
		{Name: "Started at", Value: formatPrecise(t.Start)},
		{Name: "Server's clock", Value: clock + ", now " + formatPrecise(svc.clock.Now())},
	}
	t.Events = append(shownEvents(events), svc.dueEvents()...)
	return t
}
