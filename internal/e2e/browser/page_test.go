package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// page is a tab of a browser with its own cookies.
type page struct {
	*traffic
	t       *testing.T
	program *program // nil if the page is not one of sandboxfake
	ctx     context.Context
}

// newPage opens an empty tab. When the test ends, it fails if the page logged an error, violated
// its content security policy, or sent a request to another host than the program's.
func newPage(t *testing.T, p *program) *page { t.Helper(); return newPageIn(t, sharedBrowser(t, p), p) }

// newPageIn opens an empty tab in a browser.
func newPageIn(t *testing.T, in context.Context, p *program) *page {
	t.Helper()
	events := newTraffic(p.URL)
	pg := newTab(t, in, chromedp.WithListener(events.listen))
	pg.traffic, pg.program = events, p
	t.Cleanup(func() { events.report(t) })
	command(pg, audits.Enable, cdp.Empty{})
	pg.resize(1280, 900)
	return pg
}

// newTab opens an empty tab of no program, whose traffic is not recorded.
func newTab(t *testing.T, in context.Context, options ...chromedp.ContextOption) *page {
	t.Helper()
	ctx, cancel := chromedp.NewContext(in, append(options, chromedp.WithNewBrowserContext())...)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // without a timeout: the page lives as long as the context of the first call
		t.Fatal("open page:", err)
	}
	pg := &page{t: t, ctx: ctx}
	// Only the page in front has the focus, but tests use several pages at once.
	command(pg, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	return pg
}

// open opens the inspector page with the printed URL and waits until it is connected.
func open(t *testing.T, p *program) *page {
	t.Helper()
	pg := newPage(t, p)
	pg.navigate(p.InspectorURL)
	pg.connected()
	return pg
}

// startOpen runs the program, and opens its page.
func startOpen(t *testing.T) (*program, *page) {
	t.Helper()
	p := start(t)
	return p, open(t, p)
}

// run runs an action. The test fails after an error or the timeout.
func run[T any](p *page, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		p.t.Fatalf("%v\n%s", err, p.describe())
	}
	return v
}

// command sends the browser a command that has no action.
func command[P, R any](p *page, c cdp.Command[P, R], params P) R {
	p.t.Helper()
	return run(p, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, c, params) })
}

// do runs actions in turn.
func (p *page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	run(p, chromedp.Steps(steps...))
}

// evaluate returns the value of a script, or of the promise that it returns.
func evaluate[T any](p *page, script string) T {
	p.t.Helper()
	return run(p, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// navigate opens a URL.
func (p *page) navigate(url string) { p.t.Helper(); p.do(chromedp.Navigate(url)) }

// until waits until a JavaScript expression is true and returns its value. chromedp.Poll would
// compile the expression, which the content security policy of the page forbids. A navigation that
// ends the wait starts it again.
func until[T any](p *page, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	script := `(async () => { for (;;) {
		const value = (` + expression + `);
		if (value) return value;
		await new Promise(done => setTimeout(done, 20));
	} })()`
	for {
		v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
		if err == nil {
			return v
		}
		if exception, ok := errors.AsType[*chromedp.ExceptionError](err); ok {
			p.t.Fatalf("evaluate %s: %v", expression, exception)
		}
		if ctx.Err() != nil {
			p.t.Fatalf("%s is still false\n%s", expression, p.describe())
		}
	}
}

// waitFor waits until a JavaScript expression is true.
func (p *page) waitFor(expression string) { p.t.Helper(); until[bool](p, "!!("+expression+")") }

// waitText waits until the text of an element contains a string.
func (p *page) waitText(selector, text string) {
	p.t.Helper()
	p.waitFor(fmt.Sprintf("[...document.querySelectorAll(%s)].some(e => e.innerText.includes(%s))", quote(selector), quote(text)))
}

// describe describes the page, for messages.
func (p *page) describe() string {
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`"the page is at " + location.href + " and contains:\n" + document.body.innerText.slice(0, 4000)`))
	if err != nil {
		text = "the page does not respond: " + err.Error()
	}
	if p.program != nil {
		text += "\nlog of sandboxfake:\n" + p.program.log.String()
	}
	return text
}

// quote returns a string, or a slice of strings, in JavaScript.
func quote[T string | []string](v T) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// resize sets the size of the viewport.
func (p *page) resize(width, height int64) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, height))
}

// scheme sets the preferred color scheme, light or dark.
func (p *page) scheme(name string) {
	p.t.Helper()
	command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

// allow grants the page a permission, such as clipboard-read.
func (p *page) allow(permission string) {
	p.t.Helper()
	p.permission(permission, browser.PermissionSettingGranted)
}

// deny denies the page a permission.
func (p *page) deny(permission string) {
	p.t.Helper()
	p.permission(permission, browser.PermissionSettingDenied)
}

func (p *page) permission(name string, setting browser.PermissionSetting) {
	p.t.Helper()
	run(p, func(ctx context.Context, _ *chromedp.Target) (cdp.Empty, error) {
		return chromedp.CallBrowser(ctx, browser.SetPermission, browser.SetPermissionParams{
			Permission:       &browser.PermissionDescriptor{Name: name},
			Setting:          setting,
			Origin:           p.program.URL,
			BrowserContextID: chromedp.FromContext(ctx).BrowserContextID,
		})
	})
}

// settled is a promise that the page has its final colors, which can change gradually. Animations
// of hidden elements do not end.
const settled = `new Promise(requestAnimationFrame).then(() => Promise.allSettled(document.getAnimations().filter(a => a.effect.target.checkVisibility()).map(a => a.finished)))`

// screenshot stores a screenshot of the whole page in the test's artifacts.
func (p *page) screenshot(name string) {
	p.t.Helper()
	evaluate[bool](p, settled+".then(() => (scrollTo(0, 0), true))")
	noError(p.t, os.WriteFile(filepath.Join(p.t.ArtifactDir(), name+".png"), run(p, chromedp.FullScreenshot(100)), 0o644))
}
