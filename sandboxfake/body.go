package sandboxfake

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/wire"
)

// bodyMedia are the accepted media types of a JSON request body.
var bodyMedia = []string{wire.MediaJSON, wire.MediaHAL}

// decode decodes a JSON body into v.
func (c *call) decode(v any) error { return c.decodeAs(bodyMedia, v) }

// decodeAs decodes a JSON body with one of the given media types into v. It checks for the errors
// 415, 413 and 400, in this order.
func (c *call) decodeAs(media []string, v any) error {
	switch {
	case !isMedia(c.r.Header.Get("Content-Type"), media):
		return newProblem(wire.UnsupportedMediaType, "the body must be "+strings.Join(media, " or "))
	case errors.Is(c.bodyErr, errBodyTooLarge):
		return newProblem(wire.PayloadTooLarge, "")
	case c.bodyErr != nil:
		return newProblem(wire.BadRequest, "the body is truncated")
	}
	if err := json.Unmarshal(exactFields(c.body, v), v); err != nil {
		return newProblem(wire.BadRequest, badJSON(c.body, err))
	}
	return nil
}

// isMedia reports whether a Content-Type is one of the given media types, with or without
// parameters.
func isMedia(contentType string, media []string) bool {
	if slices.Contains(media, contentType) {
		return true
	}
	got, _, err := mime.ParseMediaType(contentType)
	return err == nil && slices.Contains(media, got)
}

// exactFields removes the fields of a JSON object that do not exactly match a field of the struct
// that v points to. encoding/json ignores case and would accept "Phone_Number" for "phone_number".
// The service does not.
func exactFields(body []byte, v any) []byte {
	if !hasInexactName(body) {
		return body
	}
	kind := reflect.TypeOf(v).Elem()
	var fields map[string]json.RawMessage
	if kind.Kind() != reflect.Struct || json.Unmarshal(body, &fields) != nil {
		return body
	}
	known := make(map[string]bool)
	for field := range kind.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[name] = true
	}
	before := len(fields)
	maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool { return !known[name] })
	if len(fields) == before {
		return body
	}
	// These values were unmarshaled, so they can be marshaled.
	exact, _ := json.Marshal(fields)
	return exact
}

// hasInexactName reports whether a field of a body may have another form of a name. Names are
// lower-case ASCII: a form that encoding/json accepts contains an upper-case letter, another
// character, or an escape sequence for one.
func hasInexactName(body []byte) bool {
	return slices.ContainsFunc(body, func(c byte) bool { return 'A' <= c && c <= 'Z' || c == '\\' || c >= utf8.RuneSelf })
}

// badJSON describes why a body was not decoded, without quoting it.
func badJSON(body []byte, err error) string {
	if wrongType, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if field := wire.Field(wrongType); field != "" {
			return "the field " + field + " has the wrong type"
		}
		if kind := wrongType.Type.Kind(); kind == reflect.String || kind == reflect.Float64 { // see wire.Field
			return badValue
		}
		return "the body has the wrong JSON type"
	}
	var first json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(body))
	switch err := decoder.Decode(&first); {
	case err == io.EOF:
		return "the body is empty"
	case err == io.ErrUnexpectedEOF:
		return "the JSON in the body is truncated"
	case err != nil:
		return "the body is not valid JSON"
	}
	if _, err := decoder.Token(); err != io.EOF {
		return "unexpected text after the JSON value in the body"
	}
	return badValue
}

// badValue describes a value that its field cannot represent.
const badValue = "a value in the body is not valid"

// bodyTimeout limits how long a client can take to send the body of a request, by the system's
// clock.
const bodyTimeout = 30 * time.Second

// limitBodyTime makes reads of the body of a request fail after bodyTimeout. Otherwise a client
// that never sends the rest of a body could keep its connection forever.
func limitBodyTime(w http.ResponseWriter, r *http.Request) {
	if r.Body != http.NoBody {
		// Do not wait for a read by a handler: net/http discards a body that nobody reads. At the end
		// of the body it removes the deadline, so that the response may take longer.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	}
}

// errBodyTooLarge is returned for a body larger than wire.MaxBody.
var errBodyTooLarge = errors.New("the body is too large")

func readBody(r *http.Request) ([]byte, error) { return readBodyUpTo(wire.MaxBody, r) }

// readBodyUpTo reads the body of a request, which may have at most limit bytes.
func readBodyUpTo(limit int, r *http.Request) ([]byte, error) {
	if r.Body == http.NoBody {
		return nil, nil
	}
	if 0 < r.ContentLength && r.ContentLength <= int64(limit) {
		// The journal keeps the body: use no more memory than it needs.
		body := make([]byte, r.ContentLength)
		n, err := io.ReadFull(r.Body, body)
		return body[:n], err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(limit)+1))
	if len(body) > limit {
		return nil, errBodyTooLarge
	}
	return body, err
}

