package sandboxfake_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// newProject creates a project over HTTP.
func (a *api) newProject(body string) (id string, c idverify.Credentials) {
	a.t.Helper()
	r := a.want(201, http.MethodPost, projects, body)
	pair := r.at("_embedded", "credentials").([]any)[0].(map[string]any)
	return r.text("project_id"), idverify.Credentials{ClientID: pair["client_id"].(string), ClientSecret: idverify.NewSecret(pair["client_secret"].(string))}
}

// newProductAPI returns an api with a token of a project for all products.
func newProductAPI(t testing.TB, srv *sandboxfake.Server, c idverify.Credentials) *api {
	t.Helper()
	return newScopedAPI(t, srv, c, "phone_check sim_check subscriber_check coverage")
}

// tokenStatus returns the status of a token request.
func (a *api) tokenStatus(c idverify.Credentials, scope string) int {
	a.t.Helper()
	return a.tokenCall(c, map[string][]string{"grant_type": {"client_credentials"}, "scope": {scope}}).status
}

func TestServer_ProjectCredentialsLimit(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	viewer := newConsoleAPI(t, srv, owner.invite("Grace", "VIEWER").Credentials)
	id, first := owner.newProject(`{"name":"Shop"}`)
	path := projects + "/" + id + "/credentials"

	second := viewer.want(201, http.MethodPost, path, "")
	for _, a := range []*api{owner, viewer} {
		a.post(path, "").wantProblem(t, 409, "credentials_limit_reached")
	}
	viewer.call(http.MethodDelete, path+"/unknown", "").wantProblem(t, 404, "not_found")
	owner.want(204, http.MethodDelete, path+"/"+first.ClientID, "")
	third := owner.want(201, http.MethodPost, path, "")

	wantEqual(t, []string{second.text("client_id"), third.text("client_id")}, owner.get(path+"?sort=created_at,asc").column("credentials", "client_id"), "credentials")
}

func TestServer_ResetWorkspaceSecret(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	grace := owner.invite("Grace", "VIEWER")
	viewer := newConsoleAPI(t, srv, grace.Credentials)
	other := newConsoleAPI(t, srv, grace.Credentials)
	own := workspaces + "/default/members/" + grace.MemberID + "/credentials"
	path := own + "/" + grace.Credentials.ClientID
	second := viewer.want(201, http.MethodPost, own, "")
	unaffected := newConsoleAPI(t, srv, second.credentials())

	r := viewer.want(200, http.MethodPost, path+"/reset", "")

	fresh := r.credentials()
	if fresh.ClientID != grace.Credentials.ClientID || fresh.ClientSecret.Reveal() == grace.Credentials.ClientSecret.Reveal() {
		t.Errorf("reset: %s, want a new secret for the same client ID", r.body)
	}
	if old, now := owner.tokenStatus(grace.Credentials, "console"), owner.tokenStatus(fresh, "console"); old != 401 || now != 200 {
		t.Errorf("token status with the old secret %d, with the new one %d, want 401 and 200", old, now)
	}
	for _, a := range []*api{viewer, other} {
		a.get(workspaces+"/default").wantProblem(t, 401, "unauthorized")
	}
	unaffected.want(200, http.MethodGet, workspaces+"/default", "") // with a token of other credentials
	if seen := owner.get(path); seen.status != 200 || strings.Contains(string(seen.body), "client_secret") {
		t.Errorf("read: %d %s, want the credentials without their secret", seen.status, seen.body)
	}
}

