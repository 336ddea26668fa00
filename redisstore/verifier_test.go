package redisstore_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idverify/idverify-go/signature"
)

// TestVerifier_ReloadAfterLostReply opens a redirect again after a 503 response.
func TestVerifier_ReloadAfterLostReply(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	stall, store := newStall(t, srv)
	f := newRedirect(t, store)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan int)
	go func() { first <- f.open(ctx) }()
	<-stall.recorded
	cancel()
	if status := <-first; status != http.StatusServiceUnavailable {
		t.Fatalf("status = %d while Redis does not reply, want 503", status)
	}
	stall.active.Store(false)

	reloaded, again := f.open(t.Context()), f.open(t.Context())

	if reloaded != http.StatusNoContent || again != http.StatusBadRequest {
		t.Errorf("status of reloads = %d, then %d; want 204, then 400", reloaded, again)
	}
}

// TestVerifier_ClaimTTL checks the lifetime sent to Redis: twice the clock skew, plus one second,
// plus Options.Timeout.
func TestVerifier_ClaimTTL(t *testing.T) {
	t.Parallel()
	var set []any
	client := unreachableClient(t)
	client.AddHook(hookFunc(func(cmd redis.Cmder) error { set = cmd.Args(); cmd.(*redis.BoolCmd).SetVal(true); return nil }))
	f := newRedirect(t, newStore(t, client, nil))

	if status := f.open(t.Context()); status != http.StatusNoContent {
		t.Fatalf("status = %d, want 204", status)
	}

	if got := fmt.Sprint(set[3:]); got != "[ex 13 nx]" {
		t.Errorf("command ends with %s, want [ex 13 nx]", got)
	}
}

// redirect is a signed redirect and the handler that receives it.
type redirect struct {
	url     string
	handler http.Handler
}

func newRedirect(t *testing.T, store signature.ReplayStore) redirect {
	t.Helper()
	key := must(rsa.GenerateKey(rand.Reader, 2048))(t)
	clock := func() time.Time { return time.Unix(1_700_000_000, 0) }
	signer := must(signature.NewSigner("key", key, &signature.SignerOptions{Now: clock}))(t)
	verifier := must(signature.NewVerifier(signature.StaticKeys{"key": &key.PublicKey}, []string{host}, &signature.VerifierOptions{Replay: store, Now: clock}))(t)
	handler := verifier.RequireRedirect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	u := &url.URL{Scheme: "https", Host: host, Path: "/back", RawQuery: "check_id=c1&code=a"}
	noError(t, signer.SignRedirect(u))
	return redirect{u.String(), handler}
}

// open requests the redirect and returns the status of the response.
func (r redirect) open(ctx context.Context) int {
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, r.url, nil).WithContext(ctx))
	return w.Code
}
