package sandboxfake_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake"
)

// tenants contains a victim with data of every kind, and the intruders.
type tenants struct {
	srv            *sandboxfake.Server
	victim         *sandboxfake.Account
	project        *sandboxfake.Project
	owner, product *api              // the victim's
	ids            map[string]string // the victim's, by name of the path segment
	checks, codes  map[string]string // the victim's, by product
	traces         map[string]string
	productCallers [intruders]*api // nil if the intruder has no project
	consoleCallers [intruders]*api
	credentials    [intruders]idverify.Credentials
	requests       int // number of requests, for unique names
}

func newTenants(t *testing.T) *tenants {
	t.Helper()
	srv := consoleServer(t, sandboxfake.WithCallerIP(netip.MustParseAddr("192.0.2.2")))
	n := &tenants{srv: srv, victim: srv.NewWorkspace("Victim"), checks: make(map[string]string), codes: make(map[string]string), traces: make(map[string]string)}
	n.owner = newConsoleAPI(t, srv, n.victim.Credentials)
	n.project = n.victim.NewProject(idverify.ProjectParams{Name: "Victim's project", Mode: idverify.ModeLive})
	n.product = newProductAPI(t, srv, n.project.Credentials)
	for _, product := range []string{wire.PhoneCheck, wire.SubscriberCheck, wire.SIMCheck} {
		path := "/" + product + "/" + slices.Max(wire.Versions[product]) + "/checks"
		id := n.product.create(path, `{"phone_number":"447700900012","reference_id":"the victim's reference"}`)
		if product != wire.SIMCheck {
			n.codes[product] = n.product.want(200, http.MethodGet, path+"/"+id+"/redirect", "").text("code")
		}
		n.checks[product] = id
		n.traces[product] = n.product.get(path+"/"+id+"/traces").column("traces", "trace_id")[0]
	}
	const workspace = workspaces + "/default"
	card := n.owner.addCard()
	n.owner.want(200, http.MethodPut, workspace+"/billing_account", `{"company_name":"Victim Ltd"}`)
	n.ids = map[string]string{
		"project_id": n.project.ProjectID, "workspace_id": n.victim.WorkspaceID, "member_id": n.victim.MemberID, "payment_method_id": card,
		"top_up_id":     n.owner.topUp(card, "EUR", "5").text("top_up_id"),
		"invitation_id": n.owner.want(201, http.MethodPost, workspace+"/invitations", `{"name":"Joan","role":"VIEWER"}`).text("invitation_id"),
	}

	sibling := n.victim.NewProject(idverify.ProjectParams{Name: "Sibling", Mode: idverify.ModeLive})
	other := srv.NewWorkspace("Other")
	theirs := other.NewProject(idverify.ProjectParams{Name: "Other project", Mode: idverify.ModeLive})
	admin, viewer := n.owner.invite("Ada", "ADMIN"), n.owner.invite("Grace", "VIEWER")
	newConsoleAPI(t, srv, other.Credentials).addCard()
	n.productCallers = [intruders]*api{otherProject: newProductAPI(t, srv, sibling.Credentials), otherWorkspace: newProductAPI(t, srv, theirs.Credentials)}
	n.consoleCallers = [intruders]*api{n.productCallers[otherProject], newConsoleAPI(t, srv, other.Credentials), newConsoleAPI(t, srv, other.Credentials), newConsoleAPI(t, srv, admin.Credentials), newConsoleAPI(t, srv, viewer.Credentials)}
	n.credentials = [intruders]idverify.Credentials{otherProject: sibling.Credentials, otherWorkspace: theirs.Credentials}
	return n
}

// path returns the path of an operation with the victim's IDs, or with unknown IDs.
func (n *tenants) path(op wire.Operation, intruder int, known bool) string {
	path := op.Path
	if versions := wire.Versions[op.Product()]; len(versions) > 0 {
		path = strings.ReplaceAll(path, "{v}", slices.Max(versions))
	}
	ids := maps.Clone(n.ids)
	ids["check_id"], ids["trace_id"] = n.checks[op.Product()], n.traces[op.Product()]
	ids["client_id"] = n.victim.Credentials.ClientID
	if strings.Contains(op.Path, "{project_id}") {
		ids["client_id"] = n.project.Credentials.ClientID
	}
	for name, id := range ids {
		if !known && (name != "workspace_id" || intruder != throughOwnWorkspace) {
			id = "00000000-0000-8000-8000-000000000000"
		}
		if name == "workspace_id" && intruder == throughOwnWorkspace {
			id = "default"
		}
		path = strings.ReplaceAll(path, "{"+name+"}", id)
	}
	return strings.NewReplacer("{ip}", "192.0.2.2", "{code}", "GB", "{period}", "hourly").Replace(path)
}

