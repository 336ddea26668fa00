package sandboxfake_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
)

func TestServer_APIRejectsBasicAuth(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	_, project := owner.newProject(`{"name":"Shop"}`)
	for path, c := range map[string]struct{ id, secret string }{
		phoneChecks: {project.ClientID, project.ClientSecret.Reveal()},
		projects:    {srv.ConsoleCredentials().ClientID, srv.ConsoleCredentials().ClientSecret.Reveal()},
	} {
		request := owner.request(http.MethodGet, path, "")
		request.SetBasicAuth(c.id, c.secret)

		owner.do(request).wantProblem(t, 401, "unauthorized")
	}
}

func TestServer_ConcurrentCreateLimits(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	id, _ := owner.newProject(`{"name":"Shop"}`)
	for _, row := range []struct{ what, path, body string }{
		{"second pairs of credentials", projects + "/" + id + "/credentials", ""},
		{"projects of one name", projects, `{"name":"Store"}`},
	} {
		var mu sync.Mutex
		created := 0
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				r := owner.post(row.path, row.body)
				mu.Lock()
				defer mu.Unlock()
				if r.status == 201 {
					created++
				} else if r.status != 409 {
					t.Errorf("%s: %d %s", row.what, r.status, r.body)
				}
			})
		}
		wg.Wait()

		if created != 1 {
			t.Errorf("created %d %s, want 1", created, row.what)
		}
	}
}

// Names may use any script. Names that are blank, too long or not printable are rejected.
func TestServer_ProjectNames(t *testing.T) {
	t.Parallel()
	owner := newOwnerAPI(t, consoleServer(t))
	for name, status := range map[string]int{
		"Café Zürich":              201,
		"東京の店":                     201,
		strings.Repeat("é", 255):   201,
		strings.Repeat("é", 256):   400,
		"   ":                      400,
		`two\nlines`:               400,
		`\u0000`:                   400,
		strings.Repeat("n", 70000): 413,
	} {
		if r := owner.post(projects, `{"name":"`+name+`"}`); r.status != status {
			t.Errorf("name of %d bytes: %d %s, want %d", len(name), r.status, r.body, status)
		}
	}
}
