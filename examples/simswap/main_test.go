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

func TestTheProgramShowsADecisionForEachPayout(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer

	err := run(t.Context(), &out, slog.New(slog.DiscardHandler))

	if err != nil {
		t.Fatal(err)
	}
	want := `PAYOUT        DECISION
old SIM       pay
new SIM       hold
no answer     step up
small amount  pay
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestOnlyAClearAnswerDecides(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		number string
		fault  sandboxfake.Fault
		want   decision
		level  string
	}{
		{"the SIM is the old one", "447700900012", sandboxfake.Fault{}, pay, "INFO"},
		{"the SIM was changed", "447700900017", sandboxfake.Fault{}, hold, "INFO"},
		{"the network gave no answer", "447700900099", sandboxfake.Fault{}, stepUp, "INFO"},
		{"the network is not supported", "447700900012", sandboxfake.Fault{Status: 400, Fragment: "mno_not_supported"}, stepUp, "INFO"},
		{"no phone number", "12", sandboxfake.Fault{}, stepUp, "INFO"},
		{"the balance is used up", "447700900012", sandboxfake.Fault{Status: 402}, stepUp, "ERROR"},
		{"the service is out of order", "447700900012", sandboxfake.Fault{Status: 503}, stepUp, "WARN"},
		{"the answer is lost", "447700900012", sandboxfake.Fault{Drop: true}, stepUp, "WARN"},
		{"the answer is cut off", "447700900012", sandboxfake.Fault{Truncate: true}, stepUp, "WARN"},
		{"the answer is not the service's", "447700900012", sandboxfake.Fault{Body: "<html>"}, stepUp, "WARN"},
		{"the answer says nothing of the SIM", "447700900012", sandboxfake.Fault{Body: `{"check_id":"1","status":"COMPLETED"}`}, stepUp, "INFO"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			service := sandboxfake.New(t, sandboxfake.WithInMemory())
			service.Inject(sandboxfake.Match{Operation: "sim_check.create"}, row.fault)
			var log bytes.Buffer
			g := &guard{client: service.Client(), log: slog.New(slog.NewTextHandler(&log, nil))}

			got, err := g.decide(t.Context(), payout{ID: "payout 1", Cents: smallAmount, PhoneNumber: row.number})

			if err != nil || got != row.want {
				t.Errorf("decide = %q, %v, want %q", got, err, row.want)
			}
			if !strings.Contains(log.String(), "level="+row.level) || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("want one line of level %s, got %q", row.level, log.String())
			}
			if strings.Contains(log.String(), "447700900") {
				t.Errorf("the log holds the phone number: %q", log.String())
			}
		})
	}
}

func TestASlowNetworkDoesNotKeepTheCustomerWaiting(t *testing.T) {
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
			t.Errorf("the customer waited %s, want %s", waited, timeout)
		}
	})
}

func TestACallerWhoLeavesGetsNoDecision(t *testing.T) {
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

func TestAStatusThatIsNotKnownIsNoYes(t *testing.T) {
	t.Parallel()

	got := evaluate(&idverify.SIMCheck{Status: "REVIEWED", NoSIMChange: new(true)})

	if got != stepUp {
		t.Errorf("judge = %q, want %q: only COMPLETED is an answer", got, stepUp)
	}
}
