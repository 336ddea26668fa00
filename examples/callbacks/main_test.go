package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestRun_PrintsResults(t *testing.T) {
	t.Parallel()
	var out, log bytes.Buffer

	err := run(t.Context(), &out, slog.New(slog.NewTextHandler(&log, nil)))

	if err != nil {
		t.Fatal(err)
	}
	want := `customer 12: verified
customer 13: not verified: another phone has this number
customer 99: no result from the mobile network (mno_server_error): verify in another way
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	for _, line := range []string{`outcome=duplicate`, "signature does not verify"} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("log does not contain %q:\n%s", line, log.String())
		}
	}
}

func TestReceiver_StoresEachResultOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.start(t, "447700900012", true)
	s.start(t, "447700900013", true)
	s.start(t, "447700900055", true)
	s.start(t, "447700900014", false)

	s.advance(t, 3*time.Minute)
	for _, d := range s.service.Deliveries() {
		if err := s.service.Redeliver(t.Context(), d.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.service.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}

	want := []string{
		"447700900012: verified",
		"447700900013: not verified: another phone has this number",
		"447700900055: no result from the mobile network (mno_server_error): verify in another way",
		"447700900014: the Check URL was not opened in time: offer a new check",
	}
	if diff := cmp.Diff(want, s.drain(t, len(want))); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestReceiver_StoreFails(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.failures = 2
	s.start(t, "447700900012", true)

	s.advance(t, time.Minute)

	if diff := cmp.Diff([]string{"447700900012: verified"}, s.drain(t, 1)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if got := statuses(s.service.Deliveries()[0]); !slices.Equal(got, []int{500, 500, 204}) {
		t.Errorf("statuses = %v, want 500, 500, 204", got)
	}
}

func TestReceiver_KeySetUnavailable(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.service.Inject(sandboxfake.Match{Operation: "jwks.get"}, sandboxfake.Fault{Status: 503})
	s.start(t, "447700900012", true)

	s.advance(t, time.Minute)

	got := statuses(s.service.Deliveries()[0])
	if got[0] != http.StatusServiceUnavailable || got[len(got)-1] != http.StatusNoContent {
		t.Errorf("statuses = %v, want 503 while the key set is unavailable, then 204", got)
	}
}

func TestReceiver_RejectsForgedCallback(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.service.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{WrongKey: true})

	s.start(t, "447700900012", true)

	if got := statuses(s.service.Deliveries()[0]); !slices.Equal(got, []int{400}) {
		t.Errorf("statuses = %v, want 400", got)
	}
	if _, ok := s.checks.next(); ok {
		t.Error("a forged callback was stored")
	}
	if !strings.Contains(s.log.String(), "callback rejected") {
		t.Errorf("log does not contain the reason:\n%s", s.log.String())
	}
}

// shop is a backend with a receiver, and a fake with a frozen clock.
type shop struct {
	service     *sandboxfake.Server
	client      *idverify.Client
	checks      *checks
	callbackURL string
	log         syncBuffer
	failures    int // how many calls of store fail
}

func newShop(t *testing.T) *shop {
	service := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	s := &shop{service: service, client: service.Client(), checks: newChecks()}
	s.callbackURL = service.Handle(host, &receiver{
		verifier: service.Verifier([]string{host}, nil),
		log:      slog.New(slog.NewTextHandler(&s.log, nil)),
		store: func(ctx context.Context, c *idverify.Callback) (outcome, error) {
			if s.failures > 0 {
				s.failures--
				return "", errors.New("database unavailable")
			}
			return s.checks.put(ctx, c)
		},
	}) + "/callbacks"
	return s
}

// start creates and stores a PhoneCheck whose customer is its number. If open is set, it opens the
// Check URL.
func (s *shop) start(t *testing.T, number string, open bool) {
	t.Helper()
	check := s.create(t, s.client, number, "")
	s.add(t, check.CheckID, number)
	if open {
		s.open(t, check)
	}
}

// create creates a PhoneCheck with any client's credentials. Its callback URL is the shop's.
func (s *shop) create(t *testing.T, client *idverify.Client, number, reference string) *idverify.PhoneCheck {
	t.Helper()
	check, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: number, ReferenceID: reference, CallbackURL: s.callbackURL})
	if err != nil {
		t.Fatal(err)
	}
	return check
}

func (s *shop) add(t *testing.T, checkID, customer string) {
	t.Helper()
	if err := s.checks.add(t.Context(), checkID, idverify.ProductPhoneCheck, customer); err != nil {
		t.Fatal(err)
	}
}

// open opens the Check URL on a phone and waits for the first delivery attempt.
func (s *shop) open(t *testing.T, check *idverify.PhoneCheck) {
	t.Helper()
	if _, err := s.service.Device().Open(t.Context(), check.CheckURL); err != nil {
		t.Fatal(err)
	}
	if err := s.service.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (s *shop) advance(t *testing.T, d time.Duration) {
	t.Helper()
	if err := s.service.Advance(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// drain processes n callbacks and returns their results. No other callback may be pending.
func (s *shop) drain(t *testing.T, n int) []string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var results []string
	if _, ok := s.checks.next(); !ok {
		t.Fatal("no callback is pending: it was lost")
	}
	work(ctx, s.checks, slog.New(slog.DiscardHandler), func(_ context.Context, customer string, c *idverify.Callback) error {
		if results = append(results, customer+": "+describe(c)); len(results) == n {
			stop()
		}
		return nil
	})
	if left, ok := s.checks.next(); ok {
		t.Errorf("another callback is pending, status %s: a duplicate, or of an unknown check", left.callback.Status)
	}
	return results
}

func statuses(d sandboxfake.Delivery) []int {
	var got []int
	for _, a := range d.Attempts {
		got = append(got, a.Status)
	}
	return got
}

// syncBuffer is a bytes.Buffer that is safe for concurrent use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
