package sandboxfake_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
)

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
			if row.status == 204 && (len(r.body) != 0 || r.header.Get("Content-Type") != "") {
				t.Errorf("%s: %s %s: body %q of type %q, want none", caller.name, row.method, row.path, r.body, r.header.Get("Content-Type"))
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
	project, _ := owner.newProject(`{"name":"Shop"}`)
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
		if diff := cmp.Diff(want, read.json); diff != "" {
			t.Errorf("%s: read (-want +got):\n%s", path, diff)
		}
		if diff := cmp.Diff([]any{want}, listed); diff != "" {
			t.Errorf("%s: listed (-want +got):\n%s", path, diff)
		}
	}
}

// A viewer can delete only the project credentials that they created.
func TestServer_ViewerDeletesOwnCredentials(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner := newOwnerAPI(t, srv)
	viewer := newConsoleAPI(t, srv, owner.invite("Grace", "VIEWER").Credentials)
	id, first := owner.newProject(`{"name":"Shop"}`)
	path := projects + "/" + id + "/credentials/"
	second := viewer.want(201, http.MethodPost, projects+"/"+id+"/credentials", "{}")
	created := idverify.Credentials{ClientID: second.text("client_id"), ClientSecret: idverify.NewSecret(second.text("client_secret"))}

	viewer.call(http.MethodDelete, path+first.ClientID, "").wantProblem(t, 403, "forbidden")
	viewer.call(http.MethodDelete, path+"unknown", "").wantProblem(t, 404, "not_found")
	if r := viewer.want(204, http.MethodDelete, path+created.ClientID, ""); len(r.body) != 0 || r.header.Get("Content-Type") != "" {
		t.Errorf("response body = %q of type %q, want none", r.body, r.header.Get("Content-Type"))
	}

	if a, b := owner.tokenStatus(first, "phone_check"), owner.tokenStatus(created, "phone_check"); a != 200 || b != 401 {
		t.Errorf("token status for the other credentials = %d, for the deleted ones %d, want 200 and 401", a, b)
	}
}

// A 204 response has neither a body nor a media type.
func TestServer_NoContentResponse(t *testing.T) {
	t.Parallel()
	srv := consoleServer(t)
	owner, method := payer(t, srv, newCard)
	project, credentials := owner.newProject(`{"name":"Shop"}`)
	for _, path := range []string{
		workspaces + "/default/payment_methods/" + method,
		projects + "/" + project + "/credentials/" + credentials.ClientID,
		projects + "/" + project,
	} {
		r := owner.want(204, http.MethodDelete, path, "")

		if got := fmt.Sprintf("%q %q", r.body, r.header.Get("Content-Type")); got != `"" ""` {
			t.Errorf("DELETE %s: body and media type = %s, want none", path, got)
		}
		owner.call(http.MethodDelete, path, "").wantProblem(t, 404, "not_found")
	}
}
