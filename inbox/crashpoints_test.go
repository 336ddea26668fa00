package inbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/inbox"
	"github.com/idverify/idverify-go/sandboxfake"
)

// operation is an operation of package inbox whose steps fail in turn.
type operation struct {
	name     string
	onResult bool // OnResult processes the results, instead of Work
	attempts int  // MaxAttempts

	arrange func(*point, *testing.T)
	act     func(*point, *testing.T) error // its steps fail
	recover func(*point, *testing.T)       // as a user recovers
	verify  func(*point, *testing.T)
}

// TestCrashPoints makes each statement, each begin and each commit of each operation fail once, in
// every way of faults. The n-th run makes the n-th step fail, until a run has fewer steps. A new
// statement is therefore tested without a change here.
func TestCrashPoints(t *testing.T) {
	t.Parallel()
	for _, d := range databases {
		for _, op := range slices.Concat(storeOperations, createOperations, handlerOperations, workOperations, reconcileOperations) {
			t.Run(d.name+"/"+op.name, func(t *testing.T) {
				t.Parallel()
				s := newPoints(t, d, op)
				for _, f := range faults {
					n := 1
					for s.test(t, op, f, n) {
						n++
					}
					if n == 1 {
						t.Errorf("%s: the operation has no step that can fail", f.name)
					}
				}
				t.Logf("%d steps: %s", len(s.steps), strings.Join(s.steps, " · "))
			})
		}
	}
}

// points is a backend whose database can fail.
type points struct {
	*backend

	dialect inbox.Dialect
	faults  *faultyConnector
	stop    atomic.Pointer[context.CancelFunc] // ends Work
	steps   []string                           // of the operation without a fault
}

// point is one run of an operation.
type point struct {
	*points

	reference string
	product   idverify.Product // of createPlanned, with the number
	number    string
	check     *idverify.PhoneCheck
	fn        func(context.Context, *sql.Tx, inbox.Entry) error // the function of Work
	err       error                                             // of act
}

func newPoints(t *testing.T, d database, op operation) *points {
	t.Helper()
	db, connector := openFaulty(t, d)
	s := &points{dialect: d.dialect, faults: connector}
	service := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	opts := &inbox.Options{Now: service.Now, MaxAttempts: op.attempts, Logger: slog.New(stopHandler{s}), Observe: func(_ context.Context, e inbox.Event) {
		if e.Operation == "work" {
			s.stopWork()
		}
	}}
	if op.onResult {
		opts.OnResult = applyEffect
	}
	if err := inbox.Migrate(t.Context(), db, d.dialect); err != nil {
		t.Fatal(err)
	}
	checks, err := inbox.New(t.Context(), db, d.dialect, opts)
	if err != nil {
		t.Fatal(err)
	}
	s.backend = &backend{service: service, client: service.Client(), db: db, inbox: checks}
	mux := http.NewServeMux()
	mux.Handle("POST /callbacks", checks.Handler(service.Verifier([]string{host}, nil)))
	s.callbackURL = service.Handle(host, mux) + "/callbacks"
	s.exec(t, "CREATE TABLE effects (reference text NOT NULL)")
	s.exec(t, "CREATE TABLE sign_ups (reference text NOT NULL)")
	return s
}

// test runs the operation and makes its n-th step fail. It reports whether there was such a step.
func (s *points) test(t *testing.T, op operation, f fault, n int) bool {
	t.Helper()
	p := &point{points: s, reference: fmt.Sprintf("%s %d", f.name, n), product: idverify.ProductPhoneCheck, number: matchingNumber, fn: applyEffect}
	op.arrange(p, t)

	s.faults.arm(n, f)
	p.err = op.act(p, t)
	steps, failed := s.faults.disarm()

	op.recover(p, t)
	op.verify(p, t)
	s.verifyConsistent(t)
	if t.Failed() {
		t.Fatalf("%s, step %d of %v, error %v", f.name, n, steps, p.err)
	}
	if !failed {
		s.steps = nil
		for _, step := range steps {
			s.steps = append(s.steps, step.String())
		}
	}
	return failed
}

// verifyConsistent verifies that no entry waits for something that will not happen.
func (s *points) verifyConsistent(t *testing.T) {
	t.Helper()
	if n := s.count(t, "SELECT count(*) FROM idverify_checks WHERE status IS NULL AND "+
		"(reconcile_at IS NULL OR due_at IS NOT NULL OR done_at IS NOT NULL OR stopped_at IS NOT NULL OR ended_at IS NOT NULL)"); n > 0 {
		t.Errorf("%d entries in progress are inconsistent", n)
	}
	if n := s.count(t, "SELECT count(*) FROM idverify_checks WHERE status IS NOT NULL AND (reconcile_at IS NOT NULL OR ended_at IS NULL OR "+
		"CASE WHEN due_at IS NULL THEN 0 ELSE 1 END + CASE WHEN done_at IS NULL THEN 0 ELSE 1 END + CASE WHEN stopped_at IS NULL THEN 0 ELSE 1 END <> 1)"); n > 0 {
		t.Errorf("%d ended entries are not exactly one of due, done and stopped", n)
	}
}

// stopWork ends the current Work.
func (s *points) stopWork() {
	if cancel := s.stop.Load(); cancel != nil {
		(*cancel)()
	}
}

// stopHandler ends Work when the database has failed, so that a test does not wait for the next
// poll.
type stopHandler struct{ s *points }

func (h stopHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (h stopHandler) WithAttrs([]slog.Attr) slog.Handler           { return h }
func (h stopHandler) WithGroup(string) slog.Handler                { return h }
func (h stopHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "inbox: work" {
		h.s.stopWork()
	}
	return nil
}

// repeat calls f until it returns nil, as a user does after an error.
func (p *point) repeat(t *testing.T, f func(*point, *testing.T) error) {
	t.Helper()
	for range 3 {
		if p.err == nil {
			return
		}
		p.err = f(p, t)
	}
	if p.err != nil {
		t.Fatalf("error without a fault: %v", p.err)
	}
}
