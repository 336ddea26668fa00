package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/examples/backend/internal/stack"
	"github.com/idverify/idverify-go/sandboxfake"
)

// connect connects to the database of the shop.
func connect(ctx context.Context, t *testing.T, s *stack.Stack) *pgx.Conn {
	t.Helper()
	db := must(pgx.Connect(ctx, s.Postgres.URL()))(t)
	t.Cleanup(func() { db.Close(context.WithoutCancel(ctx)) })
	return db
}

// creates returns how often the service received the create of each sign-up that it may have
// processed, and the references of those that it has processed.
func (l *load) creates(t *testing.T) (received map[string]int, created []string) {
	t.Helper()
	received = make(map[string]int)
	for _, r := range l.stack.Service.Requests() {
		var body struct {
			Reference string `json:"reference_id"`
		}
		switch {
		case r.Operation != "subscriber_check.create", r.Status == http.StatusUnauthorized:
			continue // a create with a deleted token is sent again
		case json.Unmarshal(r.Body, &body) != nil || body.Reference == "":
			t.Errorf("the service received a create without a reference (status %d)", r.Status)
			continue
		}
		received[body.Reference]++
		if r.Status == http.StatusCreated {
			created = append(created, body.Reference)
		}
	}
	if n := l.stack.Service.DroppedRequests() + l.stack.Service.DroppedDeliveries(); n > 0 {
		t.Fatalf("the journals of the service are too small: %d entries dropped", n)
	}
	return received, created
}

// unbound returns the number of created checks whose ID is not stored.
func (l *load) unbound(ctx context.Context, created []string) (n int, err error) {
	err = l.db.QueryRow(ctx, "SELECT count(*) FROM idverify_checks WHERE check_id IS NULL AND reference = ANY($1)", created).Scan(&n)
	return n, err
}

// unprocessed returns the number of created checks whose result has had no effect.
func (l *load) unprocessed(ctx context.Context, created []string) (n int, err error) {
	err = l.db.QueryRow(ctx, "SELECT count(*) FROM unnest($1::text[]) r WHERE NOT EXISTS (SELECT FROM decisions WHERE reference = r)", created).Scan(&n)
	return n, err
}

// signup is a sign-up in the database of the shop.
type signup struct {
	id, number, status string
	planned            bool
	decisions          []string
}

// signups returns all sign-ups.
func (l *load) signups(ctx context.Context, t *testing.T) []signup {
	t.Helper()
	rows := must(l.db.Query(ctx, "SELECT id, phone_number, status, EXISTS (SELECT FROM idverify_checks WHERE reference = s.id), "+
		"ARRAY(SELECT decision FROM decisions WHERE reference = s.id) FROM signups s"))(t)
	return must(pgx.CollectRows(rows, func(row pgx.CollectableRow) (s signup, err error) {
		return s, row.Scan(&s.id, &s.number, &s.status, &s.planned, &s.decisions)
	}))(t)
}

// verify compares what the shop has stored with what the service has done.
func (l *load) verify(ctx context.Context, t *testing.T) {
	t.Helper()
	received, created := l.creates(t)
	exists := make(map[string]bool)
	for _, reference := range created {
		exists[reference] = true
	}
	for reference, n := range received {
		if n > 1 {
			t.Errorf("the service received %d creates for sign-up %s, want 1: each one is charged", n, reference)
		}
	}
	done := make(map[string]int) // by number
	for _, s := range l.signups(ctx, t) {
		opened := l.opened[s.id]
		switch {
		case opened && (len(s.decisions) != 1 || s.status != statusOf(s.number) || s.decisions[0] != s.status):
			t.Errorf("sign-up of %s: status %q, decisions %q; want one decision %q", s.number, s.status, s.decisions, statusOf(s.number))
		case !opened && exists[s.id] && (len(s.decisions) != 1 || s.status != failed):
			t.Errorf("sign-up of %s whose check nobody opened: status %q, decisions %q; want one decision %q", s.number, s.status, s.decisions, failed)
		case !exists[s.id] && len(s.decisions) > 0:
			t.Errorf("sign-up of %s without a check: decisions %q, want none", s.number, s.decisions)
		case !s.planned && (exists[s.id] || s.status != failed): // the plan of a failed create is discarded
			t.Errorf("sign-up of %s: stored without its plan", s.number)
		}
		delete(exists, s.id)
		if opened {
			done[s.number]++
		}
	}
	if len(exists) > 0 {
		t.Errorf("%d checks were created for sign-ups that are not stored", len(exists))
	}
	for n := 1; n <= customers; n++ {
		if got := done[numberOf(n)]; got != 1 {
			t.Errorf("customer %s has %d complete sign-ups, want 1", numberOf(n), got)
		}
	}
	for id := range l.opened {
		var response struct{ Status string }
		if status, err := l.call(ctx, l.client, http.MethodGet, "/signups/"+id, nil, &response); err != nil || status != http.StatusOK || response.Status == pending {
			t.Errorf("status of sign-up %s = %d %q, error %v; want its result", id, status, response.Status, err)
		}
	}
}

