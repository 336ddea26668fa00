package sandboxfake_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
	"github.com/idverify/idverify-go/signature"
)

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
	keys, err := signature.NewJWKS(srv.URL()+"/.well-known/jwks.json", &signature.JWKSOptions{HTTPClient: srv.HTTPClient()})
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signature.NewVerifier(keys, []string{"app.sandbox.test"}, &signature.VerifierOptions{Now: now, Replay: signature.NewMemoryReplayStore(100)})
	if err != nil {
		t.Fatal(err)
	}
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
				if err := a.srv.Advance(t.Context(), 30*time.Minute); err != nil {
					t.Fatal(err)
				}
				receiver.status = http.StatusServiceUnavailable

				a.completeCheck(target + "/callbacks")
				if err := a.srv.Advance(t.Context(), 5*time.Minute); err != nil {
					t.Fatal(err)
				}
				receiver.status = http.StatusNoContent
				if err := a.srv.Redeliver(t.Context(), a.srv.Deliveries()[0].ID); err != nil {
					t.Fatal(err)
				}
				if err := a.srv.Idle(t.Context()); err != nil {
					t.Fatal(err)
				}

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
					visit, err := a.srv.Device().Open(t.Context(), a.srv.URL()+phoneChecks02+"/"+id+"/redirect")
					if err != nil {
						t.Fatal(err)
					}
					code := visit.URL.Query().Get("code")
					if got := a.call(http.MethodPatch, phoneChecks02+"/"+id, `[{"op":"add","path":"/code","value":"`+code+`"}]`); got.status != http.StatusOK {
						t.Fatalf("exchange: %d %s", got.status, got.body)
					}
				}
				if err := a.srv.Idle(t.Context()); err != nil {
					t.Fatal(err)
				}

				if len(receiver.rejected) != 0 || len(receiver.dates) != 6 {
					t.Fatalf("%d messages accepted, rejected %v, want a redirect and a callback for each check", len(receiver.dates), receiver.rejected)
				}
				// Only messages of the same check wait for each other.
				counts := make(map[time.Duration]int)
				for _, date := range receiver.dates {
					counts[date.Sub(receiver.dates[0])]++
				}
				if diff := cmp.Diff(row.want, counts); diff != "" {
					t.Errorf("messages by time after the first (-want +got):\n%s", diff)
				}
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
					if err := a.srv.Redeliver(t.Context(), a.srv.Deliveries()[0].ID); err != nil {
						t.Fatal(err)
					}
				}
				if err := a.srv.Idle(t.Context()); err != nil {
					t.Fatal(err)
				}

				if len(receiver.rejected) != 0 || len(receiver.dates) != again+1 {
					t.Errorf("%d messages accepted, rejected %v, want %d: messages of one check need different dates", len(receiver.dates), receiver.rejected, again+1)
				}
			})
		})
	}
}

func TestServer_SignatureDatesUseServerClock(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory()))
	receiver, target := newDatedReceiver(t, a.srv, a.srv.Now)
	if err := a.srv.Advance(t.Context(), 30*time.Minute); err != nil {
		t.Fatal(err)
	}

	a.completeCheck(target)
	if err := a.srv.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}

	if len(receiver.dates) != 1 || len(receiver.rejected) != 0 {
		t.Errorf("accepted %v, rejected %v, want one message with the server's date", receiver.dates, receiver.rejected)
	}
}

func TestServer_ControlDates(t *testing.T) {
	t.Parallel()
	a := newControlAPI(t, sandboxfake.WithFrozenClock(frozenAt))
	receiver, target := newDatedReceiver(t, a.srv, a.srv.Now)
	receiver.verifier = a.srv.Verifier([]string{"app.sandbox.test"}, nil) // uses the selected clock
	date := func() string {
		t.Helper()
		a.completeCheck(target)
		if err := a.srv.Idle(t.Context()); err != nil {
			t.Fatal(err)
		}
		deliveries := a.srv.Deliveries()
		return deliveries[len(deliveries)-1].Attempts[0].Header.Get("Date")
	}
	frozen := frozenAt.Format(http.TimeFormat)

	byDefault := a.control(http.MethodGet, "dates", "").json["clock"]
	own := date()
	chosen := a.control(http.MethodPost, "dates", `{"clock":"system"}`)
	system := date()
	shown := a.control(http.MethodGet, "dates", "").json["clock"]
	unknown := a.control(http.MethodPost, "dates", `{"clock":"utc"}`)
	a.control(http.MethodPost, "reset", "")
	a.token = a.tokenFor(a.srv.Credentials(), "phone_check")
	after := date()

	if byDefault != "sandbox" || own != frozen {
		t.Errorf("default clock = %v with date %q, want the frozen clock", byDefault, own)
	}
	if chosen.status != http.StatusNoContent || shown != "system" || system == frozen {
		t.Errorf("after selecting the system clock (%d): clock = %v with date %q, want the system's clock", chosen.status, shown, system)
	}
	unknown.wantProblem(t, http.StatusBadRequest, "bad_request")
	if len(receiver.rejected) != 0 {
		t.Errorf("the server's verifier rejected %v", receiver.rejected)
	}
	if after != frozen {
		t.Errorf("date after a reset = %q, want the frozen clock's", after)
	}
}
