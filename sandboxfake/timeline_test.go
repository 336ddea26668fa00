package sandboxfake_test

import (
	"flag"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// failedTest is a test that has failed, for a server. end runs its cleanup functions.
type failedTest struct {
	testing.TB
	passed   bool
	dir      string
	log      strings.Builder
	cleanups []func()
}

func newFailedTest(t *testing.T) *failedTest {
	f := &failedTest{TB: t, dir: t.TempDir()}
	t.Cleanup(func() { f.end() }) // if t fails earlier
	return f
}

func (f *failedTest) Helper()             {}
func (f *failedTest) Cleanup(do func())   { f.cleanups = append(f.cleanups, do) }
func (f *failedTest) Failed() bool        { return !f.passed }
func (f *failedTest) ArtifactDir() string { return f.dir }
func (f *failedTest) Logf(format string, args ...any) {
	fmt.Fprintf(&f.log, format+"\n", args...)
}

func (f *failedTest) end() string {
	for _, do := range f.cleanups {
		do()
	}
	f.cleanups = nil
	return f.log.String()
}

func TestNew_TimelineText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		test := newFailedTest(t)
		useServer(t, sandboxfake.New(test, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt)))

		got := test.end()

		const want = `sandboxfake: 24 events:
  clock real
    +0s   0s  token.create             200  scope phone_check
    +0s   0s  phone_check.create       201  96da897a created, number …12
    +0s   0s  phone_check.open         302  96da897a opened
    +0s   0s  check 96da897a                redirected to https://shop.sandbox.test/back
    +0s   0s  phone_check.complete     200  96da897a exchanged, completed: match, callback queued
    +0s   0s  clock advances           5s
    +0s 20ms  callback attempt 1       503  failed in 20ms, next after 10s; 96da897a COMPLETED
    +5s 20ms  faults injected          2    phone_check.get, repeated: 502; none
    +5s 20ms  faults removed                phone_check.get, repeated: 502; none
    +5s 20ms  faults injected          3    callback: connection dropped; 2 times signed with a wrong key
    +5s 20ms  token.create             200  scope phone_check
    +5s 20ms  phone_check.create       201  66ca9426 created, number …99
    +5s 20ms  phone_check.open         200  66ca9426 opened, failed: mno_server_error, callback queued
    +5s 20ms  callback attempt 1       –    unreachable in 0s; 66ca9426 ERROR; injected: connection dropped
    +5s 20ms  phone_check.create       201  73508084 created, number …13
    +5s 20ms  check 73508084                expired, callback queued
    +5s 20ms  callback attempt 1       200  acknowledged in 0s; 73508084 EXPIRED; injected: signed with a wro…
    +5s 20ms  token.create             200  scope sim_check
    +5s 20ms  sim_check.create         201  b04e5343 created, number …16, completed: SIM change
    +5s 20ms  token.create             200  scope subscriber_check
    +5s 20ms  subscriber_check.create  201  625505dc created, number …16
    +5s 20ms  subscriber_check.open    200  625505dc opened, completed: match, SIM change, no callback URL
   +10s  due  callback attempt 2            in 5s; 96da897a COMPLETED
         due  faults not used          1    callback: signed with a wrong key
`
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

// useServer causes events of most kinds. The first attempt of the first callback fails.
func useServer(t *testing.T, srv *sandboxfake.Server) {
	t.Helper()
	statuses := []int{http.StatusServiceUnavailable}
	url := srv.Handle("shop.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/callbacks" && len(statuses) > 0 {
			time.Sleep(20 * time.Millisecond)
			w.WriteHeader(statuses[0])
			statuses = statuses[1:]
		}
	}))
	client := srv.Client(idverify.WithVersions(idverify.Versions{PhoneCheck: "v0.2"}))
	check := createCheck(t, client, "447700900012", url+"/callbacks", url+"/back")
	if _, err := client.PhoneChecks.Complete(t.Context(), check.CheckID, openIdle(t, srv, check.CheckURL)); err != nil {
		t.Fatal(err)
	}
	if err := srv.Advance(t.Context(), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	srv.Inject(sandboxfake.Match{Operation: "phone_check.get", Repeat: true}, sandboxfake.Fault{Status: 502}, sandboxfake.Fault{})()
	srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, sandboxfake.Fault{Drop: true}, sandboxfake.Fault{WrongKey: true}, sandboxfake.Fault{WrongKey: true})
	client = srv.Client()
	openIdle(t, srv, createCheck(t, client, "447700900099", url+"/callbacks", "").CheckURL)
	srv.Expire(createCheck(t, client, "447700900013", url+"/callbacks", "").CheckID)
	if err := srv.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: "447700900016"}); err != nil {
		t.Fatal(err)
	}
	subscriber, err := client.SubscriberChecks.Create(t.Context(), idverify.SubscriberCheckParams{PhoneNumber: "447700900016"})
	if err != nil {
		t.Fatal(err)
	}
	openIdle(t, srv, subscriber.CheckURL)
}

func createCheck(t *testing.T, client *idverify.Client, number, callbackURL, redirectURL string) *idverify.PhoneCheck {
	t.Helper()
	check, err := client.PhoneChecks.Create(t.Context(), idverify.PhoneCheckParams{PhoneNumber: number, CallbackURL: callbackURL, RedirectURL: redirectURL})
	if err != nil {
		t.Fatal(err)
	}
	return check
}

// openIdle opens a Check URL, awaits its callback, and returns the code of the redirect, if any.
func openIdle(t *testing.T, srv *sandboxfake.Server, url string) (code string) {
	t.Helper()
	visit, err := srv.Device().Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	return visit.URL.Query().Get("code")
}

// The receiver rejects the callback. After an injected fault, the cause is known.
func TestNew_TimelineOfRejectedCallback(t *testing.T) {
	t.Parallel()
	for _, fault := range []sandboxfake.Fault{{}, {WrongKey: true}} {
		test := newFailedTest(t)
		srv := sandboxfake.New(test, sandboxfake.WithInMemory())
		url := srv.Handle("shop.sandbox.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
		}))
		srv.Inject(sandboxfake.Match{Operation: sandboxfake.OperationCallback}, fault)
		openIdle(t, srv, createCheck(t, srv.Client(), "447700900012", url, "").CheckURL)

		log := test.end()

		if !strings.Contains(log, "400  rejected in ") || strings.Contains(log, "; cause: see VerifierOptions.Logger\n") == fault.WrongKey {
			t.Errorf("fault %+v: log = %s, want the hint only without a fault", fault, log)
		}
	}
}

var (
	durations = regexp.MustCompile(`\b[\d.]+m?s\b`)
	spaces    = regexp.MustCompile(` +`)
)

// setArtifacts sets the flag -artifacts until the test ends.
func setArtifacts(t *testing.T) {
	t.Helper()
	artifacts := flag.Lookup("test.artifacts").Value
	before := artifacts.String()
	t.Cleanup(func() { _ = artifacts.Set(before) })
	if err := artifacts.Set("true"); err != nil {
		t.Fatal(err)
	}
}
