package idverify

import (
	"crypto/subtle"
	"fmt"
	"log/slog"
)

// redacted is printed in place of a Secret.
const redacted = "[REDACTED]"

// Secret is a text that nothing prints: not fmt with any verb, not encoding/json, not log/slog, and
// not a printer that reads unexported fields by reflection, such as those of test assertions. Only
// [Secret.Reveal] returns the text.
//
// The zero Secret is empty. A Secret may be copied. [Secret.Equal] compares texts; == and
// reflect.DeepEqual report only whether both Secrets come from the same call of NewSecret. Two zero
// Secrets are equal.
type Secret struct {
	// A pointer, because functions are not comparable, and because fmt prints unexported fields
	// without calling their methods. For a pointer in such a field it prints only the address.
	hidden *hidden
}

// hidden has the text in a closure: reflection cannot read the variables of a function.
type hidden struct{ text func() string }

// NewSecret returns s as a Secret.
func NewSecret(s string) Secret { return Secret{&hidden{func() string { return s }}} }

// Reveal returns the text. Use it to store a secret, not to print it.
func (s Secret) Reveal() string {
	if s.hidden == nil {
		return ""
	}
	return s.hidden.text()
}

// Equal reports whether s and t have the same text, in a time that does not depend on where they
// differ. Comparisons with go-cmp use it.
func (s Secret) Equal(t Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(t.Reveal())) == 1
}

// Format implements [fmt.Formatter]: every verb prints a placeholder.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// LogValue implements [slog.LogValuer].
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON implements json.Marshaler: a Secret leaves a program through [Secret.Reveal] alone.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// UnmarshalText implements encoding.TextUnmarshaler, so that a Secret can be read from JSON, a flag or a configuration file.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}
