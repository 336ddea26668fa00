package sandboxfake_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

const (
	workspaces = "/console/v0.1/workspaces"
	projects   = "/console/v0.1/projects"
)

// consoleServer returns an in-memory server with a frozen clock.
func consoleServer(t testing.TB, opts ...sandboxfake.Option) *sandboxfake.Server {
	t.Helper()
	return sandboxfake.New(t, append(opts, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))...)
}

// newConsoleAPI returns an api with a token of c for all console scopes.
func newConsoleAPI(t testing.TB, srv *sandboxfake.Server, c idverify.Credentials) *api {
	t.Helper()
	return newScopedAPI(t, srv, c, "console")
}

// newOwnerAPI returns an api with a token of the owner of the server's first workspace.
func newOwnerAPI(t testing.TB, srv *sandboxfake.Server) *api {
	t.Helper()
	return newConsoleAPI(t, srv, srv.ConsoleCredentials())
}

// invite invites a user to a's workspace, signs them up, and returns their account in that
// workspace.
func (a *api) invite(name, role string) *sandboxfake.Account {
	a.t.Helper()
	r := a.want(201, http.MethodPost, workspaces+"/default/invitations", fmt.Sprintf(`{"name":%q,"role":%q}`, name, role))
	return a.srv.SignUp(name, r.text("invitation_id")).Joined[0]
}

// money returns the balance and the currency of a workspace.
func (a *api) money(workspaceID string) string {
	a.t.Helper()
	r := a.want(200, http.MethodGet, workspaces+"/"+workspaceID, "")
	return fmt.Sprint(r.at("_embedded", "balance", "amount_available"), " ", r.text("_embedded", "balance", "currency"))
}

func TestServer_SignUpOwnsWorkspace(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)

	ada := srv.SignUp("Ada")

	seen := newConsoleAPI(t, srv, ada.Credentials).want(200, http.MethodGet, workspaces+"/default", "")
	if seen.text("workspace_id") != ada.WorkspaceID || seen.text("_embedded", "me", "role") != "OWNER" || seen.text("_embedded", "me", "member_id") != ada.MemberID {
		t.Errorf("workspace = %s, want Ada as its owner: %+v", seen.body, ada)
	}
	if balance := newConsoleAPI(t, srv, ada.Credentials).money("default"); ada.Role != idverify.RoleOwner || len(ada.Joined) != 0 || balance != "100 API" {
		t.Errorf("account = %+v with a balance of %s, want the owner of one workspace with 100 API", ada, balance)
	}
}

func TestServer_SignUpByInvitation(t *testing.T) {
	t.Parallel()
	for _, role := range []idverify.Role{idverify.RoleAdmin, idverify.RoleViewer} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			srv := consoleServer(t)
			owner := newOwnerAPI(t, srv)
			invitation := owner.post(workspaces+"/default/invitations", fmt.Sprintf(`{"name":"Grace","role":%q}`, role)).text("invitation_id")

			grace := srv.SignUp("Grace", invitation)

			joined := grace.Joined[0]
			if joined.Role != role || joined.WorkspaceID != owner.get(workspaces+"/default").text("workspace_id") {
				t.Errorf("joined = %+v, want %s of the inviter's workspace", joined, role)
			}
			if grace.Role != idverify.RoleOwner || grace.WorkspaceID == joined.WorkspaceID {
				t.Errorf("account = %+v, want the owner of a separate workspace", grace)
			}
			me := newConsoleAPI(t, srv, grace.Credentials).get(workspaces + "/" + joined.WorkspaceID)
			if me.text("_embedded", "me", "role") != string(role) {
				t.Errorf("role in the joined workspace: %s, want %s", me.body, role)
			}
		})
	}
}

func TestServer_SignUpRejectsInvitations(t *testing.T) {
	t.Parallel()
	tb := fatalTB{t}
	srv := sandboxfake.New(tb, sandboxfake.WithInMemory())
	owner := newOwnerAPI(t, srv)
	open := func() string {
		return owner.post(workspaces+"/default/invitations", `{"name":"Grace","role":"ADMIN"}`).text("invitation_id")
	}
	used, first, second := open(), open(), open()
	srv.SignUp("Grace", used)
	for _, row := range []struct {
		name, user  string
		invitations []string
	}{
		{"unknown", "Mallory", []string{"unknown"}},
		{"already accepted", "Mallory", []string{used}},
		{"valid, then unknown", "Mallory", []string{first, "unknown"}},
		{"two of the same workspace", "Mallory", []string{first, second}},
		{"no user name", "", []string{first}},
	} {
		if tb.catch(func() { srv.SignUp(row.user, row.invitations...) }) == "" {
			t.Errorf("%s: SignUp succeeded, want the test to fail", row.name)
		}
	}

	wantEqual(t, []string{"Owner", "Grace"}, owner.get(workspaces+"/default/members?sort=created_at,asc").column("members", "name"), "members")
	wantEqual(t, []string{first, second}, owner.get(workspaces+"/default/invitations?sort=created_at,asc").column("invitations", "invitation_id"), "open invitations")
}

func TestServer_RejectsSecondWorkspace(t *testing.T) {
	t.Parallel()
	owner := newOwnerAPI(t, consoleServer(t))

	r := owner.post(workspaces, `{"name":"Another"}`)

	r.wantProblem(t, 405, "method_not_allowed")
	if n := len(owner.get(workspaces).column("workspaces", "name")); n != 1 {
		t.Errorf("owner has %d workspaces, want 1", n)
	}
}

