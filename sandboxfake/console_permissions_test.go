package sandboxfake_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// The callers of the matrix: the three roles of a workspace, the owner of another workspace, a
// project's token, and no token.
const (
	callOwner = iota
	callAdmin
	callViewer
	callOtherOwner
	callProject
	callNoToken
	callers
)

// matrix lists every console operation, in the order of operations.json, with the status for each
// caller. Paths contain the IDs of the workspace of the three roles, of its project, and of
// credentials, which are the caller's own unless whose says otherwise. A path without a workspace
// addresses the caller's own: callOtherOwner creates and lists there.
var matrix = []struct {
	operation, whose string // whose: "another's" for another member or their credentials
	status           [callers]int
}{
	// owner, admin, viewer, owner of another workspace, project token, no token
	{"projects.create", "", [callers]int{201, 201, 403, 201, 403, 401}},
	{"projects.list", "", [callers]int{200, 200, 200, 200, 403, 401}},
	{"projects.get", "", [callers]int{200, 200, 200, 404, 403, 401}},
	{"projects.update", "", [callers]int{200, 200, 403, 404, 403, 401}},
	{"projects.delete", "", [callers]int{204, 204, 403, 404, 403, 401}},
	{"project_credentials.create", "", [callers]int{201, 201, 201, 404, 403, 401}},
	{"project_credentials.list", "", [callers]int{200, 200, 200, 404, 403, 401}},
	{"project_credentials.get", "", [callers]int{200, 200, 200, 404, 403, 401}},
	{"project_credentials.get", "another's", [callers]int{200, 200, 200, 404, 403, 401}},
	{"project_credentials.delete", "", [callers]int{204, 204, 204, 404, 403, 401}},
	{"project_credentials.delete", "another's", [callers]int{204, 204, 403, 404, 403, 401}},
	{"workspaces.list", "", [callers]int{200, 200, 200, 200, 403, 401}},
	{"workspaces.get", "", [callers]int{200, 200, 200, 404, 403, 401}},
	{"workspaces.update", "", [callers]int{200, 200, 403, 404, 403, 401}},
	{"members.list", "", [callers]int{200, 200, 200, 404, 403, 401}},
	{"members.get", "another's", [callers]int{200, 200, 200, 404, 403, 401}},
	{"invitations.create", "", [callers]int{201, 201, 403, 404, 403, 401}},
	{"invitations.list", "", [callers]int{200, 200, 403, 404, 403, 401}},
	{"workspace_credentials.create", "", [callers]int{201, 201, 201, 404, 403, 401}},
	{"workspace_credentials.create", "another's", [callers]int{403, 403, 403, 404, 403, 401}},
	{"workspace_credentials.list", "", [callers]int{200, 200, 200, 404, 403, 401}},
	{"workspace_credentials.list", "another's", [callers]int{200, 200, 403, 404, 403, 401}},
	{"workspace_credentials.get", "", [callers]int{200, 200, 200, 404, 403, 401}},
	{"workspace_credentials.get", "another's", [callers]int{200, 200, 403, 404, 403, 401}},
	{"workspace_credentials.delete", "", [callers]int{204, 204, 204, 404, 403, 401}},
	{"workspace_credentials.delete", "another's", [callers]int{204, 204, 403, 404, 403, 401}},
	{"workspace_credentials.reset", "", [callers]int{200, 200, 200, 404, 403, 401}},
	{"workspace_credentials.reset", "another's", [callers]int{403, 403, 403, 404, 403, 401}},
	{"billing.account", "", [callers]int{200, 403, 403, 404, 403, 401}},
	{"billing.update_account", "", [callers]int{200, 403, 403, 404, 403, 401}},
	{"payment_methods.create", "", [callers]int{201, 403, 403, 404, 403, 401}},
	{"payment_methods.list", "", [callers]int{200, 403, 403, 404, 403, 401}},
	{"payment_methods.get", "", [callers]int{200, 403, 403, 404, 403, 401}},
	{"payment_methods.delete", "", [callers]int{204, 403, 403, 404, 403, 401}},
	{"topups.create", "", [callers]int{201, 403, 403, 404, 403, 401}},
	{"topups.list", "", [callers]int{200, 403, 403, 404, 403, 401}},
	{"usage.get", "", [callers]int{200, 200, 200, 404, 403, 401}},
	// Below a workspace:
	{"projects.create", "", [callers]int{201, 201, 403, 404, 403, 401}},
	{"projects.list", "", [callers]int{200, 200, 200, 404, 403, 401}},
	{"projects.get", "", [callers]int{200, 200, 200, 404, 403, 401}},
	{"projects.update", "", [callers]int{200, 200, 403, 404, 403, 401}},
	{"projects.delete", "", [callers]int{204, 204, 403, 404, 403, 401}},
	{"project_credentials.create", "", [callers]int{201, 201, 201, 404, 403, 401}},
	{"project_credentials.list", "", [callers]int{200, 200, 200, 404, 403, 401}},
	{"project_credentials.get", "", [callers]int{200, 200, 200, 404, 403, 401}},
	{"project_credentials.get", "another's", [callers]int{200, 200, 200, 404, 403, 401}},
	{"project_credentials.delete", "", [callers]int{204, 204, 204, 404, 403, 401}},
	{"project_credentials.delete", "another's", [callers]int{204, 204, 403, 404, 403, 401}},
}

