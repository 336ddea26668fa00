package sandboxfake_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake"
)

// node is a JSON object of the description.
type node map[string]any

func (n node) at(names ...string) node {
	for _, name := range names {
		n, _ = n[name].(map[string]any)
	}
	return n
}

// openAPI is the description of the service.
var openAPI = sync.OnceValue(func() node {
	var n node
	if err := json.Unmarshal(sandboxfake.OpenAPI(), &n); err != nil {
		panic(err) // a defect of every test
	}
	return n
})

// resolve follows a reference.
func (n node) resolve() node {
	if path, ok := n["$ref"].(string); ok {
		return openAPI().at(strings.Split(strings.TrimPrefix(path, "#/"), "/")...)
	}
	return n
}

// describedOperation returns the description of the operation that a request calls, or nil.
func describedOperation(method, path string) node {
	segments := strings.Split(path, "/")
	for template, item := range openAPI().at("paths") {
		names := strings.Split(template, "/")
		operation := node(item.(map[string]any)).at(strings.ToLower(method))
		if operation == nil || len(names) != len(segments) {
			continue
		}
		matches := true
		for i, name := range names {
			switch {
			case name == "{v}":
				matches = matches && slices.Contains(operation.versions(), any(segments[i]))
			case strings.HasPrefix(name, "{"):
				matches = matches && segments[i] != ""
			default:
				matches = matches && segments[i] == name
			}
		}
		if matches {
			return operation
		}
	}
	return nil
}

// versions returns the versions of an operation.
func (n node) versions() []any {
	parameters, _ := n["parameters"].([]any)
	for _, p := range parameters {
		if p := node(p.(map[string]any)); p["name"] == "v" {
			return p.at("schema")["enum"].([]any)
		}
	}
	return nil
}

// undescribed returns what of r the description does not contain, or "". It ignores requests that
// call no operation.
func undescribed(request *http.Request, r response) string {
	operation := describedOperation(request.Method, request.URL.EscapedPath())
	if operation == nil {
		return ""
	}
	status := fmt.Sprint(r.status)
	if r.status >= 500 {
		status = "5XX"
	}
	described := operation.at("responses", status).resolve()
	if described == nil {
		return "the status"
	}
	for name := range described.at("headers") {
		if r.header.Get(name) == "" && !strings.HasPrefix(name, "X-RateLimit") {
			return "a response without the header " + name
		}
	}
	if described["content"] == nil {
		if len(r.body) > 0 {
			return "a body"
		}
		if r.status == http.StatusNoContent && r.header.Get("Content-Type") != "" {
			return "the media type of a response without a body"
		}
		return ""
	}
	media, _, _ := mime.ParseMediaType(r.header.Get("Content-Type"))
	content := described.at("content", media)
	if content == nil {
		return "the media type " + media
	}
	text, _ := described["description"].(string)
	if fragment := r.fragment(); media == wire.MediaProblem && r.status < 500 && !strings.Contains(text, "`"+fragment+"`") {
		return "the fragment " + fragment
	}
	return undescribedValue("body", content.at("schema"), r.json)
}

// undescribedValue returns which part of value its schema does not describe, or "".
func undescribedValue(at string, schema node, value any) string {
	schema = schema.resolve()
	if kinds := map[string]bool{"object": false, "array": false, "string": false, "boolean": false, "number": false, "integer": false}; schema["type"] != nil {
		switch value := value.(type) {
		case map[string]any:
			kinds["object"] = true
		case []any:
			kinds["array"] = true
		case string:
			kinds["string"] = true
		case bool:
			kinds["boolean"] = true
		case float64:
			kinds["number"], kinds["integer"] = true, value == float64(int64(value))
		}
		if !kinds[schema["type"].(string)] {
			return fmt.Sprintf("the type of %s", at)
		}
	}
	if values, ok := schema["enum"].([]any); ok && !slices.Contains(values, value) {
		return fmt.Sprintf("the value of %s", at)
	}
	if text, ok := value.(string); ok {
		if pattern, ok := schema["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(text) {
			return fmt.Sprintf("the value of %s", at)
		}
	}
	if items, ok := value.([]any); ok {
		for _, item := range items {
			if reason := undescribedValue(at+"[]", schema.at("items"), item); reason != "" {
				return reason
			}
		}
	}
	object, _ := value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		member := schema.at("properties", name)
		if member == nil {
			member = schema.at("additionalProperties")
		}
		if member == nil {
			return at + "." + name
		}
		if reason := undescribedValue(at+"."+name, member, object[name]); reason != "" {
			return reason
		}
	}
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := object[name.(string)]; !ok {
			return fmt.Sprintf("that %s.%s can be missing", at, name)
		}
	}
	return ""
}

// wantDescribed checks that the description of the service describes a response. Responses of
// faults, of the phone page and of package net/http are not described.
func wantDescribed(t testing.TB, request *http.Request, r response) {
	t.Helper()
	switch {
	case r.json["detail"] == "injected", r.json["error_description"] == "injected":
	case r.status == http.StatusSeeOther, r.status == http.StatusRequestHeaderFieldsTooLarge:
	default:
		if reason := undescribed(request, r); reason != "" {
			t.Errorf("OpenAPI does not describe %s of %s %s: %d %s", reason, request.Method, request.URL.Path, r.status, r.body)
		}
	}
}

