package checkflow

import (
	"crypto/rand"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/signature"
)

// Web binds checks to browsers, by a cookie. It is safe for concurrent use.
type Web struct {
	b         *binder
	verifier  *signature.Verifier
	startPage *url.URL
	cookie    http.Cookie // without a value
}

// NewWeb returns a Web. An error names the field of c to change.
func NewWeb(c Config) (*Web, error) {
	b, err := newBinder("web", c)
	if err != nil {
		return nil, fmt.Errorf("checkflow: new web: %w", err)
	}
	if c.Verifier == nil {
		return nil, errors.New("checkflow: new web: Config.Verifier is nil (set it to a verifier of the service's keys)")
	}
	redirect, err := parseRedirectURL(c.RedirectURL)
	if err != nil {
		return nil, fmt.Errorf("checkflow: new web: Config.RedirectURL %w", err)
	}
	if !c.Verifier.AcceptsHost(redirect.Host) {
		return nil, errors.New("checkflow: new web: the host of Config.RedirectURL is not a host of Config.Verifier (pass it to signature.NewVerifier)")
	}
	page, err := url.Parse(c.StartPage)
	if err != nil || !isPage(page) {
		return nil, errors.New("checkflow: new web: Config.StartPage is not a URL or an absolute path (set it to the page on which people start)")
	}
	if cleanPath(page) == cleanPath(redirect) && (page.Host == "" || hostOf(page) == hostOf(redirect)) {
		return nil, errors.New("checkflow: new web: Config.StartPage is Config.RedirectURL (set it to the page on which people start)")
	}
	if err := b.origin.AddTrustedOrigin(redirect.Scheme + "://" + hostOf(redirect)); err != nil { // a proxy may change the host of requests
		return nil, errors.New("checkflow: new web: Config.RedirectURL has an invalid host (set it to the URL of Return)")
	}
	return &Web{
		b:         b,
		verifier:  c.Verifier.WithoutReplayStore(),
		startPage: page,
		cookie:    flowCookie(redirect.Scheme == "https"),
	}, nil
}

// parseRedirectURL parses Config.RedirectURL. Its errors do not contain the URL, which may include
// a password.
func parseRedirectURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("is not an absolute https URL (set it to the URL of Return)")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return nil, errors.New("has the scheme http and a host other than localhost and loopback addresses (use https)")
	case u.User != nil || u.Fragment != "":
		return nil, errors.New("contains a user or a fragment (remove it)")
	}
	for _, name := range []string{"check_id", "code", "error", "error_description", "authorization", "date"} {
		if u.Query().Has(name) {
			return nil, fmt.Errorf("contains the query parameter %s, which the service sets (remove it)", name)
		}
	}
	return u, nil
}

// hostOf returns the host of u as browsers send it: without the default port.
func hostOf(u *url.URL) string {
	host := strings.ToLower(u.Host)
	return strings.TrimSuffix(host, map[string]string{"https": ":443", "http": ":80"}[u.Scheme])
}

// cleanPath returns the path of u as browsers send it: absolute and without dot segments.
func cleanPath(u *url.URL) string { return path.Clean("/" + u.Path) }

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

func isPage(u *url.URL) bool {
	if u.Host != "" {
		return u.Scheme == "https" || u.Scheme == "http"
	}
	return u.Scheme == "" && strings.HasPrefix(u.Path, "/") && !strings.HasPrefix(u.Path, "//") // browsers take the rest of ///host for a host
}

// Start creates a check of p.Check.PhoneNumber, binds it to the browser that sent r, and returns
// its Check URL, to which you redirect or link. Start sets a cookie and other headers, and writes
// no response.
//
// Start requires a POST request that a page of the origin of r or of Config.RedirectURL sent: see
// [http.CrossOriginProtection]. The device must open the Check URL in the same browser. A new Start
// replaces the earlier one of this browser. Return deletes the cookie, even if a Start in another
// tab set it during the exchange; the person must then start again.
//
// Start logs its error. To respond to it, use [StatusCode].
func (web *Web) Start(w http.ResponseWriter, r *http.Request, p StartParams) (checkURL string, err error) {
	setPrivate(w)
	token := rand.Text()
	check, ttl, err := web.b.start(r, token, p)
	if err != nil {
		return "", err
	}
	web.setCookie(w, token, int(ttl/time.Second))
	return check.CheckURL, nil
}