// request returns a request that would succeed if the IDs were the intruder's own.
func (n *tenants) request(op wire.Operation, intruder int, known bool) *http.Request {
	n.requests++
	caller, body, media := n.consoleCallers[intruder], "", wire.MediaJSON
	if op.Product() != wire.Console {
		caller = n.productCallers[intruder]
	}
	path := n.path(op, intruder, known)
	switch op.Name {
	case wire.Token.Name:
		body, media = url.Values{"grant_type": {"client_credentials"}, "scope": {"phone_check"}}.Encode(), wire.MediaForm
	case wire.Revoke.Name:
		body, media = url.Values{"token": {n.product.token}}.Encode(), wire.MediaForm
	case wire.CreatePhoneCheck.Name, wire.CreateSubscriberCheck.Name, wire.CreateSIMCheck.Name:
		body = `{"phone_number":"447700900013"}`
	case wire.CompletePhoneCheck.Name, wire.CompleteSubscriberCheck.Name:
		body, media = fmt.Sprintf(`[{"op":"add","path":"/code","value":%q}]`, n.codes[op.Product()]), wire.MediaJSONPatch
	case wire.CreateProject.Name:
		body = fmt.Sprintf(`{"name":"Intruder's %d"}`, n.requests)
	case wire.UpdateProject.Name, wire.UpdateWorkspace.Name:
		body, media = fmt.Sprintf(`[{"op":"replace","path":"/name","value":"Intruder's %d"}]`, n.requests), wire.MediaJSONPatch
	case wire.CreateInvitation.Name:
		body = `{"name":"Mallory","role":"ADMIN"}`
	case wire.UpdateBillingAccount.Name:
		body = `{"company_name":"Intruder Ltd"}`
	case wire.AddPaymentMethod.Name:
		body = newCard
	case wire.CreateTopUp.Name:
		body = fmt.Sprintf(`{"payment_method_id":%q,"currency":"EUR","amount":1}`, n.ids["payment_method_id"])
	case wire.GetUsage.Name:
		path += "?group_by=project_id&search=date%3E2026"
	}
	request := caller.request(op.Method, path, body)
	if body != "" {
		request.Header.Set("Content-Type", media)
	}
	switch op.Name {
	case wire.Token.Name:
		request.SetBasicAuth(n.project.Credentials.ClientID, n.credentials[intruder].ClientSecret.Reveal())
	case wire.Revoke.Name:
		request.SetBasicAuth(n.credentials[intruder].ClientID, n.credentials[intruder].ClientSecret.Reveal())
	default:
		request.Header.Set("Authorization", "Bearer "+caller.token)
	}
	return request
}

// snapshot returns everything that the victim can read. It uses the initial tokens, so that a
// revoked token is noticed.
func (n *tenants) snapshot(intruder int) string {
	var all strings.Builder
	for _, path := range []string{
		workspaces + "/default/members", workspaces + "/default/invitations", workspaces + "/default/members/" + n.victim.MemberID + "/credentials",
		projects + "/" + n.project.ProjectID, projects + "/" + n.project.ProjectID + "/credentials",
		workspaces + "/default/billing_account", workspaces + "/default/payment_methods", workspaces + "/default/topups",
		workspaces + "/default/usage/monthly?search=date%3E2026;project_id==" + n.project.ProjectID,
	} {
		r := n.owner.get(path)
		fmt.Fprintf(&all, "%s %d %s\n", path, r.status, r.body)
	}
	workspace := n.owner.get(workspaces + "/default")
	fmt.Fprintln(&all, workspace.text("name"))
	if intruder != otherProject { // checks of the other project are charged to the same balance
		fmt.Fprintln(&all, workspace.number(n.owner.t, "_embedded", "balance", "amount_available"))
	}
	for _, product := range []string{wire.PhoneCheck, wire.SubscriberCheck, wire.SIMCheck} {
		r := n.product.get("/" + product + "/v0.1/checks")
		fmt.Fprintf(&all, "%s %d %s\n", product, r.status, r.body)
	}
	return all.String()
}

