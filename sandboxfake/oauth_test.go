package sandboxfake_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

const (
	tokenPath  = "/oauth2/v1/token"
	revokePath = "/oauth2/v1/revoke"
)

// revoke sends a form to the revocation endpoint.
func (a *api) revoke(c idverify.Credentials, form url.Values) response {
	a.t.Helper()
	return a.postForm(revokePath, c, "application/x-www-form-urlencoded", form.Encode())
}

func (a *api) postForm(path string, c idverify.Credentials, contentType, body string) response {
	a.t.Helper()
	request := a.request(http.MethodPost, path, body)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	request.SetBasicAuth(c.ClientID, c.ClientSecret.Reveal())
	return a.do(request)
}

func TestServer_RevokesOnlyOwnTokens(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	a := &api{t: t, srv: srv}
	account, other := srv.NewWorkspace("Shop"), srv.NewWorkspace("Other")
	project := account.NewProject(idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeLive})
	sibling := account.NewProject(idverify.ProjectParams{Name: "Sibling", Mode: idverify.ModeLive})
	owner := newConsoleAPI(t, srv, account.Credentials)
	second := owner.want(201, http.MethodPost, projects+"/"+project.ProjectID+"/credentials", "")
	product, console := a.tokenFor(project.Credentials, "phone_check"), a.tokenFor(account.Credentials, "console")
	status := func(token, path string) int {
		caller := &api{t: t, srv: srv, token: token}
		return caller.get(path).status
	}
	for name, c := range map[string]idverify.Credentials{
		"another project's":           sibling.Credentials,
		"the project's other":         second.credentials(),
		"the workspace's":             account.Credentials,
		"another workspace's":         other.Credentials,
		"another workspace's project": other.NewProject(idverify.ProjectParams{Name: "Other project", Mode: idverify.ModeLive}).Credentials,
	} {
		for _, token := range []string{product, console} {
			if name == "the workspace's" && token == console {
				continue
			}
			// The response does not disclose whether the token exists.
			r := a.revoke(c, url.Values{"token": {token}})
			unknown := a.revoke(c, url.Values{"token": {"unknown"}})
			if r.status != 200 || unknown.status != 200 || len(r.body)+len(unknown.body) != 0 {
				t.Errorf("%s credentials: %d %q, for an unknown token %d %q, want 200 without a body for both", name, r.status, r.body, unknown.status, unknown.body)
			}
		}
		if status(product, phoneChecks) != 200 || status(console, projects) != 200 {
			t.Errorf("%s credentials revoked the token of others", name)
		}
	}

	if r := a.revoke(project.Credentials, url.Values{"token": {product}, "token_type_hint": {"access_token"}}); r.status != 200 || len(r.body) != 0 || r.header.Get("Content-Type") != "" {
		t.Errorf("revoke: %d %q %q, want 200 without a body", r.status, r.header.Get("Content-Type"), r.body)
	}
	if status(product, phoneChecks) != 401 || status(console, projects) != 200 {
		t.Error("the token is not revoked, or another one is")
	}
}

// Both token endpoints check credentials and forms in the same way.
func TestServer_TokenEndpointErrors(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	a := &api{t: t, srv: srv}
	good := srv.Credentials()
	token := a.tokenFor(good, "phone_check")
	const form = "application/x-www-form-urlencoded"
	fields := "grant_type=client_credentials&scope=phone_check&token=" + token
	part := "--b\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\n" + token + "\r\n"
	for _, row := range []struct {
		name        string
		credentials idverify.Credentials
		media, body string
		status      int
		code, why   string // of the error
	}{
		{"no credentials", idverify.Credentials{}, form, fields, 401, "invalid_client", "credentials"},
		{"unknown client", idverify.Credentials{ClientID: "unknown", ClientSecret: good.ClientSecret}, form, fields, 401, "invalid_client", "credentials"},
		{"secret of other credentials", idverify.Credentials{ClientID: good.ClientID, ClientSecret: srv.ConsoleCredentials().ClientSecret}, form, fields, 401, "invalid_client", "credentials"},
		{"duplicate parameter", good, form, fields + "&token=" + token + "&scope=sim_check", 400, "invalid_request", "duplicate parameter"},
		{"duplicate unrelated parameter", good, form, fields + "&a=1&a=2", 400, "invalid_request", "duplicate parameter"},
		{"JSON", good, "application/json", `{"token":"` + token + `"}`, 400, "invalid_request", "must be multipart/form-data"},
		{"no Content-Type", good, "", fields, 400, "invalid_request", "Content-Type"},
		{"malformed Content-Type", good, "form; =", fields, 400, "invalid_request", "Content-Type"},
		{"malformed form", good, form, fields + "&a=%zz", 400, "invalid_request", "form"},
		{"multipart without a boundary", good, "multipart/form-data", part + "--b--\r\n", 400, "invalid_request", "multipart form"},
		{"multipart that ends in a header", good, "multipart/form-data; boundary=b", part + "--b\r\nContent-Dis", 400, "invalid_request", "multipart form"},
		{"multipart that ends in a value", good, "multipart/form-data; boundary=b", part[:len(part)-9], 400, "invalid_request", "multipart form"},
		{"over 64 KiB", good, form, fields + "&a=" + strings.Repeat("x", 64<<10), 400, "invalid_request", "too large"},
	} {
		for _, path := range []string{tokenPath, revokePath} {
			r := a.postForm(path, row.credentials, row.media, row.body)

			description := r.text("error_description")
			if r.status != row.status || r.text("error") != row.code || !strings.Contains(description, row.why) || r.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s, %s: %d %s %s, want %d %s: …%s…", path, row.name, r.status, r.header.Get("Content-Type"), r.body, row.status, row.code, row.why)
			}
			if strings.Contains(description, token) {
				t.Errorf("%s, %s: the error contains the token", path, row.name)
			}
		}
	}
	for name, body := range map[string]string{"no token": "token_type_hint=access_token", "an empty token": "token="} {
		if r := a.postForm(revokePath, good, form, body); r.status != 400 || r.text("error") != "invalid_request" || !strings.Contains(r.text("error_description"), "token is missing") {
			t.Errorf("revoke with %s: %d %s, want invalid_request", name, r.status, r.body)
		}
	}

	a.token = token
	if r := a.get(phoneChecks); r.status != 200 {
		t.Errorf("status with the token after rejected revocations = %d, want 200", r.status)
	}
}

