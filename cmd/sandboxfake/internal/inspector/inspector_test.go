package inspector_test

import (
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/cmd/sandboxfake/internal/inspector"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/sandboxfake"
)

const caFile = "/home/ada/ca.pem"

// newServer starts a server with the inspector.
func newServer(t *testing.T, openAPI string, opts ...sandboxfake.Option) *sandboxfake.Server {
	t.Helper()
	return sandboxfake.New(t, append(opts, sandboxfake.WithInMemory(), sandboxfake.WithControl(sandboxfake.ControlOptions{Page: func(s *sandboxfake.Server) http.Handler {
		return inspector.New(inspector.Config{
			URL:          s.URL(),
			PublicURL:    "https://phones.sandbox.test",
			Client:       s.HTTPClient(),
			ControlToken: s.ControlToken(),
			CACertPEM:    s.CACertPEM(),
			CAFile:       caFile,
			OpenAPI:      []byte(openAPI),
		})
	}}))...)
}

// page is a response.
type page struct {
	status int
	header http.Header
	body   string
}

// fetch sends a request, and does not follow redirects.
func fetch(t *testing.T, srv *sandboxfake.Server, method, path string, header http.Header) page {
	t.Helper()
	return send(t, srv, method, path, "", header, srv.HTTPClient().Transport.RoundTrip)
}

// browse sends a request as a browser does, and follows redirects.
func browse(t *testing.T, srv *sandboxfake.Server, method, path, body string, header http.Header) page {
	t.Helper()
	accepted := http.Header{"Accept": {"text/html,application/xhtml+xml,*/*;q=0.8"}}
	maps.Copy(accepted, header)
	return send(t, srv, method, path, body, accepted, srv.HTTPClient().Do)
}

func get(t *testing.T, srv *sandboxfake.Server, path string) page {
	t.Helper()
	return browse(t, srv, http.MethodGet, path, "", nil)
}

func send(t *testing.T, srv *sandboxfake.Server, method, path, body string, header http.Header, do func(*http.Request) (*http.Response, error)) page {
	t.Helper()
	request := must(http.NewRequestWithContext(t.Context(), method, srv.URL()+path, strings.NewReader(body)))(t)
	maps.Copy(request.Header, header)
	response := must(do(request))(t)
	defer response.Body.Close()
	return page{response.StatusCode, response.Header, string(must(io.ReadAll(response.Body))(t))}
}

var browser = http.Header{"Accept": {"text/html,*/*;q=0.8"}}

// assetFiles returns the files in assets, by path.
func assetFiles(t *testing.T) map[string]string {
	t.Helper()
	files := make(map[string]string)
	root := os.DirFS("assets")
	noError(t, fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, name)
		files[name] = string(content)
		return err
	}))
	return files
}

func TestNew_Headers(t *testing.T) {
	t.Parallel()
	srv := newServer(t, "{}")
	want := map[string]string{
		"Content-Security-Policy":      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'; form-action 'self'",
		"X-Content-Type-Options":       "nosniff",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Cross-Origin-Opener-Policy":   "same-origin",
	}
	for path, status := range map[string]int{
		"/_sandbox/":                  200,
		"/_sandbox/page/main.js":      200,
		"/_sandbox/page/icon.svg":     200,
		"/_sandbox/page/openapi.json": 200,
		"/_sandbox/page/nothing":      404,
	} {
		got := fetch(t, srv, http.MethodGet, path, browser)

		if got.status != status {
			t.Errorf("%s: %d, want %d", path, got.status, status)
		}
		for name, value := range want {
			if got.header.Get(name) != value {
				t.Errorf("%s: %s = %q, want %q", path, name, got.header.Get(name), value)
			}
		}
	}
}

func TestNew_Assets(t *testing.T) {
	t.Parallel()
	srv := newServer(t, "")
	types := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8", ".svg": "image/svg+xml"}
	for name, content := range assetFiles(t) {
		location := "/_sandbox/page/" + name
		if name == "index.html" {
			if got := fetch(t, srv, http.MethodGet, location, browser); got.status != http.StatusNotFound {
				t.Errorf("%s: %d, want 404: only /_sandbox/ is the page", location, got.status)
			}
			location = "/_sandbox/"
		}

		got := fetch(t, srv, http.MethodGet, location, browser)
		head := fetch(t, srv, http.MethodHead, location, browser)
		again := fetch(t, srv, http.MethodGet, location, http.Header{"Accept": browser["Accept"], "If-None-Match": {got.header.Get("Etag")}})
		post := fetch(t, srv, http.MethodPost, location, browser)

		if got.status != http.StatusOK || got.body != content {
			t.Errorf("%s: %d with %d bytes, want 200 with %d", location, got.status, len(got.body), len(content))
		}
		want := types[path.Ext(name)]
		if want == "" {
			want = "text/plain; charset=utf-8"
		}
		if got.header.Get("Content-Type") != want || got.header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: type %q, Cache-Control %q, want %q, no-cache", location, got.header.Get("Content-Type"), got.header.Get("Cache-Control"), want)
		}
		if head.status != http.StatusOK || head.body != "" || again.status != http.StatusNotModified {
			t.Errorf("%s: HEAD %d, GET with its ETag %d, want 200, 304", location, head.status, again.status)
		}
		if post.status != http.StatusMethodNotAllowed && post.status != http.StatusUnauthorized {
			t.Errorf("%s: POST %d, want 405 or 401", location, post.status)
		}
	}
}

