package conformance_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/conformance"
	"github.com/idverify/idverify-go/internal/synctest"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// run runs the suite and logs the report.
func run(t *testing.T, config conformance.Config) receivertest.Report {
	t.Helper()
	report, err := conformance.Run(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", text(t, report))
	return report
}

// text returns a report as text, with all findings.
func text(t *testing.T, report receivertest.Report) string {
	t.Helper()
	var b strings.Builder
	if err := report.WriteText(&b, true); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// wantFailed compares the names of the rules that failed.
func wantFailed(t *testing.T, report receivertest.Report, want ...string) {
	t.Helper()
	var failed []string
	for _, f := range report.Failed() {
		failed = append(failed, f.Rule)
	}
	if !slices.Equal(failed, want) {
		t.Errorf("failed rules = %v, want %v", failed, want)
	}
}

// allHeld reports an error for each rule that failed or is not applicable.
func allHeld(t *testing.T, report receivertest.Report) {
	t.Helper()
	for _, f := range report.Findings {
		if f.Result != receivertest.ResultPass {
			t.Errorf("%s %s: %s: %s", f.Rule, f.Title, f.Result, f.Detail)
		}
	}
}

// inMemory returns a Config for a new in-memory fake. Call it in a synctest bubble, where waits
// take no real time.
func inMemory(t *testing.T) (*sandboxfake.Server, conformance.Config) {
	t.Helper()
	srv := sandboxfake.New(t, sandboxfake.WithInMemory())
	return srv, newConfig(t, srv, func(r http.Handler) string { return srv.Handle("conformance.sandbox.test", r) })
}

// newConfig returns a Config for a fake. The URL of its receiver is the one that serve returns.
func newConfig(t *testing.T, srv *sandboxfake.Server, serve func(http.Handler) string) conformance.Config {
	t.Helper()
	var r *conformance.Receiver
	url := serve(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.ServeHTTP(w, req) }))
	r, err := conformance.NewReceiver(url + "/callbacks")
	if err != nil {
		t.Fatal(err)
	}
	return conformance.Config{
		BaseURL:    srv.URL(),
		HTTPClient: srv.HTTPClient(),
		Project:    srv.Credentials(),
		Workspace:  srv.ConsoleCredentials(),
		Receiver:   r,
		Advance:    srv.Advance,
	}
}

func TestRun_FakeInMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, config := inMemory(t)

		allHeld(t, run(t, config))

		if n := countRequests(srv, "_check.create"); n != conformance.Checks {
			t.Errorf("the suite created %d checks, want %d as documented", n, conformance.Checks)
		}
		if n := countRequests(srv, "projects.delete"); n != conformance.Projects || n != countRequests(srv, "projects.create") {
			t.Errorf("the suite deleted %d projects, want %d as documented, and all that it created", n, conformance.Projects)
		}
	})
}

func TestRun_FakeOverLoopback(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithFreshKeys(), sandboxfake.WithBase64Digest())
	config := newConfig(t, srv, func(h http.Handler) string { // over plain HTTP
		receiver := httptest.NewServer(h)
		t.Cleanup(receiver.Close)
		return receiver.URL
	})

	allHeld(t, run(t, config))
}

func TestRun_PartialConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, config := inMemory(t)
		config.Workspace, config.Receiver, config.Advance = idverify.Credentials{}, nil, nil

		report := run(t, config)

		reasons := make(map[string]int)
		for _, f := range report.Findings {
			if f.Result == receivertest.ResultFail {
				t.Errorf("%s failed: %s", f.Rule, f.Detail)
			}
			reasons[f.Detail]++
		}
		const workspace = "credentials of the workspace (IDVERIFY_WORKSPACE_CLIENT_ID, IDVERIFY_WORKSPACE_CLIENT_SECRET)"
		for _, want := range []string{
			"requires " + workspace,
			"requires a receiver of callbacks (-callback-url)",
			"requires a receiver of callbacks (-callback-url) and a clock that can be moved (-advance-url)",
			"requires " + workspace + " and a receiver of callbacks (-callback-url)",
		} {
			if reasons[want] == 0 {
				t.Errorf("no rule has the reason %q; got %v", want, reasons)
			}
		}
	})
}

func TestRun_StopsAtChargedCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, config := inMemory(t)
		live := srv.NewProject(idverify.ProjectParams{Name: "Live", Mode: idverify.ModeLive})
		config.Project = live.Credentials

		report := run(t, config)

		if n := countRequests(srv, "_check.create"); n != 1 {
			t.Errorf("the suite created %d charged checks, want 1", n)
		}
		if failed := report.Failed(); len(failed) != 1 || !strings.Contains(failed[0].Detail, "use a sandbox project") {
			t.Errorf("failed rules = %v, want one that asks for a sandbox project", failed)
		}
	})
}

