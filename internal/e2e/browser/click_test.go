package browser

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// clickable is a script that returns the center of an element that a mouse can click. It waits
// until the element is visible, enabled, no longer moves, and nothing covers it.
const clickable = `(async selector => {
	let reason = "does not exist", last = "";
	for (const end = performance.now() + 50000; performance.now() < end; await new Promise(done => setTimeout(done, 30))) {
		const element = [...document.querySelectorAll(selector)].find(e => e.checkVisibility({visibilityProperty: true}));
		if (!element) { reason = document.querySelector(selector) ? "is not visible" : "does not exist"; continue; }
		if (element.disabled) { reason = "is disabled"; continue; }
		element.scrollIntoView({block: "center", inline: "nearest", behavior: "instant"});
		const box = element.getBoundingClientRect(), [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
		const hit = document.elementFromPoint(x, y);
		if (!hit || !element.contains(hit) && !hit.closest("label")?.contains(element)) { reason = "is covered by " + (hit ? hit.outerHTML.slice(0, 100) : "nothing"); continue; }
		const now = [box.x, box.y, box.width, box.height].join();
		if (now !== last) { last = now; reason = "moves"; continue; }
		window.__clicked = false;
		document.addEventListener("click", e => { window.__clicked ||= e.target.closest(selector) !== null; }, {capture: true});
		return {x, y, reason: ""};
	}
	return {x: 0, y: 0, reason};
})`

// click clicks the first visible element that matches a selector, with the mouse, and returns the
// number of requests before it. TestPage_ClicksEveryButton finds the selectors of all calls.
func (p *page) click(selector string) (mark int) { p.t.Helper(); return p.pick(selector) }

// pick is click for a selector that is not a constant. It clicks again if the element moved before
// the mouse reached it.
func (p *page) pick(selector string) (mark int) {
	p.t.Helper()
	mark = p.mark()
	for began := time.Now(); time.Since(began) < timeout; {
		at := evaluate[struct {
			X, Y   float64
			Reason string
		}](p, clickable+"("+quote(selector)+")")
		if at.Reason != "" {
			p.t.Fatalf("cannot click %s: it %s\n%s", selector, at.Reason, p.describe())
		}
		p.do(chromedp.MouseClickXY(at.X, at.Y))
		missed, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](`window.__clicked === false`))
		if err != nil || !missed { // the click may have navigated to another document
			return mark
		}
	}
	p.t.Fatalf("cannot click %s: it moves\n%s", selector, p.describe())
	return mark
}

// clickSends clicks an element and returns the request that the page then sends to an operation of
// the control plane. The test fails unless it succeeds.
func (p *page) clickSends(selector, method, operation string) *request {
	p.t.Helper()
	mark := p.click(selector)
	r := p.sent(p.t, mark, method, "/_sandbox/"+operation)
	if r.status/100 != 2 {
		p.t.Fatalf("%s sends %s %s, status %d, want success\n%s", selector, method, r.path, r.status, p.describe())
	}
	return r
}

// fill replaces the text of a field by what a user types.
func (p *page) fill(selector, text string) {
	p.t.Helper()
	p.waitFor(fmt.Sprintf("document.querySelector(%s)?.checkVisibility()", quote(selector)))
	evaluate[bool](p, fmt.Sprintf(`(e => (e.focus(), e.select(), document.activeElement === e))(document.querySelector(%s))`, quote(selector)))
	if text == "" {
		text = "x"
		defer p.do(chromedp.KeyEvent("\b"))
	}
	command(p, input.InsertText, input.InsertTextParams{Text: text})
}

// choose selects an option of a select element or a radio button.
func (p *page) choose(selector, value string) {
	p.t.Helper()
	p.waitFor(fmt.Sprintf("[...document.querySelector(%s)?.options ?? []].some(o => o.value === %s)", quote(selector), quote(value)))
	evaluate[bool](p, fmt.Sprintf(`(e => {
		e.focus();
		e.value = %s;
		e.dispatchEvent(new Event("input", {bubbles: true}));
		e.dispatchEvent(new Event("change", {bubbles: true}));
		return true;
	})(document.querySelector(%s))`, quote(value), quote(selector)))
}

// value returns the value of a field.
func (p *page) value(selector string) string {
	p.t.Helper()
	return evaluate[string](p, fmt.Sprintf("document.querySelector(%s).value", quote(selector)))
}

// text returns the visible text of an element.
func (p *page) text(selector string) string {
	p.t.Helper()
	return evaluate[string](p, fmt.Sprintf("document.querySelector(%s)?.innerText ?? ''", quote(selector)))
}

// clipboard is a mutex, because all pages of a browser have the same clipboard.
var clipboard sync.Mutex

// clickCopies clicks an element and returns the text that it copies to the clipboard.
func (p *page) clickCopies(selector string) string {
	p.t.Helper()
	clipboard.Lock()
	defer clipboard.Unlock()
	evaluate[bool](p, `navigator.clipboard.writeText("empty").then(() => true)`)
	p.click(selector)
	evaluate[bool](p, `(async () => { for (;;) {
		window.__copied = await navigator.clipboard.readText();
		if (window.__copied !== "empty") return true;
		await new Promise(done => setTimeout(done, 20));
	} })()`)
	copied := evaluate[string](p, "window.__copied")
	if strings.TrimSpace(copied) == "" {
		p.t.Fatalf("%s copies nothing", selector)
	}
	return copied
}

// allowClipboard grants the page access to the clipboard.
func (p *page) allowClipboard() {
	p.t.Helper()
	p.allow("clipboard-read")
	p.allow("clipboard-write")
}

// elementScreenshot returns a screenshot of an element as a PNG.
func (p *page) elementScreenshot(selector string) []byte {
	p.t.Helper()
	return run(p, func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		return chromedp.ScreenshotScale(chromedp.CSS(selector), 2)(ctx, t)
	})
}