func TestServer_MemberOfManyWorkspaces(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	var invitations, want []string
	for i := range 12 {
		inviter := srv.NewWorkspace(fmt.Sprintf("Workspace %02d", i))
		a := newConsoleAPI(t, srv, inviter.Credentials)
		invitations = append(invitations, a.post(workspaces+"/default/invitations", `{"name":"Grace","role":"VIEWER"}`).text("invitation_id"))
		want = append(want, inviter.WorkspaceID)
	}

	grace := srv.SignUp("Grace", invitations...)

	a := newConsoleAPI(t, srv, grace.Credentials)
	got := a.get(workspaces+"?size=100&sort=created_at,asc").column("workspaces", "workspace_id")
	wantEqual(t, append(want, grace.WorkspaceID), got, "workspaces of Grace")
	for i, id := range want {
		if role := a.get(workspaces+"/"+id).text("_embedded", "me", "role"); role != "VIEWER" || grace.Joined[i].WorkspaceID != id {
			t.Errorf("workspace %d: role %q, joined as %+v, want VIEWER", i, role, grace.Joined[i])
		}
	}
}

func TestServer_UnlimitedAdminsAndViewers(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"ADMIN", "VIEWER"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			owner := newOwnerAPI(t, consoleServer(t))

			for i := range 120 {
				owner.invite(fmt.Sprintf("Member %d", i), role)
			}

			if got := owner.get(workspaces+"/default/members?search=role=="+role).at("page", "total_elements"); got != 120.0 {
				t.Errorf("%v members with role %s, want 120", got, role)
			}
		})
	}
}

// Users may have e-mail addresses of any domain. A workspace has one owner.
func TestServer_CreateInvitation(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	admin := newConsoleAPI(t, srv, owner.invite("ada@one.test", "ADMIN").Credentials)
	owner.invite("grace@two.test", "VIEWER")
	for _, row := range []struct {
		name, body string
		status     int
	}{
		{"admin", `{"name":"Ada","role":"ADMIN"}`, 201},
		{"with a reference", `{"name":"Ada","role":"VIEWER","reference":"ticket 12"}`, 201},
		{"unknown fields", `{"name":"Ada","role":"VIEWER","colour":"red"}`, 201},
		{"no name", `{"role":"ADMIN"}`, 400},
		{"blank name", `{"name":" ","role":"ADMIN"}`, 400},
		{"field name in another case", `{"Name":"Ada","role":"ADMIN"}`, 400},
		{"no role", `{"name":"Ada"}`, 400},
		{"role in another case", `{"name":"Ada","role":"admin"}`, 400},
		{"unknown role", `{"name":"Ada","role":"GUEST"}`, 400},
		{"second owner", `{"name":"Mallory","role":"OWNER"}`, 400},
		{"role of the wrong type", `{"name":"Ada","role":1}`, 400},
		{"truncated", `{"name":"Ada"`, 400},
		{"empty", ``, 400},
	} {
		for _, a := range []*api{owner, admin} {
			r := a.post(workspaces+"/default/invitations", row.body)

			if r.status != row.status || r.status == 400 && r.fragment() != "bad_request" {
				t.Errorf("%s: %d %s, want %d", row.name, r.status, r.body, row.status)
			}
		}
	}
	members := owner.get(workspaces + "/default/members?sort=created_at,asc")
	wantEqual(t, []string{"Owner", "ada@one.test", "grace@two.test"}, members.column("members", "name"), "names of the members")
	wantEqual(t, []string{"OWNER", "ADMIN", "VIEWER"}, members.column("members", "role"), "roles of the members")
}

func TestServer_RenameWorkspace(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	admin := newConsoleAPI(t, srv, owner.invite("Ada", "ADMIN").Credentials)
	name := func() string { return owner.get(workspaces + "/default").text("name") }
	long := strings.Repeat("n", 255)
	for _, row := range []struct {
		title, patch string
		status       int
		want         string
	}{
		{"new name", `[{"op":"replace","path":"/name","value":"Shop"}]`, 200, "Shop"},
		{"add over the existing name", `[{"op":"add","path":"/name","value":"Added"}]`, 200, "Added"},
		{"two operations", `[{"op":"replace","path":"/name","value":"A"},{"op":"replace","path":"/name","value":"B"}]`, 200, "B"},
		{"no operation", `[]`, 200, "B"},
		{"255 characters", `[{"op":"replace","path":"/name","value":"` + long + `"}]`, 200, long},
		{"256 characters", `[{"op":"replace","path":"/name","value":"` + long + `n"}]`, 400, long},
		{"valid and invalid operation", `[{"op":"replace","path":"/name","value":"C"},{"op":"replace","path":"/name","value":""}]`, 400, long},
		{"unsupported path", `[{"op":"replace","path":"/data_residency","value":"US"}]`, 400, long},
		{"add of a missing member", `[{"op":"add","path":"/data_residency","value":"US"}]`, 400, long},
		{"add of a number", `[{"op":"add","path":"/name","value":7}]`, 400, long},
		{"add of null", `[{"op":"add","path":"/name","value":null}]`, 400, long},
		{"move", `[{"op":"move","path":"/name","value":"Moved"}]`, 400, long},
		{"remove", `[{"op":"remove","path":"/name"}]`, 400, long},
		{"number", `[{"op":"replace","path":"/name","value":7}]`, 400, long},
		{"line break", `[{"op":"replace","path":"/name","value":"a\nb"}]`, 400, long},
		{"not an array", `{"name":"D"}`, 400, long},
	} {
		r := admin.call(http.MethodPatch, workspaces+"/default", row.patch)

		if r.status != row.status || name() != row.want {
			t.Errorf("%s: %d %s, name %q, want %d and %q", row.title, r.status, r.body, name(), row.status, row.want)
		}
	}
}

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
	owner := newOwnerAPI(t, consoleServer(t))
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