func TestRun_WaitsForRateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, config := inMemory(t)
		slow := sandboxfake.Fault{Status: http.StatusTooManyRequests, RetryAfter: 20 * time.Second}
		srv.Inject(sandboxfake.Match{Operation: "phone_check.create", Repeat: true}, slow, slow, sandboxfake.Fault{})

		allHeld(t, run(t, config))
	})
}

func TestRun_CanceledContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, config := inMemory(t)
		ctx, cancel := context.WithCancel(t.Context())
		config.Progress = func(_, _ int, rule string) {
			if rule == "service/project-credentials" {
				cancel()
			}
		}

		report, err := conformance.Run(ctx, config)

		if !errors.Is(err, context.Canceled) || len(report.Findings) != len(conformance.Rules())-3 {
			t.Errorf("%d findings, error %v, want those of the rules before the last three, and context.Canceled", len(report.Findings), err)
		}
		allHeld(t, report)
		if n := countRequests(srv, "projects.delete"); n != 2 {
			t.Errorf("%d projects were deleted, want the 2 that were created", n)
		}
	})
}

// countRequests returns the number of successful requests for an operation.
func countRequests(srv *sandboxfake.Server, operation string) int {
	n := 0
	for _, r := range srv.Requests() {
		if strings.HasSuffix(r.Operation, operation) && r.Status/100 == 2 {
			n++
		}
	}
	return n
}

func TestRun_ProjectsNotDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, config := inMemory(t)
		srv.Inject(sandboxfake.Match{Operation: "projects.delete"}, sandboxfake.Fault{Status: http.StatusInternalServerError})

		report, err := conformance.Run(t.Context(), config)

		if err == nil || !strings.Contains(err.Error(), "1 of 5 created projects were not deleted") {
			t.Errorf("error = %v, want one that reports the remaining project", err)
		}
		allHeld(t, report)
	})
}

func TestRun_InvalidConfig(t *testing.T) {
	t.Parallel()
	good := idverify.Credentials{ClientID: "id", ClientSecret: idverify.NewSecret("secret")}
	for _, row := range []struct {
		name   string
		config conformance.Config
		says   string
	}{
		{"nothing", conformance.Config{}, "BaseURL"},
		{"plain HTTP", conformance.Config{BaseURL: "http://service.example", Project: good}, "BaseURL"},
		{"URL with a path", conformance.Config{BaseURL: "https://service.example/api", Project: good}, "BaseURL"},
		{"no credentials", conformance.Config{BaseURL: "https://service.example"}, "client ID"},
		{"no secret", conformance.Config{BaseURL: "https://service.example", Project: idverify.Credentials{ClientID: "id"}}, "client secret"},
		{"negative patience", conformance.Config{BaseURL: "https://service.example", Project: good, Patience: -1}, "Patience"},
	} {
		if _, err := conformance.Run(t.Context(), row.config); err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: error = %v, want one that contains %q", row.name, err, row.says)
		}
	}
	for _, url := range []string{"", "/callbacks", "ftp://host/", "https://host/?a", "https://host/#a", "https://user@host/"} {
		if _, err := conformance.NewReceiver(url); err == nil {
			t.Errorf("NewReceiver(%q) returns no error", url)
		}
	}
}

func TestRules_AreComplete(t *testing.T) {
	t.Parallel()
	names, titles := make(map[string]bool), make(map[string]bool)
	for _, r := range conformance.Rules() {
		if names[r.Name] || titles[r.Title] || r.Title == "" || !strings.HasPrefix(r.Name, "service/") || !strings.HasPrefix(r.Reason, "docs/protocol.md, section ") {
			t.Errorf("%+v: want a unique name and title, and a section", r)
		}
		names[r.Name], titles[r.Title] = true, true
	}
}

func TestReport_ContainsNoSecrets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, config := inMemory(t)
		srv.Inject(sandboxfake.Match{Repeat: true}, sandboxfake.Fault{Body: `{"access_token":"T0ken","token_type":"bearer","check_id":"447700900002","status":"447700900002"}`})

		table := strings.ReplaceAll(text(t, run(t, config)), config.BaseURL, "")

		for _, secret := range []string{"4477009", "T0ken", "192.0.2", config.Project.ClientSecret.Reveal(), "https://"} {
			if strings.Contains(table, secret) {
				t.Errorf("the report contains %q", secret)
			}
		}
	})
}

