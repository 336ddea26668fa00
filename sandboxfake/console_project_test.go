package sandboxfake_test

import (
	"fmt"
	"net/http"
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
	a := &api{t: t, srv: srv}
	a.token = a.tokenFor(c, "phone_check sim_check subscriber_check coverage")
	return a
}

// tokenStatus returns the status of a token request.
func (a *api) tokenStatus(c idverify.Credentials, scope string) int {
	a.t.Helper()
	return a.tokenCall(c, map[string][]string{"grant_type": {"client_credentials"}, "scope": {scope}}).status
}

func TestServer_ProjectMode(t *testing.T) {
	t.Parallel()
	owner := newOwnerAPI(t, consoleServer(t))
	for _, row := range []struct{ given, mode string }{
		{`{"name":"A"}`, "live"},
		{`{"name":"B","mode":"live"}`, "live"},
		{`{"name":"C","mode":"sandbox"}`, "sandbox"},
	} {
		id, _ := owner.newProject(row.given)
		if got := owner.get(projects + "/" + id).text("mode"); got != row.mode {
			t.Errorf("mode of a project created with %s = %s, want %s", row.given, got, row.mode)
		}
		for _, mode := range []string{"sandbox", "live"} {
			r := owner.call(http.MethodPatch, projects+"/"+id, fmt.Sprintf(`[{"op":"replace","path":"/mode","value":%q}]`, mode))
			if r.status != 200 || r.text("mode") != mode {
				t.Errorf("change the mode from %s to %s: %d %s", row.mode, mode, r.status, r.body)
			}
		}
	}
}

func TestServer_ProjectModeSetsCharge(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	id, credentials := owner.newProject(`{"name":"Shop"}`)
	product := newProductAPI(t, srv, credentials)
	charge := func() string {
		r := product.want(201, http.MethodPost, phoneChecks, `{"phone_number":"447700900012"}`)
		return fmt.Sprint(r.at("charge_amount"), " ", r.text("charge_currency"), ", left ", r.at("snapshot_balance"))
	}

	live := charge()
	owner.want(200, http.MethodPatch, projects+"/"+id, `[{"op":"replace","path":"/mode","value":"sandbox"}]`)
	sandbox := charge()

	if live != "1 API, left 99" || sandbox != "0 API, left 99" || owner.money("default") != "99 API" {
		t.Errorf("live check: %s; sandbox check: %s; balance: %s; want charges of 1 and 0", live, sandbox, owner.money("default"))
	}
}

func TestServer_CheckKeepsProjectMode(t *testing.T) {
	t.Parallel()
	operator := func(idverify.Product, string) sandboxfake.Outcome {
		return sandboxfake.Outcome{Status: idverify.StatusCompleted, Match: idverify.VerdictNo}
	}
	srv := consoleServer(t, sandboxfake.WithOutcomeFunc(operator))
	owner := newOwnerAPI(t, srv)
	id, credentials := owner.newProject(`{"name":"Shop"}`)
	product := newProductAPI(t, srv, credentials)
	live := product.create(phoneChecks, `{"phone_number":"447700900012"}`)
	owner.want(200, http.MethodPatch, projects+"/"+id, `[{"op":"replace","path":"/mode","value":"sandbox"}]`)
	sandbox := product.create(phoneChecks, `{"phone_number":"447700900012"}`)

	product.get(phoneChecks + "/" + live + "/redirect")
	product.get(phoneChecks + "/" + sandbox + "/redirect")

	if match := product.get(phoneChecks + "/" + live).at("match"); match != false {
		t.Errorf("match of a live check = %v, want false of the outcome function", match)
	}
	if match := product.get(phoneChecks + "/" + sandbox).at("match"); match != true {
		t.Errorf("match of a sandbox check = %v, want true of the sandbox table", match)
	}
}

func TestServer_ProjectCallbackURL(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	shop, phone := new(recordingReceiver), new(recordingReceiver)
	shopURL, phoneURL := srv.Handle("shop.sandbox.test", shop), srv.Handle("phone.sandbox.test", phone)
	_, credentials := owner.newProject(fmt.Sprintf(`{"name":"Shop","mode":"sandbox","callback_url":%q,"configuration":{"phone_check":{"callback_url":%q}}}`, shopURL, phoneURL))
	product := newProductAPI(t, srv, credentials)

	for _, path := range []string{phoneChecks, "/subscriber_check/v0.1/checks"} {
		product.get(path + "/" + product.create(path, `{"phone_number":"447700900012"}`) + "/redirect")
	}
	if err := srv.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, d := range srv.Deliveries() {
		got = append(got, string(d.Product)+" "+d.URL)
	}
	if diff := cmp.Diff([]string{"phone_check " + phoneURL, "subscriber_check " + shopURL}, got); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
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
	owner.want(204, http.MethodDelete, path+"/"+first.ClientID, "")
	third := owner.want(201, http.MethodPost, path, "")

	if diff := cmp.Diff([]string{second.text("client_id"), third.text("client_id")}, owner.get(path+"?sort=created_at,asc").column("credentials", "client_id")); diff != "" {
		t.Errorf("credentials (-want +got):\n%s", diff)
	}
}

