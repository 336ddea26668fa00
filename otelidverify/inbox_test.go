package otelidverify_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/otelidverify"
)

// attrs is a type like inbox.Event and inbox.Stats. internal/e2e/metrics has the tests with those.
type attrs []slog.Attr

func (a attrs) LogValue() slog.Value { return slog.GroupValue(a...) }

var (
	done  = attrs{slog.String("operation", "work"), slog.String("outcome", "done"), slog.String("product", "phone_check"), slog.Duration("duration", time.Second), slog.Duration("lag", time.Minute)}
	stats = attrs{slog.Int("pending", 1), slog.Duration("oldest_age", time.Minute), slog.Int("stopped", 2), slog.Int("in_progress", 3), slog.Int("overdue", 4)}
)

// observeInbox records all metrics of an Inbox.
func observeInbox(t testing.TB, r *telemetry) {
	t.Helper()
	otelidverify.ObserveInbox[attrs](r.providers()...)(t.Context(), done)
	otelidverify.RegisterInbox(func(context.Context) (attrs, error) { return stats, nil }, r.providers()...)
}

// TestObserveInbox_Versions observes values of versions of module inbox that have more or fewer
// attributes, or attributes of other kinds.
func TestObserveInbox_Versions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		event, stats slog.LogValuer
		want         []string
	}{
		"all": {done, stats, []string{
			"idverify.inbox.in_progress{} 3",
			"idverify.inbox.lag{idverify.product=phone_check} 1",
			"idverify.inbox.oldest.age{} 60",
			"idverify.inbox.operation.duration{idverify.operation=work,idverify.outcome=done,idverify.product=phone_check} 1",
			"idverify.inbox.overdue{} 4",
			"idverify.inbox.pending{} 1",
			"idverify.inbox.stopped{} 2",
		}},
		"more": {
			attrs{slog.String("operation", "record"), slog.Int("table", 1), slog.Duration("duration", 0)},
			attrs{slog.Int("lost", 1), slog.Int("stopped", 0)},
			[]string{"idverify.inbox.operation.duration{idverify.operation=record} 1", "idverify.inbox.stopped{} 0"},
		},
		"none":        {attrs{}, attrs{}, nil},
		"other kinds": {attrs{slog.Int("operation", 1), slog.String("duration", "1s"), slog.Float64("lag", 1)}, attrs{slog.String("pending", "1"), slog.Int("oldest_age", 1)}, nil},
		"no group":    {text("done"), text("stats"), nil},
		"nil":         {nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTelemetry()
			registration := otelidverify.RegisterInbox(func(context.Context) (slog.LogValuer, error) { return test.stats, nil }, r.providers()...)

			otelidverify.ObserveInbox[slog.LogValuer](r.providers()...)(t.Context(), test.event)

			r.wantSeries(t, test.want)
			if err := registration.Unregister(); err != nil {
				t.Error(err)
			}
			for _, metric := range r.series(t) {
				if !strings.Contains(metric, ".operation.duration{") && !strings.Contains(metric, ".lag{") {
					t.Errorf("metric after Unregister = %s, want only those of ObserveInbox", metric)
				}
			}
		})
	}
}

// text is a slog.LogValuer whose value is not a group.
type text string

func (s text) LogValue() slog.Value { return slog.StringValue(string(s)) }

func TestRegisterInbox_Timeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTelemetry()
		var left time.Duration
		slow := func(ctx context.Context) (attrs, error) {
			deadline, _ := ctx.Deadline()
			left = time.Until(deadline)
			return stats, nil
		}
		otelidverify.RegisterInbox(slow, r.providers()...)

		r.series(t)

		if left != 2*time.Second {
			t.Errorf("time for reading the database = %v, want two seconds", left)
		}
	})
}

// TestRegisterInbox_DatabaseFails is not parallel: it replaces the global error handler.
func TestRegisterInbox_DatabaseFails(t *testing.T) {
	var handled []error
	previous := otel.GetErrorHandler()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { handled = append(handled, err) }))
	defer otel.SetErrorHandler(previous)
	r := newTelemetry()
	errDatabase := errors.New("database is closed")
	otelidverify.RegisterInbox(func(context.Context) (attrs, error) { return stats, errDatabase }, r.providers()...)
	otelidverify.ObserveInbox[attrs](r.providers()...)(t.Context(), attrs{slog.String("operation", "record"), slog.Duration("duration", time.Second)})

	r.wantSeries(t, []string{"idverify.inbox.operation.duration{idverify.operation=record} 1"}) // despite the error
	if len(handled) != 1 || !errors.Is(handled[0], errDatabase) {
		t.Errorf("handled errors = %q, want that of the database", handled)
	}
}
