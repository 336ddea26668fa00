package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/pgtest"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// host is the public host of the shop. Its proxy adds the path prefix /api.
const host = "shop.sandbox.test"

// postgres is the database server of the tests. Each test has its own database in it.
var postgres pgtest.Shared

func TestMain(m *testing.M) {
	defer postgres.Close()
	m.Run()
}

// site is a running shop behind a proxy, with a fake of the service.
type site struct {
	service  *sandboxfake.Server
	project  *sandboxfake.Project // of the shop
	front    http.Handler         // the proxy, if the shop was started
	env      map[string]string
	log      tooltest.Buffer
	deviceIP string // as the proxy sees it
	db       *pgx.Conn
	stop     func() // stops the shop, if it runs
}

// newSite starts a shop. change may change its environment.
func newSite(t *testing.T, change ...func(*site)) *site {
	t.Helper()
	s := prepareSite(t)
	for _, f := range change {
		f(s)
	}
	s.start(t)
	return s
}

// prepareSite returns a site whose shop does not run yet.
func prepareSite(t *testing.T) *site {
	t.Helper()
	s := &site{deviceIP: "127.0.0.1", stop: func() {}}
	s.service = sandboxfake.New(t, sandboxfake.WithPhoneIPCheck(),
		sandboxfake.WithPrices(map[idverify.Product]string{idverify.ProductPhoneCheck: "0.01", idverify.ProductSIMCheck: "0.01", idverify.ProductSubscriberCheck: "0.01"}))
	s.project = s.service.NewProject(idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeLive})
	dir := t.TempDir()
	s.env = map[string]string{
		"LISTEN":                    "127.0.0.1:0",
		"PUBLIC_URL":                "https://" + host + "/api",
		"DATABASE_URL":              postgres.Database(t),
		"IDVERIFY_BASE_URL":         s.service.URL(),
		"IDVERIFY_CREDENTIALS_FILE": filepath.Join(dir, "credentials.json"),
		"IDVERIFY_CA_FILE":          filepath.Join(dir, "ca.pem"),
		"SHUTDOWN_DELAY":            "0s",
	}
	writeFile(t, s.env["IDVERIFY_CA_FILE"], string(s.service.CACertPEM()))
	s.setCredentials(t, s.project.Credentials)
	return s
}

// setCredentials replaces the credentials of the shop.
func (s *site) setCredentials(t *testing.T, c idverify.Credentials) {
	t.Helper()
	writeFile(t, s.env["IDVERIFY_CREDENTIALS_FILE"], fmt.Sprintf(`{"client_id": %q, "client_secret": %q}`, c.ClientID, c.ClientSecret.Reveal()))
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	noError(t, os.WriteFile(name, []byte(text), 0o600))
}

// start starts the shop behind its proxy.
func (s *site) start(t *testing.T) {
	t.Helper()
	addr := s.listen(t)
	if addr == "" {
		t.FailNow()
	}
	s.front = s.proxy(addr)
	s.service.Handle(host, s.front)
	if s.db == nil {
		s.connect(t)
	}
}

// listen starts the shop and returns its address. It stops at the end of the test, if it has not
// been stopped before.
func (s *site) listen(t *testing.T) (addr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	output, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, func(name string) string { return s.env[name] }, writer, slog.New(slog.NewTextHandler(&s.log, nil)))
		writer.CloseWithError(io.EOF)
		ended <- err
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the shop ended with %v", err)
		}
	})
	t.Cleanup(func() {
		s.stop()
		if strings.Contains(s.log.String(), "4477009") {
			t.Error("the log contains a phone number")
		}
		if t.Failed() {
			t.Logf("log of the shop:\n%s", s.log.String())
		}
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	addr, found := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !found {
		t.Errorf("output = %q (%v), want the address", line, err)
		return ""
	}
	go io.Copy(io.Discard, output)
	return addr
}

// proxy returns a reverse proxy that changes host and path, like nginx in production.
func (s *site) proxy(addr string) http.Handler {
	return http.StripPrefix("/api", &httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: addr})
		r.Out.Host = "backend.internal"
		r.Out.Header.Set("X-Forwarded-Host", r.In.Host)
		r.Out.Header.Set("X-Original-URI", r.In.RequestURI)
		r.Out.Header.Set("X-Real-IP", s.deviceIP)
	}})
}

// connect opens a connection that is notified of each decision.
func (s *site) connect(t *testing.T) {
	t.Helper()
	s.db = must(pgx.Connect(t.Context(), s.env["DATABASE_URL"]))(t)
	t.Cleanup(func() { s.db.Close(context.WithoutCancel(t.Context())) })
	must(s.db.Exec(t.Context(), `
		CREATE FUNCTION notify_decided() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify('decided', ''); RETURN NULL; END $$;
		CREATE TRIGGER decided AFTER INSERT ON decisions FOR EACH ROW EXECUTE FUNCTION notify_decided();
		LISTEN decided`))(t)
}

// awaitDecision waits for the next decision.
func (s *site) awaitDecision(t *testing.T) {
	t.Helper()
	must(s.db.WaitForNotification(t.Context()))(t)
}

// value returns a value in the database.
func (s *site) value(t *testing.T, query string, args ...any) (value string) {
	t.Helper()
	noError(t, s.db.QueryRow(t.Context(), query, args...).Scan(&value))
	return value
}

// calls returns the number of requests of an operation that the service received.
func (s *site) calls(operation string) int {
	n := 0
	for _, r := range s.service.Requests() {
		if r.Operation == operation {
			n++
		}
	}
	return n
}

// open opens a Check URL on a phone.
func (s *site) open(t *testing.T, checkURL string) {
	t.Helper()
	must(s.service.Device().Open(t.Context(), checkURL))(t)
}

// browser is an HTTP client with its own cookies that does not follow redirects.
type browser struct {
	t      *testing.T
	client *http.Client
	origin string // of the page that sends requests, or empty for an app
	bearer string // the session of an app
}

func (s *site) browser(t *testing.T) *browser {
	t.Helper()
	client := s.service.Device().Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &browser{t: t, client: client}
}

// cookies returns the cookies for the shop.
func (b *browser) cookies() string {
	request := &http.Request{Header: http.Header{}}
	for _, c := range b.client.Jar.Cookies(&url.URL{Scheme: "https", Host: host}) {
		request.AddCookie(c)
	}
	return request.Header.Get("Cookie")
}

// reply is a response of the shop.
type reply struct {
	status   int
	body     map[string]any
	location string
}

func (b *browser) post(path, body string) reply {
	b.t.Helper()
	return b.do("POST", "https://"+host+"/api"+path, body)
}

func (b *browser) get(path string) reply {
	b.t.Helper()
	return b.do("GET", "https://"+host+"/api"+path, "")
}

func (b *browser) do(method, url, body string) reply {
	b.t.Helper()
	request := must(http.NewRequestWithContext(b.t.Context(), method, url, strings.NewReader(body)))(b.t)
	if b.origin != "" {
		request.Header.Set("Origin", b.origin)
	}
	if b.bearer != "" {
		request.Header.Set("Authorization", "Bearer "+b.bearer)
	}
	response := must(b.client.Do(request))(b.t)
	defer response.Body.Close()
	r := reply{status: response.StatusCode, location: response.Header.Get("Location")}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		if err := json.NewDecoder(response.Body).Decode(&r.body); err != nil {
			b.t.Errorf("%s %s: %v", method, url, err)
		}
	}
	return r
}

// text returns a field of the body.
func (r reply) text(name string) string {
	text, _ := r.body[name].(string)
	return text
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }
