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

func TestSignIn_Results(t *testing.T) {
	browser := newBrowser(t)
	for _, row := range []struct {
		name   string
		number string
		open   bool // open the Check URL
		want   string
	}{
		{"verified", "+44 7700 900 012", true, "Verified"},
		{"not-verified", "+44 7700 900 013", true, "Not verified"},
		{"error", "+44 7700 900 099", true, "No result"},
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
				t.Errorf("URL = %s, want the one without the code", url)
			}
		})
	}
}

// The attacker learns the victim's redirect URL and opens it first.
func TestSignIn_RejectsOtherSessionsRedirect(t *testing.T) {
	browser := newBrowser(t)
	s := newShop(t)
	victim := newPhone(t, browser)
	victim.begin(s.url, "+44 7700 900 012")
	redirect := s.redirectOf(t, evaluate[string](victim, `document.querySelector("a.button").href`))
	attacker := newPhone(t, browser)
	attacker.begin(s.url, "+44 7700 900 014")

	attacker.open(redirect)

	attacker.waitFor("Started in another browser")
	attacker.screenshot("attack")
	attacker.checkAccessible()
	if n := s.calls("phone_check.complete"); n != 0 {
		t.Errorf("%d code exchanges, want 0", n)
	}
	attacker.open(s.url + "/check")
	attacker.waitFor("One more step")
	victim.waitFor("Opened in another browser") // the page updates automatically
	victim.screenshot("ended")
	victim.checkAccessible()
	victim.open(redirect)
	victim.waitFor("Opened in another browser")
	victim.begin(s.url, "+44 7700 900 012")
	victim.followButton()
	victim.waitFor("Verified")
}

func TestCheckPage_UpdatesWithoutReload(t *testing.T) {
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
		t.Error("the page was reloaded: a screen reader starts again at the top")
	}
	if got := evaluate[string](p, `document.querySelector("h1").closest("[aria-live]").ariaLive`); got != "polite" {
		t.Errorf("aria-live of the heading = %q, want polite: screen readers do not announce the change", got)
	}
	if got := evaluate[string](p, `document.activeElement.tagName`); got != "H1" {
		t.Errorf("focused element = %s, want H1: the focused button is gone", got)
	}
	if got := evaluate[string](p, `document.title`); !strings.HasPrefix(got, "Time is up") {
		t.Errorf("window title = %q, want the heading of the page", got)
	}
}

func TestForm_DescribesInvalidNumber(t *testing.T) {
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
	browser := newBrowser(t)
	s := newShop(t)
	p := newPhone(t, browser)
	command(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})

	p.begin(s.url, "+44 7700 900 012")
	p.screenshot("step")
	p.followButton()

	p.waitFor("Verified")
}

// shop serves the pages on loopback, with a fake that has a frozen clock.
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
	keys, err := client.NewJWKS(nil)
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
	response, err := client.Get(checkURL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.Header.Get("Location")
}
