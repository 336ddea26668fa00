package checkflow_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/checkflow"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// Numbers of a victim and of an attacker. A check of either matches.
const (
	victims   = "447700900012"
	attackers = "447700900014"
)

const (
	host       = "shop.sandbox.test"
	flowCookie = "__Host-idverify-flow"
)

// site is a website with a sign-in. The method handler returns its pages.
type site struct {
	t       *testing.T
	service *sandboxfake.Server
	store   *hookedStore
	url     string
	log     tooltest.Buffer

	mu      sync.Mutex         // guards the fields below
	web     *checkflow.Web     // replaced by restart
	config  checkflow.Config   // of web
	results []checkflow.Result // that Return reported
	users   map[string]string  // the number that is signed in, by login cookie
}

// newSite returns a site with a frozen clock.
func newSite(t *testing.T, edit ...func(*checkflow.Config)) *site {
	t.Helper()
	return newSiteOf(t, newService(t), edit...)
}

// newService returns a fake with a frozen clock.
func newService(t *testing.T) *sandboxfake.Server {
	t.Helper()
	return sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
}

func newSiteOf(t *testing.T, service *sandboxfake.Server, edit ...func(*checkflow.Config)) *site {
	t.Helper()
	s := &site{t: t, service: service, url: "https://" + host, users: make(map[string]string)}
	s.store = &hookedStore{Store: checkflow.NewMemoryStore(0)}
	s.config = checkflow.Config{
		Client:      service.Client(idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 1})),
		Store:       s.store,
		Allow:       func(*http.Request, string) error { return nil },
		Logger:      slog.New(slog.NewTextHandler(&s.log, nil)),
		Verifier:    service.Verifier([]string{host}, nil),
		RedirectURL: s.url + "/return",
		StartPage:   "/",
	}
	for _, e := range edit {
		e(&s.config)
	}
	s.restart()
	service.Handle(host, s.handler())
	return s
}

// restart replaces the process of the site by one with the same store.
func (s *site) restart() {
	s.t.Helper()
	web := must(checkflow.NewWeb(s.config))(s.t)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.web = web
}

func (s *site) current() *checkflow.Web { s.mu.Lock(); defer s.mu.Unlock(); return s.web }

// handler returns the pages of the site.
func (s *site) handler() http.Handler { return s.handlerWith(s.report) }

func (s *site) handlerWith(report func(http.ResponseWriter, *http.Request, checkflow.Result) string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "start page, reason %q", r.FormValue("reason"))
	})
	mux.HandleFunc("/start", func(w http.ResponseWriter, r *http.Request) {
		checkURL, err := s.current().Start(w, r, checkflow.StartParams{Check: idverify.PhoneCheckParams{PhoneNumber: r.FormValue("number")}, Data: r.FormValue("order")})
		if err != nil {
			http.Error(w, "", checkflow.StatusCode(err))
			return
		}
		http.Redirect(w, r, checkURL, http.StatusSeeOther)
	})
	mux.HandleFunc("/return", func(w http.ResponseWriter, r *http.Request) { s.current().Return(report).ServeHTTP(w, r) })
	mux.HandleFunc("GET /home", func(w http.ResponseWriter, r *http.Request) {
		c, err := r.Cookie("login")
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			io.WriteString(w, s.users[c.Value])
		}
	})
	return mux
}

// report signs in the person if the verdict is yes.
func (s *site) report(w http.ResponseWriter, _ *http.Request, result checkflow.Result) string {
	s.store.reach("report")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results = append(s.results, result)
	if result.Verdict != idverify.VerdictYes {
		return ""
	}
	login := rand.Text()
	s.users[login] = result.PhoneNumber
	http.SetCookie(w, &http.Cookie{Name: "login", Value: login, Path: "/", Secure: true, HttpOnly: true})
	return "/home"
}

// reported returns the results that Return reported.
func (s *site) reported() []checkflow.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]checkflow.Result(nil), s.results...)
}

// wantResult fails the test unless Return reported one result, with the verdict, reason and error
// code of want. It returns the result.
func (s *site) wantResult(t *testing.T, want checkflow.Result) (got checkflow.Result) {
	t.Helper()
	results := s.reported()
	if len(results) == 1 {
		got = results[0]
	}
	if len(results) != 1 || got.Verdict != want.Verdict || got.Reason != want.Reason || got.ErrorCode != want.ErrorCode {
		t.Errorf("results = %+v, want one with %v, reason %q and error code %q", results, want.Verdict, want.Reason, want.ErrorCode)
	}
	return got
}

// calls returns the number of requests of an operation to the service.
func (s *site) calls(operation string) int { return countRequests(s.service, operation) }

func countRequests(service *sandboxfake.Server, operation string) (n int) {
	for _, r := range service.Requests() {
		if r.Operation == operation {
			n++
		}
	}
	return n
}

// useVerifier replaces the verifier by one with other options.
func (s *site) useVerifier(opts *signature.VerifierOptions) {
	s.t.Helper()
	s.config.Verifier = s.service.Verifier([]string{host}, opts)
	s.restart()
}

// app returns an App with the configuration of the site.
func (s *site) app(t *testing.T) *checkflow.App {
	t.Helper()
	config := s.config
	config.Verifier, config.RedirectURL, config.StartPage = nil, "", ""
	return must(checkflow.NewApp(config))(t)
}

// startOf starts a check of a number without a connection.
func (s *site) startOf(t *testing.T, number string) (http.Header, error) {
	t.Helper()
	w, r := newStart(t)
	_, err := s.current().Start(w, r, checkflow.StartParams{Check: idverify.PhoneCheckParams{PhoneNumber: number}})
	return w.Header(), err
}

// browser is an HTTP client with its own cookies.
type browser struct {
	*http.Client
	site *site
}

func (s *site) browser() *browser { return &browser{Client: s.service.Device().Client(), site: s} }

// page is a response. Location is that of a redirect that was not followed.
type page struct {
	status   int
	body     string
	location string
	header   http.Header
}

// send sends a request, and follows redirects if follow is set. A request that the site aborts has
// status 0.
func (b *browser) send(ctx context.Context, follow bool, method, target, body string, header http.Header) page {
	b.site.t.Helper()
	r := must(http.NewRequestWithContext(ctx, method, target, strings.NewReader(body)))(b.site.t)
	maps.Copy(r.Header, header)
	client := *b.Client
	if !follow {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	response, err := client.Do(r)
	if err != nil {
		return page{}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return page{}
	}
	return page{status: response.StatusCode, body: string(text), location: response.Header.Get("Location"), header: response.Header}
}

// open opens a URL and follows redirects.
func (b *browser) open(target string) page {
	b.site.t.Helper()
	return b.send(b.site.t.Context(), true, http.MethodGet, target, "", nil)
}

// post submits the form of the start page without following the redirect.
func (b *browser) post(number string, header http.Header) page {
	b.site.t.Helper()
	all := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}}
	maps.Copy(all, header)
	return b.send(b.site.t.Context(), false, http.MethodPost, b.site.url+"/start", url.Values{"number": {number}, "order": {"order 17"}}.Encode(), all)
}

// start submits the form and returns the Check URL.
func (b *browser) start(number string) (checkURL string) {
	b.site.t.Helper()
	p := b.post(number, nil)
	if p.status != http.StatusSeeOther {
		b.site.t.Fatalf("start: status %d, want 303", p.status)
	}
	return p.location
}

// redirectOf opens a Check URL and returns the redirect URL without opening it.
func (b *browser) redirectOf(checkURL string) string {
	b.site.t.Helper()
	p := b.send(b.site.t.Context(), false, http.MethodGet, checkURL, "", nil)
	if p.status != http.StatusFound {
		b.site.t.Fatalf("Check URL: status %d, want 302", p.status)
	}
	return p.location
}

// user returns the number that is signed in in the browser, or "".
func (b *browser) user() string { b.site.t.Helper(); return b.open(b.site.url + "/home").body }

