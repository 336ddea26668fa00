// Package metrics tests the metrics that module otelidverify makes of the events of module inbox.
// Neither module depends on the other.
package metrics

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	_ "modernc.org/sqlite" // the driver sqlite

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/otelidverify"
)

// TestInbox_Metrics is not parallel: it replaces the global error handler. In the bubble, no time
// passes while RegisterInbox waits for the database, which must not take more than two seconds.
func TestInbox_Metrics(t *testing.T) { synctest.Test(t, testMetrics) }

func testMetrics(t *testing.T) {
	var handled []error
	previous := otel.GetErrorHandler()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { handled = append(handled, err) }))
	defer otel.SetErrorHandler(previous)
	reader := sdkmetric.NewManualReader()
	meters := otelidverify.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	observe := otelidverify.ObserveInbox[inbox.Event](meters)
	now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	ctx, cancel := context.WithCancel(t.Context())
	db, checks := newInbox(t, &inbox.Options{MaxAttempts: 1, Now: func() time.Time { return now }, Observe: func(ctx context.Context, e inbox.Event) {
		observe(ctx, e)
		if e.Outcome == inbox.OutcomeDone {
			cancel()
		}
	}})
	registration := otelidverify.RegisterInbox(checks.Stats, meters)

	for _, reference := range []string{"late", "failing", "good"} {
		plan(t, db, checks, reference)
	}
	record := func(product idverify.Product, reference string) error {
		_, err := checks.Record(t.Context(), inbox.Result{Product: product, CheckID: "check of " + reference, ReferenceID: reference, Status: idverify.StatusCompleted, Match: idverify.VerdictYes})
		return err
	}
	noError(t, errors.Join(record(idverify.ProductPhoneCheck, "failing"), record(idverify.ProductPhoneCheck, "good")))
	if err := record("", "unknown"); err == nil {
		t.Fatal("error = nil, want one: the check is not planned")
	}
	now = now.Add(time.Minute)
	waiting := series(t, reader)
	noError(t, checks.Work(ctx, func(_ context.Context, _ *sql.Tx, e inbox.Entry) error {
		if e.Reference == "failing" {
			now = now.Add(2 * time.Second)
			return errors.New("failed")
		}
		now = now.Add(90 * time.Second)
		return nil
	}))
	worked := series(t, reader)
	db.Close()
	closed := series(t, reader)
	noError(t, registration.Unregister())

	events := []string{
		"idverify.inbox.lag s {idverify.product=phone_check}: 1, sum 152",
		"idverify.inbox.operation.duration s {idverify.operation=record,idverify.outcome=failed}: 1, sum 0",
		"idverify.inbox.operation.duration s {idverify.operation=record,idverify.outcome=stored,idverify.product=phone_check}: 2, sum 0",
		"idverify.inbox.operation.duration s {idverify.operation=work,idverify.outcome=done,idverify.product=phone_check}: 1, sum 90",
		"idverify.inbox.operation.duration s {idverify.operation=work,idverify.outcome=stopped,idverify.product=phone_check}: 1, sum 2",
	}
	if diff := cmp.Diff(sorted([]string{
		"idverify.inbox.in_progress {check} {}: 1",
		"idverify.inbox.oldest.age s {}: 60",
		"idverify.inbox.overdue {check} {}: 1",
		"idverify.inbox.pending {result} {}: 2",
		"idverify.inbox.stopped {result} {}: 0",
	}, events[1:3]), waiting); diff != "" {
		t.Errorf("metrics before Work (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(sorted([]string{
		"idverify.inbox.in_progress {check} {}: 1",
		"idverify.inbox.oldest.age s {}: 0",
		"idverify.inbox.overdue {check} {}: 1",
		"idverify.inbox.pending {result} {}: 0",
		"idverify.inbox.stopped {result} {}: 1",
	}, events), worked); diff != "" {
		t.Errorf("metrics after Work (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(events, closed); diff != "" || len(handled) != 1 {
		t.Errorf("metrics of a closed database (-want +got), and handled errors %q, want one:\n%s", handled, diff)
	}
}

func sorted(lists ...[]string) []string { return slices.Sorted(slices.Values(slices.Concat(lists...))) }

// series returns one sorted line for each time series: metric, unit, attributes, and the count and
// sum of a histogram or the value of a gauge.
func series(t *testing.T, reader sdkmetric.Reader) []string {
	t.Helper()
	var data metricdata.ResourceMetrics
	noError(t, reader.Collect(context.Background(), &data))
	var lines []string
	for _, m := range data.ScopeMetrics[0].Metrics {
		add := func(set attribute.Set, value any) {
			lines = append(lines, fmt.Sprintf("%s %s {%s}: %v", m.Name, m.Unit, set.Encoded(attribute.DefaultEncoder()), value))
		}
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				add(p.Attributes, fmt.Sprint(p.Count, ", sum ", p.Sum))
			}
		case metricdata.Gauge[int64]:
			for _, p := range data.DataPoints {
				add(p.Attributes, p.Value)
			}
		case metricdata.Gauge[float64]:
			for _, p := range data.DataPoints {
				add(p.Attributes, p.Value)
			}
		default:
			t.Fatalf("metric %s has data of type %T", m.Name, m.Data)
		}
	}
	return sorted(lines)
}

// newInbox returns an Inbox of an empty SQLite database.
func newInbox(t *testing.T, opts *inbox.Options) (*sql.DB, *inbox.Inbox) {
	t.Helper()
	db := must(sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "checks.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"))(t)
	t.Cleanup(func() { db.Close() })
	noError(t, inbox.Migrate(t.Context(), db, inbox.SQLite))
	return db, must(inbox.New(t.Context(), db, inbox.SQLite, opts))(t)
}

func plan(t *testing.T, db *sql.DB, checks *inbox.Inbox, reference string) {
	t.Helper()
	tx := must(db.BeginTx(t.Context(), nil))(t)
	defer tx.Rollback()
	noError(t, checks.Plan(t.Context(), tx, idverify.ProductPhoneCheck, reference))
	noError(t, tx.Commit())
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }
