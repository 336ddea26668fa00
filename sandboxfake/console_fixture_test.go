package sandboxfake_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/idverify/idverify-go"
)

func TestServer_ConsoleMatchesFixtures(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	account := srv.NewWorkspace("Sandbox Ltd")
	owner := newConsoleAPI(t, srv, account.Credentials)
	workspace := workspaces + "/" + account.WorkspaceID

	wantShape(t, "workspace", owner.get(workspace).json)
	wantShape(t, "member", owner.get(workspace+"/members/"+account.MemberID).json)
	wantShape(t, "invitation", owner.post(workspace+"/invitations", `{"name":"Grace","role":"ADMIN","reference":"ticket 12"}`).json)

	created := owner.want(201, http.MethodPost, projects, `{"name":"Shop"}`)
	wantShape(t, "project_created", created.json)
	project := projects + "/" + created.text("project_id")
	urls := func(product string) string {
		return fmt.Sprintf(`{"callback_url":"https://shop.sandbox.test/callbacks/%s","redirect_url":"https://shop.sandbox.test/return/%s"}`, product, product)
	}
	wantShape(t, "project", owner.want(200, http.MethodPatch, project, `[
		{"op":"add","path":"/callback_url","value":"https://shop.sandbox.test/callbacks"},
		{"op":"add","path":"/configuration/phone_check","value":`+urls("phone")+`},
		{"op":"add","path":"/configuration/subscriber_check","value":`+urls("subscriber")+`}]`).json)
	wantShape(t, "project", owner.get(project).json)
	wantShape(t, "credentials", owner.want(201, http.MethodPost, project+"/credentials", "").json)

	wantShape(t, "billing_account", owner.want(200, http.MethodPut, workspace+"/billing_account", `{"company_name":"Sandbox Ltd"}`).json)
	wantShape(t, "billing_account", owner.get(workspace+"/billing_account").json)
	method := owner.want(201, http.MethodPost, workspace+"/payment_methods", newCard)
	wantShape(t, "payment_method", method.json)
	wantShape(t, "top_up", owner.topUp(method.text("payment_method_id"), "EUR", "25.50").json)

	live := account.NewProject(idverify.ProjectParams{Name: "Live", Mode: idverify.ModeLive})
	newProductAPI(t, srv, live.Credentials).create(phoneChecks, `{"phone_number":"447700900012"}`)
	wantShape(t, "usage", owner.get(workspace+"/usage/hourly?group_by=product_id,project_id&search=date%3E%3D2026-01-02T03").json)

	// The reset is last, because it revokes the token.
	reset := workspace + "/members/" + account.MemberID + "/credentials/" + account.Credentials.ClientID + "/reset"
	wantShape(t, "credentials", owner.want(200, http.MethodPost, reset, "").json)
}

// Links in a response have the version of the request.
func TestServer_ConsoleVersions(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	id, _ := owner.newProject(`{"name":"Shop"}`)

	r := owner.want(200, http.MethodGet, "/console/v0.2/projects/"+id, "")

	if self := r.text("_links", "self", "href"); self != srv.URL()+"/console/v0.2/projects/"+id {
		t.Errorf("self = %s, want the version of the request", self)
	}
	owner.get("/console/v0.3/projects/"+id).wantProblem(t, 404, "not_found")
}
