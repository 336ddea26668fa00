package idverify

import (
	"fmt"
	"log/slog"
)

// redacted stands wherever a Secret would be printed.
const redacted = "[REDACTED]"

// Secret is a text that nothing prints: not fmt with any verb, not encoding/json, not log/slog, not %+v of a struct that holds one in an unexported field.
// Only [Secret.Reveal] gives it back. The zero Secret is empty. A Secret may be copied and compared with ==, which tells only whether both are the same value of NewSecret.
type Secret struct {
	// Behind a pointer, because fmt prints what unexported fields hold without asking their methods; of a pointer inside a struct it prints the address.
	text *string
}

// NewSecret returns s as a Secret.
func NewSecret(s string) Secret { return Secret{text: &s} }

// Reveal returns the text itself: to store it in a vault, never to print it.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
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

// Credentials are a client ID and its secret (specification, section 5.1). They belong to a project or to a workspace and are exchanged for access tokens, nothing else.
type Credentials struct {
	ClientID     string
	ClientSecret Secret
}
