package sandboxfake_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/sandboxfake"
)

func TestServer_ErrorPrecedence(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	a := newAPI(t, srv)
	simOnly := a.tokenFor(srv.Credentials(), "sim_check")
	large := `{"phone_number":"` + strings.Repeat("4", 64<<10) + `"}`
	// Each row has the errors of the rows below it and one more, which takes precedence.
	for _, row := range []struct {
		name, token, method, path, contentType, body string
		status                                       int
		fragment                                     string
	}{
		{"401 before an unknown route", "", "POST", "/phone_check/v9/nothing", "text/plain", large, 401, "unauthorized"},
		{"404 for an unknown route", simOnly, "POST", "/phone_check/v9/nothing", "text/plain", large, 404, "not_found"},
		{"405 before the scope", simOnly, "PUT", "/phone_check/v0.2/checks/unknown", "text/plain", large, 405, "method_not_allowed"},
		{"403 before the resource", simOnly, "PATCH", "/phone_check/v0.2/checks/unknown", "text/plain", large, 403, "forbidden"},
		{"404 for the resource before its body", a.token, "PATCH", "/phone_check/v0.2/checks/unknown", "text/plain", large, 404, "check_not_found"},
		{"415 before the size", a.token, "POST", phoneChecks, "text/plain", large, 415, "unsupported_media_type"},
		{"413 before the content", a.token, "POST", phoneChecks, "application/json", large, 413, "payload_too_large"},
		{"400 for the content", a.token, "POST", phoneChecks, "application/json", `{"phone_number":`, 400, "bad_request"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			r := (&api{t: t, srv: srv, token: row.token}).send(row.method, row.path, row.contentType, row.body)

			r.wantProblem(t, row.status, row.fragment)
			if row.status == 405 && r.header.Get("Allow") == "" {
				t.Error("missing Allow header")
			}
		})
	}
}

// A browser sends a preflight request without a token when a script adds a header.
func TestServer_Preflight(t *testing.T) {
	t.Parallel()
	a := &api{t: t, srv: sandboxfake.New(t, sandboxfake.WithInMemory())}
	for path, header := range map[string]string{phoneChecks: "authorization, content-type", callerPath: "x-sdk-version"} {
		r := a.sendHeader(http.MethodOptions, path, http.Header{
			"Origin": {"https://app.sandbox.test"}, "Access-Control-Request-Method": {"GET"}, "Access-Control-Request-Headers": {header},
		})

		got := []any{r.status, r.header.Get("Access-Control-Allow-Origin"), r.header.Get("Access-Control-Allow-Methods"), r.header.Get("Access-Control-Allow-Headers"), len(r.body)}
		wantEqual(t, []any{204, "*", "GET, POST, PUT, PATCH, DELETE, OPTIONS", header, 0}, got, "preflight of %s", path)
	}
}

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
	advance(t, srv, 90*time.Second)
	second := a.get(phoneChecks + "/unknown")
	if diff := cmp.Diff(headers("0"), rateHeaders(second)); diff != "" || second.status != 404 {
		t.Errorf("second request, for an unknown check: %d (-want +got):\n%s", second.status, diff)
	}
	third := a.post(phoneChecks, `{"phone_number":"447700900012"}`)
	third.wantProblem(t, 429, "too_many_requests")
	want := headers("0")
	want["Retry-After"] = "3510"
	wantEqual(t, want, rateHeaders(third), "third request")
	a.token = a.tokenFor(srv.Credentials(), "phone_check") // token requests are not limited
	advance(t, srv, 3509*time.Second)
	a.get(phoneChecks).wantProblem(t, 429, "too_many_requests")
	advance(t, srv, time.Second)

	next := a.get(phoneChecks)

	if next.status != 200 || next.header.Get("X-RateLimit-Remaining") != "1" {
		t.Errorf("after the hour: %d with %v remaining, want 200 and 1", next.status, next.header.Get("X-RateLimit-Remaining"))
	}
	if total := next.at("page", "total_elements"); total != 0.0 {
		t.Errorf("%v checks, want none: the first one has expired, and the second create was rejected", total)
	}
}

func TestWithRateLimit_ExemptPaths(t *testing.T) {
	t.Parallel()
	a := newAPI(t, sandboxfake.New(t, sandboxfake.WithInMemory(), sandboxfake.WithRateLimit(1)))
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
			must(client.SIMChecks.Create(t.Context(), idverify.SIMCheckParams{PhoneNumber: "447700900012"}))(t)
		}

		if waited := time.Since(began); waited < time.Hour || waited > 90*time.Minute {
			t.Errorf("second request succeeded after %v, want between 60 and 90 minutes", waited)
		}
	})
}
