package doctest_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestProtocol_SearchFields(t *testing.T) {
	t.Parallel()
	lists := newListClient(t)
	known := wireFields(t)
	operations := make(map[string]wire.Operation)
	for _, op := range wire.Operations() {
		if _, ok := operations[op.Name]; !ok {
			operations[op.Name] = op
		}
	}

	documented := 0
	for _, row := range findTable(t, protocolPage, "List").rows {
		wantSearch, wantSort := codeSpans(row.cells[1]), codeSpans(row.cells[2])
		for _, name := range codeSpans(row.cells[0]) {
			documented++
			op, ok := operations[name]
			if !ok {
				t.Errorf("%s: operation %s does not exist", at(protocolPage, row), name)
				continue
			}
			for _, field := range known {
				if got, want := lists.searches(op, field), slices.Contains(wantSearch, field); got != want {
					t.Errorf("%s: %s accepts a search by %s: %t, want %t", at(protocolPage, row), name, field, got, want)
				}
				if got, want := lists.sorts(op, field), slices.Contains(wantSort, field); got != want {
					t.Errorf("%s: %s accepts a sort by %s: %t, want %t", at(protocolPage, row), name, field, got, want)
				}
			}
		}
	}

	want := 0
	for name := range operations {
		if strings.HasSuffix(name, ".list") || strings.HasSuffix(name, ".traces") || name == wire.GetUsage.Name {
			want++
		}
	}
	if documented != want {
		t.Errorf("%d lists are documented, want %d", documented, want)
	}
}

// wireFields returns the names of all fields in the fixtures of the protocol.
func wireFields(t *testing.T) []string {
	t.Helper()
	paths := must(filepath.Glob(filepath.Join(root, "internal", "wire", "testdata", "*.json")))(t)
	fields := make(map[string]bool)
	var collect func(any)
	collect = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			for name, field := range value {
				fields[name] = true
				collect(field)
			}
		case []any:
			for _, item := range value {
				collect(item)
			}
		}
	}
	for _, path := range paths {
		text := must(os.ReadFile(path))(t)
		var document any
		if err := json.Unmarshal(text, &document); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		collect(document)
	}
	return slices.Sorted(maps.Keys(fields))
}

// listClient requests lists of a fake with raw queries.
type listClient struct {
	t      *testing.T
	srv    *sandboxfake.Server
	ids    map[string]string // by their name in a path
	tokens map[string]string // by scope
}

func newListClient(t *testing.T) *listClient {
	t.Helper()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	account := srv.NewWorkspace("Lists")
	project := account.NewProject(idverify.ProjectParams{Name: "Lists", Mode: idverify.ModeSandbox})
	c := &listClient{t: t, srv: srv, tokens: make(map[string]string), ids: map[string]string{
		"workspace_id": account.WorkspaceID, "member_id": account.MemberID, "project_id": project.ProjectID, "period": "daily",
	}}
	for _, scope := range []string{wire.ScopePhoneCheck, wire.ScopeSIMCheck, wire.ScopeSubscriberCheck} {
		c.tokens[scope] = c.token(project.Credentials, scope)
		var check struct {
			ID string `json:"check_id"`
		}
		target := srv.URL() + "/" + scope + "/v0.1/checks"
		req := must(http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(`{"phone_number":"447700900010"}`)))(t)
		req.Header.Set("Authorization", "Bearer "+c.tokens[scope])
		req.Header.Set("Content-Type", wire.MediaJSON)
		_, body := c.send(req)
		if err := json.Unmarshal(body, &check); err != nil || check.ID == "" {
			t.Fatalf("create %s: response = %s", scope, body)
		}
		c.ids[scope] = check.ID
	}
	for _, scope := range []string{wire.ScopeProjects, wire.ScopeWorkspaces} {
		c.tokens[scope] = c.token(account.Credentials, scope)
	}
	return c
}

func (c *listClient) token(credentials idverify.Credentials, scope string) string {
	c.t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {scope}}
	req := must(http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.srv.URL()+wire.Token.Path, strings.NewReader(form.Encode())))(c.t)
	req.Header.Set("Content-Type", wire.MediaForm)
	req.SetBasicAuth(credentials.ClientID, credentials.ClientSecret.Reveal())
	var token struct {
		AccessToken string `json:"access_token"`
	}
	_, body := c.send(req)
	if err := json.Unmarshal(body, &token); err != nil || token.AccessToken == "" {
		c.t.Fatalf("get token for scope %s: response = %s", scope, body)
	}
	return token.AccessToken
}

// searches reports whether a list accepts a search by a field.
func (c *listClient) searches(op wire.Operation, field string) bool {
	for _, value := range []string{"2026", "true"} {
		if c.accepts(op, url.Values{"search": {field + "==" + value}}) {
			return true
		}
	}
	return false
}

// sorts reports whether a list can be sorted by a property.
func (c *listClient) sorts(op wire.Operation, property string) bool {
	return c.accepts(op, url.Values{"sort": {property}})
}

// accepts reports whether a list responds with 200 to a query, and not with 400.
func (c *listClient) accepts(op wire.Operation, query url.Values) bool {
	c.t.Helper()
	if op == wire.GetUsage {
		query.Set("search", strings.TrimPrefix(query.Get("search")+";date>=2026", ";"))
	}
	var ids []string
	for segment := range strings.SplitSeq(op.Path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok && name != "v}" {
			name = strings.TrimSuffix(name, "}")
			if name == "check_id" {
				name = op.Product()
			}
			ids = append(ids, c.ids[name])
		}
	}
	target := must(op.URL(c.srv.URL(), wire.V01, ids...))(c.t)
	req := must(http.NewRequestWithContext(c.t.Context(), op.Method, target+"?"+query.Encode(), nil))(c.t)
	req.Header.Set("Authorization", "Bearer "+c.tokens[op.Scope])
	status, body := c.send(req)
	if status != http.StatusOK && status != http.StatusBadRequest {
		c.t.Fatalf("%s?%s: status = %d, want 200 or 400: %s", op.Name, query.Encode(), status, body)
	}
	return status == http.StatusOK
}

func (c *listClient) send(req *http.Request) (status int, body []byte) {
	c.t.Helper()
	resp := must(c.srv.HTTPClient().Do(req))(c.t)
	defer resp.Body.Close()
	return resp.StatusCode, must(io.ReadAll(resp.Body))(c.t)
}
