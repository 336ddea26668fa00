package browsertest

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/examples/passwordless/internal/signin"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

func TestTheFourEndsInABrowser(t *testing.T) {
	browser := newBrowser(t)
	for _, row := range []struct {
		name   string
		number string
		open   bool // the Check URL
		want   string
	}{
		{"verified", "+44 7700 900 012", true, "Verified"},
		{"not-verified", "+44 7700 900 013", true, "Not verified"},
		{"error", "+44 7700 900 099", true, "No answer"},
		{"expired", "+44 7700 900 012", false, "Time is up"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newShop(t)
			p := newPhone(t, browser)
			p.begin(s.url, row.number)

			if row.open {
				p.followButton()
			} else if err := s.service.Advance(t.Context(), 3*time.Minute); err != nil {
				t.Fatal(err)
			}

			p.waitFor(row.want)
			p.screenshot(row.name)
			p.checkAccessible()
			if url := evaluate[string](p, `location.href`); url != s.url+"/check" {
				t.Errorf("the page is at %s, want the address without the code", url)
			}
		})
	}
}

// The attacker learns the victim's redirect URL and opens it first.
func TestARedirectOfAnotherSessionIsRefusedInABrowser(t *testing.T) {
	browser := newBrowser(t)
	s := newShop(t)
	victim := newPhone(t, browser)
	victim.begin(s.url, "+44 7700 900 012")
	redirect := s.redirectOf(t, evaluate[string](victim, `document.querySelector("a.button").href`))
	attacker := newPhone(t, browser)
	attacker.begin(s.url, "+44 7700 900 014")

	attacker.open(redirect)

	attacker.waitFor("Begun somewhere else")
	attacker.screenshot("attack")
	attacker.checkAccessible()
	if n := s.calls("phone_check.complete"); n != 0 {
		t.Errorf("%d codes were exchanged, want 0", n)
	}
	attacker.open(s.url + "/check")
	attacker.waitFor("One more step")
	victim.waitFor("Opened somewhere else") // the page that offers the Check URL updates itself
	victim.screenshot("ended")
	victim.checkAccessible()
	victim.open(redirect)
	victim.waitFor("Opened somewhere else")
	victim.begin(s.url, "+44 7700 900 012")
	victim.followButton()
	victim.waitFor("Verified")
}

func TestThePageTellsOfANewStateWithoutBeingReloaded(t *testing.T) {
	browser := newBrowser(t)
	s := newShop(t)
	p := newPhone(t, browser)
	p.begin(s.url, "+44 7700 900 012")
	p.do(chromedp.Focus(chromedp.CSS("a.button")))
	evaluate[bool](p, `window.sameDocument = true`)

	if err := s.service.Advance(t.Context(), 3*time.Minute); err != nil {
		t.Fatal(err)
	}
	p.waitFor("Time is up")

	if !evaluate[bool](p, `window.sameDocument === true`) {
		t.Error("the page was loaded anew: a screen reader begins again at its top")
	}
	if got := evaluate[string](p, `document.querySelector("h1").closest("[aria-live]").ariaLive`); got != "polite" {
		t.Errorf("the heading is in a region with aria-live %q, want polite: nobody is told of the change", got)
	}
	if got := evaluate[string](p, `document.activeElement.tagName`); got != "H1" {
		t.Errorf("the focus is on %s, want the heading: the button that had it is gone", got)
	}
	if got := evaluate[string](p, `document.title`); !strings.HasPrefix(got, "Time is up") {
		t.Errorf("the title of the window is %q, want it to say what the page says", got)
	}
}

func TestAWrongNumberIsExplainedAtItsField(t *testing.T) {
	browser := newBrowser(t)
	s := newShop(t)
	p := newPhone(t, browser)

	p.open(s.url)
	p.screenshot("form")
	p.checkAccessible()
	p.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent("07700 900012"+kb.Enter), chromedp.WaitVisible(chromedp.CSS("#wrong")))

	p.screenshot("form-wrong")
	p.checkAccessible()
	if got := evaluate[string](p, `document.activeElement.id`); got != "number" {
		t.Errorf("the focus is on %q, want the field to be corrected", got)
	}
	if got := evaluate[string](p, `number.getAttribute("aria-describedby") + " " + number.getAttribute("aria-invalid") + " " + wrong.role`); got != "wrong hint true alert" {
		t.Errorf("a screen reader is told %q, want what is wrong", got)
	}
	if got := evaluate[string](p, `number.value`); got != "07700 900012" {
		t.Errorf("the field holds %q, want what was typed", got)
	}
}

func TestThePageWorksWithoutScript(t *testing.T) {
	browser := newBrowser(t)
	s := newShop(t)
	p := newPhone(t, browser)
	command(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})

	p.begin(s.url, "+44 7700 900 012")
	p.screenshot("step")
	p.followButton()

	p.waitFor("Verified")
}

// shop is the page on loopback, where the browser reaches it, on a fake with a frozen clock.
type shop struct {
	service *sandboxfake.Server
	url     string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	service := sandboxfake.New(t, sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	server := httptest.NewUnstartedServer(nil)
	s := &shop{service: service, url: "http://" + server.Listener.Addr().String()}
	client := service.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))
	keys, err := signature.NewJWKS(client.JWKSURL(), &signature.JWKSOptions{HTTPClient: service.HTTPClient(), Now: service.Now})
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signature.NewVerifier(keys, []string{"127.0.0.1:*"}, &signature.VerifierOptions{
		Now:    service.Now,
		Replay: signature.NewMemoryReplayStore(0),
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = signin.New(signin.Config{
		Client:   client,
		Verifier: verifier,
		BaseURL:  s.url,
		Log:      slog.New(slog.DiscardHandler),
		Demo:     true,
	})
	server.Start()
	t.Cleanup(server.Close)
	return s
}

// calls counts the calls of an operation that the service saw.
func (s *shop) calls(operation string) int {
	n := 0
	for _, r := range s.service.Requests() {
		if r.Operation == operation {
			n++
		}
	}
	return n
}

// redirectOf opens a Check URL and returns the redirect URL without following it: what an attacker comes by who looks over the victim's shoulder.
func (s *shop) redirectOf(t *testing.T, checkURL string) string {
	t.Helper()
	client := s.service.HTTPClient()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Get(checkURL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.Header.Get("Location")
}
