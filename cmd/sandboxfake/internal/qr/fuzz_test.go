package qr

import (
	"slices"
	"strings"
	"testing"
)

func FuzzEncode(f *testing.F) {
	for _, seed := range []string{"", "x", "https://127.0.0.1:8443/_sandbox/open/abc", "Zoë 🔑", "\xff", strings.Repeat("é", 600), strings.Repeat("z", 2332)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		code, err := Encode(text)
		if err != nil {
			if len(text) <= 2300 && strings.ToValidUTF8(text, "") == text {
				t.Errorf("Encode of %d bytes: %v", len(text), err)
			}
			return
		}
		if got := decode(t, code); got != text {
			t.Errorf("code contains %q, want %q", got, text)
		}
		if got := rasterize(t, code.SVG(), 1); !slices.Equal(got.Pix, pixels(code)) {
			t.Error("SVG differs from the code")
		}
		if got := readTerminal(t, code.Terminal()); !slices.Equal(got, pixels(code)) {
			t.Error("terminal output differs from the code")
		}
	})
}