func TestServer_DeleteCredentialsRevokesTokens(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	id, credentials := owner.newProject(`{"name":"Shop"}`)
	product := newProductAPI(t, srv, credentials)
	grace := owner.invite("Grace", "VIEWER")
	viewer := newConsoleAPI(t, srv, grace.Credentials)

	owner.want(204, http.MethodDelete, projects+"/"+id+"/credentials/"+credentials.ClientID, "")
	owner.want(204, http.MethodDelete, workspaces+"/default/members/"+grace.MemberID+"/credentials/"+grace.Credentials.ClientID, "")

	product.get(phoneChecks).wantProblem(t, 401, "unauthorized")
	viewer.get(projects).wantProblem(t, 401, "unauthorized")
	if p, w := owner.tokenStatus(credentials, "phone_check"), owner.tokenStatus(grace.Credentials, "console"); p != 401 || w != 401 {
		t.Errorf("token statuses with deleted credentials = %d and %d, want 401", p, w)
	}
	owner.call(http.MethodDelete, projects+"/"+id+"/credentials/"+credentials.ClientID, "").wantProblem(t, 404, "not_found")
}

func TestServer_DeleteProject(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	callbacks := srv.Handle("shop.sandbox.test", new(recordingReceiver))
	id, credentials := owner.newProject(fmt.Sprintf(`{"name":"Shop","mode":"sandbox","callback_url":%q}`, callbacks))
	product := newProductAPI(t, srv, credentials)
	open := product.create(phoneChecks, `{"phone_number":"447700900012"}`)
	other := newAPI(t, srv)
	kept := other.create(phoneChecks, `{"phone_number":"447700900012"}`)

	owner.want(204, http.MethodDelete, projects+"/"+id, "")

	owner.get(projects+"/"+id).wantProblem(t, 404, "not_found")
	owner.call(http.MethodDelete, projects+"/"+id, "").wantProblem(t, 404, "not_found")
	product.get(phoneChecks+"/"+open).wantProblem(t, 401, "unauthorized")
	product.get(phoneChecks+"/"+open+"/redirect").wantProblem(t, 404, "check_not_found")
	if status := owner.tokenStatus(credentials, "phone_check"); status != 401 {
		t.Errorf("token status of the deleted project = %d, want 401", status)
	}
	if r := other.get(phoneChecks + "/" + kept); r.status != 200 {
		t.Errorf("check of another project: %d %s, want 200", r.status, r.body)
	}
	advance(t, srv, 10*time.Minute)
	if d := srv.Deliveries(); len(d) != 0 {
		t.Errorf("deliveries after the project was deleted = %+v, want none", d)
	}
	if r := owner.post(projects, `{"name":"Shop"}`); r.status != 201 || r.text("project_id") == id {
		t.Errorf("create with the same name: %d %s, want a new project", r.status, r.body)
	}
}

func TestServer_UniqueProjectNames(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner, other := newOwnerAPI(t, srv), newConsoleAPI(t, srv, srv.SignUp("Ada").Credentials)
	owner.newProject(`{"name":"Shop"}`)
	id, _ := owner.newProject(`{"name":"Store"}`)

	owner.post(projects, `{"name":"Shop"}`).wantProblem(t, 409, "project_name_taken")
	owner.call(http.MethodPatch, projects+"/"+id, `[{"op":"replace","path":"/name","value":"Shop"}]`).wantProblem(t, 409, "project_name_taken")
	owner.want(200, http.MethodPatch, projects+"/"+id, `[{"op":"replace","path":"/name","value":"Store"}]`)
	owner.newProject(`{"name":"shop"}`)
	other.newProject(`{"name":"Shop"}`)
}