func TestOpenAPI_DescribesEveryOperation(t *testing.T) {
	t.Parallel()
	want := make(map[string]string)
	for _, row := range operations(t) {
		security := `[]`
		switch row.Scope {
		case "":
			if strings.HasPrefix(row.Path, "/oauth2/") {
				security = `[{"basic":[]}]`
			}
		case wire.ScopeProjects, wire.ScopeWorkspaces:
			security = `[{"token":["` + row.Scope + `"]},{"token":["console"]}]`
		default:
			security = `[{"token":["` + row.Scope + `"]}]`
		}
		status := "our decision"
		if slices.Contains([]string{"token.create", "jwks.get", "phone_check.create"}, row.Operation) {
			status = "specified"
		}
		want[row.Method+" "+row.Path] = fmt.Sprintf("%s %d %s %s", row.Operation, row.Success, security, status)
	}

	got, ids := make(map[string]string), make(map[string]bool)
	for path, item := range openAPI().at("paths") {
		for method, operation := range item.(map[string]any) {
			o := node(operation.(map[string]any))
			id := o["operationId"].(string)
			security, _ := json.Marshal(o["security"])
			success := slices.DeleteFunc(slices.Sorted(maps.Keys(o.at("responses"))), func(status string) bool { return !strings.HasPrefix(status, "2") })
			got[strings.ToUpper(method)+" "+path] = fmt.Sprintf("%s %s %s %s", strings.TrimSuffix(id, ".2"), strings.Join(success, " "), security, o["x-status"])
			ids[id] = true
		}
	}

	wantEqual(t, want, got, "operations with success status, security and x-status")
	if len(ids) != len(want) {
		t.Errorf("%d operation IDs, want %d different ones", len(ids), len(want))
	}
}

// describedMembers returns the members and parameters, by their name with that of the owner.
func describedMembers() map[string]node {
	all := make(map[string]node)
	var collect func(owner string, n node)
	collect = func(owner string, n node) {
		for name, member := range n.at("properties") {
			all[owner+"."+name] = member.(map[string]any)
			collect(owner, member.(map[string]any))
		}
		if items := n.at("items"); items != nil {
			collect(owner, items)
		}
	}
	for name, schema := range openAPI().at("components", "schemas") {
		collect(name, schema.(map[string]any))
	}
	for _, item := range openAPI().at("paths") {
		for _, operation := range item.(map[string]any) {
			o := node(operation.(map[string]any))
			parameters, _ := o["parameters"].([]any)
			for _, p := range parameters {
				p := node(p.(map[string]any))
				all[p["in"].(string)+"."+p["name"].(string)] = p
			}
			if patch := o.at("requestBody", "content", wire.MediaJSONPatch, "schema"); patch != nil {
				collect("patch", patch)
			}
		}
	}
	return all
}

func TestOpenAPI_DescribesEveryMember(t *testing.T) {
	t.Parallel()
	rows := sandboxfake.DescribedMembers()
	used := make(map[string]bool)

	for name, member := range describedMembers() {
		if member["description"] == nil || member["x-status"] != "specified" && member["x-status"] != "our decision" {
			t.Errorf("%s = %v, want a description and x-status: add it to the table members", name, member)
		}
		_, short, _ := strings.Cut(name, ".")
		if i := slices.IndexFunc(rows, func(row string) bool { return row == name || row == short }); i >= 0 {
			used[rows[i]] = true
		}
	}

	for _, row := range rows {
		if !used[row] {
			t.Errorf("no member or parameter uses the row %s of the table members", row)
		}
	}
}

func TestOpenAPI_DescribesCallbacks(t *testing.T) {
	t.Parallel()
	for _, product := range []string{"phone_check", "subscriber_check"} {
		create := openAPI().at("paths", "/"+product+"/{v}/checks", "post")
		callback := create.at("callbacks", "ended", "{$request.body#/callback_url}", "post", "requestBody", "content", wire.MediaJSON, "schema")
		for _, name := range []string{"callback_phone_check", "callback_phone_check_error", "callback_phone_check_expired", "callback_subscriber_check"} {
			if reason := undescribedValue("body", callback, fixture(t, name)); callback == nil || reason != "" {
				t.Errorf("callback of %s: OpenAPI does not describe %s of %s.json", product, reason, name)
			}
		}
	}
}

func TestServer_ServesOpenAPI(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithControl(sandboxfake.ControlOptions{}))

	r := (&api{t: t, srv: srv}).get("/_sandbox/service.json")

	if r.status != http.StatusOK || r.header.Get("Content-Type") != wire.MediaJSON || string(r.body) != string(sandboxfake.OpenAPI()) {
		t.Errorf("without a token: %d %s with %d bytes, want the description", r.status, r.header.Get("Content-Type"), len(r.body))
	}
}