// matrixCallers contains the callers of the matrix.
type matrixCallers struct {
	srv        *sandboxfake.Server
	owner      *sandboxfake.Account // of the workspace
	members    [callers]*sandboxfake.Account
	apis       [callers]*api
	cells      int // number of tested cells, for unique names
	operations []operationRow
}

func newMatrixCallers(t *testing.T) *matrixCallers {
	t.Helper()
	srv := consoleServer(t)
	p := &matrixCallers{srv: srv, owner: srv.NewWorkspace("The workspace"), operations: consoleOperations(t)}
	owner := newConsoleAPI(t, srv, p.owner.Credentials)
	p.members = [callers]*sandboxfake.Account{p.owner, owner.invite("Ada", "ADMIN"), owner.invite("Grace", "VIEWER"), srv.NewWorkspace("Another workspace")}
	for i, m := range p.members[:callProject] {
		p.apis[i] = newConsoleAPI(t, srv, m.Credentials)
	}
	project := p.owner.NewProject(idverify.ProjectParams{Name: "Token", Mode: idverify.ModeLive})
	p.apis[callProject] = newScopedAPI(t, srv, project.Credentials, "phone_check")
	p.apis[callNoToken] = &api{t: t, srv: srv}
	owner.want(200, http.MethodPut, workspaces+"/default/billing_account", `{"company_name":"Sandbox Ltd"}`)
	return p
}

// consoleOperations returns the console operations of operations.json.
func consoleOperations(t *testing.T) []operationRow {
	t.Helper()
	return slices.DeleteFunc(operations(t), func(row operationRow) bool { return !strings.HasPrefix(row.Path, "/console/") })
}

// path fills in the IDs for one cell. Each cell has its own objects, so that it does not affect
// others.
func (p *matrixCallers) path(op operationRow, whose string, caller int) string {
	p.cells++
	owner := p.apis[callOwner]
	// Callers who are not members have nothing in this workspace: use the owner's.
	member := p.members[callOwner]
	if caller <= callViewer {
		member = p.members[caller]
	}
	if whose == "another's" {
		member = p.members[(caller+1)%callOtherOwner]
	}
	memberAPI := newConsoleAPI(owner.t, p.srv, member.Credentials)
	path := op.Path
	fill := func(name string, id func() string) {
		if strings.Contains(path, "{"+name+"}") {
			path = strings.ReplaceAll(path, "{"+name+"}", id())
		}
	}
	ofProject := strings.Contains(path, "{project_id}")
	project := ""
	fill("v", func() string { return "v0.1" })
	fill("workspace_id", func() string { return p.owner.WorkspaceID })
	fill("project_id", func() string {
		project = p.owner.NewProject(idverify.ProjectParams{Name: fmt.Sprintf("Project %d", p.cells), Mode: idverify.ModeLive}).ProjectID
		return project
	})
	fill("member_id", func() string { return member.MemberID })
	fill("client_id", func() string {
		if ofProject {
			return memberAPI.want(201, http.MethodPost, projects+"/"+project+"/credentials", "").text("client_id")
		}
		return memberAPI.want(201, http.MethodPost, workspaces+"/default/members/"+member.MemberID+"/credentials", "").text("client_id")
	})
	fill("payment_method_id", func() string { return p.card() })
	fill("period", func() string { return "hourly?search=date%3E2026" })
	return path
}

// card adds a payment method to the workspace.
func (p *matrixCallers) card() string {
	return p.apis[callOwner].want(201, http.MethodPost, workspaces+"/default/payment_methods", newCard).text("payment_method_id")
}

