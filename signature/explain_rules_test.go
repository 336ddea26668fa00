package signature_test

import (
	"context"
	"crypto/rsa"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/signature"
)

func TestVerifier_ExplainClock(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		offset time.Duration // of the clock
		want   string
	}{
		{"fast", 83*time.Minute + time.Millisecond, "clock: signed 1h23m1s before the time of this machine, and ClockSkew is 5s: if all messages are rejected, its clock is fast"},
		{"slow", -90 * time.Second, "clock: signed 1m30s after the time of this machine, and ClockSkew is 5s: its clock is slow"},
		{"advice suffices", 6500 * time.Millisecond, "(a ClockSkew of 7s would accept it)"},
		{"old", 48 * time.Hour, "clock: signed 48h0m0s before"},
		{"very old", 290 * 365 * 24 * time.Hour, "clock: signed 876000h0m0s before"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			v := newVerifier(t, signature.VerifierOptions{Now: func() time.Time { return now.Add(row.offset) }})

			for _, r := range []*http.Request{receivedCallback(t, target, body, signature.SignerOptions{}), receivedRedirect(t, "/back?check_id=c1&code=x")} {
				checkLines(t, v.Explain(t.Context(), r, nil), []string{row.want})
				if got := v.Explain(t.Context(), r, nil)[0]; strings.Contains(got, "would accept it") && row.name != "advice suffices" {
					t.Errorf("got %q, want no advice to accept old messages", got)
				}
				checkLines(t, v.Explain(t.Context(), r, &signature.ExplainOptions{AnyDate: true}), []string{"(the clock was not examined)"})
			}
		})
	}
}

func TestVerifier_ExplainHost(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, host, want string }{
		{"another customer", "hooks.example.net:8443", "host: signed for hooks.example.net:8443, which is not one of the verifier's hosts"},
		{"IPv4", "192.0.2.7", "host: signed for the host of the request, which is not one"},
		{"IPv6", "[2001:db8::7]:8080", "host: signed for the host of the request, which is not one"},
		{"phone number", "447700900000.example.net", "host: signed for the host of the request, which is not one"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/callbacks", nil)
			r.Host = row.host
			r.Header.Set("x-service-callback", "phone_check")
			if err := newSigner(t, signature.SignerOptions{}).SignCallback(r, []byte(body)); err != nil {
				t.Fatal(err)
			}

			got := newVerifier(t, signature.VerifierOptions{}).Explain(t.Context(), r, nil)

			checkLines(t, got, []string{row.want})
		})
	}
}

func TestVerifier_ExplainHostOfCaller(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, own, signed, received, want string }{
		{"port missing", "127.0.0.1", "127.0.0.1:3001", "127.0.0.1:3001", "host: signed for 127.0.0.1:3001, which is not one of the verifier's hosts (one has the same name, but without the port)"},
		{"IPv6", "[::1]", "[::1]:3001", "[::1]:3001", "host: signed for [::1]:3001, which is not one of the verifier's hosts (one has the same name, but without the port)"},
		{"port added", "127.0.0.1:3001", "127.0.0.1", "127.0.0.1", "host: signed for 127.0.0.1, which is not one of the verifier's hosts (one has the same name, but with a port)"},
		{"another port", "app.example.com:1", "app.example.com:2", "app.example.com:2", "(one has the same name, but another port): if it is yours"},
		{"received elsewhere", "127.0.0.1:3001", "127.0.0.1:3001", "192.0.2.7", "host: signed for 127.0.0.1:3001, one of the verifier's hosts"},
		{"another name", "127.0.0.1", "127.0.0.2:3001", "127.0.0.2:3001", "host: signed for the host of the request, which is not one of the verifier's hosts: if"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			v, err := signature.NewVerifier(serviceKeys(), []string{row.own}, &signature.VerifierOptions{Now: func() time.Time { return now }})
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodPost, "/callbacks", nil)
			r.Host = row.signed
			r.Header.Set("x-service-callback", "phone_check")
			if err := newSigner(t, signature.SignerOptions{}).SignCallback(r, []byte(body)); err != nil {
				t.Fatal(err)
			}
			r.Host = row.received

			got := v.Explain(t.Context(), r, nil)

			checkLines(t, got, []string{row.want})
		})
	}
}

