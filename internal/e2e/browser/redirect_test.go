package browser

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/signature"
)

// redirectURLs are redirect URLs as customers write them, and whether a verifier that decodes the
// query with URLSearchParams and encodes it again rejects the redirect.
var redirectURLs = []struct {
	url     string
	changed bool // by URLSearchParams
}{
	{"http://shop.test", false},
	{"http://shop.test?", false},
	{"http://shop.test/back", false},
	{"http://shop.test/?a=1&b=two", false},
	{`http://shop.test/?q="quoted"`, false},
	{"http://shop.test/?q='quoted'", false},
	{"http://shop.test/?q=<b>&r=>", false},
	{"http://shop.test/?q=a b", true},
	{"http://shop.test/?q=a%20b", true},
	{"http://shop.test/?q=a+b", false},
	{"http://shop.test/?q=%7Euser", false},
	{"http://shop.test/?q=~user", true},
	{"http://shop.test/?list[]=1&list[]=2", true},
	{"http://shop.test/?list%5B%5D=1", false},
	{"http://shop.test/?flag", true},
	{"http://shop.test/?flag=&=v", false},
	{"http://shop.test/?a=1&&b=2", true},
	{"http://shop.test/?q=%2f", true},
	{"http://shop.test/?q=%2F", false},
	{"http://shop.test/?to=https://shop.test/a?b=c", true},
	{`http://shop.test/?q={}|^\`, true},
	{"http://shop.test/?q=(a)!*", true},
	{"http://shop.test/?q=%C3%BC", false},
	{"http://shop.test/?q=%c3%bc", true},
	{"http://shop.test/?b=2&a=1&a=0", false},
	{`http://shop.test/a"b'c`, false},
	{"http://shop.test/<a>/{b}/^|[c]", false},
	{"http://shop.test/a b/c%20d", false},
	{"http://shop.test/%7Euser/~user", false},
	{"http://shop.test/a/./b/../c", false},
	{"http://shop.test/a/%2e%2E/b/.%2e", false},
	{"http://shop.test/../..//a/", false},
	{`http://shop.test/a\b\..\c`, false},
	{"http://shop.test/%2f%2F%41", false},
	{"http://shop.test/;a=1,b@c:d$&+!*()", false},
	{"http://127.1/back", false},
	{"http://0x7f.1/", false},
	{"http://2130706433/", false},
	{"http://0177.0.0.01:8080/", false},
	{"http://[0:0:0:0:0:0:0:1]/", false},
	{"http://[::FFFF:127.0.0.1]:8080/", false},
	{"http://[2001:0DB8:0000:0000:0000:0000:0000:0001]/back", false},
	{"http://bücher.test/", false},
	{"http://xn--bcher-kva.test/", false},
	{"http://STRASSE.straße.test/", false},
	{"http://例え。テスト/", false},
	{"http://shop_1.test./", false},
	{"http://SHOP.Test:80/Back?Q=A", false},
	{"http://shop.test:443/", false},
	{"HTTPS://SHOP.SECURE.TEST:443/", false},
	{"https://shop.secure.test:00443/", false},
	{"https://shop.secure.test:80/", false},
	{"https://bücher.secure.test:8443/", false},
}

// arrived is a redirect as it arrived at a receiver.
type arrived struct {
	host, target string
	err          error // why it was rejected
}

// redirectReceivers starts two receivers, for http and https, of the redirects of p to any host.
func redirectReceivers(t *testing.T, p *program) (got chan arrived, plain, secure string) {
	t.Helper()
	keys := must(p.client(idverify.WithHTTPClient(tooltest.WithoutDeadlines(p.http))).NewJWKS(nil))(t)
	got = make(chan arrived, 16)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("check_id") { // of the browser itself, whose other hosts are mapped too
			http.NotFound(w, r)
			return
		}
		verifier, err := signature.NewVerifier(keys, []string{r.Host}, &signature.VerifierOptions{ClockSkew: time.Hour})
		if err == nil {
			_, err = verifier.VerifyRedirect(r)
		}
		got <- arrived{r.Host, r.RequestURI, err}
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte("<!doctype html><title>shop</title><link rel=icon href=data:,>"))
	})
	for address, newServer := range map[*string]func(http.Handler) *httptest.Server{&plain: httptest.NewServer, &secure: httptest.NewTLSServer} {
		server := newServer(handler)
		t.Cleanup(server.Close)
		*address = server.Listener.Addr().String()
	}
	return got, plain, secure
}

