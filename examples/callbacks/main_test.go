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

func TestTheProgramShowsAVerdictForEachCheck(t *testing.T) {
	t.Parallel()
	var out, log bytes.Buffer

	err := run(t.Context(), &out, slog.New(slog.NewTextHandler(&log, nil)))

	if err != nil {
		t.Fatal(err)
	}
	want := `customer 12: verified
customer 13: not verified: the number is another phone's
customer 99: the network gave no answer (mno_server_error): verify in another way
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	for _, line := range []string{`outcome="stored before"`, "signature does not verify"} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log does not say %q:\n%s", line, log.String())
		}
	}
}

func TestEveryEndOfACheckIsWorkedOffOnce(t *testing.T) {
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
		"447700900013: not verified: the number is another phone's",
		"447700900055: the network gave no answer (mno_server_error): verify in another way",
		"447700900014: the Check URL was not opened in time: offer another try",
	}
	if diff := cmp.Diff(want, s.drain(t, len(want))); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
}

func TestACallbackThatCannotBeStoredComesAgain(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.failures = 2
	s.start(t, "447700900012", true)

	s.advance(t, time.Minute)

	if diff := cmp.Diff([]string{"447700900012: verified"}, s.drain(t, 1)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if got := statuses(s.service.Deliveries()[0]); !slices.Equal(got, []int{500, 500, 204}) {
		t.Errorf("the service was answered %v, want 500, 500, 204", got)
	}
}

func TestACallbackThatCannotBeJudgedComesAgain(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.service.Inject(sandboxfake.Match{Operation: "jwks.get"}, sandboxfake.Fault{Status: 503})
	s.start(t, "447700900012", true)

	s.advance(t, time.Minute)

	got := statuses(s.service.Deliveries()[0])
	if got[0] != http.StatusServiceUnavailable || got[len(got)-1] != http.StatusNoContent {
		t.Errorf("the service was answered %v, want 503 while its keys are out of reach, and 204 in the end", got)
	}
}

func TestAForgedCallbackIsRefusedAndLogged(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.service.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{WrongKey: true})

	s.start(t, "447700900012", true)

	if got := statuses(s.service.Deliveries()[0]); !slices.Equal(got, []int{400}) {
		t.Errorf("the sender was answered %v, want 400", got)
	}
	if _, ok := s.checks.next(); ok {
		t.Error("a forged callback is stored")
	}
	if !strings.Contains(s.log.String(), "callback rejected") {
		t.Errorf("the log does not say why it was refused:\n%s", s.log.String())
	}
}

// shop is a backend with the receiver, on a fake with a frozen clock.
type shop struct {
	service     *sandboxfake.Server
	client      *idverify.Client
	checks      *checks
	callbackURL string
	log         syncBuffer
	failures    int // of the store, before it works
}

func newShop(t *testing.T) *shop {
	service := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	s := &shop{service: service, client: service.Client(), checks: newChecks()}
	s.callbackURL = service.Handle(host, &receiver{
		verifier: service.Verifier(host),
		log:      slog.New(slog.NewTextHandler(&s.log, nil)),
		store: func(ctx context.Context, c *idverify.Callback) (outcome, error) {
			if s.failures > 0 {
				s.failures--
				return "", errors.New("the database is away")
			}
			return s.checks.put(ctx, c)
		},
	}) + "/callbacks"
	return s
}

// start creates and stores a PhoneCheck for the customer of that name, has a phone open its Check URL or not, and waits for the callback's first try.
func (s *shop) start(t *testing.T, number string, open bool) {
	t.Helper()
	check := s.create(t, s.client, number, "")
	s.add(t, check.CheckID, number)
	if open {
		s.open(t, check)
	}
}

// create has a client, not necessarily ours, create a PhoneCheck whose callback goes to the shop.
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

// open has a phone open the Check URL, and waits for the callback's first try.
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

// workOff returns the verdicts of n callbacks and makes sure that no more wait.
func (s *shop) drain(t *testing.T, n int) []string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var results []string
	if _, ok := s.checks.next(); !ok {
		t.Fatal("nothing waits: a callback was lost")
	}
	work(ctx, s.checks, slog.New(slog.DiscardHandler), func(_ context.Context, customer string, c *idverify.Callback) error {
		if results = append(results, customer+": "+describe(c)); len(results) == n {
			stop()
		}
		return nil
	})
	if left, ok := s.checks.next(); ok {
		t.Errorf("a callback still waits, status %s: it was stored twice, or is not ours", left.callback.Status)
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

// syncBuffer is a bytes.Buffer for several goroutines.
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
