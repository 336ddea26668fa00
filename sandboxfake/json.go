package sandboxfake

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/idverify/idverify-go"
)

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
