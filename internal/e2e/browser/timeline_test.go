package browser

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// failedTest runs a test of sandboxfake/testdata/failing and returns the path of its timeline.
func failedTest(t *testing.T, name string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-artifacts", "-outputdir", t.TempDir(), "-run", "^"+name+"$", "./sandboxfake/testdata/failing")
	command.Dir = filepath.Join("..", "..", "..")
	output, _ := command.CombinedOutput() // the test fails
	path := regexp.MustCompile(`sandboxfake: timeline: (\S+)`).FindStringSubmatch(string(output))
	if path == nil {
		t.Fatalf("the log names no timeline:\n%s", output)
	}
	return path[1]
}

// openFile opens a file in the browser.
func openFile(t *testing.T, p *program, path string) *page {
	t.Helper()
	pg := newPage(t, p)
	pg.permit("request to another host: file://")
	pg.navigate("file://" + path)
	pg.waitFor(`document.querySelector("h1")`)
	return pg
}

func TestTimeline_OfFailedTest(t *testing.T) {
	skipSlow(t)
	t.Parallel()
	p := start(t)
	pg := openFile(t, p, failedTest(t, "TestAcknowledged"))

	if n := pg.mark(); n != 1 {
		t.Errorf("the page sent %d requests, want only its own: %s", n, pg.since(0))
	}
	for selector, want := range map[string]string{
		"h1":                "TestAcknowledged",
		"dl":                "frozen, now 2026-01-02T03:04:20Z",
		".note":             "9 events.",
		"li:nth-child(3)":   "96da897a created, number …12",
		"li:nth-child(7)":   "next after 20s",
		"#last":             "faults not used",
		"[data-kind=fault]": "phone_check.get: 502",
	} {
		if got := pg.text(selector); !strings.Contains(got, want) {
			t.Errorf("%s shows %q, want %q", selector, got, want)
		}
	}
	if n := evaluate[int](pg, `[...document.querySelectorAll("ol > li")].filter(e => e.checkVisibility()).length`); n != 9 {
		t.Errorf("%d events are visible, want 9", n)
	}
	pg.screenshots("timeline")
	pg.openByKeyboard()
	pg.hideRequests()
	evaluate[bool](pg, `(document.querySelectorAll("details").forEach(e => e.open = true), true)`)
	pg.checkAccessible("timeline")
	if n := pg.checkFocus(); n < 10 {
		t.Errorf("%d elements in the tab order, want the checkboxes and the details", n)
	}
	pg.screenshots("timeline-details")
}

// openByKeyboard opens the details of the first request with the keyboard.
func (p *page) openByKeyboard() {
	p.t.Helper()
	const closed = `document.activeElement.matches("summary") && !document.activeElement.parentElement.open`
	for range 20 {
		p.do(chromedp.KeyEvent(kb.Tab))
		if evaluate[bool](p, closed) {
			p.do(chromedp.KeyEvent(kb.Enter))
			p.waitFor(`document.activeElement.parentElement.open`)
			if got := p.text("details[open]"); !strings.Contains(got, "Request ID") {
				p.t.Errorf("the details are %q, want the request ID", got)
			}
			return
		}
	}
	p.t.Error("the keyboard does not reach the details")
}

// hideRequests hides the requests with their checkbox, and shows them again.
func (p *page) hideRequests() {
	p.t.Helper()
	const visible = `[...document.querySelectorAll("li[data-kind=request]")].filter(e => e.checkVisibility()).length`
	before := evaluate[int](p, visible)
	p.click("#show-request")
	if hidden := evaluate[int](p, visible); before == 0 || hidden != 0 {
		p.t.Errorf("%d requests are visible with the checkbox and %d without, want none", before, hidden)
	}
	p.click("#show-request")
}

func TestTimeline_Save(t *testing.T) {
	t.Parallel()
	p, _, ended, pg := openEnded(t)
	pg.waitTimeline("attempt")

	saved := pg.clickDownloads("#save-timeline")

	file := filepath.Join(t.TempDir(), "saved.html")
	noError(t, os.WriteFile(file, saved, 0o600))
	offline := openFile(t, p, file)
	for _, want := range []string{ended.CheckID, "created", "callback attempt 1"} {
		if got := offline.text("main"); !strings.Contains(got, want) {
			t.Errorf("the saved page shows %q, want %q", got, want)
		}
	}
	if strings.Contains(string(saved), ended.PhoneNumber) {
		t.Error("the saved page contains the complete phone number")
	}
	offline.checkAccessible("saved timeline")
	offline.screenshots("timeline-saved")
	pg.resize(360, 740)
	pg.screenshot("save-timeline")
}
