package sandboxfake_test

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

// keyIDs returns the key IDs of the published key set, in its order.
func (a *api) keyIDs() []string {
	a.t.Helper()
	return textsOf(objects(a.get("/.well-known/jwks.json").json["keys"]), "kid")
}

func TestServer_RotateKeysOverlap(t *testing.T) {
	onEachClock(t, func(t *testing.T, srv *sandboxfake.Server) {
		a := newAPI(t, srv)
		first := a.keyIDs()
		if len(first) != 1 {
			t.Fatalf("new server publishes %d keys, want 1", len(first))
		}

		srv.RotateKeys()
		advance(t, srv, time.Minute)
		srv.RotateKeys()
		three := a.keyIDs()
		advance(t, srv, 4*time.Minute-time.Second)
		still := a.keyIDs()
		advance(t, srv, time.Second)
		two := a.keyIDs()
		advance(t, srv, time.Minute)
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

	if len(ids) != 10 || distinct(ids) != 10 {
		t.Errorf("%d keys with %d different IDs after nine rotations, want 10", len(ids), distinct(ids))
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

	for range 3 {
		a.completeCheck(host)
		waitIdle(t, srv)
		id := a.create(phoneChecks02, `{"phone_number":"447700900012","redirect_url":"`+host+`"}`)
		must(srv.Device().Open(t.Context(), srv.URL()+phoneChecks02+"/"+id+"/redirect"))(t)
		srv.RotateKeys()
		// The verifier refetches the key set for an unknown key, but only after a pause.
		advance(t, srv, time.Minute)
	}

	if len(keys) != 6 || keys[0] != keys[1] || keys[1] == keys[2] || keys[3] == keys[4] {
		t.Errorf("key IDs = %q, want one for both kinds of messages and a new one after each rotation", keys)
	}
}

// datedReceiver is a receiver that rejects replays and records the date and the arrival time of
// each message that it accepts.
type datedReceiver struct {
	verifier *signature.Verifier
	status   int // of its responses to callbacks

	mu       sync.Mutex // guards the fields below
	dates    []time.Time
	times    []time.Time
	rejected []error
}

func (d *datedReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	verify := d.verifier.VerifyCallback
	if r.Method == http.MethodGet {
		verify = d.verifier.VerifyRedirect
	}
	message, err := verify(r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.rejected = append(d.rejected, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	d.dates, d.times = append(d.dates, message.Date), append(d.times, time.Now())
	if r.Method != http.MethodGet {
		w.WriteHeader(d.status)
	}
}

// newDatedReceiver returns a receiver at app.sandbox.test that checks dates against the clock now,
// and its URL.
func newDatedReceiver(t *testing.T, srv *sandboxfake.Server, now func() time.Time) (*datedReceiver, string) {
	t.Helper()
	keys := must(signature.NewJWKS(srv.URL()+"/.well-known/jwks.json", &signature.JWKSOptions{HTTPClient: srv.HTTPClient()}))(t)
	verifier := must(signature.NewVerifier(keys, []string{"app.sandbox.test"}, &signature.VerifierOptions{Now: now, Replay: signature.NewMemoryReplayStore(100)}))(t)
	d := &datedReceiver{verifier: verifier, status: http.StatusNoContent}
	return d, srv.Handle("app.sandbox.test", d)
}

func TestWithSystemDates_AfterAdvance(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]sandboxfake.Option{"running clock": nil, "frozen clock": {sandboxfake.WithFrozenClock(frozenAt)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t, sandboxfake.New(t, append(opts, sandboxfake.WithInMemory(), sandboxfake.WithSystemDates())...))
				receiver, target := newDatedReceiver(t, a.srv, time.Now)
				advance(t, a.srv, 30*time.Minute)
				receiver.status = http.StatusServiceUnavailable

				a.completeCheck(target + "/callbacks")
				advance(t, a.srv, 5*time.Minute)
				receiver.status = http.StatusNoContent
				noError(t, a.srv.Redeliver(t.Context(), a.srv.Deliveries()[0].ID))
				waitIdle(t, a.srv)

				if len(receiver.rejected) != 0 || len(receiver.dates) != 7 {
					t.Fatalf("%d messages accepted, rejected %v, want six attempts and a redelivery accepted", len(receiver.dates), receiver.rejected)
				}
				for i, date := range receiver.dates {
					if behind := receiver.times[i].Sub(date); behind < 0 || behind >= time.Second {
						t.Errorf("message %d arrived %v after its date, want less than a second", i, behind)
					}
					if i > 0 && !date.After(receiver.dates[i-1]) {
						t.Errorf("message %d has date %v, want it after the previous one: receivers reject equal dates as a replay", i, date)
					}
				}
				// Attempt times use the server's clock.
				attempts := a.srv.Deliveries()[0].Attempts
				if got := attempts[5].Time.Sub(attempts[0].Time); got != 150*time.Second {
					t.Errorf("attempts span %v by the server's clock, want 150 s", got)
				}
			})
		})
	}
}

