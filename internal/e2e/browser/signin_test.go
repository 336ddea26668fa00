package browser

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestSignIn_Results(t *testing.T) {
	t.Parallel()
	browser := newPhoneBrowser(t)
	for _, row := range []struct{ name, number, want, path string }{
		{"verified", "+44 7700 900 012", "Verified", "/"},
		{"not-verified", "+44 7700 900 013", "Not verified", "/?reason=no_match"},
		{"error", "+44 7700 900 099", "No result", "/?reason=ended"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newShop(t)
			p := newPhone(t, browser)
			p.begin(s.url, row.number)

			p.followButton()

			p.waitHeading(row.want)
			p.screenshot(row.name)
			p.checkSmallScreen()
			if url := evaluate[string](p, `location.href`); url != s.url+row.path {
				t.Errorf("URL = %s, want %s without the code", url, row.path)
			}
		})
	}
}

// The attacker learns the victim's redirect URL and opens it first.
func TestSignIn_RejectsOtherSessionsRedirect(t *testing.T) {
	t.Parallel()
	browser := newPhoneBrowser(t)
	s := newShop(t)
	victim := newPhone(t, browser)
	victim.begin(s.url, "+44 7700 900 012")
	redirect := s.redirectOf(t, evaluate[string](victim, `document.querySelector("a.button").href`))
	attacker := newPhone(t, browser)
	attacker.begin(s.url, "+44 7700 900 014")

	attacker.navigate(redirect)

	attacker.waitHeading("Started in another browser")
	attacker.screenshot("attack")
	attacker.checkSmallScreen()
	if n := s.calls("phone_check.complete"); n != 0 {
		t.Errorf("%d code exchanges, want 0", n)
	}
	victim.navigate(redirect)
	victim.waitHeading("Opened in another browser")
	victim.screenshot("ended")
	victim.checkSmallScreen()
	victim.begin(s.url, "+44 7700 900 012")
	victim.followButton()
	victim.waitHeading("Verified")
}

// A person who is signed in reloads, and opens the redirect URL again.
func TestSignIn_BackAndReload(t *testing.T) {
	t.Parallel()
	browser := newPhoneBrowser(t)
	s := newShop(t)
	p := newPhone(t, browser)
	p.begin(s.url, "+44 7700 900 012")
	p.screenshot("step")
	redirect := s.redirectOf(t, evaluate[string](p, `document.querySelector("a.button").href`))
	p.navigate(redirect)
	p.waitHeading("Verified")

	p.do(chromedp.Reload())
	p.waitHeading("Verified")
	p.navigate(redirect)
	p.waitHeading("Verified")
	p.navigate(s.url)
	p.waitHeading("Verified")

	if n := s.calls("phone_check.complete"); n != 1 {
		t.Errorf("%d code exchanges, want 1", n)
	}
}

func TestForm_DescribesInvalidNumber(t *testing.T) {
	t.Parallel()
	browser := newPhoneBrowser(t)
	s := newShop(t)
	p := newPhone(t, browser)

	p.navigate(s.url)
	p.screenshot("form")
	p.checkSmallScreen()
	p.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent("07700 900012"+kb.Enter), chromedp.WaitVisible(chromedp.CSS("#wrong")))

	p.screenshot("form-wrong")
	p.checkSmallScreen()
	if got := evaluate[string](p, `document.activeElement.id`); got != "number" {
		t.Errorf("focused element = %q, want number", got)
	}
	if got := evaluate[string](p, `number.getAttribute("aria-describedby") + " " + number.getAttribute("aria-invalid") + " " + wrong.role`); got != "wrong hint true alert" {
		t.Errorf("aria attributes = %q, want the error message", got)
	}
	if got := evaluate[string](p, `number.value`); got != "07700 900012" {
		t.Errorf("value of the field = %q, want the input", got)
	}
}

func TestSignIn_WithoutScript(t *testing.T) {
	t.Parallel()
	browser := newPhoneBrowser(t)
	s := newShop(t)
	p := newPhone(t, browser)
	command(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})

	p.begin(s.url, "+44 7700 900 012")
	p.followButton()

	p.waitHeading("Verified")
}

