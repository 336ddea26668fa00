package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestRun_PrintsDecisions(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer

	synctest.Test(t, func(t *testing.T) { // whose clock does not advance
		err := run(t.Context(), &out, slog.New(slog.DiscardHandler))

		if err != nil {
			t.Fatal(err)
		}
	})
	want := `PAYOUT         DECISION
unchanged SIM  pay
new SIM        hold
no result      step up
small amount   pay
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestGuard_Decide(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		number string
		fault  sandboxfake.Fault
		want   decision
		level  string
	}{
		{"unchanged SIM", "447700900012", sandboxfake.Fault{}, pay, "INFO"},
		{"changed SIM", "447700900017", sandboxfake.Fault{}, hold, "INFO"},
		{"no result", "447700900099", sandboxfake.Fault{}, stepUp, "INFO"},
		{"unsupported network", "447700900012", sandboxfake.Fault{Status: 400, Code: "mno_not_supported"}, stepUp, "INFO"},
		{"invalid phone number", "12", sandboxfake.Fault{}, stepUp, "INFO"},
		{"insufficient balance", "447700900012", sandboxfake.Fault{Status: 402}, stepUp, "ERROR"},
		{"service unavailable", "447700900012", sandboxfake.Fault{Status: 503}, stepUp, "WARN"},
		{"connection lost", "447700900012", sandboxfake.Fault{Drop: true}, stepUp, "WARN"},
		{"truncated response", "447700900012", sandboxfake.Fault{Truncate: true}, stepUp, "WARN"},
		{"malformed response", "447700900012", sandboxfake.Fault{Body: "<html>"}, stepUp, "WARN"},
		{"response without no_sim_change", "447700900012", sandboxfake.Fault{Body: `{"check_id":"1","status":"COMPLETED"}`}, stepUp, "INFO"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				service := sandboxfake.New(t, sandboxfake.WithInMemory())
				service.Inject(sandboxfake.Match{Operation: "sim_check.create"}, row.fault)
				var log bytes.Buffer
				g := &guard{client: service.Client(), log: slog.New(slog.NewTextHandler(&log, nil))}

				got, err := g.decide(t.Context(), payout{ID: "payout 1", Cents: smallAmount, PhoneNumber: row.number})

				if err != nil || got != row.want {
					t.Errorf("decide = %q, %v, want %q", got, err, row.want)
				}
				if !strings.Contains(log.String(), "level="+row.level) || strings.Count(log.String(), "\n") != 1 {
					t.Errorf("log = %[2]q, want one line with level %[1]s", row.level, log.String())
				}
				if strings.Contains(log.String(), "447700900") {
					t.Errorf("the log contains the phone number: %q", log.String())
				}
			})
		})
	}
}

func TestGuard_DecideTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := sandboxfake.New(t, sandboxfake.WithInMemory())
		service.Inject(sandboxfake.Match{Operation: "sim_check.create"}, sandboxfake.Fault{Latency: time.Minute})
		g := &guard{client: service.Client(), log: slog.New(slog.DiscardHandler)}
		start := time.Now()

		got, err := g.decide(t.Context(), payout{ID: "payout 1", Cents: smallAmount, PhoneNumber: "447700900012"})

		if err != nil || got != stepUp {
			t.Errorf("decide = %q, %v, want %q", got, err, stepUp)
		}
		if waited := time.Since(start); waited != timeout {
			t.Errorf("decide took %s, want %s", waited, timeout)
		}
	})
}

func TestGuard_DecideCanceledContext(t *testing.T) {
	t.Parallel()
	service := sandboxfake.New(t, sandboxfake.WithInMemory())
	g := &guard{client: service.Client(), log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	got, err := g.decide(ctx, payout{ID: "payout 1", Cents: smallAmount, PhoneNumber: "447700900012"})

	if got != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("decide = %q, %v, want no decision and context.Canceled", got, err)
	}
}

func TestEvaluate_UnknownStatus(t *testing.T) {
	t.Parallel()

	got := evaluate(&idverify.SIMCheck{Status: "REVIEWED"})

	if got != stepUp {
		t.Errorf("evaluate = %q, want %q: only COMPLETED has a result", got, stepUp)
	}
}
