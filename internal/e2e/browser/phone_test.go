package browser

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"

	"github.com/idverify/idverify-go"
)

// openPhone opens a URL in the browser of a phone that has no session.
func openPhone(t *testing.T, p *program, url string) *page {
	t.Helper()
	pg := newPage(t, p)
	pg.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile))
	pg.navigate(url)
	pg.waitFor(`document.querySelector("h1")`)
	return pg
}

func TestPhonePage_Choices(t *testing.T) {
	skipSlow(t)
	t.Parallel()
	p := start(t)
	r := newReceiver(t, p)

	for _, row := range []struct {
		name   string
		choose func(*page)
		want   string
	}{
		{"phone", func(pg *page) { pg.click("button[name=as][value=phone]") }, "COMPLETED match=true"},
		{"other_sim", func(pg *page) { pg.click("button[name=as][value=other_sim]") }, "COMPLETED match=false"},
		{"not_mobile_ip", func(pg *page) { pg.click("button[name=as][value=not_mobile_ip]") }, "ERROR not_mobile_ip"},
		{"offline", func(pg *page) { pg.click("button[name=as][value=offline]") }, "EXPIRED"},
		{"mno_timeout", func(pg *page) {
			pg.click("summary")
			pg.screenshot("phone-errors")
			pg.checkAccessible("phone page with other errors")
			pg.click("button[name=as][value=mno_timeout]")
		}, "ERROR mno_timeout"},
		{"mno_not_supported", func(pg *page) { pg.click("summary"); pg.click("button[name=as][value=mno_not_supported]") }, "ERROR mno_not_supported"},
		{"mno_user_not_found", func(pg *page) { pg.click("summary"); pg.click("button[name=as][value=mno_user_not_found]") }, "ERROR mno_user_not_found"},
		{"mno_response_error", func(pg *page) { pg.click("summary"); pg.click("button[name=as][value=mno_response_error]") }, "ERROR mno_response_error"},
		{"mno_server_error", func(pg *page) { pg.click("summary"); pg.click("button[name=as][value=mno_server_error]") }, "ERROR mno_server_error"},
		{"mno_no_data_available", func(pg *page) { pg.click("summary"); pg.click("button[name=as][value=mno_no_data_available]") }, "ERROR mno_no_data_available"},
		{"ip_mismatch", func(pg *page) { pg.click("summary"); pg.click("button[name=as][value=ip_mismatch]") }, "ERROR ip_mismatch"},
		{"ip_msisdn_mismatch", func(pg *page) { pg.click("summary"); pg.click("button[name=as][value=ip_msisdn_mismatch]") }, "ERROR ip_msisdn_mismatch"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := p.phoneCheck(r.url)
			pg := openPhone(t, p, c.OpenURL)
			if row.name == "phone" {
				pg.screenshot("phone")
				pg.checkAccessible("phone page")
				pg.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile))
				if n := pg.checkFocus(); n < 5 {
					t.Errorf("%d elements in the tab order, want the four choices and the other errors", n)
				}
			}

			row.choose(pg)

			got := r.nextVerified(t)
			if result := p.newest().result(); result != row.want || got.CheckID != c.CheckID {
				t.Errorf("result %s, callback of %s, want %s of %s", result, got.CheckID, row.want, c.CheckID)
			}
			pg.waitFor(`document.readyState === "complete" && !document.querySelector("button[name=as]")`)
			pg.screenshot("phone-" + row.name)
			pg.checkAccessible("phone page after " + row.name)
			if n := len(pg.cookies()); n != 0 {
				t.Errorf("the phone page sets %d cookies", n)
			}
		})
	}
}

