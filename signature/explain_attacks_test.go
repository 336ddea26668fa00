package signature_test

import (
	"bytes"
	"crypto/rsa"
	"encoding/base64"
	"math/big"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/internal/attack"
	"github.com/idverify/idverify-go/signature"
)

// A line of Explain makes the operator accept messages, so no attack may be reported as valid, and
// no message that the service did not sign may be explained.
func TestVerifier_ExplainAttacks(t *testing.T) {
	t.Parallel()
	explained := make(map[string][]string)
	for kind, attacks := range map[string][]attack.Attack{"callback": attack.Callbacks(), "redirect": attack.Redirects()} {
		setup := setupFor("/callbacks/phone", "tenant=7")
		for _, a := range attacks {
			m := a.Message(setup)
			r := request(t, m)
			v := newVerifier(t, signature.VerifierOptions{})

			lines, keys, forms, _, _ := signature.ExplainCost(v, r, &signature.ExplainOptions{Paths: []string{"/callbacks/phone"}})

			if len(lines) == 0 || keys > 64 || forms > 4096 {
				t.Fatalf("%s: %s: %d lines after %d operations with keys and %d forms", kind, a.Name, len(lines), keys, forms)
			}
			if strings.HasPrefix(lines[0], "verified:") {
				t.Errorf("%s: %s: got %q, want no claim that the message is valid", kind, a.Name, lines)
			}
			claim := !strings.HasPrefix(lines[0], "not explained:")
			if claim && !signedByService(r) {
				t.Errorf("%s: %s: got %q for a message that the service did not sign", kind, a.Name, lines)
			}
			if claim {
				explained[kind] = append(explained[kind], a.Name+": "+strings.Join(lines, " | "))
			}
		}
	}

	for kind, names := range explained {
		slices.Sort(names)
		t.Logf("%s: %d attacks have a usual cause:\n%s", kind, len(names), strings.Join(names, "\n"))
		if len(names) < 10 {
			t.Errorf("%s: %d attacks are explained, want at least 10: changed hosts, paths and headers", kind, len(names))
		}
	}
}

var (
	anySignature = regexp.MustCompile(`signature="?([A-Za-z0-9+/=]+)`)
	noBase64     = regexp.MustCompile(`[^A-Za-z0-9+/]+`)
)

// signedByService reports whether the request contains a signature by a published key anywhere, by
// the structure of RFC 8017, section 8.2.2.
func signedByService(r *http.Request) bool {
	texts := slices.Clone(r.Header.Values("Authorization"))
	_, query, _ := strings.Cut(r.RequestURI, "?")
	for segment := range strings.SplitSeq(query, "&") {
		_, value, _ := strings.Cut(segment, "=")
		plain, err := url.PathUnescape(value)
		if decoded, decodeErr := base64.RawStdEncoding.DecodeString(noBase64.ReplaceAllString(plain, "")); err == nil && decodeErr == nil {
			texts = append(texts, string(decoded))
		}
	}
	for _, text := range texts {
		for _, m := range anySignature.FindAllStringSubmatch(text, -1) {
			decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(m[1], "="))
			for key := range publishedKeys() {
				encoded := new(big.Int).Exp(new(big.Int).SetBytes(decoded), big.NewInt(int64(key.E)), key.N).Bytes()
				if err == nil && len(encoded) == key.Size()-1 && bytes.HasPrefix(encoded, append([]byte{1}, bytes.Repeat([]byte{0xff}, len(encoded)-53)...)) {
					return true
				}
			}
		}
	}
	return false
}

func publishedKeys() func(yield func(*rsa.PublicKey) bool) {
	return func(yield func(*rsa.PublicKey) bool) {
		for _, key := range serviceKeys() {
			if signature.Usable(key) && !yield(key) {
				return
			}
		}
	}
}

func TestVerifier_ExplainAccepted(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{})
	for _, variant := range slices.Concat(attack.AcceptedCallbacks(), attack.AcceptedRedirects()) {
		lines := v.Explain(t.Context(), request(t, variant.Message(setupFor("/callbacks/phone", "tenant=7"))), nil)

		if len(lines) != 1 || !strings.HasPrefix(lines[0], "verified:") {
			t.Errorf("%s: got %q, want verified", variant.Name, lines)
		}
	}
}

func TestVerifier_ExplainStillRejected(t *testing.T) {
	t.Parallel()
	m := setupFor("/callbacks/phone", "tenant=7").Callback()
	m.Covered += " host"
	m.Sign()
	r := request(t, m)
	r.Host = "app.internal"

	got := newVerifier(t, signature.VerifierOptions{}).Explain(t.Context(), r, nil)

	checkLines(t, got, []string{"not explained: ", "host: signed for api.example.com", "the message is still rejected after these changes: callback rejected: signature covers a name twice"})
}
