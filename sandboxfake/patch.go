package sandboxfake

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/idverify/idverify-go/internal/wire"
)

// patchOperation is an operation of a JSON Patch (RFC 6902), of which the service takes add, replace and remove.
type patchOperation struct {
	verb, path string
	value      json.RawMessage // nil for none
}

// decodePatch reads the body as a JSON Patch. What it may touch is for the caller to say.
func (c *call) decodePatch() ([]patchOperation, error) {
	// Maps take names to the letter, as the service does; structs would not.
	var operations []map[string]json.RawMessage
	if err := c.decodeAs([]string{wire.MediaJSONPatch}, &operations); err != nil {
		return nil, err
	}
	if operations == nil {
		return nil, newProblem(wire.BadRequest, "The patch must be a list of operations")
	}
	patch := make([]patchOperation, len(operations))
	for i, fields := range operations {
		op := &patch[i]
		if json.Unmarshal(fields["op"], &op.verb) != nil || json.Unmarshal(fields["path"], &op.path) != nil {
			return nil, newProblem(wire.BadRequest, "An operation of the patch lacks its op or its path")
		}
		op.value = fields["value"]
		if op.verb != "remove" && (op.value == nil || string(op.value) == "null") {
			return nil, newProblem(wire.BadRequest, "An operation of the patch lacks its value")
		}
	}
	return patch, nil
}

// patchPaths is what the patch of a project may touch (contract, section 3).
var patchPaths = []struct{ path, verbs string }{
	{"/name", "replace"},
	{"/mode", "replace"},
	{"/callback_url", "add replace remove"},
	{"/configuration", "add replace remove"},
	{"/configuration/phone_check", "add replace remove"},
	{"/configuration/phone_check/callback_url", "add replace remove"},
	{"/configuration/phone_check/redirect_url", "add replace remove"},
	{"/configuration/subscriber_check", "add replace remove"},
	{"/configuration/subscriber_check/callback_url", "add replace remove"},
	{"/configuration/subscriber_check/redirect_url", "add replace remove"},
}

// with is the settings after an operation. It changes them as they are shown, and reads that as the body of a create call, so that there is one set of rules.
// The configuration and its products are always shown, empty or not: removing one empties it.
func (s settings) with(op patchOperation) (settings, error) {
	i := slices.IndexFunc(patchPaths, func(row struct{ path, verbs string }) bool { return row.path == op.path })
	if i < 0 || !slices.Contains(strings.Fields(patchPaths[i].verbs), op.verb) {
		return settings{}, newProblem(wire.BadRequest, "The patch names a path, or an operation on it, that a project does not take")
	}
	// What is shown can be marshalled, and what was marshalled read.
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
		return settings{}, newProblem(wire.BadRequest, "The patch replaces or removes what is not there")
	case op.verb == "remove":
		delete(object, last)
	default:
		object[last] = op.value
	}
	text, _ = json.Marshal(document)
	var params projectParams
	if json.Unmarshal(text, &params) != nil {
		return settings{}, newProblem(wire.BadRequest, "The patch has a value of the wrong type")
	}
	return params.settings()
}
