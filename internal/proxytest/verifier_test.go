package proxytest

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// hosts are the hosts of callback and redirect URLs, one with the default port and one with
// another.
var hosts = []string{"api.example.com", "api.example.com:8443"}

// targets are paths and queries of callback and redirect URLs that a proxy could alter.
var targets = []string{
	"/callbacks",
	"/callbacks/",
	"/callbacks?",
	"/callbacks/a%2Fb",
	"/callbacks/a%2fb",
	"/callbacks/a%20b/c+d",
	"/callbacks/%C3%A9/%c3%a9/%7E~%41",
	"/callbacks//x///y",
	"/callbacks/./x/../y",
	"/callbacks/%2e%2e/x",
	"/callbacks/a;b=1,c=(d)!*'@:$&",
	"/callbacks?a=%2F&b=x+y%20z&&c=%2f&d=1?2/3",
	"/callbacks?a=1;b=2&c",
}

// message is a valid callback or redirect.
type message struct{ method, host, target string }

// messages returns a callback and a redirect for each combination of hosts and targets.
func messages(prefix string, hosts ...string) []message {
	var all []message
	for _, host := range hosts {
		for _, target := range targets {
			all = append(all, message{http.MethodPost, host, prefix + target}, message{http.MethodGet, host, prefix + target})
		}
	}
	return all
}

// send signs m as the service does and sends it through the proxy with transport.
func (a *app) send(t *testing.T, transport http.RoundTripper, m message, header http.Header) (status int) {
	t.Helper()
	path, query, hasQuery := strings.Cut(m.target, "?")
	// The opaque form of a URL keeps the path unescaped.
	u := &url.URL{Scheme: "https", Host: m.host, Opaque: path, RawQuery: query, ForceQuery: hasQuery}
	r := (&http.Request{Method: m.method, URL: u, Header: make(http.Header)}).WithContext(t.Context())
	maps.Copy(r.Header, header)
	if m.method == http.MethodGet {
		if query != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += "check_id=check-1&code=a%2Bb%2F"
		noError(t, a.signer.SignRedirect(u))
	} else {
		r.Header.Set("x-service-callback", "phone_check")
		noError(t, a.signer.SignCallback(r, []byte(`{"check_id":"check-1","status":"COMPLETED","match":true}`)))
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s %s: %v", m.method, m.target, err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestVerifier_BehindProxy runs the configurations of docs/production.md.
func TestVerifier_BehindProxy(t *testing.T) {
	t.Parallel()
	doc := readPage(t)
	for _, name := range []string{"nginx", "haproxy", "caddy"} {
		blocks := doc.blocks(t, language(name))
		for _, tt := range []struct {
			name, config, prefix string
			target               func(*http.Request) (string, string)
		}{
			{"unchanged", blocks[unchanged], "", nil},
			{"rewriting", blocks[rewriting], "/id", target},
		} {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				a := startApp(t, tt.target, hosts...)
				p := runDocumented(t, name, tt.config, a.addr)
				sent := messages(tt.prefix, hosts...)
				if tt.target != nil {
					sent = append(sent, message{http.MethodPost, hosts[0], tt.prefix + "/callbacks/a^b"})
				}
				// The sender also sets the headers that Target reads.
				header := http.Header{"X-Forwarded-Host": {"evil.example.com"}, "X-Original-Uri": {"/evil"}}
				for _, protocol := range protocols {
					transport := p.transport(t, protocol)
					lost := 0
					for _, m := range sent {
						before, _, _ := a.outcome()

						status := a.send(t, transport, m, header)

						accepted, received, err := a.outcome()
						forwarded := received.Get("X-Original-URI") == "/evil"
						if forwarded != (tt.target == nil) {
							t.Fatalf("%s: sender's X-Original-URI forwarded = %t, want the opposite", protocol, forwarded)
						}
						if status == http.StatusOK && err == nil && accepted == before+1 {
							continue
						}
						if lost++; lost == 1 {
							t.Errorf("%s: %s https://%s%s: status %d, error %v; want 200: a valid message is lost", protocol, m.method, m.host, m.target, status, err)
						}
					}
					if lost > 0 {
						t.Errorf("%s: %d of %d valid messages are lost", protocol, lost, len(sent))
					}
				}
			})
		}
	}
}

