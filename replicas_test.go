package idverify_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	idverify "github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// TestADayOfReplicas is the arithmetic of docs/replicas.md: what each replica asks for beside its own calls, over a day with a call and a callback every ten minutes, and through a key rotation at its end.
func TestADayOfReplicas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const replicas, day, pause = 4, 24 * time.Hour, 10 * time.Minute
		srv := sandboxfake.New(t, sandboxfake.WithInMemory())
		var tokens, keySets atomic.Int64
		counted := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			switch r.URL.Path {
			case tokenPath:
				tokens.Add(1)
			case keySetPath:
				keySets.Add(1)
			}
			return srv.HTTPClient().Transport.RoundTrip(r)
		})}
		keyID := publishedKey(t, srv)
		clients, keys := make([]*idverify.Client, replicas), make([]*signature.JWKS, replicas)
		for i := range replicas {
			clients[i] = srv.Client(idverify.WithHTTPClient(counted))
			keys[i] = must(signature.NewJWKS(srv.URL()+keySetPath, &signature.JWKSOptions{HTTPClient: counted}))(t)
		}

		for range day / pause {
			for i := range replicas {
				if _, err := clients[i].Reachability.Country(t.Context(), "GB"); err != nil {
					t.Fatal(err)
				}
				if _, err := keys[i].PublicKey(t.Context(), keyID); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(pause)
		}

		// Every 59 minutes at the most; calls every ten minutes stretch it to an hour.
		if got, most := tokens.Load(), int64(replicas*(day/(59*time.Minute)+1)); got > most {
			t.Errorf("%d token requests in a day, want %d at most", got, most)
		}
		// With five minutes of max-age, each of the day's callbacks finds its copy stale.
		if got, most := keySets.Load(), int64(replicas*(day/pause)); got > most {
			t.Errorf("%d key set requests in a day, want %d at most", got, most)
		}
		t.Logf("%d replicas: %d token requests, %d key set requests", replicas, tokens.Load(), keySets.Load())

		before := keySets.Load()
		srv.RotateKeys()
		newID := publishedKey(t, srv)
		for i := range replicas {
			for err := range atOnce(8, func() error { return second(keys[i].PublicKey(t.Context(), newID)) }) {
				if err != nil {
					t.Errorf("a message signed with the new key: %v", err)
				}
			}
		}
		if got := keySets.Load() - before; got > replicas {
			t.Errorf("%d key set requests through a rotation, want one for each of %d replicas at most", got, replicas)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// publishedKey is the id of the key that signs a callback of srv.
func publishedKey(t *testing.T, srv *sandboxfake.Server) string {
	t.Helper()
	ids := make(chan string, 1)
	verifier := srv.Verifier("shop.sandbox.test")
	url := srv.Handle("shop.sandbox.test", verifier.CallbackHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		m, _ := signature.MessageFromContext(r.Context())
		ids <- m.KeyID
	})))
	check := must(srv.Client().PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: matching, CallbackURL: url}))(t)
	must(srv.Device().Open(context.WithoutCancel(t.Context()), check.CheckURL))(t)
	return <-ids
}
