package otelidverify_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"

	_ "modernc.org/sqlite" // the driver sqlite

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/otelidverify"
)

func TestObserveInbox_Metrics(t *testing.T) {
	t.Parallel()
	r := newTelemetry()
	observe := otelidverify.ObserveInbox(r.providers()...)

	observe(t.Context(), inbox.Event{Operation: "callback", Outcome: inbox.OutcomeStored, Product: idverify.ProductPhoneCheck, Duration: time.Second})
	observe(t.Context(), inbox.Event{Operation: "callback", Outcome: inbox.OutcomeFailed, Err: errors.New("failed")})
	observe(t.Context(), inbox.Event{Operation: "work", Outcome: inbox.OutcomeFailed, Product: idverify.ProductSIMCheck, Duration: time.Second, Err: errors.New("failed")})
	observe(t.Context(), inbox.Event{Operation: "work", Outcome: inbox.OutcomeDone, Product: idverify.ProductSIMCheck, Duration: time.Second, Lag: 90 * time.Second})

	r.wantSeries(t, []string{
		"idverify.inbox.lag{idverify.product=sim_check} 1",
		"idverify.inbox.operation.duration{idverify.operation=callback,idverify.outcome=failed} 1",
		"idverify.inbox.operation.duration{idverify.operation=callback,idverify.outcome=stored,idverify.product=phone_check} 1",
		"idverify.inbox.operation.duration{idverify.operation=work,idverify.outcome=done,idverify.product=sim_check} 1",
		"idverify.inbox.operation.duration{idverify.operation=work,idverify.outcome=failed,idverify.product=sim_check} 1",
	})
	if diff := cmp.Diff(map[string]float64{"idverify.inbox.lag": 90, "idverify.inbox.operation.duration": 3}, r.sums(t)); diff != "" {
		t.Errorf("sums in seconds (-want +got):\n%s", diff)
	}
}

func TestRegisterInbox_Gauges(t *testing.T) {
	t.Parallel()
	r := newTelemetry()
	start := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	now := start
	db, checks := newInbox(t, &inbox.Options{Now: func() time.Time { return now }})
	registration, err := otelidverify.RegisterInbox(checks, r.providers()...)
	if err != nil {
		t.Fatal(err)
	}
	plan(t, db, checks, "sign-up 1")
	plan(t, db, checks, "sign-up 2")
	result := inbox.Result{Product: idverify.ProductPhoneCheck, CheckID: "check 2", ReferenceID: "sign-up 2", Status: idverify.StatusCompleted, Match: idverify.VerdictYes}
	if _, err := checks.Record(t.Context(), result); err != nil {
		t.Fatal(err)
	}
	now = start.Add(time.Minute)

	got := r.series(t)
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
	unregistered := r.series(t)

	want := []string{
		"idverify.inbox.in_progress{} 1",
		"idverify.inbox.oldest.age{} 60",
		"idverify.inbox.overdue{} 1",
		"idverify.inbox.pending{} 1",
		"idverify.inbox.stopped{} 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if len(unregistered) != 0 {
		t.Errorf("metrics after Unregister = %q, want none", unregistered)
	}
}

// TestRegisterInbox_DatabaseFails is not parallel: it replaces the global error handler.
func TestRegisterInbox_DatabaseFails(t *testing.T) {
	var handled []error
	previous := otel.GetErrorHandler()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { handled = append(handled, err) }))
	defer otel.SetErrorHandler(previous)
	r := newTelemetry()
	db, checks := newInbox(t, nil)
	if _, err := otelidverify.RegisterInbox(checks, r.providers()...); err != nil {
		t.Fatal(err)
	}
	otelidverify.ObserveInbox(r.providers()...)(t.Context(), inbox.Event{Operation: "record", Outcome: inbox.OutcomeStored})
	db.Close()

	got := r.series(t)

	if diff := cmp.Diff([]string{"idverify.inbox.operation.duration{idverify.operation=record,idverify.outcome=stored} 1"}, got); diff != "" {
		t.Errorf("metrics (-want +got): others must be exported\n%s", diff)
	}
	if len(handled) != 1 {
		t.Errorf("handled errors = %q, want one", handled)
	}
}

func TestRegisterInbox_Errors(t *testing.T) {
	t.Parallel()
	_, checks := newInbox(t, nil)

	if registration, err := otelidverify.RegisterInbox(nil); err == nil || registration != nil {
		t.Errorf("without an Inbox: registration = %v, error = %v; want an error", registration, err)
	}
	if registration, err := otelidverify.RegisterInbox(checks, otelidverify.WithMeterProvider(brokenMeters{})); !errors.Is(err, errBroken) || registration != nil {
		t.Errorf("with a broken meter: registration = %v, error = %v; want its error", registration, err)
	}
}

// newInbox returns an Inbox of an empty SQLite database.
func newInbox(t testing.TB, opts *inbox.Options) (*sql.DB, *inbox.Inbox) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "checks.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := inbox.Migrate(t.Context(), db, inbox.SQLite); err != nil {
		t.Fatal(err)
	}
	checks, err := inbox.New(t.Context(), db, inbox.SQLite, opts)
	if err != nil {
		t.Fatal(err)
	}
	return db, checks
}

func plan(t testing.TB, db *sql.DB, checks *inbox.Inbox, reference string) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := checks.Plan(t.Context(), tx, idverify.ProductPhoneCheck, reference); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// observeInbox records all metrics of an Inbox.
func observeInbox(t testing.TB, r *telemetry) {
	t.Helper()
	_, checks := newInbox(t, nil)
	if _, err := otelidverify.RegisterInbox(checks, r.providers()...); err != nil {
		t.Fatal(err)
	}
	otelidverify.ObserveInbox(r.providers()...)(context.Background(), inbox.Event{Operation: "work", Outcome: inbox.OutcomeDone, Product: idverify.ProductPhoneCheck})
}