func TestWithAdditionalScopes(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t, sandboxfake.WithAdditionalScopes("number_verify", "openid"), sandboxfake.WithAdditionalScopes("dpv:FraudPrevention#check"))
	a := &api{t: t, srv: srv}
	for scope, want := range map[string]int{
		"openid": 200, "phone_check number_verify openid": 200, "dpv:FraudPrevention#check": 200,
		"openid openid": 400, "openid unknown": 400, "OpenID": 400, "openid projects": 400,
	} {
		r := a.tokenCall(srv.Credentials(), url.Values{"grant_type": {"client_credentials"}, "scope": {scope}})

		if r.status != want || want == 200 && r.text("scope") != scope || want == 400 && r.text("error") != "invalid_scope" {
			t.Errorf("scope %q: %d %s, want %d", scope, r.status, r.body, want)
		}
	}
	newScopedAPI(t, srv, srv.Credentials(), "openid number_verify").get(phoneChecks).wantProblem(t, 403, "forbidden")
	newScopedAPI(t, srv, srv.ConsoleCredentials(), "openid").get(projects).wantProblem(t, 403, "forbidden")
	for _, scope := range []string{"", "a b", `a"b`, `a\b`, "ä", "phone_check", "console"} {
		if startError(sandboxfake.WithInMemory(), sandboxfake.WithAdditionalScopes(scope)) == nil {
			t.Errorf("WithAdditionalScopes(%q): no error", scope)
		}
	}
}

func TestServer_TokenResponse(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	a := &api{t: t, srv: srv}

	for contentType, body := range map[string]string{
		"application/x-www-form-urlencoded": "grant_type=client_credentials&scope=sim_check+phone_check",
		"multipart/form-data; boundary=b":   "--b\r\nContent-Disposition: form-data; name=\"grant_type\"\r\n\r\nclient_credentials\r\n--b\r\nContent-Disposition: form-data; name=\"scope\"\r\n\r\nsim_check phone_check\r\n--b--\r\n",
	} {
		r := a.postForm(tokenPath, srv.Credentials(), contentType, body)

		got := map[string]any{"status": r.status, "type": r.json["token_type"], "expires": r.json["expires_in"], "scope": r.json["scope"], "media": r.header.Get("Content-Type"), "cache": r.header.Get("Cache-Control")}
		want := map[string]any{"status": 200, "type": "bearer", "expires": 3600.0, "scope": "sim_check phone_check", "media": "application/json", "cache": "no-store"}
		wantEqual(t, want, got, "response to %s", contentType)
	}
}

// A token is valid for exactly one hour. The scheme is case-insensitive.
func TestServer_TokenExpiry(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	a := &api{t: t, srv: srv}
	token := a.tokenFor(srv.Credentials(), "phone_check")
	status := func(authorization string) int {
		return a.sendHeader(http.MethodGet, phoneChecks, http.Header{"Authorization": {authorization}}).status
	}

	for authorization, want := range map[string]int{
		"Bearer " + token: 200, "bearer " + token: 200, "BEARER " + token: 200,
		token: 401, "Basic " + token: 401, "Bearer": 401, "Bearer ": 401, "Bearer  " + token: 401, "Bearer " + token + " ": 200, "Bearer " + token + "x": 401,
	} {
		if got := status(authorization); got != want {
			t.Errorf("status with Authorization %q = %d, want %d", strings.ReplaceAll(authorization, token, "<token>"), got, want)
		}
	}
	for _, step := range []struct {
		by   time.Duration
		want int
	}{{time.Hour - 1, 200}, {1, 401}} {
		advance(t, srv, step.by)
		if got := status("Bearer " + token); got != step.want {
			t.Errorf("status with the token at %v = %d, want %d", srv.Now().Sub(frozenAt), got, step.want)
		}
	}
}

