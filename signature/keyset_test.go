package signature_test

import (
	"strings"
	"testing"

	"github.com/idverify/idverify-go/signature"
)

// withMembers returns a JSON object, such as a JSON Web Key, with members prepended.
func withMembers(object, members string) string {
	return strings.Replace(object, "{", "{"+members+",", 1)
}

// TestJWKS_IgnoresExposedKeys publishes a valid public key together with private key parameters for
// its kid, or for its modulus under another kid. Anyone who reads the set can sign with them.
func TestJWKS_IgnoresExposedKeys(t *testing.T) {
	t.Parallel()
	good := jwk("a", "service-1")
	leaked := withMembers(jwk("leaked", "service-1"), `"d":"AQAB"`)
	type twin struct{ name, twin string }
	twins := []twin{
		{"RSA private key", withMembers(jwk("a", "service-2"), `"d":"AQAB"`)},
		{"private exponent is null", withMembers(jwk("a", "service-2"), `"d":null`)},
		{"private exponent is not base64", withMembers(jwk("a", "service-2"), `"d":"!"`)},
		{"two private exponents", withMembers(jwk("a", "service-2"), `"d":"AQAB","d":null`)},
		{"unusable RSA private key", withMembers(jwk("a", "weak"), `"d":"AQAB"`)},
		{"EC private key", `{"kty":"EC","kid":"a","crv":"P-256","x":"AA","y":"AA","d":"AA"}`},
		{"symmetric key", `{"kty":"oct","kid":"a","k":"AQAB"}`},
		{"unknown type", `{"kid":"a","d":"AQAB"}`},
		{"escaped kid", withMembers(strings.Replace(jwk("a", "service-2"), `"kid":"a"`, `"kid":"\u0061"`, 1), `"d":"AQAB"`)},
		{"another kid", leaked},
		{"no kid", strings.Replace(leaked, `"kid":"leaked",`, "", 1)},
		{"numeric kid", strings.Replace(leaked, `"leaked"`, "1", 1)},
		{"modulus with leading zeros", strings.Replace(leaked, `"n":"`, `"n":"AAAA`, 1)},
	}
	for _, member := range []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"} {
		twins = append(twins, twin{"member " + member, `{"kid":"a","` + member + `":"AQAB"}`})
	}
	for _, tt := range twins {
		for order, keys := range map[string][]string{"before": {tt.twin, good}, "after": {good, tt.twin}} {
			t.Run(tt.name+" "+order, func(t *testing.T) {
				t.Parallel()
				s := newKeyServer(t, append(keys, jwk("other", "strong"))...)
				j := s.jwks(t, signature.JWKSOptions{})

				s.wantError(t, j, "a", signature.ErrUnknownKey)
				s.want(t, j, "other", "strong")
			})
		}
	}
}

func TestParseKeySet_DuplicateKeysMember(t *testing.T) {
	t.Parallel()
	private := withMembers(jwk("a", "service-2"), `"d":"AQAB"`)
	rest := jwk("a", "service-1") + "," + jwk("other", "strong")
	for name, body := range map[string]string{
		"private key in the first member":  `{"keys":[` + private + `],"keys":[` + rest + `]}`,
		"private key in the second member": `{"keys":[` + rest + `],"keys":[` + private + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys, _ := signature.ParseKeySet([]byte(body))

			if keys["a"] != nil {
				t.Error("key with published private key parameters is used")
			}
		})
	}
}

// TestJWKS_UnusableDuplicate publishes a second key with the same kid that is unusable and has no
// private key parameters. The usable key is unambiguous.
func TestJWKS_UnusableDuplicate(t *testing.T) {
	t.Parallel()
	for name, twin := range map[string]string{
		"for encryption": strings.Replace(jwk("a", "service-2"), `"use":"sig"`, `"use":"enc"`, 1),
		"too short":      jwk("a", "weak"),
		"elliptic":       `{"kty":"EC","kid":"a","crv":"P-256","x":"gI0GAILBdu7T53akrFmMyGcsF3n5dO7MmwNBHKW5SV0","y":"SLW_xSffzlPWrHEVI30DHM_4egVwt3NQqeUD7nMFpps"}`,
	} {
		for order, keys := range map[string][]string{"before": {twin, jwk("a", "service-1")}, "after": {jwk("a", "service-1"), twin}} {
			t.Run(name+" "+order, func(t *testing.T) {
				t.Parallel()
				s := newKeyServer(t, keys...)

				s.want(t, s.jwks(t, signature.JWKSOptions{}), "a", "service-1")
			})
		}
	}
}

// TestJWKS_SizeLimits checks sets at and above the limits. jwx needs much memory for small values.
func TestJWKS_SizeLimits(t *testing.T) {
	t.Parallel()
	const values = 4096
	plain := keySet(jwk("a", "service-1"))
	used := strings.Count(plain, ",") + strings.Count(plain, "[") + strings.Count(plain, "{")
	for _, tt := range []struct {
		name, body, err string
	}{
		{"4,096 values", withMembers(plain, `"x":[`+strings.Repeat("1,", values-used-2)+"1]"), ""},
		{"4,097 values", withMembers(plain, `"x":[`+strings.Repeat("1,", values-used-1)+"1]"), "more than 4,096 values"},
		{"too many nested lists", withMembers(plain, `"x":`+strings.Repeat("[", values)+strings.Repeat("]", values)), "more than 4,096 values"},
		{"too many nested objects", withMembers(plain, `"x":`+strings.Repeat(`{"x":`, values)+"1"+strings.Repeat("}", values)), "more than 4,096 values"},
		{"white space around", "\r\n\t " + plain + "\r\n\t ", ""},
		{"1 MiB", plain + strings.Repeat(" ", 1<<20-len(plain)), ""},
		{"1 MiB and 1 byte", plain + strings.Repeat(" ", 1<<20-len(plain)+1), "larger than 1 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newKeyServer(t)
			s.respond(respondWith(200, "", tt.body))

			key, err := s.jwks(t, signature.JWKSOptions{}).PublicKey(t.Context(), "a")

			if tt.err == "" && (err != nil || key == nil) {
				t.Errorf("error = %v, want the key", err)
			}
			if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error = %v, want %q", err, tt.err)
			}
		})
	}
}