// The page must work with its Content-Security-Policy, and without any other server.
func TestNew_AssetReferences(t *testing.T) {
	t.Parallel()
	files := assetFiles(t)
	reference := regexp.MustCompile(`(?:src|href)="page/([^"?#]+)|(?:from|import\() ?['"]\./([^'"]+)`)
	forbidden := regexp.MustCompile(`(?i)\sstyle=|\son\w+="|<style|<script(?:>|[^>]* type="(?:text|application)/)|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|javascript:|(?:src|href)="(?:https?:)?//|@import|url\(['"]?(?:https?:)?//`)
	found := 0
	for name, content := range files {
		if strings.HasPrefix(name, "receivers/") {
			continue // programs to copy
		}
		for _, match := range reference.FindAllStringSubmatch(content, -1) {
			target := match[1] + match[2]
			if _, ok := files[target]; !ok && target != "openapi.json" {
				t.Errorf("%s refers to %s, which does not exist", name, target)
			}
			found++
		}
		if match := forbidden.FindString(content); match != "" {
			t.Errorf("%s contains %q, which the policy blocks or which could insert HTML", name, match)
		}
	}
	if found < 3 {
		t.Errorf("found %d references, want those of the page", found)
	}
}

func TestNew_OpenAPI(t *testing.T) {
	t.Parallel()
	const location = "/_sandbox/page/openapi.json"

	without := fetch(t, newServer(t, ""), http.MethodGet, location, browser)
	with := fetch(t, newServer(t, `{"openapi":"3.1.0"}`), http.MethodGet, location, browser)

	if without.status != http.StatusNotFound {
		t.Errorf("without a description: %d, want 404", without.status)
	}
	if with.status != http.StatusOK || with.body != `{"openapi":"3.1.0"}` || with.header.Get("Content-Type") != "application/json" {
		t.Errorf("with a description: %d %s %s, want it as JSON", with.status, with.header.Get("Content-Type"), with.body)
	}
}

func TestNew_Environment(t *testing.T) {
	t.Parallel()
	srv := newServer(t, "")
	token := http.Header{"Authorization": {"Bearer " + srv.ControlToken()}, "Content-Type": {"application/json"}}
	opened := fetch(t, srv, http.MethodPost, "/_sandbox/session", token)
	cookie, _, _ := strings.Cut(opened.header.Get("Set-Cookie"), ";")
	for _, row := range []struct {
		name   string
		header http.Header
		status int
	}{
		{"nothing", nil, 401},
		{"token", token, 200},
		{"wrong token", http.Header{"Authorization": {"Bearer wrong"}}, 401},
		{"cookie", http.Header{"Cookie": {cookie}}, 200},
		{"wrong cookie", http.Header{"Cookie": {cookie + "x"}}, 401},
		{"cookie and wrong token", http.Header{"Cookie": {cookie}, "Authorization": {"Bearer wrong"}}, 401},
		{"cookie for a page of another port", http.Header{"Cookie": {cookie}, "Sec-Fetch-Site": {"same-site"}}, 401},
	} {
		got := fetch(t, srv, http.MethodGet, "/_sandbox/page/private/environment.json", row.header)

		if got.status != row.status || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d with Cache-Control %q, want %d, no-store", row.name, got.status, got.header.Get("Cache-Control"), row.status)
		}
		var environment map[string]string
		if row.status == http.StatusOK {
			if err := json.Unmarshal([]byte(got.body), &environment); err != nil {
				t.Errorf("%s: %v", row.name, err)
			}
			if diff := cmp.Diff(map[string]string{"ca_file": caFile}, environment); diff != "" {
				t.Errorf("%s: (-want +got):\n%s", row.name, diff)
			}
		} else if strings.Contains(got.body, caFile) {
			t.Errorf("%s: the response contains the path of the CA file", row.name)
		}
	}
}

// Requests without the token must not disclose it, credentials or local paths.
func TestNew_DisclosesNothing(t *testing.T) {
	t.Parallel()
	srv := newServer(t, "{}")
	paths := []string{
		"/_sandbox/", "/_sandbox", "/_sandbox/health", "/_sandbox/session", "/_sandbox/events", "/_sandbox/page/", "/_sandbox/page/private/environment.json",
		"/_sandbox/page/../requests", "/_sandbox/page/..%2frequests", "/_sandbox/page/%2e%2e/requests", "/_sandbox/page/..%5crequests",
		"/_sandbox/page//requests", "/_sandbox/page/assets/main.js", "/_sandbox/page/../../../../etc/passwd", "/_sandbox/page/..;/requests",
		"/_sandbox/open/", "/_sandbox/open/none", "/_sandbox/open/../requests", "/_sandbox/open/none/../../requests", "/_sandbox/open/%2e%2e%2frequests",
		"/_sandbox/ca/../requests", "/_sandbox/ca/ca.pem/../../requests", "/_sandbox/requests", "/%5fsandbox/requests", "/_sandbox/page/main.js",
	}
	for name := range assetFiles(t) {
		paths = append(paths, "/_sandbox/page/"+name)
	}
	for _, path := range paths {
		for _, header := range []http.Header{nil, browser} {
			got := fetch(t, srv, http.MethodGet, path, header)

			var all strings.Builder
			all.WriteString(got.body)
			for name, values := range got.header {
				all.WriteString(name + strings.Join(values, " "))
			}
			for _, secret := range []string{srv.ControlToken(), srv.Credentials().ClientID, srv.Credentials().ClientSecret.Reveal(), srv.ConsoleCredentials().ClientSecret.Reveal(), caFile, "phone_check.create"} {
				if strings.Contains(all.String(), secret) && !(secret == "phone_check.create" && got.status == http.StatusOK) {
					t.Errorf("%s: %d contains a secret: %s", path, got.status, all.String())
				}
			}
		}
	}
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }
