package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/idverify/idverify-go"
)

func TestLive_ShowsChanges(t *testing.T) {
	t.Parallel()
	p := start(t)
	r := newReceiver(t, p)
	pg := open(t, p)
	pg.waitFor(`!document.querySelector("#checks-empty").hidden`)
	evaluate[bool](pg, `window.sameDocument = true`)

	c := must(p.client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", CallbackURL: r.url}))(t)
	pg.selectCheck(c.CheckID)
	pg.waitText(`#checks-body tr[data-id="`+c.CheckID+`"]`, "ACCEPTED")
	pg.waitFor(`/^[0-2]:\d\d$/.test(document.querySelector('#checks-body tr[data-id="` + c.CheckID + `"] [data-due]').innerText)`)
	p.open(c.CheckID)
	pg.waitText(`#checks-body tr[data-id="`+c.CheckID+`"]`, "COMPLETED")
	pg.waitTimeline("attempt")

	if !evaluate[bool](pg, `window.sameDocument === true`) {
		t.Error("the page was reloaded")
	}
}

// A list that is not live does not move while a user reads it.
func TestLive_Pauses(t *testing.T) {
	skipSlow(t)
	t.Parallel()
	p := start(t)
	first := p.phoneCheck("http://127.0.0.1:9/")
	pg := open(t, p)
	for _, row := range []struct{ view, list string }{{"checks", "#checks-body"}, {"requests", "#requests-body"}} {
		pg.view(row.view)
		rows := `document.querySelectorAll("` + row.list + ` tr").length`
		before := until[int](pg, rows)
		pg.pick("#" + row.view + "-live")

		for range 2 { // the second refresh begins after the first one has ended
			mark := pg.mark()
			p.phoneCheck("http://127.0.0.1:9/")
			pg.sent(t, mark, "GET", "/_sandbox/state")
		}
		if got := evaluate[int](pg, rows); got != before {
			t.Errorf("%s has %d rows, want %d until it is live again", row.list, got, before)
		}
		pg.pick("#" + row.view + "-live")
		pg.waitFor(rows + ` > ` + fmt.Sprint(before))
	}
	pg.view("checks")
	pg.selectCheck(first.CheckID)
}

// Without a mouse: create a check and open it as a phone.
func TestKeyboard_CreateAndOpen(t *testing.T) {
	t.Parallel()
	p := start(t)
	r := newReceiver(t, p)
	pg := open(t, p)

	pg.tabTo("#create-callback")
	pg.do(chromedp.KeyEvent(r.url + kb.Enter))
	pg.waitTimeline("created")
	c := p.newest()
	pg.waitFor(`document.activeElement !== document.body`)
	pg.tabTo("#open-phone")
	pg.do(chromedp.KeyEvent(kb.Enter))

	if got := r.nextVerified(t); got.CheckID != c.CheckID {
		t.Errorf("callback of %s, want %s", got.CheckID, c.CheckID)
	}
	pg.waitTimeline("attempt")
	pg.tabTo("#timeline summary")
	pg.do(chromedp.KeyEvent(kb.Enter))
	pg.waitFor(`document.querySelector("#timeline details[open]")`)
}

// tabTo presses Tab until an element has the focus.
func (p *page) tabTo(selector string) {
	p.t.Helper()
	for range 200 {
		p.do(chromedp.KeyEvent(kb.Tab))
		if evaluate[bool](p, "document.activeElement.matches("+quote(selector)+")") {
			return
		}
	}
	p.t.Fatalf("Tab does not reach %s\n%s", selector, p.describe())
}

// A dialog keeps the focus, closes with Escape, and returns the focus to its button.
func TestKeyboard_Dialogs(t *testing.T) {
	t.Parallel()
	_, pg := openActive(t)
	pg.tabTo("#send-callback")

	pg.do(chromedp.KeyEvent(kb.Enter))
	pg.waitFor(`document.querySelector("#callback-dialog").contains(document.activeElement)`)
	pg.do(chromedp.KeyEvent(kb.Escape))

	pg.waitFor(`!document.querySelector("#callback-dialog").open && document.activeElement.id === "send-callback"`)
}

func TestPage_Navigation(t *testing.T) {
	t.Parallel()
	_, pg := startOpen(t)
	shows := func(view string) {
		t.Helper()
		pg.waitFor(`document.querySelector("#view-` + view + `").checkVisibility() && document.querySelector("#nav-` + view + `").ariaCurrent === "page" && document.querySelectorAll(".view:not([hidden])").length === 1`)
	}

	pg.click("#nav-requests")
	shows("requests")
	pg.click("#nav-control")
	shows("control")
	pg.click("#nav-receiver")
	shows("receiver")
	pg.click("#nav-checks")
	shows("checks")
	pg.do(chromedp.NavigateBack())
	shows("receiver")
	pg.do(chromedp.Reload())
	shows("receiver")
	pg.connected()
}

// The first stop of the Tab key skips the navigation.
func TestKeyboard_Skip(t *testing.T) {
	t.Parallel()
	_, pg := startOpen(t)
	pg.do(chromedp.KeyEvent(kb.Tab))
	if got := evaluate[string](pg, `document.activeElement.dataset.action ?? ""`); got != "skip" {
		t.Errorf("the first Tab stop is %q, want the link that skips the navigation", got)
	}

	pg.do(chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Tab))

	pg.waitFor(`document.querySelector("#view-checks").contains(document.activeElement)`)
}