// cookie returns the flow cookie of the browser, or "".
func (b *browser) cookie() string {
	b.site.t.Helper()
	for _, c := range b.Jar.Cookies(b.site.base()) {
		if c.Name == flowCookie {
			return c.Value
		}
	}
	return ""
}

// setCookie stores a flow cookie in the browser. An empty value removes it.
func (b *browser) setCookie(value string) {
	b.site.t.Helper()
	c := &http.Cookie{Name: flowCookie, Value: value, Path: "/", Secure: true}
	if value == "" {
		c.MaxAge = -1
	}
	b.Jar.SetCookies(b.site.base(), []*http.Cookie{c})
}

func (s *site) base() *url.URL { s.t.Helper(); return must(url.Parse(s.url))(s.t) }

// wantReason fails the test unless p is the start page with the given reason.
func (p page) wantReason(t *testing.T, reason checkflow.Reason) {
	t.Helper()
	if want := fmt.Sprintf("start page, reason %q", reason); p.body != want {
		t.Errorf("page = %d %q, want %q", p.status, p.body, want)
	}
}

// wantUser fails the test if another number than want is signed in in the browser.
func (b *browser) wantUser(t *testing.T, who, want string) {
	t.Helper()
	if got := b.user(); got != want {
		t.Errorf("the browser of %s is signed in as %q, want %q", who, got, want)
	}
}

// hookedStore is a store whose steps a test can interrupt.
type hookedStore struct {
	checkflow.Store

	mu   sync.Mutex   // guards the fields below
	step string       // the step of hook
	hook func() error // called at that step, if not nil
	seen []string     // the steps that were reached
}

// reach calls the hook of a step, which is the name of an operation, or its past tense after the
// operation.
func (s *hookedStore) reach(step string) error {
	s.mu.Lock()
	s.seen = append(s.seen, step)
	hook, reached := s.hook, step == s.step
	s.mu.Unlock()
	if hook != nil && reached {
		return hook()
	}
	return nil
}

// setHook replaces the hook by one of the given step, and resets the counts.
func (s *hookedStore) setHook(step string, hook func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step, s.hook, s.seen = step, hook, nil
}

// reset removes the hook and resets the counts.
func (s *hookedStore) reset() { s.setHook("", nil) }

// count returns how often a step was reached since setHook or reset.
func (s *hookedStore) count(step string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, reached := range s.seen {
		if reached == step {
			n++
		}
	}
	return n
}

func (s *hookedStore) Available(ctx context.Context) error {
	return errors.Join(s.reach("available"), s.Store.Available(ctx))
}

func (s *hookedStore) Add(ctx context.Context, f checkflow.Flow, ttl time.Duration) error {
	if err := s.reach("add"); err != nil {
		return err
	}
	return errors.Join(s.Store.Add(context.WithoutCancel(ctx), f, ttl), s.reach("added"))
}

func (s *hookedStore) Claim(ctx context.Context, checkID string, owner [32]byte, revoke bool) (checkflow.Flow, checkflow.Reason, error) {
	if err := s.reach("claim"); err != nil {
		return checkflow.Flow{}, "", err
	}
	f, reason, err := s.Store.Claim(context.WithoutCancel(ctx), checkID, owner, revoke)
	return f, reason, errors.Join(err, s.reach("claimed"))
}

func (s *hookedStore) Finish(ctx context.Context, checkID string) (bool, error) {
	if err := s.reach("finish"); err != nil {
		return false, err
	}
	finished, err := s.Store.Finish(context.WithoutCancel(ctx), checkID)
	return finished, errors.Join(err, s.reach("finished"))
}

// parameter returns a query parameter of a redirect URL.
func parameter(t *testing.T, redirect, name string) string {
	t.Helper()
	return must(url.Parse(redirect))(t).Query().Get(name)
}

// newStart returns the arguments of Start for a request without a connection.
func newStart(t *testing.T) (http.ResponseWriter, *http.Request) {
	t.Helper()
	return httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+host+"/start", nil)
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }
