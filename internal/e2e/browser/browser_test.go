package browser

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/idverify/idverify-go/internal/tooltest"
)

// timeout limits one action on a busy machine.
const timeout = time.Minute

// shared is the browser of all tests whose program has the public test keys. It starts with the
// first of them, and TestMain stops it.
var shared struct {
	mu   sync.Mutex // guards the other fields
	ctx  context.Context
	stop func()
}

// sharedBrowser returns the shared browser.
func sharedBrowser(t *testing.T, p *program) context.Context {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.ctx == nil {
		shared.ctx, shared.stop = launch(t, context.Background(), p.trust())
	}
	return shared.ctx
}

func stopBrowser() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.stop != nil {
		shared.stop()
	}
}

// newBrowser starts a browser that runs until the test ends.
func newBrowser(t *testing.T, options ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	ctx, stop := launch(t, t.Context(), options...)
	t.Cleanup(stop)
	return ctx
}

// skipSlow skips a test that keeps a browser busy for many seconds, unless IDVERIFY_SLOW is set.
func skipSlow(t *testing.T) {
	t.Helper()
	if os.Getenv("IDVERIFY_SLOW") == "" {
		t.Skip("slow: set IDVERIFY_SLOW=1")
	}
}

// launch starts a headless browser. It reports certificate errors, unless options change that.
func launch(t *testing.T, parent context.Context, options ...chromedp.ExecAllocatorOption) (ctx context.Context, stop func()) {
	t.Helper()
	path := findBrowser()
	tooltest.Require(t, path != "", "run script/setup browser")
	allocator, stopAllocator := chromedp.NewExecAllocator(parent, append([]chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path),
		chromedp.Headless,
		chromedp.NoSandbox, // not available in containers
		chromedp.DisableGPU,
		chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		// Several pages are open at once, and only one is in front.
		chromedp.Flag("disable-background-timer-throttling", true),
		chromedp.Flag("disable-backgrounding-occluded-windows", true),
		chromedp.Flag("disable-renderer-backgrounding", true),
		chromedp.Flag("enable-precise-memory-info", true),
		// Otherwise each window loads two popups of its address bar, which are pages. They would take
		// half of the processor time of the tests.
		chromedp.Flag("disable-features", "WebUIOmniboxPopup,WebUIOmniboxAimPopup"),
	}, options...)...)
	ctx, stopContext := chromedp.NewContext(allocator)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal("start browser:", err)
	}
	return ctx, func() { stopContext(); stopAllocator() }
}

func findBrowser() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// trust lets a browser accept the key of the program's certificate, and no other.
func (p *program) trust() chromedp.ExecAllocatorOption {
	p.t.Helper()
	transport := p.http.Transport.(*http.Transport)
	conn := must(tls.Dial("tcp", strings.TrimPrefix(p.URL, "https://"), transport.TLSClientConfig))(p.t)
	defer conn.Close()
	hash := sha256.Sum256(conn.ConnectionState().PeerCertificates[0].RawSubjectPublicKeyInfo)
	return chromedp.Flag("ignore-certificate-errors-spki-list", base64.StdEncoding.EncodeToString(hash[:]))
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }
