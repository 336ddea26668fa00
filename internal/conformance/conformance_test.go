package conformance_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
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

// failedNumbers returns the numbers of the expectations that failed.
func failedNumbers(report receivertest.Report) []int {
	var failed []int
	for i, f := range report.Findings {
		if f.Result == receivertest.ResultFail {
			failed = append(failed, i+1)
		}
	}
	return failed
}

// allHeld reports an error for each expectation that failed or was not run.
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
	return srv, conformance.Config{
		BaseURL:    srv.URL(),
		HTTPClient: srv.HTTPClient(),
		Project:    srv.Credentials(),
		Workspace:  srv.ConsoleCredentials(),
		Receiver:   receiver(t, func(r http.Handler) string { return srv.Handle("conformance.sandbox.test", r) }),
		Advance:    srv.Advance,
	}
}

// receiver returns a receiver whose URL is the one that serve returns.
func receiver(t *testing.T, serve func(http.Handler) string) *conformance.Receiver {
	t.Helper()
	var r *conformance.Receiver
	url := serve(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.ServeHTTP(w, req) }))
	r, err := conformance.NewReceiver(url + "/callbacks")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRun_FakeInMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, config := inMemory(t)

		allHeld(t, run(t, config))
	})
}

func TestRun_FakeOverLoopback(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t, sandboxfake.WithFreshKeys(), sandboxfake.WithBase64Digest())

	report := run(t, conformance.Config{
		BaseURL:    srv.URL(),
		HTTPClient: srv.HTTPClient(),
		Project:    srv.Credentials(),
		Workspace:  srv.ConsoleCredentials(),
		Receiver:   receiver(t, loopback(t)),
		Advance:    srv.Advance,
	})

	allHeld(t, report)
}

// loopback serves a handler over plain HTTP on a loopback address.
func loopback(t *testing.T) func(http.Handler) string {
	return func(h http.Handler) string {
		srv := httptest.NewServer(h)
		t.Cleanup(srv.Close)
		return srv.URL
	}
}

func TestRun_FakeProgram(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sandboxfake")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../../cmd/sandboxfake").CombinedOutput(); err != nil {
		t.Fatalf("build sandboxfake: %v\n%s", err, output)
	}
	program := exec.CommandContext(t.Context(), path, "-json", "-quiet")
	program.Cancel = func() error { return program.Process.Signal(os.Interrupt) } // lets it remove its CA file
	stdout, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Wait() })
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	type pair struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
	}
	var announced struct {
		URL                string
		CAFile             string `json:"ca_file"`
		ControlToken       string `json:"control_token"`
		Project, Workspace pair
	}
	if err := json.Unmarshal(line, &announced); err != nil {
		t.Fatal(err)
	}
	cert, err := os.ReadFile(announced.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	credentials := func(p pair) idverify.Credentials {
		return idverify.Credentials{ClientID: p.ClientID, ClientSecret: idverify.NewSecret(p.ClientSecret)}
	}

	report := run(t, conformance.Config{
		BaseURL:    announced.URL,
		HTTPClient: client,
		Project:    credentials(announced.Project),
		Workspace:  credentials(announced.Workspace),
		Receiver:   receiver(t, loopback(t)),
		Advance: func(ctx context.Context, d time.Duration) error {
			return post(ctx, client, announced.ControlToken, announced.URL+"/_sandbox/advance", fmt.Sprintf(`{"seconds":%v}`, d.Seconds()))
		},
	})

	allHeld(t, report)
}

// post sends a request to the control plane.
func post(ctx context.Context, client *http.Client, token, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	httpResp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer httpResp.Body.Close()
	if resp, err := io.ReadAll(httpResp.Body); err != nil || httpResp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %d %s %v", url, httpResp.StatusCode, resp, err)
	}
	return nil
}