// An IP address of the message is omitted also if the host differs from the received one.
func TestVerifier_ExplainHostOmitted(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/callbacks", nil)
	r.Host = "192.0.2.7"
	r.Header.Set("x-service-callback", "phone_check")
	if err := newSigner(t, signature.SignerOptions{}).SignCallback(r, []byte(body)); err != nil {
		t.Fatal(err)
	}
	r.Host = host
	r.Header.Set("X-Forwarded-Host", "192.0.2.7")

	got := newVerifier(t, signature.VerifierOptions{}).Explain(t.Context(), r, nil)

	checkLines(t, got, []string{"host: signed for another host, the host in X-Forwarded-Host", "host: signed for another host, which is not one"})
}

func TestVerifier_ExplainTarget(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{Target: func(*http.Request) (host, uri string) { return "wrong.example.com", "/wrong?x=1" }})

	got := v.Explain(t.Context(), receivedCallback(t, target, body, signature.SignerOptions{}), nil)

	checkLines(t, got, []string{"VerifierOptions.Target returns another", "path: signed as in the request, but VerifierOptions.Target", "query: signed as in the request, but VerifierOptions.Target"})
}

func TestVerifier_ExplainCallbackHeader(t *testing.T) {
	t.Parallel()
	r := receivedCallback(t, target, body, signature.SignerOptions{CallbackHeader: "x-acme-callback"})

	got := newVerifier(t, signature.VerifierOptions{}).Explain(t.Context(), r, nil)

	checkLines(t, got, []string{"callback header: the service sent the kind in x-acme-callback: set VerifierOptions.CallbackHeader"})
}

func TestVerifier_ExplainMaxBody(t *testing.T) {
	t.Parallel()
	r := receivedCallback(t, target, body, signature.SignerOptions{})

	got := newVerifier(t, signature.VerifierOptions{MaxBody: 10}).Explain(t.Context(), r, nil)

	checkLines(t, got, []string{"not explained: callback rejected: body is larger than MaxBody", fmt.Sprint("set VerifierOptions.MaxBody to at least ", len(body))})
	if left := bodyOf(t, r); left != body {
		t.Errorf("body after Explain = %q, want it restored", left)
	}
}

func TestVerifier_ExplainKeys(t *testing.T) {
	t.Parallel()
	other := signature.StaticKeys{keyID: &keys()["service-2"].PublicKey}
	mine := serviceKeys()
	called := false
	for _, row := range []struct {
		name   string
		source signature.KeySource
		keys   map[string]signature.KeySource
		want   []string
	}{
		{"another key set", other, map[string]signature.KeySource{"sandbox": mine}, []string{`key: signed with a key of the key set "sandbox", which the verifier does not have`}},
		{"unknown", other, nil, []string{"not explained: callback rejected: signature does not verify", "key: the key with the ID in the Authorization did not make"}},
		{"unknown ID", signature.StaticKeys{"k": other[keyID]}, map[string]signature.KeySource{"sandbox": other}, []string{"not explained: callback rejected: no usable key", "key: the key set has no key with the ID"}},
		{"key source of the caller", keyFunc(func(context.Context, string) (*rsa.PublicKey, error) { called = true; return mine[keyID], nil }), nil, []string{"not explained: callback not verified", "key: the verifier has no keys that can be examined"}},
		{"key source of the caller with keys", keyFunc(func(context.Context, string) (*rsa.PublicKey, error) { called = true; return mine[keyID], nil }), map[string]signature.KeySource{"production": mine}, []string{`key: signed with a key of the key set "production"; the keys of the verifier cannot be examined`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			v, err := signature.NewVerifier(row.source, []string{host}, &signature.VerifierOptions{Now: clock})
			if err != nil {
				t.Fatal(err)
			}

			got := v.Explain(t.Context(), receivedCallback(t, target, body, signature.SignerOptions{}), &signature.ExplainOptions{Keys: row.keys})

			checkLines(t, got, row.want)
			if called {
				t.Error("Explain called the key source of the caller")
			}
		})
	}
}