// secrets returns texts that must not appear in responses to intruders.
func (n *tenants) secrets() []string {
	for name, id := range n.ids {
		if id == "" {
			n.owner.t.Errorf("%s is empty", name)
		}
	}
	secrets := slices.Concat(slices.Collect(maps.Values(n.ids)), slices.Collect(maps.Values(n.checks)), slices.Collect(maps.Values(n.codes)), slices.Collect(maps.Values(n.traces)))
	return append(secrets, "the victim's reference", "Victim", n.victim.Credentials.ClientID, n.project.Credentials.ClientID, n.product.token)
}

func TestServer_IsolatesTenants(t *testing.T) {
	t.Parallel()
	n := newTenants(t)
	rows := maps.Clone(tenantTable)
	for _, op := range wire.Operations() {
		key := op.Method + " " + op.Path
		row, ok := rows[key]
		if !ok {
			t.Errorf("%s has no row in tenantTable, want a row for each operation", key)
			continue
		}
		delete(rows, key)
		if row[otherProject] == skip || row[otherWorkspace] == skip {
			t.Errorf("%s: the row has no result for another project or another workspace", key)
		}
		if (row[throughOwnWorkspace] == skip) == strings.Contains(op.Path, "{workspace_id}") {
			t.Errorf("%s: a result for the intruder's own workspace is required only for paths with a workspace", key)
		}
		for intruder, want := range row {
			if want != skip && want != public {
				n.check(t, op, intruder, want)
			}
		}
	}
	for key := range rows {
		t.Errorf("tenantTable has %s, which is not an operation", key)
	}
}

// check sends an intruder's request and checks its result, that it discloses nothing of the victim,
// and that it changes nothing.
func (n *tenants) check(t *testing.T, op wire.Operation, intruder int, want string) {
	t.Helper()
	name := fmt.Sprintf("%s by %s (%s %s)", op.Name, intruderNames[intruder], op.Method, op.Path)
	before := n.snapshot(intruder)

	r := n.product.do(n.request(op, intruder, true))

	wantEqual(t, before, n.snapshot(intruder), "%s: data of the victim, which must not change", name)
	got := strconv.Itoa(r.status) + " " + r.fragment()
	switch {
	case op.Name == wire.Token.Name:
		got = strconv.Itoa(r.status) + " " + r.text("error")
	case r.status == op.Success:
		got = ownData
	}
	if got != want {
		t.Errorf("%s: %s: %s, want %s", name, got, r.body, want)
	}
	if !sameWorkspace(intruder) || op.Product() != wire.Console {
		for _, secret := range n.secrets() {
			if strings.Contains(string(r.body), secret) {
				t.Errorf("%s discloses %q of the victim: %s", name, secret, r.body)
			}
		}
	}
	// Responses must not distinguish the victim's objects from unknown ones.
	if !strings.HasPrefix(want, "404") {
		return
	}
	unknown := n.product.do(n.request(op, intruder, false))
	r.header.Del("X-Request-Id")
	unknown.header.Del("X-Request-Id")
	if diff := cmp.Diff(string(unknown.body), string(r.body)); diff != "" || r.status != unknown.status {
		t.Errorf("%s: %d, for unknown IDs %d (-unknown +victim's):\n%s", name, r.status, unknown.status, diff)
	}
	wantEqual(t, unknown.header, r.header, "%s: headers, which must not disclose that the object exists", name)
}

// sameWorkspace reports whether an intruder is a member of the victim's workspace and may read
// parts of it.
func sameWorkspace(intruder int) bool { return intruder >= otherAdmin }