const newCard = `{"card_number":"4242424242424242","expiry_month":12,"expiry_year":2030,"currencies":["EUR","GBP"]}`

// body returns a valid body for an operation.
func (p *matrixCallers) body(operation string) string {
	switch operation {
	case "projects.create":
		return fmt.Sprintf(`{"name":"Created %d"}`, p.cells)
	case "projects.update", "workspaces.update":
		return fmt.Sprintf(`[{"op":"replace","path":"/name","value":"Renamed %d"}]`, p.cells)
	case "invitations.create":
		return `{"name":"Joan","role":"VIEWER"}`
	case "billing.update_account":
		return `{"company_name":"Sandbox Ltd"}`
	case "payment_methods.create":
		return newCard
	case "topups.create":
		return fmt.Sprintf(`{"payment_method_id":%q,"currency":"EUR","amount":1}`, p.card())
	}
	return ""
}

func TestServer_ConsolePermissions(t *testing.T) {
	t.Parallel()
	p := newMatrixCallers(t)
	callerNames := [callers]string{"owner", "admin", "viewer", "member of another workspace", "project token", "no token"}
	current := -1
	for _, row := range matrix {
		if row.whose != "another's" || p.operations[current].Operation != row.operation {
			current++
		}
		op := p.operations[current]
		if op.Operation != row.operation {
			t.Fatalf("matrix has %s where operations.json has %s, want a row for each operation", row.operation, op.Operation)
		}
		for caller, want := range row.status {
			path, body := p.path(op, row.whose, caller), p.body(op.Operation)

			r := p.apis[caller].call(op.Method, path, body)

			if r.status != want {
				t.Errorf("%s %s, %s: response to %s = %d %s, want %d", op.Operation, row.whose, op.Path, callerNames[caller], r.status, r.body, want)
			}
			if want >= 400 && r.fragment() != map[int]string{401: "unauthorized", 403: "forbidden", 404: notFoundFragment(op)}[want] {
				t.Errorf("%s %s: %s is rejected with an unexpected problem: %s", op.Operation, row.whose, callerNames[caller], r.body)
			}
		}
	}
	if current != len(p.operations)-1 {
		t.Errorf("matrix has %d of %d operations", current+1, len(p.operations))
	}
}

// notFoundFragment returns the problem that callers outside the workspace receive.
func notFoundFragment(op operationRow) string {
	if strings.Contains(op.Path, "{workspace_id}") {
		return "workspace_not_found"
	}
	return "not_found"
}

func TestServer_RolePerWorkspace(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	id := owner.post(workspaces+"/default/invitations", `{"name":"Grace","role":"VIEWER"}`).text("invitation_id")
	grace := srv.SignUp("Grace", id)

	for name, c := range map[string]idverify.Credentials{"credentials of her own workspace": grace.Credentials, "credentials of the joined workspace": grace.Joined[0].Credentials} {
		a := newConsoleAPI(t, srv, c)
		own := a.post(workspaces+"/"+grace.WorkspaceID+"/projects", fmt.Sprintf(`{"name":%q}`, name))
		joined := a.post(workspaces+"/"+grace.Joined[0].WorkspaceID+"/projects", fmt.Sprintf(`{"name":%q}`, name))
		if own.status != 201 || joined.status != 403 {
			t.Errorf("%s: %d as owner of a workspace, %d as viewer, want 201 and 403", name, own.status, joined.status)
		}
	}
}

func TestServer_ProjectByWorkspacePath(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	workspace := owner.get(workspaces + "/default").text("workspace_id")
	created := owner.want(201, http.MethodPost, workspaces+"/"+workspace+"/projects", `{"name":"Shop"}`)
	id := created.text("project_id")

	direct, below := owner.get(projects+"/"+id), owner.get(workspaces+"/"+workspace+"/projects/"+id)

	if self := below.text("_links", "self", "href"); self != srv.URL()+workspaces+"/"+workspace+"/projects/"+id {
		t.Errorf("self = %s, want the path below the workspace, which works for members of several workspaces", self)
	}
	delete(direct.json, "_links")
	delete(below.json, "_links")
	wantEqual(t, direct.json, below.json, "project below its workspace")
	for scope, other := range map[string]string{"projects": workspaces + "/" + workspace + "/projects", "workspaces": projects} {
		newScopedAPI(t, srv, srv.ConsoleCredentials(), scope).get(other).wantProblem(t, 403, "forbidden")
	}
}
