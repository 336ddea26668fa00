package sandboxfake_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestWithRateLimit_Window(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithFrozenClock(frozenAt), sandboxfake.WithRateLimit(2))
	a := newAPI(t, srv)
	reset := strconv.FormatInt(frozenAt.Add(time.Hour).Unix(), 10)
	headers := func(remaining string) map[string]string {
		return map[string]string{"X-Ratelimit-Limit": "2", "X-Ratelimit-Remaining": remaining, "X-Ratelimit-Reset": reset}
	}

	first := a.post(phoneChecks, `{"phone_number":"447700900012"}`)
	if diff := cmp.Diff(headers("1"), rateHeaders(first)); diff != "" || first.status != 201 {
		t.Errorf("first request: %d (-want +got):\n%s", first.status, diff)
	}
	if err := srv.Advance(t.Context(), 90*time.Second); err != nil {
		t.Fatal(err)
	}
	second := a.get(phoneChecks + "/unknown")
	if diff := cmp.Diff(headers("0"), rateHeaders(second)); diff != "" || second.status != 404 {
		t.Errorf("second request, for an unknown check: %d (-want +got):\n%s", second.status, diff)
	}
	third := a.post(phoneChecks, `{"phone_number":"447700900012"}`)
	third.wantProblem(t, 429, "too_many_requests")
	want := headers("0")
	want["Retry-After"] = "3510"
	if diff := cmp.Diff(want, rateHeaders(third)); diff != "" {
		t.Errorf("third request (-want +got):\n%s", diff)
	}
	a.token = a.tokenFor(srv.Credentials(), "phone_check") // token requests are not limited
	if err := srv.Advance(t.Context(), 3509*time.Second); err != nil {
		t.Fatal(err)
	}
	a.get(phoneChecks).wantProblem(t, 429, "too_many_requests")
	if err := srv.Advance(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}

	next := a.get(phoneChecks)

	if next.status != 200 || next.header.Get("X-RateLimit-Remaining") != "1" {
		t.Errorf("after the hour: %d with %v remaining, want 200 and 1", next.status, next.header.Get("X-RateLimit-Remaining"))
	}
	if total := next.json["page"].(map[string]any)["total_elements"]; total != 0.0 {
		t.Errorf("%v checks, want none: the first one has expired, and the second create was rejected", total)
	}
}

func TestWithRateLimit_ExemptPaths(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithRateLimit(1))
	a := newAPI(t, srv)
	id := a.create(phoneChecks, `{"phone_number":"447700900012"}`)

	for _, path := range []string{phoneChecks + "/" + id + "/redirect", "/.well-known/jwks.json"} {
		if r := a.get(path); r.status != http.StatusOK || len(rateHeaders(r)) > 0 {
			t.Errorf("%s: %d with %v, want 200 without rate limit headers", path, r.status, rateHeaders(r))
		}
	}
}

func TestWithRateLimit_Reset(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithRateLimit(1))
	a := newAPI(t, srv)
	a.get(phoneChecks)
	a.get(phoneChecks).wantProblem(t, 429, "too_many_requests")

	srv.Reset()

	if r := newAPI(t, srv).get(phoneChecks); r.status != 200 {
		t.Errorf("after Reset: %d %s, want 200", r.status, r.body)
	}
}

func TestWithRateLimit_ClientWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithRateLimit(1))
		client := srv.Client(idverify.WithRetry(idverify.RetryPolicy{MaxAttempts: 2, MaxWait: 2 * time.Hour}))
		began := time.Now()
		for range 2 {
			if _, err := client.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: "447700900012"}); err != nil {
				t.Fatal(err)
			}
		}

		if waited := time.Since(began); waited < time.Hour || waited > 90*time.Minute {
			t.Errorf("second request succeeded after %v, want between 60 and 90 minutes", waited)
		}
	})
}