func TestServer_CreateProjectBodies(t *testing.T) {
	t.Parallel()
	owner := newOwnerAPI(t, consoleServer(t))
	for i, row := range []struct {
		body   string // %q is a unique name
		status int
	}{
		{`{"name":%q}`, 201},
		{`{"name":%q,"colour":"red"}`, 201},
		{`{"name":%q,"configuration":{}}`, 201},
		{`{"name":%q,"configuration":null}`, 201},
		{`{"name":%q,"configuration":{"phone_check":{},"sim_check":7}}`, 201}, // unknown field: SIMChecks have no URLs
		{`{"name":%q,"configuration":{"phone_check":{"Callback_URL":7}}}`, 201},
		{`{"name":%q,"configuration":{"phone_check":{"redirect_url":"https://shop.sandbox.test/?a=1"}}}`, 201},
		{`{"name":%q,"callback_url":""}`, 201},
		{`{"name":7}`, 400},
		{`{"name":""}`, 400},
		{`{"name":"\t"}`, 400},
		{`{"name":null}`, 400},
		{`{}`, 400},
		{`{"Name":%q}`, 400},
		{`{"name":%q,"mode":"test"}`, 400},
		{`{"name":%q,"mode":"LIVE"}`, 400},
		{`{"name":%q,"mode":""}`, 400},
		{`{"name":%q,"callback_url":"/callbacks"}`, 400},
		{`{"name":%q,"configuration":[]}`, 400},
		{`{"name":%q,"configuration":{"phone_check":"https://shop.sandbox.test"}}`, 400},
		{`{"name":%q,"configuration":{"phone_check":{"callback_url":"ftp://shop.sandbox.test"}}}`, 400},
		{`{"name":%q,"configuration":{"phone_check":{"callback_url":null}}}`, 400},
		{`{"name":%q,"configuration":{"subscriber_check":{"redirect_url":"https://shop.sandbox.test/?code=1"}}}`, 400},
		{`{"name":%q`, 400},
		{`[]`, 400},
	} {
		body := row.body
		if strings.Contains(body, "%q") {
			body = fmt.Sprintf(body, fmt.Sprintf("Project %d", i))
		}
		r := owner.post(projects, body)
		if row.status == 201 && r.status != 201 {
			t.Errorf("%s: %d %s, want 201", body, r.status, r.body)
		}
		if row.status == 400 {
			r.wantProblem(t, 400, "bad_request")
		}
	}
}

// Responses do not distinguish unknown members and credentials from those of other workspaces.
func TestServer_CredentialsOfOtherMembers(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	account, other := srv.NewWorkspace("Shop"), srv.NewWorkspace("Other")
	owner := newConsoleAPI(t, srv, account.Credentials)
	admin, viewer := owner.invite("Ada", "ADMIN"), owner.invite("Grace", "VIEWER")
	const members = workspaces + "/default/members/"
	for _, caller := range []struct {
		name                                   string
		api                                    *api
		own                                    string
		unknown, create, list, outside, delete int // statuses for unknown members, members of the workspace (create, list, delete) and of another one (outside)
	}{
		{"owner", owner, account.MemberID, 404, 403, 200, 404, 204},
		{"admin", newConsoleAPI(t, srv, admin.Credentials), admin.MemberID, 404, 403, 200, 404, 204},
		{"viewer", newConsoleAPI(t, srv, viewer.Credentials), viewer.MemberID, 403, 403, 403, 403, 403},
	} {
		colleague := viewer
		if caller.own == viewer.MemberID {
			colleague = admin
		}
		theirs := newConsoleAPI(t, srv, colleague.Credentials).want(201, http.MethodPost, members+colleague.MemberID+"/credentials", "").text("client_id")
		for _, row := range []struct {
			method, path string
			status       int
		}{
			{"GET", "unknown/credentials", caller.unknown},
			{"GET", "unknown/credentials/" + theirs, caller.unknown},
			{"DELETE", "unknown/credentials/" + theirs, caller.unknown},
			{"GET", other.MemberID + "/credentials", caller.outside},
			{"GET", other.MemberID + "/credentials/" + other.Credentials.ClientID, caller.outside},
			{"DELETE", other.MemberID + "/credentials/" + other.Credentials.ClientID, caller.outside},
			{"POST", "unknown/credentials", 403},
			{"POST", "unknown/credentials/" + theirs + "/reset", 403},
			{"POST", other.MemberID + "/credentials", 403},
			{"POST", other.MemberID + "/credentials/" + other.Credentials.ClientID + "/reset", 403},
			{"POST", colleague.MemberID + "/credentials", caller.create},
			{"POST", colleague.MemberID + "/credentials/" + theirs + "/reset", 403},
			{"GET", colleague.MemberID + "/credentials", caller.list},
			{"GET", colleague.MemberID + "/credentials/" + theirs, caller.list},
			// The credentials must be the member's.
			{"GET", caller.own + "/credentials/" + theirs, 404},
			{"DELETE", caller.own + "/credentials/" + theirs, 404},
			{"POST", caller.own + "/credentials/" + theirs + "/reset", 404},
			{"GET", caller.own + "/credentials/unknown", 404},
			{"POST", caller.own + "/credentials/unknown/reset", 404},
			{"DELETE", colleague.MemberID + "/credentials/" + theirs, caller.delete},
		} {
			r := caller.api.call(row.method, members+row.path, "")

			if want := map[int]string{403: "forbidden", 404: "not_found"}[row.status]; r.status != row.status || r.fragment() != want {
				t.Errorf("%s: %s %s: %d %s, want %d %s", caller.name, row.method, row.path, r.status, r.body, row.status, want)
			}
		}
	}
	newConsoleAPI(t, srv, other.Credentials).want(200, http.MethodGet, workspaces+"/default", "")
}