func TestPhonePage_Redirect(t *testing.T) {
	t.Parallel()
	p := start(t)
	r := newReceiver(t, p)
	c := must(p.client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"})).PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: "447700900012", RedirectURL: r.redirectURL}))(t)
	pg := openPhone(t, p, p.newest().OpenURL)
	pg.permit(r.origin)

	pg.click("button[name=as][value=phone]")

	pg.waitText("h1", "Back in the shop")
	if got := r.next(t); got.err != nil || got.message.Query.Get("check_id") != c.CheckID {
		t.Errorf("redirect %+v, want a verified one of check %s", got, c.CheckID)
	}
}

func TestPhonePage_UnknownCheck(t *testing.T) {
	t.Parallel()
	p := start(t)
	pg := newPage(t, p)
	pg.permit("404")

	pg.navigate(p.URL + "/_sandbox/open/8c7e5f0e-0000-4000-8000-000000000000")

	pg.waitFor(`document.querySelector("h1") && !document.querySelector("button[name=as]")`)
	pg.screenshot("phone-unknown")
	pg.checkAccessible("phone page of an unknown check")
}

// With -phone-page, a browser that opens the Check URL gets the page.
func TestPhonePage_Flag(t *testing.T) {
	t.Parallel()
	p := start(t, "-phone-page")
	r := newReceiver(t, p)
	c := p.phoneCheck(r.url)

	pg := openPhone(t, p, c.CheckURL)

	if got := pg.url(); got != c.OpenURL {
		t.Errorf("the Check URL leads to %s, want %s", got, c.OpenURL)
	}
	pg.click("button[name=as][value=other_sim]")
	if got := r.nextVerified(t); got.Match != idverify.VerdictNo {
		t.Errorf("match = %v, want no", got.Match)
	}
}

// With -phone-page, an image or a script that opens the Check URL gets the service's response.
func TestPhonePage_FlagWithoutNavigation(t *testing.T) {
	t.Parallel()
	p := start(t, "-phone-page")
	r := newReceiver(t, p)
	pg := newPage(t, p)
	pg.navigate(p.URL + "/_sandbox/ca")

	for name, script := range map[string]string{
		"script": `fetch(%s).then(() => true)`,
		"image":  `new Promise((done) => { const img = new Image(); img.onerror = () => done(true); img.src = %s; })`,
	} {
		c := p.phoneCheck(r.url)

		evaluate[bool](pg, fmt.Sprintf(script, quote(c.CheckURL)))

		if got := r.nextVerified(t); got.CheckID != c.CheckID || p.newest().Status != "COMPLETED" {
			t.Errorf("%s: callback of %s, status %s, want COMPLETED of %s", name, got.CheckID, p.newest().Status, c.CheckID)
		}
	}
}

func TestCAPage_Downloads(t *testing.T) {
	t.Parallel()
	p := startFresh(t) // nobody must install a CA whose key is public
	want := must(os.ReadFile(p.CAFile))(t)
	block, _ := pem.Decode(want)
	pg := newPageIn(t, newBrowser(t, p.trust()), p)
	pg.navigate(p.URL + "/_sandbox/ca")
	pg.waitFor(`document.querySelector("h1")`)
	pg.checkAccessible("CA page")
	pg.resize(360, 740)
	pg.screenshot("ca")

	crt, pemFile := pg.clickDownloads("#ca-crt"), pg.clickDownloads("#ca-pem")

	if !bytes.Equal(crt, block.Bytes) || !bytes.Equal(pemFile, want) {
		t.Errorf("downloaded %d and %d bytes, want the CA certificate in both forms", len(crt), len(pemFile))
	}
	sum := sha256.Sum256(block.Bytes)
	fingerprint := strings.ReplaceAll(fmt.Sprintf("% X", sum), " ", ":")
	if got := pg.text(".fingerprint"); got != fingerprint {
		t.Errorf("fingerprint = %s, want %s", got, fingerprint)
	}
}

// clickDownloads clicks a link and returns the file that the browser downloads.
func (p *page) clickDownloads(selector string) []byte {
	p.t.Helper()
	dir := p.t.TempDir()
	browserContext := chromedp.FromContext(p.ctx).BrowserContextID
	run(p, func(ctx context.Context, _ *chromedp.Target) (cdp.Empty, error) {
		return chromedp.CallBrowser(ctx, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
			Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir, BrowserContextID: browserContext, EventsEnabled: new(true),
		})
	})
	done := make(chan string, 8)
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	if err := chromedp.ListenBrowser(ctx, func(event any) {
		// The browser also reports the downloads of other pages, and may report the previous one again.
		if e, ok := event.(*browser.EventDownloadProgress); ok && e.State == browser.DownloadProgressStateCompleted && filepath.Dir(e.FilePath) == dir {
			done <- e.FilePath
		}
	}); err != nil {
		p.t.Fatal(err)
	}
	p.pick(selector)
	select {
	case path := <-done:
		return must(os.ReadFile(path))(p.t)
	case <-ctx.Done():
		p.t.Fatalf("%s downloads nothing", selector)
		return nil
	}
}

// The public test keys must not become the CA of a browser.
func TestCAPage_FixedKeys(t *testing.T) {
	t.Parallel()
	p := start(t)
	pg := newPage(t, p)

	pg.navigate(p.URL + "/_sandbox/ca")

	pg.waitText("main", "Do not install")
	if pg.has("#ca-crt") {
		t.Error("the page offers a certificate whose key is public")
	}
	pg.checkAccessible("CA page with the public keys")
}