// appender is a body that encodes itself. Checks and pages do, because encoding/json would take
// most of the time of a call.
type appender interface {
	// appendJSON appends the JSON form of the body to b.
	appendJSON(b []byte) []byte
}

// appendJSON appends the JSON form of v to b.
func appendJSON(b []byte, v any) []byte {
	if a, ok := v.(appender); ok {
		return a.appendJSON(b)
	}
	// The views contain only values that JSON can represent.
	encoded, _ := json.Marshal(v)
	return append(b, encoded...)
}

// object appends a JSON object to a buffer, field by field, as encoding/json does for a struct. The
// names of the fields must not need escaping.
type object struct {
	buf     []byte
	rawHTML bool // do not escape the characters <, > and & in strings
}

// openObject begins an object at the end of buf.
func openObject(buf []byte) *object { return &object{buf: append(buf, '{')} }

// end ends the object and returns the buffer.
func (o *object) end() []byte { return append(o.buf, '}') }

// name begins the next field.
func (o *object) name(name string) {
	if o.buf[len(o.buf)-1] != '{' {
		o.buf = append(o.buf, ',')
	}
	o.buf = append(o.buf, '"')
	o.buf = append(o.buf, name...)
	o.buf = append(o.buf, '"', ':')
}

// text adds a string.
func (o *object) text(name, value string) {
	o.name(name)
	o.buf = appendText(o.buf, value, o.rawHTML)
}

// optional adds a string unless it is empty.
func (o *object) optional(name, value string) {
	if value != "" {
		o.text(name, value)
	}
}

// integer adds an integer.
func (o *object) integer(name string, value int) {
	o.name(name)
	o.buf = strconv.AppendInt(o.buf, int64(value), 10)
}

// amount adds an amount as a number.
func (o *object) amount(name string, value money) {
	o.name(name)
	o.buf = append(o.buf, value.String()...)
}

// verdict adds a boolean unless value is VerdictUnknown.
func (o *object) verdict(name string, value idverify.Verdict) {
	if value != idverify.VerdictUnknown {
		o.name(name)
		o.buf = strconv.AppendBool(o.buf, value == yes)
	}
}

// time adds a timestamp.
func (o *object) time(name string, value time.Time) {
	o.name(name)
	o.buf = append(o.buf, '"')
	o.buf = appendTime(o.buf, value)
	o.buf = append(o.buf, '"')
}

// open begins an object as the next field. The fields until close belong to it.
func (o *object) open(name string) {
	o.name(name)
	o.buf = append(o.buf, '{')
}

// close ends the object that open began.
func (o *object) close() { o.buf = append(o.buf, '}') }

// list adds an array.
func (o *object) list(name string, items []any) {
	o.name(name)
	o.buf = append(o.buf, '[')
	for i, item := range items {
		if i > 0 {
			o.buf = append(o.buf, ',')
		}
		o.buf = appendJSON(o.buf, item)
	}
	o.buf = append(o.buf, ']')
}

// link adds a HAL link.
func (o *object) link(name, href string) {
	o.open(name)
	o.text("href", href)
	o.close()
}

// link is a HAL link in a view that encoding/json encodes.
type link struct {
	Href string `json:"href"`
}

// selfLink is the links of a view that has only one to itself.
type selfLink struct {
	Self link `json:"self"`
}

// appendText appends s as a JSON string to b. It leaves strings that need other escapes than that
// of & to encoding/json.
func appendText(b []byte, s string, rawHTML bool) []byte {
	begin, copied := len(b), 0
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case isPlain[c]:
		case c == '&' && !rawHTML: // in the links of a page
			b = append(append(b, s[copied:i]...), `\u0026`...)
			copied = i + 1
		default:
			return appendEscaped(b[:begin], s, rawHTML)
		}
	}
	b = append(b, s[copied:]...)
	return append(b, '"')
}

// isPlain contains the printable ASCII characters that encoding/json never escapes.
var isPlain = func() (plain [256]bool) {
	for c := ' '; c <= '~'; c++ {
		plain[c] = !strings.ContainsRune(`"\<>&`, c)
	}
	return plain
}()

// appendEscaped appends s as a JSON string to b.
func appendEscaped(b []byte, s string, rawHTML bool) []byte {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(!rawHTML)
	_ = encoder.Encode(s) // a string can be encoded
	return append(b, bytes.TrimSuffix(encoded.Bytes(), []byte("\n"))...)
}

// appendTime appends t in wire.TimeFormat to b. In UTC, this format differs from RFC 3339, which
// package time formats much faster, only in the offset.
func appendTime(b []byte, t time.Time) []byte {
	b = t.UTC().AppendFormat(b, time.RFC3339)
	return append(b[:len(b)-len("Z")], "+0000"...)
}

// formatTime formats a time for JSON.
func formatTime(t time.Time) string { return string(appendTime(nil, t)) }

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
