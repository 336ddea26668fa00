package sandboxfake_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// send sends a request with a body of any media type. If media is empty, it sets no Content-Type.
func (a *api) send(method, path, media, body string) response {
	a.t.Helper()
	request := a.request(method, path, body)
	request.Header.Set("Authorization", "Bearer "+a.token)
	if media != "" {
		request.Header.Set("Content-Type", media)
	}
	return a.do(request)
}

// Operations with a JSON body accept application/json and application/hal+json.
func TestServer_BodyMediaTypes(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	product, owner := newAPI(t, srv), newOwnerAPI(t, srv)
	owner.want(200, http.MethodPut, workspaces+"/default/billing_account", `{"company_name":"Sandbox Ltd"}`)
	method := owner.want(201, http.MethodPost, workspaces+"/default/payment_methods", newCard).text("payment_method_id")
	names := 0
	unique := func() string {
		names++
		return fmt.Sprintf(`{"name":"Project %d"}`, names)
	}
	fixed := func(body string) func() string { return func() string { return body } }
	for _, row := range []struct {
		caller       *api
		method, path string
		body         func() string
		status       int
	}{
		{product, "POST", phoneChecks, fixed(`{"phone_number":"447700900012"}`), 201},
		{product, "POST", "/subscriber_check/v0.2/checks", fixed(`{"phone_number":"447700900012"}`), 201},
		{product, "POST", "/sim_check/v0.1/checks", fixed(`{"phone_number":"447700900012"}`), 201},
		{owner, "POST", projects, unique, 201},
		{owner, "POST", workspaces + "/default/projects", unique, 201},
		{owner, "POST", workspaces + "/default/invitations", fixed(`{"name":"Ada","role":"ADMIN"}`), 201},
		{owner, "PUT", workspaces + "/default/billing_account", fixed(`{"company_name":"Sandbox Ltd"}`), 200},
		{owner, "POST", workspaces + "/default/payment_methods", fixed(newCard), 201},
		{owner, "POST", workspaces + "/default/topups", fixed(fmt.Sprintf(`{"payment_method_id":%q,"currency":"EUR","amount":1}`, method)), 201},
	} {
		for _, media := range []string{"application/json", "application/hal+json", "Application/HAL+JSON; charset=utf-8"} {
			if r := row.caller.send(row.method, row.path, media, row.body()); r.status != row.status {
				t.Errorf("%s %s as %s: %d %s, want %d", row.method, row.path, media, r.status, r.body, row.status)
			}
		}
		for _, media := range []string{"", "text/plain", "application/problem+json", "application/json-patch+json", "json"} {
			r := row.caller.send(row.method, row.path, media, row.body())
			if r.status != 415 || r.fragment() != "unsupported_media_type" {
				t.Errorf("%s %s as %q: %d %s, want 415", row.method, row.path, media, r.status, r.body)
			}
		}
	}

	for _, media := range []string{"application/json", "application/hal+json"} {
		r := owner.send(http.MethodPatch, workspaces+"/default", media, `[{"op":"replace","path":"/name","value":"Renamed"}]`)
		r.wantProblem(t, 415, "unsupported_media_type")
	}
}

// Operations without a body also accept an empty JSON object.
func TestServer_CredentialsOptionalBody(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	account := srv.NewWorkspace("Shop")
	owner := newConsoleAPI(t, srv, account.Credentials)
	own := workspaces + "/default/members/" + account.MemberID + "/credentials"
	pair := owner.want(201, http.MethodPost, own, "").text("client_id")
	secrets := make(map[string]bool)
	for _, row := range []struct{ media, body string }{{"", ""}, {"application/json", ""}, {"application/json", "{}"}, {"application/hal+json", "{}"}} {
		project, _ := owner.newProject(fmt.Sprintf(`{"name":"Project %d"}`, len(secrets)))
		for path, status := range map[string]int{
			own + "/" + pair + "/reset": 200,
			own:                         201,
			projects + "/" + project + "/credentials": 201,
		} {
			r := owner.send(http.MethodPost, path, row.media, row.body)

			if r.status != status || r.text("client_secret") == "" || secrets[r.text("client_secret")] {
				t.Errorf("POST %s with %q as %q: %d %s, want %d and a new secret", path, row.body, row.media, r.status, r.body, status)
			}
			secrets[r.text("client_secret")] = true
		}
	}
}

func TestServer_ProjectNameFilter(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	account := srv.NewWorkspace("Shop")
	owner := newConsoleAPI(t, srv, account.Credentials)
	for _, name := range []string{"Shop", "shop", "Shop 2", "Shop, & more; \"A=B\""} {
		owner.newProject(fmt.Sprintf(`{"name":%q,"mode":"sandbox"}`, name))
	}
	for _, path := range []string{projects, workspaces + "/" + account.WorkspaceID + "/projects"} {
		for _, row := range []struct {
			query string
			want  []string
		}{
			{"", []string{"Shop", "shop", "Shop 2", "Shop, & more; \"A=B\""}},
			{"name=Shop", []string{"Shop"}},
			{"name=shop", []string{"shop"}},
			{"name=Sho", []string{}},
			{"name=", []string{}},
			{"name=" + url.QueryEscape("Shop, & more; \"A=B\""), []string{"Shop, & more; \"A=B\""}},
			{"name=Shop&search=mode==sandbox", []string{"Shop"}},
			{"name=Shop&search=mode==live", []string{}},
		} {
			r := owner.want(200, http.MethodGet, path+"?"+row.query, "")

			if diff := cmp.Diff(row.want, r.column("projects", "name")); diff != "" {
				t.Errorf("%s?%s (-want +got):\n%s", path, row.query, diff)
			}
			for _, id := range r.column("projects", "member_id") {
				if id != account.MemberID {
					t.Errorf("%s?%s: member_id = %q, want %q, who created the project", path, row.query, id, account.MemberID)
				}
			}
			if row.query == "" {
				continue
			}
			self := owner.want(200, http.MethodGet, r.text("_links", "self", "href"), "")
			if diff := cmp.Diff(row.want, self.column("projects", "name")); diff != "" {
				t.Errorf("%s?%s: projects of the self link (-want +got):\n%s", path, row.query, diff)
			}
		}
		owner.get(path+"?name=Shop&name=shop").wantProblem(t, 400, "bad_request")
	}
}