func TestServer_ProjectSecretShownOnce(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	id, credentials := owner.newProject(`{"name":"Shop"}`)
	path := projects + "/" + id + "/credentials"

	responses := []response{owner.get(path), owner.get(path + "/" + credentials.ClientID), owner.get(projects + "/" + id), owner.get(projects)}

	for _, r := range responses {
		if r.status != 200 || strings.Contains(string(r.body), "client_secret") || strings.Contains(string(r.body), credentials.ClientSecret.Reveal()) {
			t.Errorf("response = %d %s, want 200 without a secret", r.status, r.body)
		}
	}
	owner.post(path+"/"+credentials.ClientID+"/reset", "").wantProblem(t, 404, "not_found")
}

func TestServer_ResetWorkspaceSecret(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	grace := owner.invite("Grace", "VIEWER")
	viewer := newConsoleAPI(t, srv, grace.Credentials)
	other := newConsoleAPI(t, srv, grace.Credentials)
	path := workspaces + "/default/members/" + grace.MemberID + "/credentials/" + grace.Credentials.ClientID

	r := viewer.want(200, http.MethodPost, path+"/reset", "")

	fresh := idverify.Credentials{ClientID: r.text("client_id"), ClientSecret: idverify.NewSecret(r.text("client_secret"))}
	if fresh.ClientID != grace.Credentials.ClientID || fresh.ClientSecret.Reveal() == grace.Credentials.ClientSecret.Reveal() {
		t.Errorf("reset: %s, want a new secret for the same client ID", r.body)
	}
	if old, now := owner.tokenStatus(grace.Credentials, "console"), owner.tokenStatus(fresh, "console"); old != 401 || now != 200 {
		t.Errorf("token status with the old secret %d, with the new one %d, want 401 and 200", old, now)
	}
	for _, a := range []*api{viewer, other} {
		a.get(workspaces+"/default").wantProblem(t, 401, "unauthorized")
	}
	if seen := owner.get(path); seen.status != 200 || strings.Contains(string(seen.body), "client_secret") {
		t.Errorf("read: %d %s, want the credentials without their secret", seen.status, seen.body)
	}
}

func TestServer_ScopesByCredentialKind(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	_, project := owner.newProject(`{"name":"Shop"}`)
	workspace := srv.SignUp("Ada").Credentials
	for _, row := range []struct {
		scope              string
		project, workspace int
	}{
		{"phone_check", 200, 400}, {"sim_check", 200, 400}, {"subscriber_check", 200, 400}, {"coverage", 200, 400},
		{"projects", 400, 200}, {"workspaces", 400, 200}, {"console", 400, 200},
		{"projects phone_check", 400, 400},
	} {
		if p, w := owner.tokenStatus(project, row.scope), owner.tokenStatus(workspace, row.scope); p != row.project || w != row.workspace {
			t.Errorf("scope %s: %d with project credentials, %d with workspace credentials, want %d and %d", row.scope, p, w, row.project, row.workspace)
		}
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
	receiver := new(recordingReceiver)
	id, credentials := owner.newProject(fmt.Sprintf(`{"name":"Shop","mode":"sandbox","callback_url":%q}`, srv.Handle("shop.sandbox.test", receiver)))
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
	if err := srv.Advance(t.Context(), 10*time.Minute); err != nil {
		t.Fatal(err)
	}
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

func TestServer_ListProjects(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newConsoleAPI(t, srv, srv.SignUp("Ada").Credentials)
	for _, name := range []string{"b", "c", "a"} {
		owner.newProject(fmt.Sprintf(`{"name":%q}`, name))
		if err := srv.Advance(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		query string
		want  []string
	}{
		{"", []string{"a", "c", "b"}},
		{"?sort=name,asc", []string{"a", "b", "c"}},
		{"?sort=name,desc&size=2", []string{"c", "b"}},
		{"?sort=created_at,asc&size=2&page=2", []string{"a"}},
		{"?search=name!=b", []string{"a", "c"}},
		{"?search=mode==sandbox", []string{}},
	} {
		if diff := cmp.Diff(row.want, owner.get(projects+row.query).column("projects", "name")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.query, diff)
		}
	}
}
