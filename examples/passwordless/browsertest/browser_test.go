// Package browsertest holds the test of the passwordless example in a real browser. It is a module of its own, so that nobody who uses idverify has to fetch a browser's driver.
//
//	go test -artifacts .
//
// keeps the screenshots, below _artifacts. It needs Chromium or Chrome in the PATH, and is skipped without.
package browsertest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is how long a page may take on a busy machine.
const timeout = 30 * time.Second

// newBrowser starts a headless browser for the length of a test.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	path := findBrowser()
	if path == "" {
		t.Skip("NOT RUN: there is no chromium in the PATH (Debian: apt-get install chromium)")
	}
	allocator, cancel := chromedp.NewExecAllocator(t.Context(),
		chromedp.ExecPath(path),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.Headless,
		chromedp.NoSandbox, // containers have none to offer
		chromedp.DisableGPU,
		chromedp.NoFirstRun,
		chromedp.IgnoreCertErrors, // the fake signs its own
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
	)
	t.Cleanup(cancel)
	browser, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(browser); err != nil {
		t.Fatal("the browser does not start:", err)
	}
	return browser
}

func findBrowser() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// phone is one person's browser: cookies of its own, and the screen of a phone.
type phone struct {
	t   *testing.T
	ctx context.Context
}

func newPhone(t *testing.T, browser context.Context) *phone {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // on ctx itself: the page lives as long as the context of the first call
		t.Fatal("the browser opens no page:", err)
	}
	p := &phone{t: t, ctx: ctx}
	p.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile, chromedp.EmulateScale(2)))
	// Only the page in front has the focus, and several phones are in use at once.
	command(p, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	return p
}

// run carries out an action, and fails the test when the page does not go along.
func run[T any](p *phone, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		p.t.Fatalf("%v (the page is at %s)", err, p.url())
	}
	return v
}

// command gives the browser a command for which there is no action.
func command[P, R any](p *phone, c cdp.Command[P, R], params P) R {
	p.t.Helper()
	return run(p, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, c, params) })
}

// do carries out what a person does, step by step.
func (p *phone) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	run(p, chromedp.Steps(steps...))
}

// evaluate returns what a script makes of the page.
func evaluate[T any](p *phone, script string) T {
	p.t.Helper()
	return run(p, chromedp.Evaluate[T](script))
}

// url is where the page is, for messages.
func (p *phone) url() string {
	ctx, cancel := context.WithTimeout(p.ctx, time.Second)
	defer cancel()
	url, err := chromedp.Run(ctx, chromedp.Location())
	if err != nil {
		return "a place unknown: " + err.Error()
	}
	return url
}

// open goes to a URL.
func (p *phone) open(url string) {
	p.t.Helper()
	p.do(chromedp.Navigate(url))
}

// begin fills in the form by the keyboard alone, and waits for the step that offers the Check URL.
func (p *phone) begin(url, number string) {
	p.t.Helper()
	p.open(url)
	p.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(number+kb.Enter))
	p.waitFor("One more step")
}

// goOn follows the page's button by the keyboard alone.
func (p *phone) followButton() {
	p.t.Helper()
	p.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
}

// sees waits for a page with that heading.
func (p *phone) waitFor(heading string) {
	p.t.Helper()
	p.do(chromedp.WaitVisible(chromedp.Search(`//h1[normalize-space()="` + heading + `"]`)))
}

// screenshot keeps a picture of the page among the test's artifacts.
func (p *phone) screenshot(name string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.t.ArtifactDir(), name+".png"), run(p, chromedp.FullScreenshot(100)), 0o644); err != nil {
		p.t.Fatal(err)
	}
}