// Return returns the handler of Config.RedirectURL. It calls report once for each check whose owner
// has returned, with the verdict or the reason why there is none. If the verdict is yes, report can
// sign in the person: it must create a new session ID, and set its cookie in this response only.
// report returns the URL of the next page, to which Return redirects, or "" for Config.StartPage
// with the [Reason]. report must not write the response.
//
// In all other cases report is not called, and Return redirects to Config.StartPage with the
// Reason. It responds with 400 to an invalid redirect, and with 503 if the key set is unavailable;
// the page of this response leads to Config.StartPage, too.
//
// If another browser returns before the owner has finished, the flow is revoked, and report is not
// called: someone may have sent the Check URL to the person who opened it. This includes a browser
// that only loads a page in advance (Sec-Purpose: prefetch), and one without the cookie that sends
// another method, such as HEAD. Put no handler before Return that can respond in its place, such
// as a login, a rate limit or http.CrossOriginProtection: then nothing is revoked. For the same
// reason, register Return with a pattern without a method, such as "/return": with "GET /return",
// http.ServeMux itself responds to OPTIONS and POST. A pattern such as "GET /" conflicts with
// "/return": use "/" instead.
//
// Return takes at most 36 s, not counting report and Config.Account. Set
// [http.Server].WriteTimeout to a longer time.
func (web *Web) Return(report func(w http.ResponseWriter, r *http.Request, result Result) (location string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setPrivate(w)
		redirect, ok := web.verify(w, r)
		if !ok {
			return
		}
		p := ExchangeParams{CheckID: redirect.CheckID, Code: redirect.Code}
		if c, err := r.Cookie(web.cookie.Name); err == nil {
			p.Token = c.Value
		}
		f, reason := web.b.claim(detach(r), "checkflow: return rejected", p, redirect.ErrorCode != "", true)
		if reason != "" {
			http.Redirect(w, r, web.pageFor(reason), http.StatusSeeOther)
			return
		}
		web.setCookie(w, "", -1) // it is used once
		result, ok := web.b.complete(r, f, redirect.Code, redirect.ErrorCode)
		if !ok {
			http.Redirect(w, r, web.pageFor(result.Reason), http.StatusSeeOther)
			return
		}
		location := report(w, r, result)
		if location == "" {
			location = web.pageFor(result.Reason)
		}
		http.Redirect(w, r, location, http.StatusSeeOther)
	})
}

// verify returns the verified redirect in r. If there is none, verify responds and returns false.
func (web *Web) verify(w http.ResponseWriter, r *http.Request) (*idverify.Redirect, bool) {
	if r.Method != http.MethodGet {
		web.revoke(r)
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return nil, false
	}
	redirect, err := web.redirect(r)
	if err == nil {
		return redirect, true
	}
	status, reason := http.StatusBadRequest, ReasonInvalid
	name := ""
	if e, ok := errors.AsType[*signature.Error](err); ok {
		name = e.ReasonName()
		if e.Retryable() {
			status, reason = http.StatusServiceUnavailable, ReasonUnavailable
		}
	}
	web.b.Logger.WarnContext(r.Context(), "checkflow: redirect not verified", "reason", name, "error", err)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	page := html.EscapeString(web.pageFor(reason))
	fmt.Fprintf(w, "<!doctype html>\n<meta http-equiv=\"refresh\" content=\"0; url=%s\">\n<title>Start again</title>\n<a href=\"%s\">Start again</a>\n", page, page)
	return nil, false
}

// redirect verifies and decodes the redirect in r.
func (web *Web) redirect(r *http.Request) (*idverify.Redirect, error) {
	m, err := web.verifier.VerifyRedirect(r)
	if err != nil {
		return nil, err
	}
	return idverify.ParseRedirect(m)
}

// revoke revokes the flow of a redirect that arrives with another method than GET. A page of an
// attacker can make a browser send HEAD, or OPTIONS as a CORS preflight, both without cookies. A
// request with the cookie may be the owner's, and revokes nothing.
func (web *Web) revoke(r *http.Request) {
	if _, err := r.Cookie(web.cookie.Name); err == nil {
		return
	}
	get := r.WithContext(r.Context())
	get.Method = http.MethodGet // which the service has signed
	if redirect, err := web.redirect(get); err == nil {
		web.b.claim(detach(r), "checkflow: return rejected", ExchangeParams{CheckID: redirect.CheckID}, true, true)
	}
}

// pageFor returns the URL of the start page with a reason, which may be empty.
func (web *Web) pageFor(reason Reason) string {
	u := *web.startPage
	if reason != "" {
		q := u.Query()
		q.Set("reason", string(reason))
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// flowCookie returns the cookie that binds a browser to its flow. With the prefix of its name,
// other hosts cannot set it. It is Lax because browsers do not send Strict cookies with the
// redirect, which comes from the site of the service.
func flowCookie(secure bool) http.Cookie {
	//nolint:gosec // a browser does not store a Secure cookie of http://127.0.0.1
	c := http.Cookie{Name: "idverify-flow", Path: "/", Secure: secure, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if secure {
		c.Name = "__Host-" + c.Name
	}
	return c
}

// setCookie sets the cookie for maxAge seconds, or deletes it if maxAge is negative.
func (web *Web) setCookie(w http.ResponseWriter, token string, maxAge int) {
	c := web.cookie //nolint:gosec // see flowCookie
	c.Value, c.MaxAge = token, maxAge
	http.SetCookie(w, &c)
}

// setPrivate keeps a response out of caches, and its URL out of Referer headers.
func setPrivate(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
}
