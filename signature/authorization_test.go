package signature_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/signature"
)

// withAuthorization returns a request with a changed Authorization. It changes the parsed request,
// because net/http rejects some bytes.
func withAuthorization(t *testing.T, change func(string) string) *http.Request {
	t.Helper()
	w := signedCallback()
	r := request(t, w)
	r.Header.Set("Authorization", change(w.Get("Authorization")))
	return r
}

// appendParams returns a change that appends parameters.
func appendParams(params string) func(string) string {
	return func(s string) string { return s + params }
}

// prependParams returns a change that prepends parameters.
func prependParams(params string) func(string) string {
	return func(s string) string { return strings.Replace(s, "Signature ", "Signature "+params, 1) }
}

// paddedTo returns a change that makes the Authorization n bytes long.
func paddedTo(n int) func(string) string {
	return func(s string) string {
		const pad = `,pad=""`
		return s + pad[:len(pad)-1] + strings.Repeat("a", n-len(s)-len(pad)) + `"`
	}
}

// numbered returns n parameters, each preceded by a comma.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ",p%d=1", i)
	}
	return b.String()
}

func TestVerifier_AuthorizationGrammar(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{})
	for _, tt := range []struct {
		name   string
		change func(string) string
		want   error
	}{
		{"16 parameters", appendParams(numbered(12)), nil},
		{"17 parameters", appendParams(numbered(13)), signature.ErrMalformed},
		{"8 KiB", paddedTo(8 << 10), nil},
		{"8 KiB and 1 byte", paddedTo(8<<10 + 1), signature.ErrMalformed},
		{"unterminated quote at the end", func(s string) string { return strings.TrimSuffix(s, `"`) }, signature.ErrMalformed},
		{"unterminated quote of an unknown parameter", appendParams(`,x="`), signature.ErrMalformed},
		{"empty value without quotes", prependParams("x=,"), signature.ErrMalformed},
		{"empty value without quotes at the end", appendParams(",x="), signature.ErrMalformed},
		{"name without value at the end", appendParams(",x"), signature.ErrMalformed},
		{"quote within an unquoted value", prependParams(`x=a"b",`), signature.ErrMalformed},
		{"non-ASCII unquoted value", prependParams("x=ä,"), signature.ErrMalformed},
		{"space within an unquoted value", prependParams("x=a b,"), signature.ErrMalformed},
		{"empty quoted value", prependParams(`x="",`), nil},
		{"no parameters", func(string) string { return "Signature " }, signature.ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			_, err := v.VerifyCallback(withAuthorization(t, tt.change))

			if !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
		})
	}
}

// TestVerifier_AuthorizationBytes checks every byte in each part of a parameter.
func TestVerifier_AuthorizationBytes(t *testing.T) {
	t.Parallel()
	const token = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" // RFC 9110, section 5.6.2
	quotable := func(c byte) bool { return ' ' <= c && c <= '~' && c != '"' && c != '\\' }
	v := newVerifier(t, signature.VerifierOptions{})
	for _, tt := range []struct {
		name  string
		form  string // format of a parameter
		valid func(c byte) bool
	}{
		{"name", "%s=1,", func(c byte) bool { return strings.IndexByte(token, c) >= 0 || c == ' ' || c == '\t' }},
		{"second byte of a name", "a%s=1,", func(c byte) bool { return strings.IndexByte(token, c) >= 0 }},
		{"unquoted value", "x=a%sb,", func(c byte) bool { return strings.IndexByte(token, c) >= 0 }},
		{"quoted value", `x="%s",`, quotable},
		{"start of a long quoted value", `x="%sabcdefghij",`, quotable},
		{"eighth byte of a quoted value", `x="abcdefg%sabc",`, quotable},
		{"end of a long quoted value", `x="abcdefghij%s",`, quotable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for i := range 256 {
				c := byte(i)
				if c == '=' && !strings.Contains(tt.form, `"`) || c == ',' && tt.name == "unquoted value" {
					continue // these bytes end the name or the value
				}
				parameter := fmt.Sprintf(tt.form, string([]byte{c}))
				if tt.name == "name" && (c == ' ' || c == '\t') {
					parameter = fmt.Sprintf(tt.form, string([]byte{c})+"a")
				}

				_, err := v.VerifyCallback(withAuthorization(t, prependParams(parameter)))

				if (err == nil) != tt.valid(c) {
					t.Errorf("byte %#x: error = %v, want valid: %v", c, err, tt.valid(c))
				}
			}
		})
	}
}

// TestVerifier_KeyIDBytes checks every byte in a key ID.
func TestVerifier_KeyIDBytes(t *testing.T) {
	t.Parallel()
	for i := range 256 {
		id := "key " + string([]byte{byte(i)})
		valid := ' ' <= i && i <= '~' && i != '"' && i != '\\'
		signer, err := signature.NewSigner(id, keys()["service-1"], &signature.SignerOptions{Now: clock})
		if (err == nil) != valid {
			t.Errorf("key ID with byte %#x: NewSigner error = %v, want valid: %v", i, err, valid)
		}
		if err != nil || i > '(' && i < '{' {
			continue // signing is slow
		}
		r := callbackRequest(t, "https://"+host+target)
		noError(t, signer.SignCallback(r, []byte(body)))

		m, err := verifierFor(t, signature.StaticKeys{id: &keys()["service-1"].PublicKey}, signature.VerifierOptions{}, host).VerifyCallback(r)

		if err != nil || m.KeyID != id {
			t.Errorf("key ID %q: error = %v, want none", id, err)
		}
	}
}

func TestVerifier_AcceptsSixteenCoveredNames(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{})
	w := newCallback()
	names := " a b c d e f g h i j k"
	for name := range strings.FieldsSeq(names) {
		w.Add(name, "1")
	}
	w.Covered = allCovered(names)
	w.Sign()

	if _, err := v.VerifyCallback(request(t, w)); err != nil {
		t.Errorf("error = %v, want none", err)
	}
}
