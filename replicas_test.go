package idverify_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// TestClient_RequestsOfReplicas checks the numbers of docs/replicas.md: the token and key set
// requests of each replica during a day with a call and a callback every minute, and during two key
// rotations.
func TestClient_RequestsOfReplicas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const replicas, day, renewal, maxAge = 2, 24 * time.Hour, 59 * time.Minute, 5 * time.Minute
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		var tokens, keySets atomic.Int64
		counted := &http.Client{Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			switch r.URL.Path {
			case tokenPath:
				tokens.Add(1)
			case keySetPath:
				keySets.Add(1)
			}
			return srv.HTTPClient().Transport.RoundTrip(r)
		})}
		clients, keys := make([]*idverify.Client, replicas), make([]*signature.JWKS, replicas)
		for i := range replicas {
			clients[i] = srv.Client(idverify.WithHTTPClient(counted))
			keys[i] = must(signature.NewJWKS(srv.URL()+keySetPath, &signature.JWKSOptions{HTTPClient: counted}))(t)
		}
		// live gets a token and a key every minute, instead of making calls and verifying callbacks.
		live := func(d time.Duration, keyID string) {
			for range d / time.Minute {
				for i := range replicas {
					must(clients[i].Token(t.Context(), idverify.ScopeReachability))(t)
					must(keys[i].PublicKey(t.Context(), keyID))(t)
				}
				time.Sleep(time.Minute) // of the bubble's clock
			}
		}
		// rush looks up keyID eight times concurrently at each replica, and returns the number of key
		// set requests.
		rush := func(keyID string) int64 {
			before := keySets.Load()
			for i := range replicas {
				for err := range concurrently(8, func() error { return errorOf(keys[i].PublicKey(t.Context(), keyID)) }) {
					if err != nil {
						t.Errorf("get the new key: error = %v, want nil", err)
					}
				}
			}
			return keySets.Load() - before
		}

		first := publishedKey(t, srv)
		live(day, first)

		if got, want := tokens.Load(), int64(replicas*((day+renewal-1)/renewal)); got != want {
			t.Errorf("token requests per day = %d, want %d: one every 59 minutes for each of %d replicas", got, want, replicas)
		}
		if got, want := keySets.Load(), int64(replicas*(day/maxAge)); got != want {
			t.Errorf("key set requests per day = %d, want %d: one every max-age for each of %d replicas", got, want, replicas)
		}
		t.Logf("%d replicas: %d token requests, %d key set requests", replicas, tokens.Load(), keySets.Load())

		live(2*time.Minute, first) // the key sets are fresh: only the rotation causes requests
		srv.RotateKeys()
		unannounced := publishedKey(t, srv)
		if got := rush(unannounced); got != replicas {
			t.Errorf("key set requests = %d for a key that signs when it is published, want one for each of %d replicas", got, replicas)
		}

		live(2*time.Minute, unannounced)
		srv.RotateKeys()
		announced := publishedKey(t, srv)
		live(maxAge, unannounced) // the new key is published, but does not sign yet
		if got := rush(announced); got != 0 {
			t.Errorf("key set requests = %d for a key that is published one max-age before it signs, want 0", got)
		}
	})
}

// publishedKey returns the ID of the key that srv signs a callback with.
func publishedKey(t *testing.T, srv *sandboxfake.Server) string {
	t.Helper()
	ids := make(chan string, 1)
	verifier := srv.Verifier([]string{"shop.sandbox.test"}, nil)
	url := srv.Handle("shop.sandbox.test", verifier.RequireCallback(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		m, _ := signature.MessageFromContext(r.Context())
		ids <- m.KeyID
	})))
	check := must(srv.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: matchingNumber, CallbackURL: url}))(t)
	must(srv.Device().Open(context.WithoutCancel(t.Context()), check.CheckURL))(t)
	return <-ids
}
