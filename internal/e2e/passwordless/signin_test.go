package passwordless

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/idverify/idverify-go/sandboxfake"
)

func TestSignIn_Results(t *testing.T) {
	browser := newBrowser(t)
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

			p.waitFor(row.want)
			p.screenshot(row.name)
			p.checkAccessible()
			if url := evaluate[string](p, `location.href`); url != s.url+row.path {
				t.Errorf("URL = %s, want %s without the code", url, row.path)
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
	victim.open(redirect)
	victim.waitFor("Opened in another browser")
	victim.screenshot("ended")
	victim.checkAccessible()
	victim.begin(s.url, "+44 7700 900 012")
	victim.followButton()
	victim.waitFor("Verified")
}

// A person who is signed in reloads, and opens the redirect URL again.
func TestSignIn_BackAndReload(t *testing.T) {
	browser := newBrowser(t)
	s := newShop(t)
	p := newPhone(t, browser)
	p.begin(s.url, "+44 7700 900 012")
	redirect := s.redirectOf(t, evaluate[string](p, `document.querySelector("a.button").href`))
	p.open(redirect)
	p.waitFor("Verified")

	p.do(chromedp.Reload())
	p.waitFor("Verified")
	p.open(redirect)
	p.waitFor("Verified")
	p.open(s.url)
	p.waitFor("Verified")

	if n := s.calls("phone_check.complete"); n != 1 {
		t.Errorf("%d code exchanges, want 1", n)
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

// shop is a program that serves the pages on loopback, and its service.
type shop struct {
	service *sandboxfake.Server
	url     string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	path, err := buildShop()
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{service: sandboxfake.New(t)}
	credentials := s.service.Credentials()
	command := exec.Command(path)
	command.Env = append(os.Environ(), "URL="+s.service.URL(), "CA="+string(s.service.CACertPEM()),
		"CLIENT_ID="+credentials.ClientID, "CLIENT_SECRET="+credentials.ClientSecret.Reveal())
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal("read what the shop prints:", err)
	}
	s.url = strings.TrimSpace(line)
	return s
}

// scratch is a directory for the built program. TestMain creates and removes it.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "passwordless-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// buildShop builds testdata/shop once for all tests, as a package of the example, and returns its
// path.
var buildShop = sync.OnceValues(func() (string, error) {
	source, err := filepath.Abs("testdata/shop/main.go")
	if err != nil {
		return "", err
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(root, "examples", "passwordless", "internal", "shop", "main.go"): source,
	}})
	if err != nil {
		return "", err
	}
	file, program := filepath.Join(scratch, "overlay.json"), filepath.Join(scratch, "shop")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-overlay", file, "-o", program, "./examples/passwordless/internal/shop")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the shop: %w\n%s", err, output)
	}
	return program, nil
})

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
