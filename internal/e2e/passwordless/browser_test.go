// Package passwordless tests the pages of examples/passwordless in a real browser.
//
//	go test -count=1 -artifacts .
//
// stores screenshots in _artifacts. The tests build and run the pages; without -count=1, go test
// would reuse results of earlier pages. They require Chromium or Chrome in the PATH and are skipped
// without it.
package passwordless

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

// timeout limits one action on a busy machine.
const timeout = 30 * time.Second

// newBrowser starts a headless browser that runs until the test ends.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	path := findBrowser()
	if path == "" {
		t.Skip("chromium is not in the PATH (Debian: apt-get install chromium)")
	}
	allocator, cancel := chromedp.NewExecAllocator(t.Context(),
		chromedp.ExecPath(path),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.Headless,
		chromedp.NoSandbox, // not available in containers
		chromedp.DisableGPU,
		chromedp.NoFirstRun,
		chromedp.IgnoreCertErrors, // the browser does not trust the fake's certificate
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
	)
	t.Cleanup(cancel)
	browser, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(browser); err != nil {
		t.Fatal("start browser:", err)
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

// phone is a browser with its own cookies and the screen of a phone.
type phone struct {
	t   *testing.T
	ctx context.Context
}

func newPhone(t *testing.T, browser context.Context) *phone {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // without a timeout: the page lives as long as the context of the first call
		t.Fatal("open page:", err)
	}
	p := &phone{t: t, ctx: ctx}
	p.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile, chromedp.EmulateScale(2)))
	// Only the page in front has the focus, but tests use several phones at once.
	command(p, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	return p
}

// run runs an action. The test fails after an error or the timeout.
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

// command sends the browser a command that has no action.
func command[P, R any](p *phone, c cdp.Command[P, R], params P) R {
	p.t.Helper()
	return run(p, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, c, params) })
}

// do runs actions in turn.
func (p *phone) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	run(p, chromedp.Steps(steps...))
}

// evaluate returns the value of a script.
func evaluate[T any](p *phone, script string) T {
	p.t.Helper()
	return run(p, chromedp.Evaluate[T](script))
}

// url returns the URL of the page, for messages.
func (p *phone) url() string {
	ctx, cancel := context.WithTimeout(p.ctx, time.Second)
	defer cancel()
	url, err := chromedp.Run(ctx, chromedp.Location())
	if err != nil {
		return "an unknown URL: " + err.Error()
	}
	return url
}

// open opens a URL.
func (p *phone) open(url string) {
	p.t.Helper()
	p.do(chromedp.Navigate(url))
}

// begin submits the form with the keyboard only and waits for the page with the Check URL.
func (p *phone) begin(url, number string) {
	p.t.Helper()
	p.open(url)
	p.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(number+kb.Enter))
	p.waitFor("One more step")
}

// followButton follows the page's button with the keyboard only.
func (p *phone) followButton() {
	p.t.Helper()
	p.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
}

// waitFor waits for a page with that heading.
func (p *phone) waitFor(heading string) {
	p.t.Helper()
	p.do(chromedp.WaitVisible(chromedp.Search(`//h1[normalize-space()="` + heading + `"]`)))
}

// screenshot stores a screenshot in the test's artifacts.
func (p *phone) screenshot(name string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.t.ArtifactDir(), name+".png"), run(p, chromedp.FullScreenshot(100)), 0o644); err != nil {
		p.t.Fatal(err)
	}
}
