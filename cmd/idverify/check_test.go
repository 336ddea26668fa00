package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/sandboxfake"
)

const number = "447700900012"

// expect reports an exit code or output that differs. A part that begins with ! must be missing.
func (r result) expect(t *testing.T, code int, stdout, stderr []string) {
	t.Helper()
	failed := r.code != code
	for _, output := range []struct {
		text  string
		parts []string
	}{{r.stdout, stdout}, {r.stderr, stderr}} {
		for _, part := range output.parts {
			text, missing := strings.CutPrefix(part, "!")
			if strings.Contains(output.text, text) == missing {
				t.Errorf("output contains %q = %t", text, missing)
				failed = true
			}
		}
	}
	if failed {
		t.Errorf("exit code = %d, want %d\nstdout:\n%.4000s\nstderr:\n%.4000s", r.code, code, r.stdout, r.stderr)
	}
}

// expectError is expect for a failed command, which must print nothing on stdout.
func (r result) expectError(t *testing.T, code int, stderr ...string) {
	t.Helper()
	r.expect(t, code, nil, stderr)
	if r.stdout != "" {
		t.Errorf("errors must be on stderr, stdout:\n%s", r.stdout)
	}
}

// decode decodes the JSON document of a command.
func (r result) decode(t *testing.T) map[string]any {
	t.Helper()
	var document map[string]any
	decoder := json.NewDecoder(strings.NewReader(r.stdout))
	if err := decoder.Decode(&document); err != nil || decoder.More() {
		t.Fatalf("stdout is not one JSON document: %v\n%s\nstderr:\n%s", err, r.stdout, r.stderr)
	}
	return document
}

// create creates a check of a product with the command, and returns its ID and Check URL.
func create(t *testing.T, env map[string]string, args ...string) (checkID, checkURL string) {
	t.Helper()
	got := runProgram(t, env, "", append([]string{"check", "create", "-yes", "-json"}, args...)...)
	if got.code != exitOK {
		t.Fatalf("create failed: %s", got.stderr)
	}
	document := got.decode(t)
	checkID, _ = document["check_id"].(string)
	checkURL, _ = document["check_url"].(string)
	return checkID, checkURL
}

// wantCreates checks how many requests, of all products, created a check.
func wantCreates(t *testing.T, srv *sandboxfake.Server, want int) {
	t.Helper()
	n := countRequests(srv, "phone_check.create") + countRequests(srv, "sim_check.create") + countRequests(srv, "subscriber_check.create")
	if n != want {
		t.Errorf("creates = %d, want %d: each one can cost money", n, want)
	}
}

func TestCheck_Products(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, number string
		flags        []string
		code         int // of wait
		result       string
		matched, sim any
	}{
		{"phone match", number, []string{"-product", "phone_check"}, exitOK, "match", "yes", nil},
		{"phone no match", "447700900013", nil, exitProblem, "no match", "no", nil},
		{"sim unchanged", number, []string{"-product=sim_check"}, exitOK, "SIM unchanged", nil, "yes"},
		{"sim changed", "447700900016", []string{"-product=sim_check"}, exitProblem, "SIM changed", nil, "no"},
		{"subscriber", number, []string{"-product=subscriber_check"}, exitOK, "match, SIM unchanged", "yes", "yes"},
		{"subscriber SIM changed", "447700900016", []string{"-product=subscriber_check"}, exitProblem, "match, SIM changed", "yes", "no"},
		{"subscriber no match", "447700900013", []string{"-product=subscriber_check"}, exitProblem, "no match", "no", "unknown"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			srv, env := newService(t)
			run := func(args ...string) result {
				return runProgram(t, env, "", append(append([]string{"check"}, args...), row.flags...)...)
			}
			checkID, checkURL := create(t, env, append(row.flags, "-reference", "order-1", row.number)...)
			if checkURL != "" {
				must(srv.Device().Open(t.Context(), checkURL))(t)
			}

			run("wait", checkID).expect(t, row.code, []string{"COMPLETED\nResult        " + row.result + "\n", "…" + row.number[10:], "!" + row.number}, nil)
			run("get", checkID).expect(t, exitOK, []string{checkID, row.result, "order-1", "!" + row.number}, nil)
			run("list", "-reference", "order-1").expect(t, exitOK, []string{checkID, row.result, "!" + row.number}, nil)
			run("traces", checkID).expect(t, exitOK, []string{"check accepted", "check finished", "status=COMPLETED\n"}, nil)
			run("get", checkID, "-show-numbers").expect(t, exitOK, []string{row.number}, nil)
			document := run("wait", "-json", checkID).decode(t)
			if document["match"] != row.matched || document["no_sim_change"] != row.sim || document["phone_number"] != "…"+row.number[10:] {
				t.Errorf("JSON = %v", document)
			}
		})
	}
}

