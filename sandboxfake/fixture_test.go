package sandboxfake_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

// fixture reads one of the hand-written JSON fixtures of internal/wire.
func fixture(t testing.TB, name string) (v any) {
	t.Helper()
	readFixture(t, name, &v)
	return v
}

func readFixture(t testing.TB, name string, v any) {
	t.Helper()
	text := must(os.ReadFile(filepath.Join("..", "internal", "wire", "testdata", name+".json")))(t)
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// shape returns the structure of a JSON value: its field names and the types of their values. A
// list has the shape of its first element. Times and URLs are types of their own.
func shape(v any) any {
	switch v := v.(type) {
	case map[string]any:
		fields := make(map[string]any)
		for name, value := range v {
			fields[name] = shape(value)
		}
		return fields
	case []any:
		if len(v) == 0 {
			return "list"
		}
		return []any{shape(v[0])}
	case string:
		if _, err := time.Parse("2006-01-02T15:04:05+0000", v); err == nil {
			return "time"
		}
		if strings.HasPrefix(v, "https://") {
			return "URL"
		}
		return "text"
	case nil:
		return "null"
	}
	return fmt.Sprintf("%T", v)
}

func wantShape(t testing.TB, name string, response any) {
	t.Helper()
	wantEqual(t, shape(fixture(t, name)), shape(response), "%s: structure of the response", name)
}

func TestServer_ResponsesMatchFixtures(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	receiver, host := newRecordingReceiver(srv)
	create := func(path, number string) map[string]any {
		t.Helper()
		body := `{"phone_number":"` + number + `","callback_url":"` + host + `","reference_id":"sign-up 42","period":1440}`
		if strings.HasPrefix(path, "/sim") {
			body = `{"phone_number":"` + number + `","reference_id":"payment 7"}`
		}
		return a.post(path, body).wantStatus(t, http.StatusCreated).json
	}
	open := func(path string, check map[string]any) {
		t.Helper()
		a.get(path+"/"+check["check_id"].(string)+"/redirect").wantStatus(t, http.StatusOK)
		waitIdle(t, srv)
	}
	read := func(path string, check map[string]any) map[string]any {
		t.Helper()
		return a.get(path + "/" + check["check_id"].(string)).json
	}
	without := func(v any, names ...string) any {
		m := v.(map[string]any)
		for _, name := range names {
			delete(m, name)
		}
		return m
	}

	phone := create(phoneChecks, "447700900012")
	wantShape(t, "phone_check_created", phone)
	open(phoneChecks, phone)
	wantShape(t, "phone_check", read(phoneChecks, phone))
	wantShape(t, "callback_phone_check", receiver.last(t))

	failed := create(phoneChecks, "447700900055")
	open(phoneChecks, failed)
	wantShape(t, "callback_phone_check_error", without(receiver.last(t), "reference_id"))

	subscriber := create("/subscriber_check/v0.1/checks", "447700900006")
	wantShape(t, "subscriber_check_created", without(subscriber, "reference_id", "callback_url"))
	open("/subscriber_check/v0.1/checks", subscriber)
	wantShape(t, "subscriber_check", read("/subscriber_check/v0.1/checks", subscriber))
	wantShape(t, "callback_subscriber_check", receiver.last(t))

	wantShape(t, "sim_check", create("/sim_check/v0.1/checks", "447700900000"))
	wantShape(t, "sim_check_error", without(create("/sim_check/v0.1/checks", "447700900099"), "reference_id"))

	wantShape(t, "device_reachability", a.get("/coverage/v0.1/device_ips/192.0.2.2").json)
	wantShape(t, "country", a.get("/coverage/v0.1/countries/GB").json)
	wantShape(t, "problem", a.get("/coverage/v0.1/device_ips/192.0.2.1").json)
	wantShape(t, "jwks", a.get("/.well-known/jwks.json").json)
	wantShape(t, "token", a.tokenCall(srv.Credentials(), map[string][]string{"grant_type": {"client_credentials"}, "scope": {"phone_check"}}).json)
	wantShape(t, "token_error", a.tokenCall(srv.Credentials(), map[string][]string{"scope": {"phone_check"}}).json)

	traces := a.get(phoneChecks + "/" + phone["check_id"].(string) + "/traces")
	first := traces.json["_embedded"].(map[string]any)["traces"].([]any)[0].(map[string]any)
	wantShape(t, "trace", a.get(phoneChecks+"/"+phone["check_id"].(string)+"/traces/"+first["trace_id"].(string)).json)
	wantShape(t, "traces", traces.json)
}

func TestServer_PageMatchesFixture(t *testing.T) {
	t.Parallel()
	a := newAPI(t, consoleServer(t))
	var ids []string
	for range 5 {
		ids = append(ids, a.create(phoneChecks02, `{"phone_number":"447700900012"}`))
	}
	a.exchange(phoneChecks02, ids[0], a.open(phoneChecks02, ids[0]).text("code"))

	list := a.get(phoneChecks02 + "?page=2&size=2&sort=created_at,asc")
	first := a.get(phoneChecks02 + "?page=1&size=2&sort=created_at,asc")

	// The fixture has a COMPLETED check first and links in both directions. Combine two pages to get
	// both.
	page := list.json
	page["_embedded"] = first.json["_embedded"]
	wantShape(t, "phone_checks", page)
}

// operationRow is a row of operations.json.
type operationRow struct {
	Operation, Method, Path, Scope string
	Success                        int
}

func operations(t testing.TB) (rows []operationRow) {
	t.Helper()
	readFixture(t, "operations", &rows)
	return rows
}

var idSegment = regexp.MustCompile(`\{\w+\}`)

// unknownPath returns the path of the operation with IDs that do not exist.
func (r operationRow) unknownPath() string {
	version := "v0.1"
	if strings.HasSuffix(r.Operation, ".complete") {
		version = "v0.2"
	}
	return idSegment.ReplaceAllString(strings.ReplaceAll(r.Path, "{v}", version), "unknown")
}

func TestServer_ServesEveryOperation(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	a := newAPI(t, srv)
	a.token = ""
	for _, row := range operations(t) {
		t.Run(row.Method+" "+row.Path, func(t *testing.T) {
			// With a token of the other kind of credentials, a route that exists returns 403, and an unknown
			// one 404 or 405.
			request := a.request(row.Method, row.unknownPath(), "")
			switch row.Scope {
			case "":
				if r := a.do(request); r.status == 405 || r.fragment() == "not_found" {
					t.Errorf("%d %s, want the operation to be served", r.status, r.body)
				}
			case "projects", "workspaces":
				request.Header.Set("Authorization", "Bearer "+a.tokenFor(srv.Credentials(), "coverage"))
				a.do(request).wantProblem(t, 403, "forbidden")
			default:
				request.Header.Set("Authorization", "Bearer "+a.tokenFor(srv.ConsoleCredentials(), "console"))
				a.do(request).wantProblem(t, 403, "forbidden")
			}
		})
	}
}

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
