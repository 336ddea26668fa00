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
	"strings"
	"time"
	"unicode/utf8"

	"github.com/idverify/idverify-go/internal/wire"
)

// bodyMedia are the accepted media types of a JSON request body.
//
// Protocol: docs/protocol.md, section 3.
var bodyMedia = []string{wire.MediaJSON, wire.MediaHAL}

// decode decodes a JSON body into v.
func (c *call) decode(v any) error { return c.decodeAs(bodyMedia, v) }

// decodeAs decodes a JSON body with one of the given media types into v. It checks for the errors
// 415, 413 and 400, in this order.
//
// Protocol: docs/protocol.md, section 1.
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
