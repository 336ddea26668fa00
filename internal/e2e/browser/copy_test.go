package browser

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/signature"
)

// shell runs a copied command, with the environment variables that it needs.
func (p *program) shell(command string) string {
	t := p.t
	t.Helper()
	tooltest.Require(t, tooltest.Installed("curl"), "run script/setup interop, which installs curl")
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", command)
	cmd.Dir = t.TempDir()
	token := must(p.client().Token(t.Context(), idverify.Scope("phone_check")))(t)
	cmd.Env = append(os.Environ(), "CA="+p.CAFile, "TOKEN="+token.AccessToken)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the copied command fails: %v\n%s\n%s", err, command, output)
	}
	return string(output)
}

// pass runs copied Go tests in a module of its own that uses this repository.
func pass(t *testing.T, sources []string) {
	t.Helper()
	dir := t.TempDir()
	writeModule(t, dir)
	for i, source := range sources {
		pkg := filepath.Join(dir, fmt.Sprintf("shop%d", i))
		noError(t, os.Mkdir(pkg, 0o755))
		noError(t, os.WriteFile(filepath.Join(pkg, "shop_test.go"), []byte(source), 0o644))
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	output, err := cmd.CombinedOutput()
	if passed := strings.Count(string(output), "--- PASS"); err != nil || passed < len(sources) {
		t.Errorf("%d of the %d copied tests passed: %v\n%s\n%s", passed, len(sources), err, output, strings.Join(sources, "\n"))
	}
	if output, err := exec.CommandContext(t.Context(), "gofmt", "-d", dir).Output(); err != nil || len(output) > 0 {
		t.Errorf("gofmt changes the copied tests: %v\n%s", err, output)
	}
}

func TestCopy_Link(t *testing.T) {
	t.Parallel()
	p, pg := openActive(t)
	pg.allowClipboard()

	got := pg.clickCopies("#copy-link")

	if got != p.newest().OpenURL && got != p.newest().CheckURL {
		t.Errorf("copied %q, want %q or %q", got, p.newest().OpenURL, p.newest().CheckURL)
	}
	if href := evaluate[string](pg, `document.querySelector("#open-tab").href`); href != p.newest().OpenURL {
		t.Errorf("link to the phone page = %q, want %q", href, p.newest().OpenURL)
	}
}

func TestChecks_OpenTab(t *testing.T) {
	t.Parallel()
	p, pg := openActive(t)
	opened := chromedp.WaitNewTarget(pg.ctx, func(info *target.Info) bool { return info.URL == p.newest().OpenURL })

	pg.click("#open-tab")

	select {
	case <-opened:
	case <-time.After(timeout):
		t.Error("the link opens no tab")
	}
}

// The copied commands of the request and the creation of a check create another check.
func TestCopy_CurlCreatesCheck(t *testing.T) {
	t.Parallel()
	p := start(t)
	r := newReceiver(t, p)
	pg := open(t, p)
	pg.allowClipboard()
	c := p.create(map[string]any{"product": "phone_check", "version": "v0.1", "phone_number": "447700900012", "callback_url": r.url, "reference_id": `it's "17" $HOME`})
	pg.selectCheck(c.CheckID)

	p.shell(pg.clickCopies("#copy-curl"))
	if got := p.newest(); got.CheckID == c.CheckID || got.PhoneNumber != c.PhoneNumber || got.ReferenceID != c.ReferenceID {
		t.Errorf("the command created %+v, want another check of the same number and reference", got)
	}
	pg.view("requests")
	pg.waitFor(`document.querySelector("#requests-body tr")`)
	pg.expandRequest("phone_check.create")
	for _, command := range []string{pg.clickCopies("[data-action=request-curl]"), pg.clickCopies("#latest-request-curl")} {
		before := len(p.checks())
		output := p.shell(command)
		if n := len(p.checks()); n != before+1 {
			t.Errorf("%d checks after the command, want %d\n%s\n%s", n, before+1, command, output)
		}
	}
}

// expandRequest shows the details of the newest request of an operation.
func (p *page) expandRequest(operation string) {
	p.t.Helper()
	id := until[string](p, `[...document.querySelectorAll("#requests-body tr[data-id]")].find(r => r.innerText.includes(`+quote(operation)+`))?.dataset.id`)
	p.pick(`[data-action=toggle-request][data-request="` + id + `"]`)
	p.waitFor(`document.querySelector("[data-action=request-curl]")`)
}

func TestCopy_CurlOfAttempt(t *testing.T) {
	t.Parallel()
	p, r, _, pg := openEnded(t)
	pg.allowClipboard()
	pg.click(`#timeline > li[data-kind="attempt"] summary`)

	for _, command := range []string{pg.clickCopies("[data-action=attempt-curl]"), pg.clickCopies("#copy-curl")} {
		p.shell(command)

		// The signature is valid, so the receiver recognizes the copy.
		if got := r.next(t); !errors.Is(got.err, signature.ErrReplay) {
			t.Errorf("result of the copied callback: %v, want ErrReplay\n%s", got.err, command)
		}
	}
}

func TestCopy_GoTests(t *testing.T) {
	skipSlow(t)
	t.Parallel()
	p, _, _, pg := openEnded(t)
	pg.allowClipboard()
	pg.waitTimeline("attempt")
	pg.openDetails()
	sources := []string{pg.clickCopies("#copy-go-test"), pg.clickCopies("[data-action=attempt-go-test]")}
	p.create(map[string]any{"product": "subscriber_check", "version": "v0.2", "phone_number": "447700900013", "reference_id": `"17" \u202e`})
	pg.view("requests")
	sources = append(sources, pg.clickCopies("#latest-request-go-test"))
	pg.expandRequest("phone_check.create")
	sources = append(sources, pg.clickCopies("[data-action=request-go-test]"))

	slices.Sort(sources)
	pass(t, slices.Compact(sources))
}

func TestCopy_QRCode(t *testing.T) {
	t.Parallel()
	tooltest.Require(t, tooltest.Installed("zbarimg"), "run script/setup qr")
	p := startFresh(t, "-public-url", "https://sandbox.example.com") // the public keys do not permit this URL
	c := p.phoneCheck("http://127.0.0.1:9/")
	pg := newPageIn(t, newBrowser(t, p.trust()), p)
	pg.navigate(p.InspectorURL)
	pg.connected()
	pg.selectCheck(c.CheckID)

	pg.click("#show-qr")
	pg.waitFor(`document.querySelector("#qr-image").complete && document.querySelector("#qr-image").naturalWidth > 0`)

	for _, scheme := range []string{"light", "dark"} {
		pg.scheme(scheme)
		if got := tooltest.ReadQRCode(t, string(pg.elementScreenshot("#qr"))); got != p.newest().OpenURL {
			t.Errorf("%s: the QR code contains %q, want %q", scheme, got, p.newest().OpenURL)
		}
	}
}

// A phone cannot open a loopback URL.
func TestCopy_NoQRCodeOfLoopback(t *testing.T) {
	t.Parallel()
	_, pg := openActive(t)

	pg.click("#show-qr")

	pg.waitText("#qr-hint", "A phone cannot reach this address")
	if evaluate[bool](pg, `document.querySelector("#qr-image").checkVisibility()`) {
		t.Error("the page shows a QR code")
	}
}

// Without access to the clipboard, a dialog shows the text.
func TestCopy_WithoutClipboard(t *testing.T) {
	t.Parallel()
	_, pg := openActive(t)
	pg.deny("clipboard-write")

	pg.click("#copy-curl")
	pg.waitFor(`document.querySelector("#copy-dialog").open`)

	if got := pg.value("#copy-text"); !strings.Contains(got, "curl ") {
		t.Errorf("the dialog shows %q, want a command", got)
	}
	pg.screenshot("copy")
	pg.click("#copy-close")
	pg.waitFor(`!document.querySelector("#copy-dialog").open`)
}