// statusOf returns the status of a sign-up with number, whose last digits determine the result.
func statusOf(number string) string {
	outcome := sandboxfake.SubscriberCheckOutcome(number)
	switch {
	case outcome.Status != idverify.StatusCompleted:
		return failed
	case outcome.Match == idverify.VerdictYes && outcome.NoSIMChange == idverify.VerdictYes:
		return verified
	}
	return rejected
}

// report logs the figures of the load.
func (l *load) report(t *testing.T, loaded, total time.Duration) {
	t.Helper()
	received, created := l.creates(t)
	acknowledged, attempts := 0, 0
	deliveries := l.stack.Service.Deliveries()
	for _, d := range deliveries {
		attempts += len(d.Attempts)
		if d.Acknowledged() {
			acknowledged++
		}
	}
	t.Logf("%d customers, %d sign-ups with a Check URL, %d repeated; %d creates received, %d checks created; %d callbacks, %d acknowledged, %d attempts; %v under load, %v in total",
		customers, len(l.opened), l.repeated, len(received), len(created), len(deliveries), acknowledged, attempts, loaded.Round(time.Millisecond), total.Round(time.Millisecond))
}

// signIn signs a customer in on the web. It returns the browser.
func (l *load) signIn(ctx context.Context, t *testing.T) *http.Client {
	t.Helper()
	browser := l.stack.Phone("")
	browser.Jar = must(cookiejar.New(nil))(t)
	var response struct {
		CheckURL string `json:"check_url"`
	}
	if status, err := l.call(ctx, browser, http.MethodPost, "/signins", map[string]string{"phone_number": "447700900012"}, &response); err != nil || status != http.StatusCreated {
		t.Fatalf("POST /signins: status %d, error %v", status, err)
	}
	noError(t, open(ctx, browser, response.CheckURL)) // the last page is GET /session
	return browser
}

// payOut requests a payout to the customer of browser, twice, without and with its session.
func (l *load) payOut(ctx context.Context, t *testing.T, browser *http.Client) {
	t.Helper()
	requested := 0
	for _, s := range l.signups(ctx, t) {
		if s.number != "447700900012" || s.status != verified {
			continue
		}
		requested++
		for _, row := range []struct {
			client *http.Client
			want   int
		}{{l.client, http.StatusUnauthorized}, {browser, http.StatusOK}} {
			var response struct{ Allowed bool }
			got, err := l.call(ctx, row.client, http.MethodPost, "/payouts", map[string]any{"id": "p-1", "signup_id": s.id, "amount": 5000}, &response)
			if err != nil || got != row.want || response.Allowed != (row.want == http.StatusOK) {
				t.Errorf("payout: status %d, allowed %v, error %v; want status %d", got, response.Allowed, err, row.want)
			}
		}
	}
	if requested != 1 {
		t.Errorf("%d verified sign-ups of the customer, want 1", requested)
	}
}

// chooseMethod requests the method of verification from addresses with and without a mobile
// network.
func (l *load) chooseMethod(ctx context.Context, t *testing.T) {
	t.Helper()
	for from, want := range map[string]string{"127.0.0.1": "sms", "127.0.0.2": "phone_check"} {
		var response struct{ Method string }
		status, err := l.call(ctx, l.stack.Phone(from), http.MethodPost, "/verification-method", nil, &response)
		if err != nil || status != http.StatusOK || response.Method != want {
			t.Errorf("method from %s = %d %q, error %v; want %q", from, status, response.Method, err, want)
		}
	}
}

// exceedLimit sends more starts from one address than nginx passes on. They are invalid, so that
// none creates a check.
func (l *load) exceedLimit(ctx context.Context, t *testing.T) {
	t.Helper()
	const burst = 20
	for _, path := range []string{"/signups", "/signins", "/app/signins", "/payouts"} {
		app := l.stack.Phone("127.0.0.3")
		rejected := false
		for n := 0; n < 5*burst && !rejected; n++ {
			status, err := l.call(ctx, app, http.MethodPost, path, nil, new(any))
			rejected = status == http.StatusTooManyRequests
			if err != nil || rejected && path == "/signups" && n < burst {
				t.Fatalf("request %d of %s = %d, error %v; want at least %d before 429", n+1, path, status, err, burst)
			}
		}
		if !rejected {
			t.Errorf("%s has no limit: each start is charged", path)
		}
		if status, err := l.call(ctx, app, http.MethodGet, "/session", nil, new(any)); err != nil || status != http.StatusUnauthorized {
			t.Errorf("GET /session = %d, error %v; want 401: only starts are limited", status, err)
		}
		if status, err := l.call(ctx, l.stack.Phone("127.0.0.4"), http.MethodPost, path, nil, new(any)); err != nil || status == http.StatusTooManyRequests {
			t.Errorf("%s from another address = %d, error %v; want no limit", path, status, err)
		}
	}
}

// verifyAccessLog checks that the log of nginx contains redirects, but not their codes.
func (l *load) verifyAccessLog(t *testing.T) {
	t.Helper()
	log := must(os.ReadFile(filepath.Join(l.stack.Dir, "nginx", "access.log")))(t)
	if text := string(log); !strings.Contains(text, "GET /api/redirect -> ") || strings.Contains(text, "?") {
		t.Error("the access log lacks the redirect, or contains queries, which contain codes")
	}
}