// TestRun_LiveService runs the suite against a live service. The package documentation lists the
// environment variables.
func TestRun_LiveService(t *testing.T) {
	base := os.Getenv("IDVERIFY_BASE_URL")
	if base == "" {
		t.Skip("set IDVERIFY_BASE_URL, IDVERIFY_CLIENT_ID and IDVERIFY_CLIENT_SECRET to test a live service with a sandbox project")
	}
	credentials := func(prefix string) idverify.Credentials {
		return idverify.Credentials{ClientID: os.Getenv(prefix + "CLIENT_ID"), ClientSecret: idverify.NewSecret(os.Getenv(prefix + "CLIENT_SECRET"))}
	}
	config := conformance.Config{BaseURL: base, Project: credentials("IDVERIFY_"), Workspace: credentials("IDVERIFY_WORKSPACE_")}
	if public := os.Getenv("IDVERIFY_RECEIVER_URL"); public != "" {
		addr := os.Getenv("IDVERIFY_RECEIVER_ADDR")
		if addr == "" {
			addr = "127.0.0.1:8080"
		}
		r, err := conformance.NewReceiver(public)
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		srv := &httptest.Server{Listener: listener, Config: &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}}
		srv.Start()
		t.Cleanup(srv.Close)
		config.Receiver = r
	}

	for _, f := range run(t, config).Failed() {
		t.Errorf("%s: %s (%s)", f.Rule, f.Detail, f.Reason)
	}
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
		for _, want := range []string{
			"requires workspace credentials",
			"requires a receiver for callbacks",
			"requires a receiver for callbacks and a clock that the suite can advance",
			"requires workspace credentials and a receiver for callbacks",
		} {
			if reasons[want] == 0 {
				t.Errorf("no expectation has the reason %q; got %v", want, reasons)
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

		var creates int
		for _, r := range srv.Requests() {
			if strings.HasSuffix(r.Operation, "_check.create") && r.Status == http.StatusCreated {
				creates++
			}
		}
		if creates != 1 {
			t.Errorf("the suite created %d charged checks, want 1", creates)
		}
		if failed := report.Failed(); len(failed) != 1 || !strings.Contains(failed[0].Detail, "use a sandbox project") {
			t.Errorf("failed expectations = %v, want one that asks for a sandbox project", failed)
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
		_, config := inMemory(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()

		report, err := conformance.Run(ctx, config)

		if err != nil {
			t.Fatal(err)
		}
		for _, f := range report.Findings {
			if f.Result != receivertest.ResultNotApplicable || f.Detail != "the context ended" {
				t.Errorf("%s: %s: %s, want not applicable: the context ended", f.Rule, f.Result, f.Detail)
			}
		}
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

func TestExpectations_AreComplete(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for i, e := range conformance.Expectations() {
		if e.Number != i+1 || e.Section == "" || e.Text == "" || seen[e.Text] {
			t.Errorf("expectation %d: number = %d, section = %q, text = %q, want its number, a section and a unique text", i+1, e.Number, e.Section, e.Text)
		}
		seen[e.Text] = true
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

// Each row breaks the fake in one way and lists all expectations that must fail.
func TestRun_DetectsFault(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name      string
		operation string
		fault     sandboxfake.Fault
		failed    []int
	}{
		{"token response without a token", "token.create", sandboxfake.Fault{Body: `{"token_type":"bearer"}`}, []int{1}},
		{"token endpoint unavailable", "token.create", sandboxfake.Fault{Status: 500}, []int{1, 2, 3, 4, 9}},
		{"empty key set", "jwks.get", sandboxfake.Fault{Body: `{"keys":[]}`}, []int{11}},
		{"truncated key set", "jwks.get", sandboxfake.Fault{Truncate: true}, []int{11}},
		{"created_at in another format", "phone_check.create", sandboxfake.Fault{Body: `{"check_id":"a","status":"ACCEPTED","charge_amount":0,"charge_currency":"API","created_at":"2020-06-01T16:43:30Z"}`}, []int{12, 15, 43}},
		{"matching PhoneCheck read as not matching", "phone_check.get", sandboxfake.Fault{Body: `{"check_id":"a","status":"COMPLETED","match":false}`}, []int{16}},
		{"empty list of PhoneChecks", "phone_check.list", sandboxfake.Fault{Body: `{"_embedded":{"checks":[]}}`}, []int{19}},
		{"SIMCheck without no_sim_change", "sim_check.create", sandboxfake.Fault{Body: `{"check_id":"a","status":"COMPLETED"}`}, []int{20, 21, 22}},
		{"SubscriberCheck without a match has no_sim_change", "subscriber_check.get", sandboxfake.Fault{Body: `{"check_id":"a","status":"COMPLETED","match":false,"no_sim_change":true}`}, []int{23, 24, 25}},
		{"other problem from reachability", "reachability.device_ip", sandboxfake.Fault{Status: 412, Code: "too_many_requests"}, []int{27, 28, 29}},
		{"lost callbacks", "callback", sandboxfake.Fault{Drop: true}, []int{30, 35, 36, 37, 42, 50}},
		{"callbacks signed with another key", "callback", sandboxfake.Fault{WrongKey: true}, []int{33, 41}},
		{"callbacks with a changed body", "callback", sandboxfake.Fault{Body: `{"check_id":"a"}`}, []int{31, 34, 35, 36, 37, 42}},
		{"truncated callbacks", "callback", sandboxfake.Fault{Truncate: true}, []int{31, 32, 34, 35, 36, 37, 41, 42}},
		{"redirects signed with another key", "phone_check.open", sandboxfake.Fault{WrongKey: true}, []int{44}},
		{"code never accepted", "phone_check.complete", sandboxfake.Fault{Status: 404, Code: "check_not_found"}, []int{45}},
		{"third pair of credentials accepted", "project_credentials.create", sandboxfake.Fault{Status: 201, Body: `{"client_id":"a","client_secret":"b"}`}, []int{48}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				srv, config := inMemory(t)
				srv.Inject(sandboxfake.Match{Operation: row.operation, Repeat: true}, row.fault)

				report := run(t, config)

				failed := failedNumbers(report)
				if !slices.Equal(failed, row.failed) {
					t.Errorf("failed expectations = %v, want %v", failed, row.failed)
				}
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

		report := run(t, config)

		failed := failedNumbers(report)
		if want := []int{38, 39, 40, 41}; !slices.Equal(failed, want) {
			t.Errorf("failed expectations = %v, want %v", failed, want)
		}
	})
}
