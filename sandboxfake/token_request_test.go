package sandboxfake_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
)

func TestServer_TokenRequests(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	a := &api{t: t, srv: srv}
	project, workspace := srv.Credentials(), srv.ConsoleCredentials()
	wrong := project
	wrong.ClientSecret = workspace.ClientSecret
	form := func(pairs ...string) url.Values {
		v := make(url.Values)
		for i := 0; i < len(pairs); i += 2 {
			v.Add(pairs[i], pairs[i+1])
		}
		return v
	}
	for _, row := range []struct {
		name        string
		credentials string
		form        url.Values
		status      int
		error       string
	}{
		{"product scope of a project", "project", form("grant_type", "client_credentials", "scope", "phone_check"), 200, ""},
		{"several product scopes", "project", form("grant_type", "client_credentials", "scope", "phone_check sim_check subscriber_check coverage"), 200, ""},
		{"console scope of a project", "project", form("grant_type", "client_credentials", "scope", "projects"), 400, "invalid_scope"},
		{"product and console scope", "project", form("grant_type", "client_credentials", "scope", "phone_check projects"), 400, "invalid_scope"},
		{"console scopes of a workspace", "workspace", form("grant_type", "client_credentials", "scope", "projects workspaces"), 200, ""},
		{"console scope alias", "workspace", form("grant_type", "client_credentials", "scope", "console"), 200, ""},
		{"product scope of a workspace", "workspace", form("grant_type", "client_credentials", "scope", "phone_check"), 400, "invalid_scope"},
		{"unknown scope", "project", form("grant_type", "client_credentials", "scope", "everything"), 400, "invalid_scope"},
		{"duplicate scope", "project", form("grant_type", "client_credentials", "scope", "phone_check phone_check"), 400, "invalid_scope"},
		{"two spaces", "project", form("grant_type", "client_credentials", "scope", "phone_check  sim_check"), 400, "invalid_scope"},
		{"trailing space", "project", form("grant_type", "client_credentials", "scope", "phone_check "), 400, "invalid_scope"},
		{"empty scope", "project", form("grant_type", "client_credentials", "scope", ""), 400, "invalid_request"},
		{"no scope", "project", form("grant_type", "client_credentials"), 400, "invalid_request"},
		{"no grant type", "project", form("scope", "phone_check"), 400, "invalid_request"},
		{"unsupported grant type", "project", form("grant_type", "password", "scope", "phone_check"), 400, "unsupported_grant_type"},
		{"duplicate parameter", "project", form("grant_type", "client_credentials", "scope", "phone_check", "scope", "sim_check"), 400, "invalid_request"},
		{"wrong secret before other errors", "wrong", form(), 401, "invalid_client"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			credentials := project
			switch row.credentials {
			case "workspace":
				credentials = workspace
			case "wrong":
				credentials = wrong
			}

			r := a.tokenCall(credentials, row.form)

			if code, _ := r.json["error"].(string); r.status != row.status || code != row.error {
				t.Errorf("response = %d %s, want %d %q", r.status, r.body, row.status, row.error)
			}
			if got := r.header.Get("Www-Authenticate"); (row.status == 401) != strings.HasPrefix(got, "Basic") {
				t.Errorf("WWW-Authenticate = %q, want Basic with 401 only", got)
			}
		})
	}
}

func TestServer_TokenMediaTypes(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	a := &api{t: t, srv: srv}
	multipart := "--b\r\nContent-Disposition: form-data; name=\"grant_type\"\r\n\r\nclient_credentials\r\n--b\r\nContent-Disposition: form-data; name=\"scope\"\r\n\r\nphone_check\r\n--b--\r\n"
	for _, row := range []struct {
		name, contentType, body string
		status                  int
	}{
		{"multipart", "multipart/form-data; boundary=b", multipart, 200},
		{"urlencoded", "application/x-www-form-urlencoded", "grant_type=client_credentials&scope=phone_check", 200},
		{"JSON", "application/json", `{"grant_type":"client_credentials","scope":"phone_check"}`, 400},
		{"empty body", "", "", 400},
		{"truncated multipart", "multipart/form-data; boundary=b", multipart[:len(multipart)/2], 400},
		{"multipart without a boundary", "multipart/form-data", multipart, 400},
		{"over 64 KiB", "application/x-www-form-urlencoded", "scope=" + strings.Repeat("x", 64<<10), 400},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			request := a.request(http.MethodPost, "/oauth2/v1/token", row.body)
			request.SetBasicAuth(srv.Credentials().ClientID, srv.Credentials().ClientSecret.Reveal())
			if row.contentType != "" {
				request.Header.Set("Content-Type", row.contentType)
			}

			r := a.do(request)

			if r.status != row.status {
				t.Errorf("response = %d %s, want %d", r.status, r.body, row.status)
			}
			if row.status == 400 && r.json["error"] != "invalid_request" {
				t.Errorf("error = %s, want invalid_request", r.body)
			}
		})
	}
}

func TestServer_TokenExpiryAndRevocation(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	revoked := a.tokenFor(srv.Credentials(), "phone_check")
	advance := func(d time.Duration) {
		t.Helper()
		if err := srv.Advance(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}

	advance(time.Hour - time.Second)
	if r := a.get(phoneChecks); r.status != 200 {
		t.Errorf("status one second before the token expires = %d, want 200", r.status)
	}
	for range 2 { // the response does not disclose whether the token exists
		request := a.request(http.MethodPost, "/oauth2/v1/revoke", url.Values{"token": {revoked}}.Encode())
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.SetBasicAuth(srv.Credentials().ClientID, srv.Credentials().ClientSecret.Reveal())
		if r := a.do(request); r.status != 200 {
			t.Errorf("revoke: %d %s, want 200", r.status, r.body)
		}
	}
	kept := a.token
	a.token = revoked
	a.get(phoneChecks).wantProblem(t, 401, "unauthorized")
	a.token = kept
	advance(time.Second)
	r := a.get(phoneChecks)
	r.wantProblem(t, 401, "unauthorized")
	if got := r.header.Get("Www-Authenticate"); !strings.HasPrefix(got, "Bearer") {
		t.Errorf("WWW-Authenticate = %q, want Bearer", got)
	}
}

// A token of one scope is valid only for the paths of that scope.
func TestServer_TokenScopes(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	paths := map[string]string{
		"phone_check":      "/phone_check/v0.1/checks",
		"sim_check":        "/sim_check/v0.1/checks",
		"subscriber_check": "/subscriber_check/v0.1/checks",
		"coverage":         "/coverage/v0.1/device_ips/192.0.2.2",
	}
	for scope := range paths {
		t.Run(scope, func(t *testing.T) {
			t.Parallel()
			a := &api{t: t, srv: srv}
			a.token = a.tokenFor(srv.Credentials(), scope)
			for owner, path := range paths {
				r := a.get(path)
				if owner == scope {
					if r.status != 200 {
						t.Errorf("%s: %d %s, want 200", path, r.status, r.body)
					}
					continue
				}
				r.wantProblem(t, 403, "forbidden")
			}
		})
	}
}