// tenantTable contains the result of each operation for each intruder, who uses the victim's IDs.
var tenantTable = map[string][intruders]string{
	"POST /oauth2/v1/token":      {"401 invalid_client", "401 invalid_client", skip, skip, skip}, // with the victim's client ID
	"POST /oauth2/v1/revoke":     {ownData, ownData, skip, skip, skip},                           // of the victim's token
	"GET /.well-known/jwks.json": {public, public, skip, skip, skip},

	"POST /phone_check/{v}/checks":                                  {ownData, ownData, skip, skip, skip},
	"GET /phone_check/{v}/checks":                                   {ownData, ownData, skip, skip, skip},
	"GET /phone_check/{v}/checks/{check_id}":                        {noCheck, noCheck, skip, skip, skip},
	"GET /phone_check/{v}/checks/{check_id}/redirect":               {public, public, skip, skip, skip}, // the device has no credentials
	"PATCH /phone_check/{v}/checks/{check_id}":                      {noCheck, noCheck, skip, skip, skip},
	"GET /phone_check/{v}/checks/{check_id}/traces":                 {noCheck, noCheck, skip, skip, skip},
	"GET /phone_check/{v}/checks/{check_id}/traces/{trace_id}":      {noCheck, noCheck, skip, skip, skip},
	"POST /subscriber_check/{v}/checks":                             {ownData, ownData, skip, skip, skip},
	"GET /subscriber_check/{v}/checks":                              {ownData, ownData, skip, skip, skip},
	"GET /subscriber_check/{v}/checks/{check_id}":                   {noCheck, noCheck, skip, skip, skip},
	"GET /subscriber_check/{v}/checks/{check_id}/redirect":          {public, public, skip, skip, skip},
	"PATCH /subscriber_check/{v}/checks/{check_id}":                 {noCheck, noCheck, skip, skip, skip},
	"GET /subscriber_check/{v}/checks/{check_id}/traces":            {noCheck, noCheck, skip, skip, skip},
	"GET /subscriber_check/{v}/checks/{check_id}/traces/{trace_id}": {noCheck, noCheck, skip, skip, skip},
	"POST /sim_check/{v}/checks":                                    {ownData, ownData, skip, skip, skip},
	"GET /sim_check/{v}/checks":                                     {ownData, ownData, skip, skip, skip},
	"GET /sim_check/{v}/checks/{check_id}":                          {noCheck, noCheck, skip, skip, skip},
	"GET /sim_check/{v}/checks/{check_id}/traces":                   {noCheck, noCheck, skip, skip, skip},
	"GET /sim_check/{v}/checks/{check_id}/traces/{trace_id}":        {noCheck, noCheck, skip, skip, skip},

	"GET /coverage/{v}/device_ips/{ip}":  {ownData, ownData, skip, skip, skip},
	"GET /coverage/{v}/device_ip":        {ownData, ownData, skip, skip, skip},
	"GET /public/coverage/{v}/device_ip": {public, public, skip, skip, skip},
	"GET /coverage/{v}/countries/{code}": {ownData, ownData, skip, skip, skip},

	"POST /console/{v}/projects":                                        {noScope, ownData, skip, skip, skip},
	"GET /console/{v}/projects":                                         {noScope, ownData, skip, skip, skip},
	"GET /console/{v}/projects/{project_id}":                            {noScope, missing404, skip, skip, skip},
	"PATCH /console/{v}/projects/{project_id}":                          {noScope, missing404, skip, skip, noScope},
	"DELETE /console/{v}/projects/{project_id}":                         {noScope, missing404, skip, skip, noScope},
	"POST /console/{v}/projects/{project_id}/credentials":               {noScope, missing404, skip, skip, skip},
	"GET /console/{v}/projects/{project_id}/credentials":                {noScope, missing404, skip, skip, skip},
	"GET /console/{v}/projects/{project_id}/credentials/{client_id}":    {noScope, missing404, skip, skip, skip},
	"DELETE /console/{v}/projects/{project_id}/credentials/{client_id}": {noScope, missing404, skip, skip, noScope},

	"GET /console/{v}/workspaces":                                    {noScope, ownData, skip, skip, skip},
	"GET /console/{v}/workspaces/{workspace_id}":                     {noScope, noWorkspace, ownData, skip, skip},
	"PATCH /console/{v}/workspaces/{workspace_id}":                   {noScope, noWorkspace, ownData, skip, noScope},
	"GET /console/{v}/workspaces/{workspace_id}/members":             {noScope, noWorkspace, ownData, skip, skip},
	"GET /console/{v}/workspaces/{workspace_id}/members/{member_id}": {noScope, noWorkspace, missing404, skip, skip},
	"POST /console/{v}/workspaces/{workspace_id}/invitations":        {noScope, noWorkspace, ownData, skip, noScope},
	"GET /console/{v}/workspaces/{workspace_id}/invitations":         {noScope, noWorkspace, ownData, skip, noScope},

	// No member can create or reset credentials of another member: only the owner of credentials may
	// know their secret.
	"POST /console/{v}/workspaces/{workspace_id}/members/{member_id}/credentials":                   {noScope, noWorkspace, noScope, noScope, noScope},
	"GET /console/{v}/workspaces/{workspace_id}/members/{member_id}/credentials":                    {noScope, noWorkspace, missing404, skip, noScope},
	"GET /console/{v}/workspaces/{workspace_id}/members/{member_id}/credentials/{client_id}":        {noScope, noWorkspace, missing404, skip, noScope},
	"DELETE /console/{v}/workspaces/{workspace_id}/members/{member_id}/credentials/{client_id}":     {noScope, noWorkspace, missing404, skip, noScope},
	"POST /console/{v}/workspaces/{workspace_id}/members/{member_id}/credentials/{client_id}/reset": {noScope, noWorkspace, noScope, noScope, noScope},

	"GET /console/{v}/workspaces/{workspace_id}/billing_account":                        {noScope, noWorkspace, ownData, noScope, noScope},
	"PUT /console/{v}/workspaces/{workspace_id}/billing_account":                        {noScope, noWorkspace, ownData, noScope, noScope},
	"POST /console/{v}/workspaces/{workspace_id}/payment_methods":                       {noScope, noWorkspace, ownData, noScope, noScope},
	"GET /console/{v}/workspaces/{workspace_id}/payment_methods":                        {noScope, noWorkspace, ownData, noScope, noScope},
	"GET /console/{v}/workspaces/{workspace_id}/payment_methods/{payment_method_id}":    {noScope, noWorkspace, missing404, noScope, noScope},
	"DELETE /console/{v}/workspaces/{workspace_id}/payment_methods/{payment_method_id}": {noScope, noWorkspace, missing404, noScope, noScope},
	"POST /console/{v}/workspaces/{workspace_id}/topups":                                {noScope, noWorkspace, "400 bad_request", noScope, noScope}, // with the victim's card
	"GET /console/{v}/workspaces/{workspace_id}/topups":                                 {noScope, noWorkspace, ownData, noScope, noScope},
	"GET /console/{v}/workspaces/{workspace_id}/usage/{period}":                         {noScope, noWorkspace, ownData, skip, skip},

	"POST /console/{v}/workspaces/{workspace_id}/projects":                                        {noScope, noWorkspace, ownData, skip, noScope},
	"GET /console/{v}/workspaces/{workspace_id}/projects":                                         {noScope, noWorkspace, ownData, skip, skip},
	"GET /console/{v}/workspaces/{workspace_id}/projects/{project_id}":                            {noScope, noWorkspace, missing404, skip, skip},
	"PATCH /console/{v}/workspaces/{workspace_id}/projects/{project_id}":                          {noScope, noWorkspace, missing404, skip, noScope},
	"DELETE /console/{v}/workspaces/{workspace_id}/projects/{project_id}":                         {noScope, noWorkspace, missing404, skip, noScope},
	"POST /console/{v}/workspaces/{workspace_id}/projects/{project_id}/credentials":               {noScope, noWorkspace, missing404, skip, skip},
	"GET /console/{v}/workspaces/{workspace_id}/projects/{project_id}/credentials":                {noScope, noWorkspace, missing404, skip, skip},
	"GET /console/{v}/workspaces/{workspace_id}/projects/{project_id}/credentials/{client_id}":    {noScope, noWorkspace, missing404, skip, skip},
	"DELETE /console/{v}/workspaces/{workspace_id}/projects/{project_id}/credentials/{client_id}": {noScope, noWorkspace, missing404, skip, noScope},
}

// The intruders of tenantTable. All have valid credentials. The victim is the owner of a workspace
// with a project, an admin and a viewer.
const (
	otherProject        = iota // a project of the victim's workspace
	otherWorkspace             // a project, or for the console the owner, of another workspace
	throughOwnWorkspace        // the same, with the path of their own workspace and the victim's IDs
	otherAdmin                 // an admin of the victim's workspace
	otherViewer                // a viewer of the victim's workspace
	intruders
)

var intruderNames = [intruders]string{"another project", "another workspace", "another workspace with its own path", "an admin", "a viewer"}

// The results of tenantTable.
const (
	ownData     = "own"    // succeeds for the intruder's own data, without access to the victim's
	public      = "public" // requires no credentials
	skip        = ""       // not applicable, or allowed by the intruder's role
	noCheck     = "404 check_not_found"
	noWorkspace = "404 workspace_not_found"
	missing404  = "404 not_found"
	noScope     = "403 forbidden" // the scope or the role does not allow the operation
)
