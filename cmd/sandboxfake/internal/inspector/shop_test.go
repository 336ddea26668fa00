package inspector_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// shop is a customer's backend. It records verified callbacks and exchanges the codes of verified
// redirects.
type shop struct {
	t       *testing.T
	srv     *sandboxfake.Server
	client  *idverify.Client
	version string // of the products
	url     string

	withoutURLs bool // creates checks without callback URL and redirect URL

	mu        sync.Mutex // guards the following
	callbacks []string
	redirects []string
}

const shopHost = "shop.sandbox.test"

func newShop(t *testing.T, srv *sandboxfake.Server, version string) *shop {
	t.Helper()
	s := &shop{t: t, srv: srv, version: version}
	project := srv.NewProject(idverify.ProjectParams{Name: "Ada & <b>Sons</b>", Mode: idverify.ModeSandbox})
	client := must(idverify.NewClient(srv.URL(), project.Credentials, idverify.WithHTTPClient(srv.HTTPClient()), idverify.WithVersions(idverify.Versions{PhoneCheck: version, SubscriberCheck: version})))(t)
	s.client = client
	verifier := srv.Verifier([]string{shopHost}, nil)
	mux := http.NewServeMux()
	mux.Handle("POST /callback", idverify.CallbackHandler(verifier, func(_ context.Context, c *idverify.Callback) error {
		s.record(&s.callbacks, fmt.Sprintf("%s %s match=%s error=%s", c.Product, c.Status, c.Match, c.ErrorCode))
		return nil
	}))
	mux.Handle("GET /back", idverify.RedirectHandler(verifier, s.redirected))
	s.url = srv.Handle(shopHost, mux)
	return s
}

func (s *shop) record(list *[]string, entry string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*list = append(*list, entry)
}

func (s *shop) redirected(w http.ResponseWriter, r *http.Request, redirect *idverify.Redirect) {
	result := "error=" + redirect.ErrorCode
	if redirect.Code != "" {
		if check, err := s.client.PhoneChecks.Complete(r.Context(), redirect.CheckID, redirect.Code); err == nil {
			result = "match=" + check.Match.String()
		} else if check, err := s.client.SubscriberChecks.Complete(r.Context(), redirect.CheckID, redirect.Code); err == nil {
			result = "match=" + check.Match.String()
		}
	}
	s.record(&s.redirects, result)
	io.WriteString(w, "the shop's page")
}

// create creates a check and returns the path of its page.
func (s *shop) create(product idverify.Product, number string) string {
	s.t.Helper()
	callback, redirect := s.url+"/callback", ""
	if s.withoutURLs {
		callback = ""
	} else if s.version == "v0.2" {
		redirect = s.url + "/back"
	}
	if product == idverify.ProductSubscriberCheck {
		check := must(s.client.SubscriberChecks.Create(s.t.Context(), idverify.SubscriberCheckParams{PhoneNumber: number, CallbackURL: callback, RedirectURL: redirect}))(s.t)
		return "/_sandbox/open/" + check.CheckID
	}
	check := must(s.client.PhoneChecks.Create(s.t.Context(), idverify.PhoneCheckParams{PhoneNumber: number, CallbackURL: callback, RedirectURL: redirect}))(s.t)
	return "/_sandbox/open/" + check.CheckID
}

// get opens a path of the server as a browser does.
func (s *shop) get(path string) page { s.t.Helper(); return get(s.t, s.srv, path) }

// choose submits the form of a page.
func (s *shop) choose(path, as string) page {
	s.t.Helper()
	return s.browse(http.MethodPost, path, url.Values{"as": {as}}.Encode(), http.Header{
		"Content-Type": {"application/x-www-form-urlencoded"}, "Origin": {s.srv.URL()}, "Sec-Fetch-Site": {"same-origin"},
	})
}

func (s *shop) browse(method, path, body string, header http.Header) page {
	s.t.Helper()
	return browse(s.t, s.srv, method, path, body, header)
}

// results waits for the callbacks and returns what the shop received.
func (s *shop) results() (callbacks, redirects []string) {
	s.t.Helper()
	noError(s.t, s.srv.WaitIdle(s.t.Context()))
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.callbacks, s.redirects
}