func TestVerifier_ExplainCachedKeySet(t *testing.T) {
	t.Parallel()
	fetches := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches++
		fmt.Fprint(w, keySet(jwk(keyID, "service-1")))
	}))
	defer server.Close()
	source, err := signature.NewJWKS(server.URL, &signature.JWKSOptions{HTTPClient: server.Client(), Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	v, err := signature.NewVerifier(source, []string{host}, &signature.VerifierOptions{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	r := receivedCallback(t, target, body, signature.SignerOptions{})

	before := v.Explain(t.Context(), r, nil)
	fetchedBefore := fetches
	if err := source.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := v.Explain(t.Context(), r, nil)
	unknown := receivedCallback(t, target, body, signature.SignerOptions{})
	unknown.Header.Set("Authorization", strings.Replace(unknown.Header.Get("Authorization"), keyID, "unknown", 1))
	v.Explain(t.Context(), unknown, nil)

	checkLines(t, before, []string{"not explained: ", "a JWKS fetches its set for the first message"})
	checkLines(t, after, []string{"verified: "})
	if fetchedBefore != 0 || fetches != 1 {
		t.Errorf("Explain caused %d and %d fetches, want none", fetchedBefore, fetches-1)
	}
	if _, err := source.PublicKey(t.Context(), "unknown"); err == nil || fetches != 2 {
		t.Errorf("lookup of an unknown key after Explain: error %v after %d fetches, want a second fetch: Explain must not use up its permission", err, fetches)
	}
}

// noStore fails the test if it is used.
type noStore struct{ t *testing.T }

func (s noStore) Claim(context.Context, [32]byte, time.Duration) (bool, error) {
	s.t.Error("Explain used the replay store")
	return true, nil
}

func TestVerifier_ExplainHasNoSideEffects(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, signature.VerifierOptions{
		Replay:  noStore{t},
		Observe: func(context.Context, signature.Verification) { t.Error("Explain called Observe") },
		Logger: slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
			t.Errorf("Explain logged %s", b)
			return len(b), nil
		}), nil)),
	})
	for _, row := range explainCallbackRows {
		r := receivedCallback(t, callbackTarget, explainBody, signature.SignerOptions{})
		row.change(r)
		want := bodyOf(t, r)
		r.Body = restored([]byte(want))
		header := fmt.Sprint(r.Header, r.Method, r.Host, r.RequestURI, r.URL)

		got := v.Explain(t.Context(), r, nil)

		if left := bodyOf(t, r); left != want {
			t.Errorf("%s: body after Explain = %q, want %q", row.name, left, want)
		}
		if after := fmt.Sprint(r.Header, r.Method, r.Host, r.RequestURI, r.URL); after != header {
			t.Errorf("%s: request after Explain = %s, want %s", row.name, after, header)
		}
		if strings.HasPrefix(got[0], "verified:") && !strings.Contains(got[0], "the replay store was not used") {
			t.Errorf("%s: got %q, want it to mention the replay store", row.name, got)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// unreadable is a body that fails the test when it is read.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("Explain read the body of a message that the service did not sign")
	return 0, io.EOF
}

func (u unreadable) Close() error { return nil }

func TestVerifier_ExplainForgedBodyIsNotRead(t *testing.T) {
	t.Parallel()
	r := receivedCallback(t, target, body, signature.SignerOptions{})
	r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), `signature="`, `signature="AAAA`, 1))
	r.Body = unreadable{t}

	got := newVerifier(t, signature.VerifierOptions{}).Explain(t.Context(), r, nil)

	checkLines(t, got, []string{"not explained: ", "forged"})
}

func TestVerifier_ExplainCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := receivedCallback(t, target, body, signature.SignerOptions{})
	r.Host = "other.example.com"

	got := newVerifier(t, signature.VerifierOptions{}).Explain(ctx, r, nil)

	checkLines(t, got, []string{"not explained: ", "the examination was canceled"})
}
