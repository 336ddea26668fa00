package inspector_test

import (
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/cmd/sandboxfake/internal/inspector"
	"github.com/idverify/idverify-go/sandboxfake"
)

// newServer starts a server with the inspector.
func newServer(t *testing.T, opts ...sandboxfake.Option) *sandboxfake.Server {
	t.Helper()
	return sandboxfake.New(t, append(opts, sandboxfake.WithInMemory(), sandboxfake.WithControl(sandboxfake.ControlOptions{Page: func(s *sandboxfake.Server) http.Handler {
		return inspector.New(inspector.Config{
			URL: s.URL(), PublicURL: "https://phones.sandbox.test", Client: s.HTTPClient(), ControlToken: s.ControlToken(), CACertPEM: s.CACertPEM(),
		})
	}}))...)
}

// page is a response that a browser received.
type page struct {
	status int
	url    *url.URL
	header http.Header
	body   string
}

// browse sends a request as a browser does, and follows redirects.
func browse(t *testing.T, srv *sandboxfake.Server, method, path, body string, header http.Header) page {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, srv.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(request.Header, header)
	request.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	response, err := srv.HTTPClient().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return page{response.StatusCode, response.Request.URL, response.Header, string(content)}
}

func get(t *testing.T, srv *sandboxfake.Server, path string) page {
	t.Helper()
	return browse(t, srv, http.MethodGet, path, "", nil)
}