// Reads and lists return the created credentials without their secret.
func TestServer_CredentialsWithoutSecret(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	account := srv.NewWorkspace("Shop")
	owner := newConsoleAPI(t, srv, account.Credentials)
	project, pair := owner.newProject(`{"name":"Shop"}`)
	for _, r := range []response{owner.get(projects + "/" + project), owner.get(projects)} {
		if r.status != 200 || strings.Contains(string(r.body), "client_secret") || strings.Contains(string(r.body), pair.ClientSecret.Reveal()) {
			t.Errorf("response = %d %s, want 200 without a secret", r.status, r.body)
		}
	}
	owner.post(projects+"/"+project+"/credentials/"+pair.ClientID+"/reset", "").wantProblem(t, 404, "not_found")
	for path, scopes := range map[string][]any{
		projects + "/" + project + "/credentials":                            {"phone_check", "sim_check", "subscriber_check", "coverage"},
		workspaces + "/default/members/" + account.MemberID + "/credentials": {"projects", "workspaces", "console"},
	} {
		created := owner.want(201, http.MethodPost, path, "")
		read := owner.want(200, http.MethodGet, path+"/"+created.text("client_id"), "")
		listed := owner.want(200, http.MethodGet, path+"?search=client_id=="+created.text("client_id"), "").at("_embedded", "credentials").([]any)

		if created.text("client_secret") == "" || created.text("client_id") == "" {
			t.Errorf("%s: created %s, want a client ID and a secret", path, created.body)
		}
		want := map[string]any{"client_id": created.text("client_id"), "scopes": scopes, "created_at": "2026-01-02T03:04:05+0000"}
		wantEqual(t, want, read.json, "%s: read", path)
		wantEqual(t, []any{want}, listed, "%s: listed", path)
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

			wantEqual(t, row.want, r.column("projects", "name"), "%s?%s", path, row.query)
			for _, id := range r.column("projects", "member_id") {
				if id != account.MemberID {
					t.Errorf("%s?%s: member_id = %q, want %q, who created the project", path, row.query, id, account.MemberID)
				}
			}
			if row.query == "" {
				continue
			}
			self := owner.want(200, http.MethodGet, r.text("_links", "self", "href"), "")
			wantEqual(t, row.want, self.column("projects", "name"), "%s?%s: projects of the self link", path, row.query)
		}
		owner.get(path+"?name=Shop&name=shop").wantProblem(t, 400, "bad_request")
	}
}

// An accepted patch results in a project that could also be created. A rejected one changes
// nothing.
func FuzzProjectPatch(f *testing.F) {
	for _, patch := range []string{
		`[]`, `null`, `[null]`, `{}`, ``, `[{"op":"replace","path":"/name","value":"Store"}]`, `[{"op":"replace","path":"/mode","value":"sandbox"},{"op":"remove","path":"/callback_url"}]`,
		`[{"op":"add","path":"/configuration","value":{"phone_check":{"callback_url":"https://b.test/"}}}]`, `[{"op":"remove","path":"/configuration/phone_check"}]`,
		`[{"op":"add","path":"/configuration/subscriber_check/redirect_url","value":"https://b.test/?a=1"}]`, `[{"op":"test","path":"/name","value":"Shop"}]`, `[{"op":"add","path":"/callback_url","value":null}]`,
		`[{"op":"replace","path":"/name","value":"\ud800"}]`, `[{"op":"add","path":"/configuration/~0","value":1}]`, `[{"op":"replace","path":"/name","value":"a","value":"b"}]`,
	} {
		f.Add(patch)
	}
	srv := consoleServer(f)
	account := srv.NewWorkspace("Fuzz")
	token := (&api{t: f, srv: srv}).tokenFor(account.Credentials, "console")
	project := projects + "/" + account.NewProject(idverify.ProjectParams{Name: "Shop", Mode: idverify.ModeLive, CallbackURL: "https://shop.test/"}).ProjectID
	f.Fuzz(func(t *testing.T, patch string) {
		before := serve(t, srv, token, http.MethodGet, project, "")

		r := serve(t, srv, token, http.MethodPatch, project, patch)

		after := serve(t, srv, token, http.MethodGet, project, "")
		if r.status != 200 {
			if r.status < 400 || r.status > 499 || !cmp.Equal(before.json, after.json) {
				t.Errorf("rejected with %d %s, but the project changed from %s to %s", r.status, r.body, before.body, after.body)
			}
			return
		}
		if !cmp.Equal(r.json, after.json) {
			t.Errorf("response = %s, stored %s", r.body, after.body)
		}
		// A project with the same settings can be created once the name is free.
		if d := serve(t, srv, token, http.MethodDelete, project, ""); d.status != 204 {
			t.Fatalf("delete: %d %s", d.status, d.body)
		}
		again := serve(t, srv, token, http.MethodPost, projects, string(after.body))
		if again.status != 201 {
			t.Fatalf("create rejects the patched project %s: %d %s", after.body, again.status, again.body)
		}
		project = projects + "/" + again.text("project_id")
		for _, field := range []string{"name", "mode", "callback_url", "configuration"} {
			wantEqual(t, after.json[field], again.json[field], "%s of the created project, compared with the patched one", field)
		}
	})
}

// A search either fails with 400 or selects a subset, and a conjunction selects the intersection.
func FuzzProjectSearch(f *testing.F) {
	for _, search := range []string{"name==a", "name!=b;mode==live", "(name==a,name=='b');created_at>2026-01-02T03", `name=="\""`, "((name==a))", "name", "name==", ";", "created_at>=2026,", "name=in=(a,b)", "'", "(name==a),name==c"} {
		f.Add(search)
	}
	srv := consoleServer(f)
	account := srv.NewWorkspace("Fuzz")
	token := (&api{t: f, srv: srv}).tokenFor(account.Credentials, "console")
	for _, name := range []string{"a", "b", "c"} {
		account.NewProject(idverify.ProjectParams{Name: name, Mode: idverify.ModeLive})
	}
	f.Fuzz(func(t *testing.T, search string) {
		found := func(search string) response {
			return serve(t, srv, token, http.MethodGet, projects+"?sort=name,asc&search="+url.QueryEscape(search), "")
		}

		r := found(search)

		if r.status == 400 {
			return
		}
		names := r.column("projects", "name")
		if r.status != 200 || !strings.Contains("a b c", strings.Join(names, " ")) && strings.Join(names, " ") != "a c" {
			t.Errorf("%q: %d %s, want 200 with some of the projects", search, r.status, r.body)
		}
		grouped := found("(" + search + ");name==a")
		if grouped.status == 200 && strings.Contains(strings.Join(names, " "), "a") != (len(grouped.column("projects", "name")) == 1) {
			t.Errorf("%q finds %v, but together with name==a it finds %s", search, names, grouped.body)
		}
	})
}