// A browser that opens a Check URL lands on the redirect URL as the browser itself writes it, and
// the verifier accepts what arrives.
func TestRedirect_URLsOfBrowsers(t *testing.T) {
	skipSlow(t)
	t.Parallel()
	p := start(t, "-addr", "localhost:0")
	got, plain, secure := redirectReceivers(t, p)
	browser := newBrowser(t, p.trust(),
		chromedp.Flag("host-resolver-rules", "MAP *.secure.test "+secure+", MAP * "+plain+", EXCLUDE localhost"),
		chromedp.Flag("ignore-certificate-errors", true), // of the receiver
		chromedp.Flag("disable-features", "HttpsUpgrades,HttpsFirstBalancedModeAutoEnable"),
	)
	client := p.client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))
	pg := &page{t: t, program: p, ctx: browser}
	// follow opens a new check, and returns the redirect without its signature.
	follow := func(number, redirectURL string) (redirect arrived, landed view) {
		check, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: number, RedirectURL: redirectURL})
		if err != nil {
			t.Fatalf("%s: %v", redirectURL, err)
		}
		pg.navigate(check.CheckURL)
		select {
		case redirect = <-got:
		case <-time.After(timeout):
			t.Fatalf("%s: no redirect arrived", redirectURL)
		}
		landed = browserView(pg, redirectURL)
		if redirect.err != nil || !strings.Contains(redirect.target, "check_id="+check.CheckID+"&") {
			t.Errorf("%s: %s %s of check %s is rejected: %v", redirectURL, redirect.host, redirect.target, check.CheckID, redirect.err)
		}
		if !strings.HasPrefix(landed.Landed, landed.Written) || landed.Host != redirect.host || landed.Target != redirect.target {
			t.Errorf("%s: the browser sent %s %s, want the URL that it writes as %s", redirectURL, redirect.host, redirect.target, landed.Written)
		}
		redirect.target, _, _ = strings.Cut(redirect.target, "&authorization=")
		return redirect, landed
	}
	rejected := 0
	for _, row := range redirectURLs {
		redirect, landed := follow("447700900012", row.url)

		changed := landed.Encoded != redirect.target
		if changed {
			rejected++
		}
		if changed != row.changed {
			t.Errorf("%s: URLSearchParams writes %s for %s: changed = %v, want %v", row.url, landed.Encoded, redirect.target, changed, row.changed)
		}
	}
	if failed, landed := follow("447700900055", "http://shop.test/"); !strings.Contains(failed.target, "&error_description=") || landed.Encoded == failed.target {
		t.Errorf("URLSearchParams writes %s for %s, want its spaces changed", landed.Encoded, failed.target)
	}
	t.Logf("opened %d redirect URLs in a browser; a verifier that encodes the query again would reject %d of them", len(redirectURLs), rejected)
	if len(redirectURLs) < 40 {
		t.Errorf("%d redirect URLs, want at least 40", len(redirectURLs))
	}
}

// view contains a redirect URL as a browser writes it, and the page that it led to.
type view struct {
	Written string // the URL as the browser writes it
	Landed  string // the URL of the page
	Host    string // of the page
	Target  string // path and query of the page
	Encoded string // Target without authorization and date, encoded again
}

// browserView returns the view of the browser, which shows the target of a redirect to text.
func browserView(pg *page, text string) view {
	pg.t.Helper()
	return evaluate[view](pg, `(() => {
		const again = new URL(location.href);
		again.searchParams.delete("authorization");
		again.searchParams.delete("date");
		return {
			Written: new URL(`+quote(text)+`).href, Landed: location.href, Host: location.host,
			Target: location.pathname + location.search, Encoded: again.pathname + again.search,
		};
	})()`)
}
