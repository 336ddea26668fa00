package idverify

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"

	"github.com/idverify/idverify-go/internal/redact"
)

// redacted is printed in place of a Secret.
const redacted = redact.Placeholder

// Secret is a string that is not printed by fmt, encoding/json, log/slog, or packages that read
// unexported fields by reflection, such as test assertions. Only [Secret.Reveal] returns it.
//
// The zero Secret is empty. A Secret may be copied. Use [Secret.Equal] to compare: == and
// reflect.DeepEqual report only whether two Secrets come from the same call of NewSecret. Two zero
// Secrets are equal.
type Secret struct {
	// A pointer, because functions are not comparable, and because fmt prints unexported fields
	// without calling their methods. For a pointer in such a field it prints only the address.
	hidden *hidden
}

// hidden stores the text in a closure, because reflection cannot read the variables of a function.
type hidden struct{ text func() string }

// NewSecret returns s as a Secret.
func NewSecret(s string) Secret { return Secret{&hidden{func() string { return s }}} }

// Reveal returns the text, for example to store it. Do not print the result.
func (s Secret) Reveal() string {
	if s.hidden == nil {
		return ""
	}
	return s.hidden.text()
}

// Equal reports whether s and t have the same text, in constant time. The go-cmp package uses it.
func (s Secret) Equal(t Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(t.Reveal())) == 1
}

// Format implements [fmt.Formatter]. It prints a placeholder for every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// LogValue implements [slog.LogValuer]. It returns a placeholder.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON implements json.Marshaler. It returns a placeholder.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// UnmarshalText implements encoding.TextUnmarshaler, so that a Secret can be decoded from JSON, a
// flag or a configuration file. It returns an error for the placeholder that a Secret is printed
// as: the original text is lost.
func (s *Secret) UnmarshalText(text []byte) error {
	if string(text) == redacted {
		return errors.New("idverify: decode secret: the text is the placeholder of a printed Secret (use the original secret)")
	}
	*s = NewSecret(string(text))
	return nil
}