// Expired tokens are freed, so that a long-running server does not grow.
func TestServer_FreesExpiredTokens(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	a := &api{t: t, srv: srv}
	stored := func(want int) {
		t.Helper()
		if byText, issued := srv.StoredTokens(); byText != want || issued != want {
			t.Errorf("at %v the server stores %d and %d tokens, want %d", srv.Now().Sub(frozenAt), byText, issued, want)
		}
	}
	for range 3 {
		a.tokenFor(srv.Credentials(), "phone_check")
	}
	advance(t, srv, 30*time.Minute)
	kept := a.tokenFor(srv.Credentials(), "phone_check")
	stored(4)

	advance(t, srv, 30*time.Minute)
	a.tokenFor(srv.Credentials(), "phone_check")
	stored(2)

	a.token = kept
	if r := a.get(phoneChecks); r.status != 200 {
		t.Errorf("status with an unexpired token = %d, want 200", r.status)
	}
	for range 100 {
		advance(t, srv, time.Hour)
		a.tokenFor(srv.Credentials(), "phone_check")
	}
	stored(1)
}

func TestServer_TokenRequests(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	a := &api{t: t, srv: srv}
	project, workspace := srv.Credentials(), srv.ConsoleCredentials()
	wrong := idverify.Credentials{ClientID: project.ClientID, ClientSecret: workspace.ClientSecret}
	const grant = "grant_type=client_credentials&"
	for _, row := range []struct {
		name        string
		credentials idverify.Credentials
		form        string
		status      int
		error       string
	}{
		{"all product scopes", project, grant + "scope=phone_check+sim_check+subscriber_check+coverage", 200, ""},
		{"phone_check of a project", project, grant + "scope=phone_check", 200, ""},
		{"phone_check of a workspace", workspace, grant + "scope=phone_check", 400, "invalid_scope"},
		{"sim_check of a workspace", workspace, grant + "scope=sim_check", 400, "invalid_scope"},
		{"subscriber_check of a workspace", workspace, grant + "scope=subscriber_check", 400, "invalid_scope"},
		{"coverage of a workspace", workspace, grant + "scope=coverage", 400, "invalid_scope"},
		{"both console scopes", workspace, grant + "scope=projects+workspaces", 200, ""},
		{"projects of a workspace", workspace, grant + "scope=projects", 200, ""},
		{"workspaces of a workspace", workspace, grant + "scope=workspaces", 200, ""},
		{"console of a workspace", workspace, grant + "scope=console", 200, ""},
		{"projects of a project", project, grant + "scope=projects", 400, "invalid_scope"},
		{"workspaces of a project", project, grant + "scope=workspaces", 400, "invalid_scope"},
		{"console of a project", project, grant + "scope=console", 400, "invalid_scope"},
		{"product and console scope of a project", project, grant + "scope=phone_check+projects", 400, "invalid_scope"},
		{"product and console scope of a workspace", workspace, grant + "scope=projects+phone_check", 400, "invalid_scope"},
		{"unknown scope", project, grant + "scope=everything", 400, "invalid_scope"},
		{"duplicate scope", project, grant + "scope=phone_check+phone_check", 400, "invalid_scope"},
		{"two spaces", project, grant + "scope=phone_check++sim_check", 400, "invalid_scope"},
		{"trailing space", project, grant + "scope=phone_check+", 400, "invalid_scope"},
		{"empty scope", project, grant + "scope=", 400, "invalid_request"},
		{"no scope", project, "grant_type=client_credentials", 400, "invalid_request"},
		{"no grant type", project, "scope=phone_check", 400, "invalid_request"},
		{"unsupported grant type", project, "grant_type=password&scope=phone_check", 400, "unsupported_grant_type"},
		{"wrong secret before other errors", wrong, "", 401, "invalid_client"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			r := a.postForm(tokenPath, row.credentials, "application/x-www-form-urlencoded", row.form)

			if code, _ := r.json["error"].(string); r.status != row.status || code != row.error {
				t.Errorf("response = %d %s, want %d %q", r.status, r.body, row.status, row.error)
			}
			if got := r.header.Get("Www-Authenticate"); (row.status == 401) != strings.HasPrefix(got, "Basic") {
				t.Errorf("WWW-Authenticate = %q, want Basic with 401 only", got)
			}
		})
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
			a := newScopedAPI(t, srv, srv.Credentials(), scope)
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
