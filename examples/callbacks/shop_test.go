package main

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/sandboxfake"
)

// shop is a fake with a frozen clock, and a database file for the backends of a test.
type shop struct {
	service *sandboxfake.Server
	file    string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	service := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	return &shop{service: service, file: filepath.Join(t.TempDir(), "shop.db")}
}

// running is a backend that receives callbacks.
type running struct {
	*backend
	work func() // starts the processing of results
	stop func()
}

// start starts a backend, which stops at the end of the test at the latest.
func (s *shop) start(t *testing.T) *running {
	t.Helper()
	db := must(openDB(t.Context(), s.file))(t)
	b := must(newBackend(t.Context(), db, s.service.Client(), &inbox.Options{Now: s.service.Now}))(t)
	s.service.Handle(host, b.handler(s.service.Verifier([]string{host}, nil)))
	stopWork := func() {}
	r := &running{backend: b}
	r.work = func() { stopWork = b.checks.Start(t.Context(), b.client, finish) }
	r.stop = func() {
		stopWork()
		db.Close()
	}
	t.Cleanup(r.stop)
	return r
}

func (r *running) mustSignUp(t *testing.T, number string) (reference, checkURL string) {
	t.Helper()
	reference, checkURL, err := r.signUp(t.Context(), "customer", number)
	if err != nil {
		t.Fatal(err)
	}
	return reference, checkURL
}

// await returns the result of a sign-up when it is processed.
func (r *running) await(t *testing.T, reference string) string {
	t.Helper()
	return must(await(t.Context(), r.backend, reference))(t)
}

func (r *running) entry(t *testing.T, reference string) *inbox.Entry {
	t.Helper()
	return must(r.checks.Get(t.Context(), reference))(t)
}

// open opens the Check URL on a phone and waits for the first delivery attempt.
func (s *shop) open(t *testing.T, checkURL string) {
	t.Helper()
	must(s.service.Device().Open(t.Context(), checkURL))(t)
	noError(t, s.service.WaitIdle(t.Context()))
}

func (s *shop) advance(t *testing.T, d time.Duration) {
	t.Helper()
	noError(t, s.service.Advance(t.Context(), d))
}

// statuses returns the responses to the first delivery.
func (s *shop) statuses() []int {
	var statuses []int
	for _, a := range s.service.Deliveries()[0].Attempts {
		statuses = append(statuses, a.Status)
	}
	return statuses
}

// opener is a transport that opens the Check URL of each new check before it returns the response,
// as a device that is faster than the backend.
type opener struct {
	t    *testing.T
	shop *shop
}

func (o opener) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := o.shop.service.HTTPClient().Transport.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusCreated {
		return response, err
	}
	for check, err := range o.shop.service.Client().PhoneChecks.All(o.t.Context(), idverify.ListOptions{}) {
		if err != nil {
			return nil, err
		}
		o.shop.open(o.t, check.CheckURL)
	}
	return response, nil
}
