package sandboxfake

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/idverify/idverify-go/internal/wire"
)

// patchOperation is an operation of a JSON Patch (RFC 6902): add, replace or remove.
type patchOperation struct {
	verb, path string
	value      json.RawMessage // nil if missing
}

// decodePatch decodes the body as a JSON Patch. The caller checks the paths.
func (c *call) decodePatch() ([]patchOperation, error) {
	// Unlike a struct, a map matches names exactly, as the service does.
	var operations []map[string]json.RawMessage
	if err := c.decodeAs([]string{wire.MediaJSONPatch}, &operations); err != nil {
		return nil, err
	}
	if operations == nil {
		return nil, newProblem(wire.BadRequest, "the patch must be an array of operations")
	}
	patch := make([]patchOperation, len(operations))
	for i, fields := range operations {
		op := &patch[i]
		if json.Unmarshal(fields["op"], &op.verb) != nil || json.Unmarshal(fields["path"], &op.path) != nil {
			return nil, newProblem(wire.BadRequest, "each operation in the patch must have an op and a path")
		}
		op.value = fields["value"]
		if op.verb != "remove" && (op.value == nil || string(op.value) == "null") {
			return nil, newProblem(wire.BadRequest, "each add or replace operation in the patch must have a value")
		}
	}
	return patch, nil
}

// patchPaths are the paths that a project patch can contain, with their allowed operations.
//
// Protocol: docs/protocol.md, section 10.
var patchPaths = []struct{ path, verbs string }{
	{"/name", "add replace"},
	{"/mode", "add replace"},
	{"/callback_url", "add replace remove"},
	{"/configuration", "add replace remove"},
	{"/configuration/phone_check", "add replace remove"},
	{"/configuration/phone_check/callback_url", "add replace remove"},
	{"/configuration/phone_check/redirect_url", "add replace remove"},
	{"/configuration/subscriber_check", "add replace remove"},
	{"/configuration/subscriber_check/callback_url", "add replace remove"},
	{"/configuration/subscriber_check/redirect_url", "add replace remove"},
}

// with returns the settings after an operation. It patches their JSON form and validates the result
// like the body of a create request. The configuration and its products are always present;
// removing one makes it empty.
func (s settings) with(op patchOperation) (settings, error) {
	i := slices.IndexFunc(patchPaths, func(row struct{ path, verbs string }) bool { return row.path == op.path })
	if i < 0 || !slices.Contains(strings.Fields(patchPaths[i].verbs), op.verb) {
		return settings{}, newProblem(wire.BadRequest, "the patch contains an unsupported path, or an unsupported operation on a path")
	}
	// Marshaling a view, and unmarshaling the result, cannot fail.
	text, _ := json.Marshal(s.view())
	var document map[string]any
	_ = json.Unmarshal(text, &document)
	names := strings.Split(op.path[1:], "/")
	object, last := document, names[len(names)-1]
	for _, name := range names[:len(names)-1] {
		object = object[name].(map[string]any)
	}
	_, exists := object[last]
	switch {
	case op.verb != "add" && !exists:
		return settings{}, newProblem(wire.BadRequest, "the patch replaces or removes a missing value")
	case op.verb == "remove":
		delete(object, last)
	default:
		object[last] = op.value
	}
	text, _ = json.Marshal(document)
	var params projectParams
	if json.Unmarshal(text, &params) != nil {
		return settings{}, newProblem(wire.BadRequest, "the patch contains a value of the wrong type")
	}
	return params.settings()
}