// Each row breaks the fake in one way and lists all rules that must fail.
func TestRun_DetectsFault(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name      string
		operation string
		fault     sandboxfake.Fault
		failed    []string
	}{
		{"token response without a token", "token.create", sandboxfake.Fault{Body: `{"token_type":"bearer"}`}, []string{"service/token"}},
		{"token endpoint unavailable", "token.create", sandboxfake.Fault{Status: 500}, []string{"service/token", "service/wrong-secret", "service/grant-type", "service/scope-required", "service/workspace-scopes"}},
		{"empty key set", "jwks.get", sandboxfake.Fault{Body: `{"keys":[]}`}, []string{"service/key-set"}},
		{"truncated key set", "jwks.get", sandboxfake.Fault{Truncate: true}, []string{"service/key-set"}},
		{"created_at in another format", "phone_check.create", sandboxfake.Fault{Body: `{"check_id":"a","status":"ACCEPTED","charge_amount":0,"charge_currency":"API","created_at":"2020-06-01T16:43:30Z"}`}, []string{"service/phone-check", "service/problems", "service/redirect"}},
		{"matching PhoneCheck read as not matching", "phone_check.get", sandboxfake.Fault{Body: `{"check_id":"a","status":"COMPLETED","match":false}`}, []string{"service/phone-check-match"}},
		{"empty list of PhoneChecks", "phone_check.list", sandboxfake.Fault{Body: `{"_embedded":{"checks":[]}}`}, []string{"service/phone-check-list"}},
		{"SIMCheck without no_sim_change", "sim_check.create", sandboxfake.Fault{Body: `{"check_id":"a","status":"COMPLETED"}`}, []string{"service/sim-check-no-change", "service/sim-check-change", "service/sim-check-error"}},
		{"SubscriberCheck without a match has no_sim_change", "subscriber_check.get", sandboxfake.Fault{Body: `{"check_id":"a","status":"COMPLETED","match":false,"no_sim_change":true}`}, []string{"service/subscriber-check-match", "service/subscriber-check-sim-change", "service/subscriber-check-no-match"}},
		{"other problem from reachability", "reachability.device_ip", sandboxfake.Fault{Status: 412, Code: "too_many_requests"}, []string{"service/reachability", "service/reachability-not-mobile", "service/reachability-no-network"}},
		{"lost callbacks", "callback", sandboxfake.Fault{Drop: true}, []string{"service/callback", "service/callback-error", "service/callback-subscriber-check", "service/callback-subscriber-check-error", "service/expiry", "service/callback-url"}},
		{"callbacks signed with another key", "callback", sandboxfake.Fault{WrongKey: true}, []string{"service/callback-signature", "service/callback-after-5xx"}},
		{"callbacks with a changed body", "callback", sandboxfake.Fault{Body: `{"check_id":"a"}`}, []string{"service/callback-payload", "service/callback-digest", "service/callback-error", "service/callback-subscriber-check", "service/callback-subscriber-check-error", "service/expiry"}},
		{"truncated callbacks", "callback", sandboxfake.Fault{Truncate: true}, []string{"service/callback-payload", "service/callback-headers", "service/callback-digest", "service/callback-error", "service/callback-subscriber-check", "service/callback-subscriber-check-error", "service/callback-after-5xx", "service/expiry"}},
		{"redirects signed with another key", "phone_check.open", sandboxfake.Fault{WrongKey: true}, []string{"service/redirect-signature"}},
		{"code never accepted", "phone_check.complete", sandboxfake.Fault{Status: 404, Code: "check_not_found"}, []string{"service/code-exchange"}},
		{"third pair of credentials accepted", "project_credentials.create", sandboxfake.Fault{Status: 201, Body: `{"client_id":"a","client_secret":"b"}`}, []string{"service/project-credentials"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				srv, config := inMemory(t)
				srv.Inject(sandboxfake.Match{Operation: row.operation, Repeat: true}, row.fault)

				wantFailed(t, run(t, config), row.failed...)
			})
		})
	}
}

func TestRun_DetectsEndlessRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, config := inMemory(t)
		config.Advance = func(ctx context.Context, d time.Duration) error {
			for _, delivery := range srv.Deliveries() {
				if err := srv.Redeliver(ctx, delivery.ID); err != nil {
					return err
				}
			}
			return srv.Advance(ctx, d)
		}

		wantFailed(t, run(t, config), "service/callback-after-2xx", "service/callback-after-3xx", "service/callback-after-4xx", "service/callback-after-5xx")
	})
}