func TestServer_RedirectAndCallback(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		opts []sandboxfake.Option
		want map[time.Duration]int // messages of three checks, by time after the first
	}{
		{"system's clock", []sandboxfake.Option{sandboxfake.WithSystemDates()}, map[time.Duration]int{0: 3, time.Second: 3}},
		{"server's clock", nil, map[time.Duration]int{0: 6}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t, sandboxfake.New(t, append(row.opts, sandboxfake.WithInMemory())...))
				receiver, target := newDatedReceiver(t, a.srv, time.Now)
				ids := make([]string, 3)
				for i := range ids {
					ids[i] = a.create(phoneChecks02, `{"phone_number":"447700900012","callback_url":"`+target+`","redirect_url":"`+target+`"}`)
				}

				for _, id := range ids {
					visit := must(a.srv.Device().Open(t.Context(), a.srv.URL()+phoneChecks02+"/"+id+"/redirect"))(t)
					a.exchange(phoneChecks02, id, visit.URL.Query().Get("code")).wantStatus(t, http.StatusOK)
				}
				waitIdle(t, a.srv)

				if len(receiver.rejected) != 0 || len(receiver.dates) != 6 {
					t.Fatalf("%d messages accepted, rejected %v, want a redirect and a callback for each check", len(receiver.dates), receiver.rejected)
				}
				// Only messages of the same check wait for each other.
				counts := make(map[time.Duration]int)
				for _, date := range receiver.dates {
					counts[date.Sub(receiver.dates[0])]++
				}
				wantEqual(t, row.want, counts, "messages by time after the first")
			})
		})
	}
}

func TestServer_RedeliverManyTimes(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]sandboxfake.Option{"system's clock": {sandboxfake.WithSystemDates()}, "server's clock": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const again = 100
				a := newAPI(t, sandboxfake.New(t, append(opts, sandboxfake.WithInMemory())...))
				receiver, target := newDatedReceiver(t, a.srv, time.Now)
				a.completeCheck(target)

				for range again {
					noError(t, a.srv.Redeliver(t.Context(), a.srv.Deliveries()[0].ID))
				}
				waitIdle(t, a.srv)

				if len(receiver.rejected) != 0 || len(receiver.dates) != again+1 {
					t.Errorf("%d messages accepted, rejected %v, want %d: messages of one check need different dates", len(receiver.dates), receiver.rejected, again+1)
				}
			})
		})
	}
}

func TestWithFreshKeys_UniquePerServer(t *testing.T) {
	t.Parallel()
	first := newControlAPI(t, sandboxfake.WithFreshKeys(), sandboxfake.WithFrozenClock(frozenAt))
	second := newControlAPI(t, sandboxfake.WithFreshKeys())
	verified := make(chan error, 1)
	target := first.srv.Handle("app.sandbox.test", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := first.srv.Verifier([]string{"app.sandbox.test"}, nil).VerifyCallback(r)
		verified <- err
	}))
	first.completeCheck(target)

	if err := <-verified; err != nil {
		t.Errorf("callback signed with a fresh key: %v", err)
	}
	keyOf := func(a *api) map[string]any {
		return objects(a.get("/.well-known/jwks.json").json["keys"])[0]
	}
	before := keyOf(first)
	if other := keyOf(second); before["n"] == other["n"] || before["kid"] == other["kid"] {
		t.Error("two servers of one seed share a fresh key or its ID, want different ones")
	}
	if first.srv.Credentials().ClientID != second.srv.Credentials().ClientID {
		t.Error("two servers of one seed have different credentials, want the same ones")
	}
	first.srv.RotateKeys()
	first.srv.Reset()
	wantEqual(t, before, keyOf(first), "key after Reset differs from the first one")
}

func TestWithFreshKeys_RotateDuringReset(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFreshKeys())
	done := make(chan struct{})

	go func() {
		defer close(done)
		for range 2 {
			srv.RotateKeys()
		}
	}()
	for range 20 {
		srv.Reset()
	}
	<-done

	if got := (&api{t: t, srv: srv}).get("/.well-known/jwks.json"); got.status != http.StatusOK || len(got.json["keys"].([]any)) == 0 {
		t.Errorf("key set = %d %s, want 200 with keys", got.status, got.body)
	}
}