// shop is a program that serves the pages on loopback, and its service.
type shop struct {
	service *sandboxfake.Server
	url     string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{service: sandboxfake.New(t)}
	credentials := s.service.Credentials()
	command := exec.Command(shopProgram.Build(t))
	command.Env = append(os.Environ(), "URL="+s.service.URL(), "CA="+string(s.service.CACertPEM()),
		"CLIENT_ID="+credentials.ClientID, "CLIENT_SECRET="+credentials.ClientSecret.Reveal())
	command.Stderr = os.Stderr
	line, err := tooltest.Start(t, command).ReadString('\n')
	if err != nil {
		t.Fatal("read what the shop prints:", err)
	}
	s.url = strings.TrimSpace(line)
	return s
}

// calls returns the number of requests of an operation.
func (s *shop) calls(operation string) int {
	n := 0
	for _, r := range s.service.Requests() {
		if r.Operation == operation {
			n++
		}
	}
	return n
}

// redirectOf opens a Check URL and returns the redirect URL without following it, as an attacker
// does who reads it from the victim's screen.
func (s *shop) redirectOf(t *testing.T, checkURL string) string {
	t.Helper()
	client := s.service.HTTPClient()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response := must(client.Get(checkURL))(t)
	defer response.Body.Close()
	return response.Header.Get("Location")
}

// newPhoneBrowser starts a browser that accepts the certificate of any service.
func newPhoneBrowser(t *testing.T) context.Context {
	t.Helper()
	return newBrowser(t, chromedp.IgnoreCertErrors)
}

// newPhone opens a tab with the screen of a phone.
func newPhone(t *testing.T, browser context.Context) *page {
	t.Helper()
	p := newTab(t, browser)
	p.do(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile, chromedp.EmulateScale(2)))
	return p
}

// begin submits the form with the keyboard only and waits for the page with the Check URL.
func (p *page) begin(url, number string) {
	p.t.Helper()
	p.navigate(url)
	p.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(number+kb.Enter))
	p.waitHeading("One more step")
}

// followButton follows the page's button with the keyboard only.
func (p *page) followButton() {
	p.t.Helper()
	p.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
}

// waitHeading waits for a page with that heading. It needs no script in the page.
func (p *page) waitHeading(heading string) {
	p.t.Helper()
	p.do(chromedp.WaitVisible(chromedp.Search(`//h1[normalize-space()="` + heading + `"]`)))
}

// smallScreenFaults is a script that returns the accessibility faults of the page.
const smallScreenFaults = `(() => {
	const found = [];
	if (document.documentElement.lang !== "en") found.push("the page has no lang attribute");
	if (document.querySelectorAll("h1").length !== 1) found.push("the page does not have exactly one h1");
	if (document.documentElement.scrollWidth > innerWidth) found.push("the page scrolls horizontally");
	for (const input of document.querySelectorAll("input"))
		if (!input.labels.length) found.push("an input has no label");
	for (const control of document.querySelectorAll("input, button, a.button"))
		if (control.getBoundingClientRect().height < 44) found.push(control.tagName + " is less than 44 pixels high");

	// WCAG 2.2, section 1.4.3 requires a contrast of 4.5 for text.
	const channels = color => color.match(/[\d.]+/g).map(Number);
	const luminance = color => channels(color).slice(0, 3)
		.map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
		.reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const ground = element => {
		const color = getComputedStyle(element).backgroundColor;
		return channels(color)[3] === 0 && element.parentElement ? ground(element.parentElement) : color;
	};
	for (const element of document.querySelectorAll("body *")) {
		if (![...element.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.textContent.trim())) continue;
		if (getComputedStyle(element).display === "none") continue;
		const [light, dark] = [luminance(getComputedStyle(element).color), luminance(ground(element))].sort((a, b) => b - a);
		const contrast = (light + 0.05) / (dark + 0.05);
		if (contrast < 4.5) found.push(element.tagName + " has contrast " + contrast.toFixed(2));
	}
	return found;
})()`

// checkSmallScreen reports accessibility faults on a narrow screen, in light and dark mode.
func (p *page) checkSmallScreen() {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(320, 568, chromedp.EmulateMobile))
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		for _, fault := range evaluate[[]string](p, smallScreenFaults) {
			p.t.Errorf("%s, in %s: %s", p.url(), scheme, fault)
		}
	}
}