// TestVerifier_BehindMisconfiguredProxy tests the tables of misconfigurations in
// docs/production.md: it changes the configurations accordingly, or sends messages to the URLs that
// fail.
func TestVerifier_BehindMisconfiguredProxy(t *testing.T) {
	t.Parallel()
	doc := readPage(t)
	for _, tt := range doc.misconfigurations(t) {
		t.Run(tt.name(), func(t *testing.T) {
			t.Parallel()
			config := doc.blocks(t, language(tt.proxy))[unchanged]
			if tt.line != "" {
				config = replaceOnce(t, config, tt.line, tt.changed)
			}
			seen := make(map[error]bool)
			// Each list contains the hosts of a verifier and of the messages to it.
			for _, list := range [][]string{hosts, hosts[1:]} {
				a := startApp(t, nil, list...)
				p := runDocumented(t, tt.proxy, config, a.addr)
				sent := messages("", list...)
				if tt.url != "" {
					host, path, _ := strings.Cut(strings.TrimPrefix(tt.url, "https://"), "/")
					sent = []message{{http.MethodPost, host, "/" + path}, {http.MethodGet, host, "/" + path}}
				}
				rejected := 0
				for _, protocol := range protocols {
					transport := p.transport(t, protocol)
					for _, m := range sent {
						status := a.send(t, transport, m, nil)

						_, _, err := a.outcome()
						if err == nil {
							continue
						}
						rejected++
						i := slices.IndexFunc(tt.reasons, func(reason error) bool { return errors.Is(err, reason) })
						if i < 0 || status != http.StatusBadRequest {
							t.Fatalf("%s: %s https://%s%s: status %d, error %v; want 400, one of %q", protocol, m.method, m.host, m.target, status, err, tt.reasons)
						}
						seen[tt.reasons[i]] = true
					}
				}

				all := len(sent) * len(protocols)
				t.Logf("hosts %q: %d of %d messages rejected", list, rejected, all)
				if rejected == 0 || strings.Contains(tt.effect, "every message fails") && rejected < all {
					t.Errorf("hosts %q: %d of %d messages rejected, want the effect on the page: %s", list, rejected, all, tt.effect)
				}
				if tt.url != "" {
					break // the URL contains the host
				}
			}
			if len(seen) != len(tt.reasons) {
				t.Errorf("errors = %v, want each of %q", seen, tt.reasons)
			}
		})
	}
}

// language returns the language of the proxy's code blocks on the page.
func language(proxy string) string {
	if proxy == "caddy" {
		return "caddyfile"
	}
	return proxy
}

// runDocumented runs a configuration of the page with the addresses of the test instead of the
// placeholders.
func runDocumented(t *testing.T, name, config, addr string) *proxy {
	t.Helper()
	return startConfig(t, name, func(s setup) string {
		s.Documented = config
		switch name {
		case "nginx":
			s.Documented = replaceOnce(t, s.Documented, "listen 443 ", "listen unix:"+s.Socket+" ")
		case "haproxy":
			s.Documented = replaceOnce(t, s.Documented, "bind :443 ", "bind unix@"+s.Socket+" ")
		}
		s.Documented = strings.ReplaceAll(s.Documented, "/etc/ssl/api.example.com.pem", s.Certificate)
		s.Documented = replaceOnce(t, s.Documented, "127.0.0.1:8080", addr)
		return s.expand(t, name)
	})
}

// replaceOnce replaces old, which must occur exactly once.
func replaceOnce(t *testing.T, text, old, new string) string {
	t.Helper()
	if n := strings.Count(text, old); n != 1 {
		t.Fatalf("%q occurs %d times in the configuration, want once:\n%s", old, n, text)
	}
	return strings.Replace(text, old, new, 1)
}

// target returns the host and the request target that the service signed.
func target(r *http.Request) (host, requestURI string) {
	return r.Header.Get("X-Forwarded-Host"), r.Header.Get("X-Original-URI")
}

var targetCode = regexp.MustCompile("(?s)```go\n([^`]*func target\\(.*?)```")

// TestProductionPage_TargetCode checks that the function target on the page equals the one in this
// file. The other Go code of the page is in examples/readme_test.go.
func TestProductionPage_TargetCode(t *testing.T) {
	t.Parallel()
	source := must(os.ReadFile("verifier_test.go"))(t)

	block := targetCode.FindStringSubmatch(string(readPage(t)))

	if block == nil {
		t.Fatal("the page has no code with the function target")
	}
	if !strings.Contains(string(source), block[1]) {
		t.Errorf("verifier_test.go does not contain this code of the page:\n%s", block[1])
	}
}
