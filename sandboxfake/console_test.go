package sandboxfake_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
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
	a := &api{t: t, srv: srv}
	a.token = a.tokenFor(c, "console")
	return a
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

// want sends a request and fails the test unless the response has that status.
func (a *api) want(status int, method, path, body string) response {
	a.t.Helper()
	r := a.call(method, path, body)
	if r.status != status {
		a.t.Fatalf("%s %s: %d %s, want %d", method, path, r.status, r.body, status)
	}
	return r
}

// at returns the value at a path of field names, or nil.
func (r response) at(names ...string) any {
	var v any = r.json
	for _, name := range names {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// text returns the string at a path of field names, or "".
func (r response) text(names ...string) string {
	text, _ := r.at(names...).(string)
	return text
}

// number returns the JSON number at a path of field names and indexes, with its original digits.
func (r response) number(t testing.TB, names ...string) string {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(r.body))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if i, err := strconv.Atoi(name); err == nil {
			v = v.([]any)[i]
			continue
		}
		v = v.(map[string]any)[name]
	}
	number, ok := v.(json.Number)
	if !ok {
		t.Fatalf("%v is %#v, want a JSON number", names, v)
	}
	return number.String()
}

// amounts returns the amounts of a page of usage with their original digits.
func (r response) amounts(t testing.TB) []string {
	t.Helper()
	var amounts []string
	for i := range r.column("usage", "amount") {
		amounts = append(amounts, r.number(t, "_embedded", "usage", strconv.Itoa(i), "amount"))
	}
	return amounts
}

// column returns one field of each item of a page.
func (r response) column(embedded, field string) []string {
	column := []string{}
	items, _ := r.at("_embedded", embedded).([]any)
	for _, item := range items {
		column = append(column, fmt.Sprint(item.(map[string]any)[field]))
	}
	return column
}

// money returns the balance and the currency of a workspace.
func (a *api) money(workspaceID string) string {
	a.t.Helper()
	r := a.want(200, http.MethodGet, workspaces+"/"+workspaceID, "")
	return fmt.Sprint(r.at("_embedded", "balance", "amount_available"), " ", r.text("_embedded", "balance", "currency"))
}
