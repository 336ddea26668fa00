package signin_test

import (
	"bytes"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/examples/passwordless/internal/signin"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// host is the host of the pages.
const host = "shop.sandbox.test"

// shop serves the pages with a fake of the service.
type shop struct {
	service *sandboxfake.Server
	url     string
	log     syncBuffer
}

func newShop(t *testing.T) *shop {
	t.Helper()
	return newShopOf(t, sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
}

// newShopOf returns a shop whose fake has options.
func newShopOf(t *testing.T, opts ...sandboxfake.Option) *shop {
	t.Helper()
	service := sandboxfake.New(t, append(opts, sandboxfake.WithInMemory())...)
	client := service.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}), idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1}))
	keys, err := client.NewJWKS(nil)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signature.NewVerifier(keys, []string{host}, &signature.VerifierOptions{
		Now:    service.Now,
		Replay: signature.NewMemoryReplayStore(0),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{service: service, url: "https://" + host}
	service.Handle(host, signin.New(signin.Config{
		Client:   client,
		Verifier: verifier,
		BaseURL:  s.url,
		Log:      slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}))
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

// browser is an HTTP client with its own cookies.
type browser struct {
	t      *testing.T
	shop   *shop
	client *http.Client
}

func (s *shop) browser(t *testing.T) *browser {
	t.Helper()
	return &browser{t: t, shop: s, client: s.service.Device().Client()}
}

// view is a page as a browser sees it.
type view struct {
	status int
	title  string
	body   string
	url    string
	header http.Header
}

var (
	heading  = regexp.MustCompile(`<h1[^>]*>([^<]*)</h1>`)
	linkHref = regexp.MustCompile(`<a class="button" href="(https:[^"]*)"`)
)

func (b *browser) do(r *http.Request) view {
	b.t.Helper()
	response, err := b.client.Do(r)
	if err != nil {
		b.t.Error(err)
		return view{}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Error(err)
	}
	s := view{status: response.StatusCode, body: string(body), url: response.Request.URL.String(), header: response.Header}
	if m := heading.FindSubmatch(body); m != nil {
		s.title = html.UnescapeString(string(m[1]))
	}
	return s
}

// open opens a URL and follows redirects.
func (b *browser) open(url string) view {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.do(r)
}

// post submits the form.
func (b *browser) post(number string) view {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.shop.url+"/", bytes.NewBufferString(url.Values{"number": {number}}.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return b.do(r)
}

// begin submits the form and returns the Check URL on the next page.
func (b *browser) begin(number string) (checkURL string) {
	b.t.Helper()
	page := b.post(number)
	m := linkHref.FindStringSubmatch(page.body)
	if page.title != "One more step" || m == nil {
		b.t.Fatalf("page = %q, status %d, want One more step and a Check URL", page.title, page.status)
	}
	return html.UnescapeString(m[1])
}

// redirectOf opens the Check URL and returns the redirect URL without following it.
func (b *browser) redirectOf(checkURL string) string {
	b.t.Helper()
	stay := *b.client
	stay.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := stay.Get(checkURL)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	return response.Header.Get("Location")
}

// syncBuffer is a bytes.Buffer that is safe for concurrent use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