func TestRequests_Filter(t *testing.T) {
	t.Parallel()
	p := start(t)
	client := p.client()
	for _, number := range []string{"447700900012", "447700900013"} {
		must(client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: number}))(t)
	}
	client.PhoneChecks.Get(t.Context(), "8c7e5f0e-0000-4000-8000-000000000000")
	pg := open(t, p)
	pg.view("requests")
	rows := `[...document.querySelectorAll("#requests-body tr[data-id]")]`
	pg.waitFor(rows + `.length === 4`) // with the token request

	pg.click("[data-action=toggle-request]")
	pg.waitText("#requests-body", "Request ID")
	pg.click("[data-action=toggle-request]")
	pg.waitFor(`!document.querySelector("[data-action=request-curl]")`)
	pg.choose("#requests-status", "4xx")
	pg.waitFor(rows + `.length === 1 && ` + rows + `[0].innerText.includes("404")`)
	pg.choose("#requests-status", "")
	pg.choose("#requests-operation", "phone_check.create")
	pg.waitFor(rows + `.length === 2 && ` + rows + `.every(r => r.innerText.includes("POST"))`)
	pg.choose("#requests-operation", "")
	pg.fill("#requests-search", "oauth2")
	pg.waitFor(rows + `.length === 1 && ` + rows + `[0].innerText.includes("/oauth2/")`)
	pg.fill("#requests-search", "nothing has this")
	pg.waitFor(rows + `.length === 0 && !document.querySelector("#requests-empty").hidden`)
}

func TestChecks_Filter(t *testing.T) {
	t.Parallel()
	p := start(t)
	a := p.create(map[string]any{"product": "phone_check", "version": "v0.1", "phone_number": "447700900012", "reference_id": "order 1"})
	b := p.create(map[string]any{"product": "sim_check", "version": "v0.1", "phone_number": "447700900013", "reference_id": "order 2"})
	pg := open(t, p)
	shown := func(c check) string {
		return `(rows => rows.length === 1 && rows[0].dataset.id === "` + c.CheckID + `")([...document.querySelectorAll("#checks-body tr[data-id]")])`
	}

	pg.choose("#checks-product", "sim_check")
	pg.waitFor(shown(b))
	pg.choose("#checks-product", "")
	pg.choose("#checks-status", "ACCEPTED")
	pg.waitFor(shown(a))
	pg.choose("#checks-status", "")
	pg.fill("#checks-search", "order 2")
	pg.waitFor(shown(b))
	pg.fill("#checks-search", a.CheckID)
	pg.waitFor(shown(a))
	pg.click("#checks-body tr [data-action=select-check]")
	pg.waitTimeline("created")
	pg.click("#detail-close")
	pg.waitFor(`document.querySelector("#detail").hidden`)
}
