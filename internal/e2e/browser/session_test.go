package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/idverify/idverify-go/internal/tooltest"
)

func TestSession_HidesToken(t *testing.T) {
	t.Parallel()
	p, pg := startOpen(t)

	if got := pg.url(); strings.Contains(got, p.Token) || strings.Contains(got, "token") {
		t.Errorf("the address bar shows %s, want no token", got)
	}
	for _, entry := range command(pg, cdppage.GetNavigationHistory, cdp.Empty{}).Entries {
		if strings.Contains(entry.URL, p.Token) {
			t.Errorf("the history contains %s, want no token", entry.URL)
		}
	}
	pg.permit("DocumentCookie") // the test reads document.cookie
	stored := evaluate[string](pg, `JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, document.documentElement.outerHTML])`)
	if strings.Contains(stored, p.Token) {
		t.Error("the page stores the control token")
	}
	cookies := pg.cookies()
	if len(cookies) != 1 {
		t.Fatalf("%d cookies, want 1", len(cookies))
	}
	c := cookies[0]
	if strings.Contains(c.Value, p.Token) || !c.HTTPOnly || !c.Secure || c.SameSite != network.CookieSameSiteStrict || c.Path != "/_sandbox/" {
		t.Errorf("cookie %+v, want HttpOnly, Secure, SameSite=Strict, the path of the control plane, and no token", c)
	}
	for _, r := range pg.sentRequests() {
		if strings.Contains(r.url, p.Token) {
			t.Errorf("the page sends the token in the URL %s", r.url)
		}
	}
}

func TestSession_SurvivesReload(t *testing.T) {
	t.Parallel()
	p := start(t)
	c := p.phoneCheck("http://127.0.0.1:9/")
	pg := open(t, p)
	pg.waitText("#checks-body", c.PhoneNumber)

	pg.do(chromedp.Reload())

	pg.connected()
	pg.waitText("#checks-body", c.PhoneNumber)
	mark := pg.mark()
	pg.navigate(p.URL + "/_sandbox/")
	pg.connected()
	if strings.Contains(pg.since(mark), "POST /_sandbox/session") {
		t.Errorf("the page requests %s, want no new session", pg.since(mark))
	}
}

func TestSession_WrongToken(t *testing.T) {
	t.Parallel()
	p := start(t)
	pg := newPage(t, p)
	pg.permit("401")

	pg.navigate(p.URL + "/_sandbox/#token=wrong-wrong-wrong-wrong")
	pg.waitFor(`document.querySelector("#view-signin")?.checkVisibility()`)
	if got := pg.url(); strings.Contains(got, "wrong") {
		t.Errorf("the address bar shows %s, want no token", got)
	}
	rejected := func() {
		t.Helper()
		pg.waitText("#signin-token-error", "Copy the URL with /_sandbox/#token= from the first line that sandboxfake printed when it started, and paste it here or in the address bar.")
		pg.waitFor(`document.activeElement.matches("#signin-token[aria-invalid=true][aria-describedby=signin-token-error]")`)
	}
	rejected()
	pg.screenshot("signin")
	pg.checkAccessible("sign-in form")
	for _, wrong := range []string{"also-wrong-also-wrong", "“not a token”"} {
		pg.fill("#signin-token", wrong)
		pg.click("#signin-submit")
		pg.waitFor(`!document.querySelector("#signin-submit").disabled`)
		rejected()
	}
	pg.fill("#signin-token", "Open the inspector in a browser: "+p.InspectorURL)
	pg.clickSends("#signin-submit", "POST", "session")

	pg.connected()
	pg.waitFor(`document.querySelector("#view-checks").checkVisibility() && document.querySelector("#signin-token").value === ""`)
	for _, r := range pg.sentRequests() {
		if strings.Contains(r.body, p.Token) || strings.Contains(r.url, p.Token) {
			t.Errorf("the page sends the token in %s %s", r.method, r.url)
		}
	}
}

func TestSession_SignOut(t *testing.T) {
	t.Parallel()
	_, pg := startOpen(t)
	pg.permit("401")
	pg.view("control")

	pg.clickSends("#sign-out", "DELETE", "session")

	pg.waitFor(`document.querySelector("#view-signin")?.checkVisibility()`)
	if n := len(pg.cookies()); n != 0 {
		t.Errorf("%d cookies, want none", n)
	}
	pg.do(chromedp.Reload())
	pg.waitFor(`document.querySelector("#view-signin")?.checkVisibility()`)
}

// After a restart, the control token is another one.
func TestSession_ServerRestarts(t *testing.T) {
	t.Parallel()
	addr := tooltest.ReservedAddress(t)
	p := start(t, "-addr", addr)
	pg := open(t, p)
	pg.permit("401", "ERR_", "net::")

	p.stop()
	pg.waitFor(`document.querySelector("#connection").dataset.state === "disconnected"`)
	pg.screenshot("disconnected")
	restarted := start(t, "-addr", addr)

	pg.waitFor(`document.querySelector("#view-signin")?.checkVisibility()`)
	pg.fill("#signin-token", restarted.Token)
	pg.clickSends("#signin-submit", "POST", "session")
	pg.connected()
}

// cookies returns the cookies of the page.
func (p *page) cookies() []*network.Cookie {
	p.t.Helper()
	return command(p, network.GetCookies, network.GetCookiesParams{URLs: []string{p.program.URL + "/_sandbox/"}}).Cookies
}

// sentRequests returns the requests so far.
func (t *traffic) sentRequests() []request {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []request
	for _, r := range t.requests {
		all = append(all, *r)
	}
	return all
}

// url returns the URL of the page.
func (p *page) url() string { p.t.Helper(); return evaluate[string](p, "location.href") }
