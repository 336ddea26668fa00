package sandboxfake_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// keyIDs returns the key IDs of the published key set, in its order.
func (a *api) keyIDs() []string {
	a.t.Helper()
	var ids []string
	for _, key := range a.get("/.well-known/jwks.json").json["keys"].([]any) {
		ids = append(ids, key.(map[string]any)["kid"].(string))
	}
	return ids
}

func TestServer_RotateKeysOverlap(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		a := newAPI(t, srv)
		first := a.keyIDs()
		if len(first) != 1 {
			t.Fatalf("new server publishes %d keys, want 1", len(first))
		}

		srv.RotateKeys()
		if err := srv.Advance(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		srv.RotateKeys()
		three := a.keyIDs()
		if err := srv.Advance(t.Context(), 4*time.Minute-time.Second); err != nil {
			t.Fatal(err)
		}
		still := a.keyIDs()
		if err := srv.Advance(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		two := a.keyIDs()
		if err := srv.Advance(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		last := a.keyIDs()

		if len(three) != 3 || three[0] != first[0] || !slices.Equal(still, three) {
			t.Errorf("published after two rotations: %q, one second before the overlap ends: %q, want the same three keys", three, still)
		}
		if !slices.Equal(two, three[1:]) || !slices.Equal(last, three[2:]) {
			t.Errorf("published five minutes after each rotation: %q, then %q, want one key less each time", two, last)
		}
	})
}

func TestServer_RotateKeysUniqueIDs(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	for range 9 {
		srv.RotateKeys()
	}

	ids := a.keyIDs()

	if slices.Sort(ids); len(ids) != 10 || len(slices.Compact(ids)) != 10 {
		t.Errorf("%d keys with %d different IDs after nine rotations, want 10", len(ids), len(slices.Compact(ids)))
	}
}

func TestServer_RotateKeysVerification(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt))
	a := newAPI(t, srv)
	verifier := srv.Verifier([]string{"app.sandbox.test"}, nil)
	var mu sync.Mutex
	var keys []string // guarded by mu
	host := srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		verify := verifier.VerifyCallback
		if r.Method == http.MethodGet {
			verify = verifier.VerifyRedirect
		}
		message, err := verify(r)
		if err != nil {
			t.Errorf("%s request does not verify: %v", r.Method, err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, message.KeyID)
	}))
	completeCheck := func() {
		t.Helper()
		a.completeCheck(host)
		if err := srv.Idle(t.Context()); err != nil {
			t.Fatal(err)
		}
		id := a.create(phoneChecks02, `{"phone_number":"447700900012","redirect_url":"`+host+`"}`)
		if _, err := srv.Device().Open(t.Context(), srv.URL()+phoneChecks02+"/"+id+"/redirect"); err != nil {
			t.Fatal(err)
		}
	}

	for range 3 {
		completeCheck()
		srv.RotateKeys()
		// The verifier refetches the key set for an unknown key, but only after a pause.
		if err := srv.Advance(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}

	if len(keys) != 6 || keys[0] != keys[1] || keys[1] == keys[2] || keys[3] == keys[4] {
		t.Errorf("key IDs = %q, want one for both kinds of messages and a new one after each rotation", keys)
	}
}

func TestFault_WrongKeyUsesPublishedID(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	a := newAPI(t, srv)
	verifier := srv.Verifier([]string{"app.sandbox.test"}, nil)
	var verifyErr error
	host := srv.Handle("app.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, verifyErr = verifier.VerifyCallback(r)
	}))
	srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{WrongKey: true})

	a.completeCheck(host)
	if err := srv.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}

	if !errors.Is(verifyErr, signature.ErrSignature) {
		t.Errorf("verifier error = %v, want ErrSignature", verifyErr)
	}
	header := srv.Deliveries()[0].Attempts[0].Header.Get("Authorization")
	if !strings.Contains(header, `keyId="`+a.keyIDs()[0]+`"`) {
		t.Errorf("Authorization = %s, want the published key ID", header)
	}
}
