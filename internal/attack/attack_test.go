package attack_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/attack"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/signature"
)

// testKeys returns a published and an unpublished key. Keys of the size that the service uses take
// long to generate, so all tests share them.
var testKeys = sync.OnceValue(func() (keys [2]crypto.Signer) {
	for i := range keys {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		keys[i] = tooltest.CachingSigner(key)
	}
	return keys
})

var now = time.Date(2026, time.May, 2, 3, 4, 5, 0, time.UTC)

// setups returns Setups with different values, by name.
func setups(t *testing.T) map[string]attack.Setup {
	t.Helper()
	all := make(map[string]attack.Setup)
	for name, change := range map[string]func(*attack.Setup){
		"https://api.example.com/callbacks/phone?tenant=7": func(*attack.Setup) {},
		"https://api.example.com":                          func(s *attack.Setup) { s.KeyID = "a" },
		"https://api.example.com/":                         func(s *attack.Setup) { s.KeyID = strings.Repeat("k", 256) },
		"http://localhost:3000/callbacks":                  func(s *attack.Setup) { s.CallbackHeader = "X-Acme-Callback" },
		"https://API.example.com:443/a/":                   func(s *attack.Setup) { s.Base64Digest = true },
		"http://127.0.0.1:8443/b?":                         func(s *attack.Setup) { s.Status = "EXPIRED" },
		"https://[2001:db8::1]/c%2Fd":                      func(s *attack.Setup) { s.Status = "ERROR" },
		"http://[::1]:3000/é/x?q=%zz&&a=b;c":               func(s *attack.Setup) { s.Product = "subscriber_check" },
		"https://x.test/?a=1&b":                            func(s *attack.Setup) { s.Now = s.Now.Add(999 * time.Millisecond) },
		"https://x.test/d":                                 func(s *attack.Setup) { s.CheckID, s.Code = "0c8b1f7e-5a43-4d0e-9b62-7f1d3a5c9e22", "K/= 1" },
		"https://x.test:80/d":                              func(s *attack.Setup) { s.Now = s.Now.In(time.FixedZone("", 3600)) },
	} {
		u, err := url.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		s := attack.Setup{URL: u, KeyID: "key-1", Key: testKeys()[0], Unpublished: testKeys()[1], Now: now, CheckID: "c1"}
		change(&s)
		all[name] = s
	}
	return all
}

type verify func(*signature.Verifier, *http.Request) (*signature.Message, error)

// verifyAt verifies a message with the published key, as the receiver at the URL of s.
func verifyAt(t *testing.T, s attack.Setup, m *attack.Message, verify verify) error {
	t.Helper()
	keys := signature.StaticKeys{s.KeyID: s.Key.Public().(*rsa.PublicKey)}
	v, err := signature.NewVerifier(keys, []string{s.URL.Host}, &signature.VerifierOptions{
		CallbackHeader: s.CallbackHeader, Now: func() time.Time { return s.Now },
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Request()
	if err != nil {
		t.Fatal(err)
	}
	_, err = verify(v, r)
	return err
}

func signed(m *attack.Message) *attack.Message { m.Sign(); return m }

// TestAttack_FailsForItsReason sends all rows with several Setups. The message without the change
// of the row verifies, so the change is the only reason.
func TestAttack_FailsForItsReason(t *testing.T) {
	t.Parallel()
	for name, s := range setups(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, kind := range []struct {
				name     string
				valid    *attack.Message
				rejected []attack.Attack
				accepted []attack.Variant
				verify   verify
			}{
				{"callback", signed(s.Callback()), attack.Callbacks(), attack.AcceptedCallbacks(), (*signature.Verifier).VerifyCallback},
				{"redirect", signed(s.Redirect()), attack.Redirects(), attack.AcceptedRedirects(), (*signature.Verifier).VerifyRedirect},
			} {
				if err := verifyAt(t, s, kind.valid, kind.verify); err != nil {
					t.Fatalf("valid %s: error = %v, want none", kind.name, err)
				}
				for _, a := range kind.rejected {
					m := a.Message(s)
					if bytes.Equal(m.Bytes(), kind.valid.Bytes()) {
						t.Errorf("%s: %s: the message is the valid one", kind.name, a.Name)
					}
					if err := verifyAt(t, s, m, kind.verify); !errors.Is(err, a.Want) {
						t.Errorf("%s: %s: error = %v, want %v", kind.name, a.Name, err, a.Want)
					}
				}
				for _, v := range kind.accepted {
					if err := verifyAt(t, s, v.Message(s), kind.verify); err != nil {
						t.Errorf("%s: %s: error = %v, want none", kind.name, v.Name, err)
					}
				}
			}
		})
	}
}

// TestAttack_Text checks the texts that reports contain. Their readers run a backend and have not
// read the code.
func TestAttack_Text(t *testing.T) {
	t.Parallel()
	sentence := regexp.MustCompile(`^[A-Z][^.!?"]*\.$`)
	jargon := regexp.MustCompile(`(?i)\b(err[a-z]+|rfc|der|pem|hmac|sha|md5|coverage|canonical\w*|struct|nil)\b`)
	type row struct {
		name, reason string
		severity     attack.Severity
	}
	kinds := make(map[string][]row)
	for kind, attacks := range map[string][]attack.Attack{"callback": attack.Callbacks(), "redirect": attack.Redirects()} {
		for _, a := range attacks {
			kinds[kind] = append(kinds[kind], row{a.Name, a.Reason, a.Severity})
		}
	}
	for kind, variants := range map[string][]attack.Variant{"accepted callback": attack.AcceptedCallbacks(), "accepted redirect": attack.AcceptedRedirects()} {
		for _, v := range variants {
			kinds[kind] = append(kinds[kind], row{v.Name, v.Reason, v.Severity})
		}
	}
	for kind, rows := range kinds {
		seen := make(map[string]bool)
		for _, r := range rows {
			// Reports derive the name of a rule from the letters and digits.
			key := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(r.name), "-")
			if seen[key] {
				t.Errorf("%s: two rows are named %q", kind, r.name)
			}
			seen[key] = true
			if !sentence.MatchString(r.reason) || len(r.reason) > 130 || jargon.MatchString(r.reason) {
				t.Errorf("%s: %s: reason %q is not one short sentence without jargon", kind, r.name, r.reason)
			}
			switch r.severity {
			case attack.Critical, attack.High, attack.Medium, attack.Low:
			default:
				t.Errorf("%s: %s: severity = %q", kind, r.name, r.severity)
			}
		}
	}
}

// TestAttack_Skew compares Skew with the date of the message.
func TestAttack_Skew(t *testing.T) {
	t.Parallel()
	s := setups(t)["https://x.test/?a=1&b"] // its clock has a fraction of a second
	checked := 0
	for _, a := range attack.Callbacks() {
		date, err := http.ParseTime(a.Message(s).Get("Date"))
		if a.Skew == 0 || err != nil {
			continue
		}
		checked++
		if distance := date.Sub(s.Now).Abs(); distance < a.Skew || distance > a.Skew+time.Second {
			t.Errorf("%s: the date is %v from the clock, want %v", a.Name, distance, a.Skew)
		}
	}
	if checked != 6 {
		t.Errorf("%d attacks have a date that differs from the clock, want 6", checked)
	}
}

// TestMessage_Request compares what net/http's server parses with the message.
func TestMessage_Request(t *testing.T) {
	t.Parallel()
	for name, s := range setups(t) {
		m := signed(s.Callback())

		r, err := m.Request()

		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != m.Body || r.Method != m.Method || r.RequestURI != m.Target || r.Host != m.Host {
			t.Errorf("%s: parsed %s %s for %s with body %q, error %v; want the message", name, r.Method, r.RequestURI, r.Host, body, err)
		}
		for _, f := range m.Fields {
			if got := r.Header.Get(f.Name); got != f.Value {
				t.Errorf("%s: %s = %q, want %q", name, f.Name, got, f.Value)
			}
		}
	}
}