func TestCheck_Ended(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	expired, _ := create(t, env, number)
	srv.Expire(expired)
	failed, checkURL := create(t, env, "-product", "subscriber_check", "447700900099")
	must(srv.Device().Open(t.Context(), checkURL))(t)

	runProgram(t, env, "", "check", "wait", expired).expect(t, exitProblem, nil,
		[]string{"check not found", "Next: read the callback", "Next: set -product", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#error-codes-of-checks\n"})
	got := runProgram(t, env, "", "check", "wait", "-json", "-product", "subscriber_check", failed)

	got.expect(t, exitProblem, nil, nil)
	if document := got.decode(t); document["match"] != "unknown" || document["no_sim_change"] != "unknown" || document["check_id"] != failed {
		t.Errorf("JSON = %v, want unknown verdicts", document)
	}
}

func TestCheck_SIMError(t *testing.T) {
	t.Parallel()
	_, env := newService(t)

	got := runProgram(t, env, "", "check", "create", "-yes", "-wait", "-product", "sim_check", "447700900099")

	got.expect(t, exitProblem, []string{"Status        ERROR", "Result        unknown (", "Status  ERROR\nResult  unknown ("}, nil)
}

func TestCheckCreate_Stdin(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)

	got := runProgram(t, env, "+44 (7700) 900-012\n", "check", "create", "-yes", "-", "-reference", "order-1")

	got.expect(t, exitOK, []string{"Number        …12", "Check URL     https://127.0.0.1", "!" + number},
		[]string{"Creating a PhoneCheck of …12 with reference ID order-1", "The check was not charged", "!" + number})
	wantCreates(t, srv, 1)
}

func TestCheckCreate_Rejected(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	for _, row := range []struct {
		name, stdin  string
		args, stderr []string
	}{
		{"without -yes", "y\n", []string{number}, []string{"set -yes"}},
		{"without -yes, from stdin", number + "\ny\n", []string{"-"}, []string{"set -yes"}},
		{"malformed number", "", []string{"-yes", "07700900012"}, []string{"malformed", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#sentinels\n"}},
		{"no number", "", []string{"-yes"}, []string{"Usage: idverify check create"}},
		{"two numbers", "", []string{"-yes", number, number}, []string{"unexpected number of arguments: 2"}},
		{"-open of a real service", "", []string{"-yes", "-open", number}, []string{"-open requires -fake"}},
		{"URL of a SIMCheck", "", []string{"-yes", "-product", "sim_check", "-callback-url", "https://shop.example.com/", number}, []string{"a SIMCheck has no device"}},
		{"redirect without v0.2", "", []string{"-yes", "-redirect-url", "https://shop.example.com/", number}, []string{"v0.2"}},
		{"unknown product", "", []string{"-product", "phone", number}, []string{"must be phone_check"}},
		{"version", "", []string{"-yes", "-version", "2", number}, []string{"version"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			got := runProgram(t, env, row.stdin, append([]string{"check", "create"}, row.args...)...)

			got.expect(t, exitUsage, []string{"!Check ID"}, append(row.stderr, "!7700900012"))
		})
	}
	t.Cleanup(func() { wantCreates(t, srv, 0) })
}

// Cron and CI pass /dev/null as stdin, which is a character device.
func TestCheckCreate_NullDevice(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	null := must(os.Open(os.DevNull))(t)
	defer null.Close()
	p := newProgram(env)
	p.stdin = null

	got := p.runCommand(t.Context(), "check", "create", number)

	got.expect(t, exitUsage, nil, []string{"set -yes", "![y/N]"})
	wantCreates(t, srv, 0)
}

func TestCheckCreate_Charge(t *testing.T) {
	t.Parallel()
	srv := sandboxfake.New(t)
	live := srv.NewProject(idverify.ProjectParams{Name: "Live", Mode: idverify.ModeLive})
	env := environment(t, srv, live.Credentials)

	got := runProgram(t, env, "", "check", "create", "-yes", number)

	got.expect(t, exitOK, []string{"Charge        1 API"}, []string{"!not charged"})
}

func TestCheckCreate_OutcomeUnknown(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	srv.Inject(sandboxfake.Match{Operation: "subscriber_check.create"}, sandboxfake.Fault{Drop: true})

	got := runProgram(t, env, "", "check", "create", "-yes", "-product", "subscriber_check", "-version", "v0.2", number)

	got.expect(t, exitError, []string{"!Check ID"}, []string{"outcome unknown", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#outcome-unknown\n", "!" + number})
	wantCreates(t, srv, 1)
	m := regexp.MustCompile(`Next: idverify (check list -product subscriber_check -version v0.2 -reference \S+)\n`).FindStringSubmatch(got.stderr)
	if m == nil {
		t.Fatalf("stderr contains no command:\n%s", got.stderr)
	}
	found := runProgram(t, env, "", strings.Fields(m[1])...)
	found.expect(t, exitOK, []string{"ACCEPTED", "…12"}, nil)
	srv.Inject(sandboxfake.Match{Operation: "phone_check.create"}, sandboxfake.Fault{Drop: true})
	quoted := runProgram(t, env, "", "check", "create", "-yes", "-reference", "Ann's order", number)
	quoted.expect(t, exitError, nil, []string{`Next: idverify check list -reference 'Ann'\''s order'` + "\n"})
	none := runProgram(t, env, "", "check", "list", "-reference", "order-2")
	none.expect(t, exitOK, []string{"!CHECK ID"}, []string{"No check found. This does not prove that none was created"})
}

func TestCheckCreate_Fake(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		args []string
		code int
		text string
	}{
		{"match", []string{number}, exitOK, "Result  match\n"},
		{"no match", []string{"447700900013"}, exitProblem, "Result  no match\n"},
		{"code exchange", []string{"-version", "v0.2", number}, exitOK, "Result  match\n"},
		{"subscriber", []string{"-product", "subscriber_check", "-version", "v0.2", "447700900016"}, exitProblem, "Result  match, SIM changed\n"},
		{"JSON", []string{"-json", number}, exitOK, `"match": "yes"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			got := runProgram(t, nil, "", append([]string{"check", "create", "-fake", "-open", "-wait"}, row.args...)...)

			got.expect(t, row.code, []string{row.text}, []string{"Using a fake of the service", "!not charged"})
			if slices.Contains(row.args, "v0.2") {
				got.expect(t, row.code, []string{"/v0.2/"}, []string{"Exchanged the code"})
			}
			if slices.Contains(row.args, "-json") {
				got.decode(t)
				got.expect(t, row.code, nil, []string{"Check URL: https://"})
			}
		})
	}
}

func TestCheck_Transcript(t *testing.T) {
	t.Parallel()

	runTranscript(t, "check", nil)
	runTranscript(t, "reachability", nil)
	runTranscript(t, "token", nil)
}

// createChecks creates checks with the reference IDs order-0, order-1 and so on.
func createChecks(t *testing.T, client *idverify.Client, count int) {
	t.Helper()
	for i := range count {
		params := idverify.PhoneCheckParams{PhoneNumber: number, ReferenceID: fmt.Sprintf("order-%d", i)}
		must(client.PhoneChecks.Create(t.Context(), params))(t)
	}
}

func TestCheckList_ThousandChecks(t *testing.T) {
	t.Parallel()
	srv, env := newService(t, sandboxfake.WithJournalLimit(10_000), sandboxfake.WithFrozenClock(time.Now()))
	createChecks(t, srv.Client(), 1000)

	for _, row := range []struct {
		limit         string
		checks, pages int
		stderr        string
		last, missing string
	}{
		{"150", 150, 2, "There may be more: -limit 150.", "order-149", "order-150"},
		{"20", 20, 1, "There may be more", "order-19", "order-20"},
		{"0", 1000, 10, "!more", "order-999", "order-1000"},
	} {
		before := countRequests(srv, "phone_check.list")

		text := runProgram(t, env, "", "check", "list", "-limit", row.limit)
		document := runProgram(t, env, "", "check", "list", "-json", "-limit", row.limit).decode(t)

		text.expect(t, exitOK, []string{row.last + "\n", "!" + row.missing + "\n"}, []string{row.stderr})
		if n := strings.Count(text.stdout, "\n") - 1; n != row.checks {
			t.Errorf("-limit %s: rows = %d, want %d", row.limit, n, row.checks)
		}
		if checks, _ := document["checks"].([]any); len(checks) != row.checks {
			t.Errorf("-limit %s: checks in JSON = %d, want %d", row.limit, len(checks), row.checks)
		}
		if n := (countRequests(srv, "phone_check.list") - before) / 2; n != row.pages {
			t.Errorf("-limit %s: pages = %d, want %d", row.limit, n, row.pages)
		}
	}
}

func TestCheckList_FailsInTheMiddle(t *testing.T) {
	t.Parallel()
	srv, env := newService(t, sandboxfake.WithFrozenClock(time.Now()))
	createChecks(t, srv.Client(), 250)
	pass, fail := sandboxfake.Fault{}, sandboxfake.Fault{Status: 400}
	srv.Inject(sandboxfake.Match{Operation: "phone_check.list"}, pass, pass, fail, pass, pass, fail)

	text := runProgram(t, env, "", "check", "list", "-limit", "0")
	document := runProgram(t, env, "", "check", "list", "-limit", "0", "-json")

	text.expect(t, exitProblem, []string{"order-0\n", "order-199\n", "!order-200\n"}, []string{"idverify: list PhoneChecks: 400"})
	document.expect(t, exitProblem, []string{`"order-199"`, "!]"}, []string{"idverify: list PhoneChecks: 400"})
}

func TestCheckList_Filters(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(-time.Hour)
	srv, env := newService(t, sandboxfake.WithFrozenClock(at))
	createChecks(t, srv.Client(), 3)
	// The checks expire after two minutes.
	noError(t, srv.Advance(t.Context(), 100*time.Second))
	checkID, checkURL := create(t, env, "-reference", `new "order"; status==ACCEPTED`, number)
	must(srv.Device().Open(t.Context(), checkURL))(t)

	for _, row := range []struct {
		name string
		args []string
		want int
		only bool // the new check
	}{
		{"all", nil, 4, false},
		{"status", []string{"-status", "completed"}, 1, true},
		{"reference", []string{"-reference", `new "order"; status==ACCEPTED`}, 1, true},
		{"reference and status", []string{"-reference", `new "order"; status==ACCEPTED`, "-status", "ACCEPTED"}, 0, false},
		{"since a time", []string{"-since", at.Add(100 * time.Second).Format(time.RFC3339)}, 1, true},
		{"since a duration", []string{"-since", "50s"}, 1, true},
		{"since two hours", []string{"-since", "2h"}, 4, false},
		{"reference and since", []string{"-reference", "order-1", "-since", "50s"}, 0, false},
		{"since and status", []string{"-since", "2h", "-status", "ACCEPTED"}, 3, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := newProgram(env)
			stopClock(p, at.Add(100*time.Second))

			got := p.runCommand(t.Context(), append([]string{"check", "list", "-json"}, row.args...)...)

			checks, _ := got.decode(t)["checks"].([]any)
			if len(checks) > 0 && checks[0].(map[string]any)["check_id"] != checkID && row.args == nil {
				t.Errorf("the first check is not the newest one")
			}
			if len(checks) != row.want || row.only && !strings.Contains(got.stdout, checkID) {
				t.Errorf("checks = %d, want %d\n%s", len(checks), row.want, got.stdout)
			}
		})
	}
}

func TestProgram_InvalidArguments(t *testing.T) {
	t.Parallel()
	for want, command := range map[string]string{
		"are not stored":                "check list -status EXPIRED",
		"must be ACCEPTED":              "check list -status done",
		"must be a positive":            "check list -since -1h",
		"a time such as":                "check list -since yesterday",
		"must not be negative":          "check list -fake -limit -1",
		"number of arguments: 1":        "check list -fake order-1",
		"not defined: -reference-":      "check list -reference-id order-1",
		"either an address or -country": "reachability -fake",
		"set either an address":         "reachability -fake -country GB 192.0.2.2",
		"is not an IP address":          "reachability -fake phone.example.com",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()

			got := runProgram(t, nil, "", strings.Fields(command)...)

			got.expect(t, exitUsage, nil, []string{want, "!phone.example.com"})
		})
	}
}

func TestCheck_ServiceErrors(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, operation string
		fault           sandboxfake.Fault
		args            []string
		code            int
		stderr          []string
	}{
		{"balance", "phone_check.create", sandboxfake.Fault{Status: 402}, []string{"check", "create", "-yes", number}, exitProblem,
			[]string{"402 insufficient_balance", "Next: top up the workspace; until then, verify users in another way\n", "!sandbox", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#problem-codes\n"}},
		{"rate limit", "phone_check.create", sandboxfake.Fault{Status: 429, RetryAfter: time.Minute}, []string{"check", "create", "-yes", number}, exitError,
			[]string{"429 too_many_requests", "Next: run the command again in 60 s", "Next: idverify doctor", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#problem-codes\n"}},
		{"rate limit of tokens", "token.create", sandboxfake.Fault{Status: 429, RetryAfter: time.Minute}, []string{"token"}, exitError,
			[]string{"429", "Next: run the command again in 60 s", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#token-errors\n"}},
		{"forbidden", "phone_check.list", sandboxfake.Fault{Status: 403}, []string{"check", "list"}, exitProblem,
			[]string{"403 forbidden", "Next: idverify doctor"}},
		{"unavailable", "phone_check.list", sandboxfake.Fault{Status: 503, RetryAfter: time.Minute}, []string{"check", "list"}, exitError,
			[]string{"503", "Next: run the command again in 60 s", "Next: idverify doctor"}},
		{"permanent 5XX", "phone_check.list", sandboxfake.Fault{Status: 505, Body: "<html>"}, []string{"check", "list"}, exitProblem,
			[]string{"505", "!later", "Next: idverify doctor", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#errors-without-a-sentinel\n"}},
		{"permanent 5XX of tokens", "token.create", sandboxfake.Fault{Status: 505, Body: "<html>"}, []string{"token"}, exitProblem,
			[]string{"505", "!later", "Next: idverify doctor", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#token-errors\n"}},
		{"service error of a create", "phone_check.create", sandboxfake.Fault{Status: 500}, []string{"check", "create", "-yes", number}, exitError,
			[]string{"500", "Next: idverify check list -reference idverify-", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#outcome-unknown\n"}},
		{"unusable response", "phone_check.list", sandboxfake.Fault{Body: "<html>"}, []string{"check", "list"}, exitError,
			[]string{"Next: look for a proxy", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#errors-without-a-sentinel\n"}},
		{"not found", "", sandboxfake.Fault{}, []string{"check", "get", "2f1f4b0c-1f57-4f7c-9d2c-0f8f6f1d9a11"}, exitProblem,
			[]string{"404 check_not_found", "Next: read the callback", "Next: set -product if the check is not a PhoneCheck", "Next: idverify check list\n"}},
		{"SIMCheck not found", "", sandboxfake.Fault{}, []string{"check", "get", "-product", "sim_check", "2f1f4b0c-1f57-4f7c-9d2c-0f8f6f1d9a11"}, exitProblem,
			[]string{"404 check_not_found", "Next: a SIMCheck that ends as ERROR is not stored", "!Next: read the callback"}},
		{"page of a proxy", "phone_check.get", sandboxfake.Fault{Status: 404, Body: "<html>"}, []string{"check", "get", "2f1f4b0c-1f57-4f7c-9d2c-0f8f6f1d9a11"}, exitProblem,
			[]string{"404", "Next: idverify doctor", "!callback", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#errors-without-a-sentinel\n"}},
		{"traces not found", "", sandboxfake.Fault{}, []string{"check", "traces", "2f1f4b0c-1f57-4f7c-9d2c-0f8f6f1d9a11"}, exitProblem,
			[]string{"404 check_not_found"}},
		{"unknown version", "", sandboxfake.Fault{}, []string{"check", "list", "-version", "v9.9"}, exitProblem, []string{"404 not_found"}},
		{"no mobile address", "", sandboxfake.Fault{}, []string{"reachability", "192.0.2.1"}, exitProblem, []string{"412 not_mobile_ip", "!192.0.2.1"}},
		{"scope", "", sandboxfake.Fault{}, []string{"token", "-scope", "console"}, exitProblem, []string{"invalid_scope", "Next: set -scope to scopes of these credentials: those of a project can have phone_check, sim_check, subscriber_check, coverage; those of a workspace, console\n", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#token-errors\n"}},
		{"no scope", "", sandboxfake.Fault{}, []string{"token", "-scope", ","}, exitUsage, []string{"no scopes"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			srv, env := newService(t)
			if row.operation != "" {
				srv.Inject(sandboxfake.Match{Operation: row.operation}, row.fault)
			}

			got := runProgram(t, env, "", row.args...)

			got.expectError(t, row.code, append(row.stderr, "idverify: ", "!idverify: idverify")...)
		})
	}
}

func TestCheck_Timeout(t *testing.T) {
	t.Parallel()
	p := newProgram(nil)
	clock := stopClock(p, time.Now())
	hanging := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		clock.move(time.Minute)
		<-t.Context().Done()
	}))
	t.Cleanup(hanging.Close)
	env := map[string]string{
		baseURLVariable: hanging.URL, caFileVariable: writeFile(t, certificatePEM(hanging)),
		clientIDVariable: "id", clientSecretVariable: "secret-of-id",
	}
	p.getenv = func(name string) string { return env[name] }

	got := p.runCommand(t.Context(), "check", "list", "-timeout", "1m")

	got.expectError(t, exitError, "idverify: ", "!idverify: idverify", "deadline exceeded", "Next: set a longer -timeout")
}

// certificatePEM returns the certificate of a server, which is its own root.
func certificatePEM(srv *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
}

func TestCheck_ConnectionErrors(t *testing.T) {
	t.Parallel()
	_, env := newService(t)
	for _, row := range []struct {
		name, variable, value string
		code                  int
		stderr                []string
	}{
		{"credentials", clientSecretVariable, "wrong", exitProblem, []string{"401 invalid_client", "Next: idverify doctor", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#token-errors\n", "!wrong"}},
		{"certificate", caFileVariable, "", exitError, []string{"certificate", "Next: set IDVERIFY_CA_FILE to the root certificate of the server if you trust it\n", "!WithHTTPClient", "Next: idverify doctor", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#errors-without-a-sentinel\n"}},
		{"unreachable", baseURLVariable, "https://" + unusedAddress, exitError, []string{"connection refused", "Next: check the port of IDVERIFY_BASE_URL, and that the server runs", "Next: idverify doctor", "!firewall", "!" + unusedAddress}},
		{"no base URL", baseURLVariable, "", exitError, []string{"idverify: IDVERIFY_BASE_URL is missing", "See:  https://github.com/idverify/idverify-go/blob/main/docs/tools.md#connection-to-the-service\n"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			got := runProgram(t, with(env, row.variable, row.value), "", "check", "list")

			got.expect(t, row.code, nil, append(row.stderr, "idverify: "))
		})
	}
}

func TestCheckWait_Interrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	_, env := newService(t, sandboxfake.WithRequestLog(watch("phone_check.get", func([]string) { interrupt() })))
	checkID, _ := create(t, env, number)

	got := newProgram(env).runCommand(ctx, "check", "wait", checkID)

	got.expect(t, exitError, nil, []string{"context canceled", "Next: idverify check wait " + checkID + "\n"})
}

func TestCheckCreate_Interrupted(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	ctx, interrupt := context.WithCancel(t.Context())
	p := newProgram(env)
	p.stdin = &blockedReader{read: interrupt, closed: t.Context().Done()}

	got := p.runCommand(ctx, "check", "create", "-yes", "-")

	got.expect(t, exitError, nil, []string{"read the number: context canceled"})
	wantCreates(t, srv, 0)
}

// blockedReader blocks a read until closed, as a terminal without input does.
type blockedReader struct {
	read   func()
	closed <-chan struct{}
}

func (r *blockedReader) Read([]byte) (int, error) {
	r.read()
	<-r.closed
	return 0, context.Canceled
}

func TestCheck_HostileValues(t *testing.T) {
	t.Parallel()
	const hostile = `\u001b[2Jtitle\u0007\u009b31m\r\u202egnp\nCheck ID  forged\u007f\ud83d\ude00\udb40\udc41`
	const fields = `"status":"COMPLETED","phone_number":"447700900012","match":true,"charge_amount":0,"charge_currency":"` + hostile +
		`","created_at":"2026-01-02T03:04:05+0000","network_id":"` + hostile + `","reference_id":"` + hostile + `","callback_url":"` + hostile + `"`
	const checkID = "2f1f4b0c-1f57-4f7c-9d2c-0f8f6f1d9a11"
	check := `{"check_id":"` + checkID + `",` + fields + `}`
	page := `{"page":{"size":20,"number":1,"total_pages":1,"total_elements":1},"_embedded":{`
	for _, row := range []struct{ name, operation, body, args string }{
		{"get", "phone_check.get", check, "check get " + checkID},
		{"list", "phone_check.list", page + `"checks":[` + check + `]}}`, "check list"},
		{"traces", "phone_check.traces", page + `"traces":[{"trace_id":"1","logs":[{"timestamp":"2026-01-02T03:04:05+0000","message":"` + hostile +
			`","attributes":{"` + hostile + `":"` + hostile + `","list":["` + hostile + `"]}}]}]}}`, "check traces " + checkID},
		{"reachability", "reachability.device_ip", `{"network_id":"` + hostile + `","network_name":"` + hostile + `","country_code":"` + hostile +
			`","supported_products":["` + hostile + `"]}`, "reachability 192.0.2.2"},
		{"country", "reachability.country", `{"country_code":"` + hostile + `","dialing_code":44,"products":[{"product_id":"` + hostile + `","coverage":"` + hostile +
			`","networks":[{"network_id":"1","network_name":"` + hostile + `","prices":[{"currency":"` + hostile + `","amount":1}]}]}]}`, "reachability -country GB"},
	} {
		for _, format := range []string{"text", "json"} {
			t.Run(row.name+" "+format, func(t *testing.T) {
				t.Parallel()
				srv, env := newService(t)
				srv.Inject(sandboxfake.Match{Operation: row.operation}, sandboxfake.Fault{Status: 200, Body: row.body})
				args := strings.Fields(row.args)
				if format == "json" {
					args = append(args, "-json")
				}

				got := runProgram(t, env, "", args...)

				got.expect(t, exitOK, []string{"title", "😀", "!\x1b", "!\x07", "!\u009b", "!\r", "!\u202e", "!\x7f", "!\U000E0041", "!\nCheck ID  forged"}, nil)
				if format == "json" && !strings.Contains(got.stdout, `\udb40\udc41`) {
					t.Errorf("a character that is not printed must remain in the JSON:\n%s", got.stdout)
				}
				if format == "json" {
					got.decode(t)
				}
			})
		}
	}
}

func TestCheckGet_JSON(t *testing.T) {
	t.Parallel()
	const id = "2f1f4b0c-1f57-4f7c-9d2c-0f8f6f1d9a11"
	const body = `{"check_id":"` + id + `","status":"ERROR","phone_number":"447700900012","match":false,"no_sim_change":false,"ttl":120,` +
		`"charge_amount":2,"charge_currency":"EUR","created_at":"2026-01-02T03:04:05+0000","updated_at":"2026-01-02T03:04:06+0000","network_id":"00101",` +
		`"error_code":"mno_timeout","reference_id":"order-1","callback_url":"https://shop.example.com/callbacks"}`
	simCheck := map[string]any{
		"product": "sim_check", "check_id": id, "status": "ERROR", "phone_number": "…12", "no_sim_change": "unknown", "ttl_seconds": 120.0,
		"charge_amount": "2", "charge_currency": "EUR", "created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:06Z", "network_id": "00101",
		"error_code": "mno_timeout", "reference_id": "order-1",
	}
	subscriberCheck := maps.Clone(simCheck)
	subscriberCheck["product"], subscriberCheck["match"], subscriberCheck["callback_url"] = "subscriber_check", "unknown", "https://shop.example.com/callbacks"
	phoneCheck := maps.Clone(subscriberCheck)
	phoneCheck["product"] = "phone_check"
	delete(phoneCheck, "no_sim_change")
	for _, want := range []map[string]any{phoneCheck, simCheck, subscriberCheck} {
		product := want["product"].(string)
		srv, env := newService(t)
		srv.Inject(sandboxfake.Match{Operation: product + ".get"}, sandboxfake.Fault{Status: 200, Body: body})

		got := runProgram(t, env, "", "check", "get", "-json", "-product", product, id)

		if diff := cmp.Diff(want, got.decode(t)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", product, diff)
		}
	}
}

func TestCheckTraces_HidesNumbers(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	const body = `{"page":{"size":100,"number":1,"total_pages":1,"total_elements":1},"_embedded":{"traces":[{"trace_id":"1","logs":[` +
		`{"timestamp":"2026-01-02T03:04:05+0000","message":"query +44 (7700) 900-012 of 2f1f4b0c-1f57-4f7c-9d2c-0f8f6f1d9a11 at 2026-01-02T03:04:05Z",` +
		`"attributes":{"msisdn":447700900012,"all":[{"tel":"tel:447700900012"}],"447700900012":1}}]}]}}`
	srv.Inject(sandboxfake.Match{Operation: "phone_check.traces", Repeat: true}, sandboxfake.Fault{Status: 200, Body: body})
	run := func(args ...string) result {
		return runProgram(t, env, "", append([]string{"check", "traces", "2f1f4b0c-1f57-4f7c-9d2c-0f8f6f1d9a11"}, args...)...)
	}

	run().expect(t, exitOK, []string{"query …12 of 2f1f4b0c-1f57-4f7c-9d2c-0f8f6f1d9a11 at ", "!7700"}, nil)
	run("-json").expect(t, exitOK, []string{"query …12 of", `"msisdn": "…12"`, "!7700"}, nil)
	run("-json").decode(t)
	run("-show-numbers").expect(t, exitOK, []string{"(7700) 900-012", "tel:447700900012"}, nil)
}

func TestReachability_Country(t *testing.T) {
	t.Parallel()

	got := runProgram(t, nil, "", "reachability", "-fake", "-country", "GB")

	got.expect(t, exitOK, []string{"GB, dialing code 44\n", "sim_check         FULL      Sandbox Mobile (00101)  1 API\n"}, nil)
}

func TestCheck_NextCommandOfFake(t *testing.T) {
	t.Parallel()

	got := runProgram(t, nil, "", "check", "get", "-fake", "-product", "sim_check", "2f1f4b0c-1f57-4f7c-9d2c-0f8f6f1d9a11")

	got.expect(t, exitProblem, nil, []string{"Next: idverify check list -fake -product sim_check\n"})
	next := runProgram(t, nil, "", "check", "list", "-fake", "-product", "sim_check")
	next.expect(t, exitOK, []string{"SIM unchanged"}, nil)
}

// spans returns the first words of all code spans in a text.
func spans(text string) []string {
	var found []string
	for _, m := range regexp.MustCompile("`([^` ]+)[^`]*`").FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

func TestCheckJSON_Documented(t *testing.T) {
	t.Parallel()
	section := pageSection(t, "### JSON of checks, reachability and token")
	var documented []string
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			documented = append(documented, slices.DeleteFunc(spans(cells[2]), func(name string) bool { return strings.HasPrefix(name, "-") })...)
		}
	}
	want := []string{
		"product", "checks", // check list
		"product", "check_id", "traces", // check traces
		"network_id", "network_name", "country_code", "products", "country_code", "dialing_code", "products", // reachability
		"scopes", "expires_at", "expires_in_seconds", "access_token", // token
	}
	for _, document := range []any{check{}, trace{}, traceLog{}, countryProduct{}, countryNetwork{}, price{}} {
		for field := range reflect.TypeOf(document).Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			want = append(want, name)
		}
	}
	slices.Sort(want)
	slices.Sort(documented)
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("fields in docs/tools.md (-code +page):\n%s", diff)
	}
}

func TestCheckJSON_Fields(t *testing.T) {
	t.Parallel()
	section := pageSection(t, "### JSON of checks, reachability and token")
	names := regexp.MustCompile(`(?m)^\s*\{?"([a-z_]+)":|[,{]"([a-z_]+)":`)
	for _, args := range [][]string{
		{"check", "create", "-fake", number},
		{"check", "list", "-fake", "-product", "subscriber_check"},
		{"check", "get", "-fake", "-product", "sim_check", "b04e5343-cdbd-8e4b-bd46-2d551cb7a138"},
		{"reachability", "-fake", "192.0.2.2"},
		{"reachability", "-fake", "-country", "GB"},
		{"token", "-fake", "-show-token"},
	} {
		got := runProgram(t, nil, "", append(args, "-json")...)

		got.decode(t)
		found := names.FindAllStringSubmatch(got.stdout, -1)
		if got.code != exitOK || len(found) < 3 {
			t.Errorf("%v: exit code %d, %d fields\n%s", args, got.code, len(found), got.stderr)
		}
		for _, m := range found {
			if name := m[1] + m[2]; !strings.Contains(section, "`"+name+"`") {
				t.Errorf("%v: docs/tools.md does not contain the field %s", args, name)
			}
		}
	}
}
