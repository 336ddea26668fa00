package main

import (
	"bytes"
	"context"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idverify/idverify-go/sandboxfake"
)

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
			[]string{"402 insufficient_balance", "Next: top up the workspace; until then, verify users in another way\n", "!sandbox", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#fragments\n"}},
		{"rate limit", "phone_check.create", sandboxfake.Fault{Status: 429, RetryAfter: time.Minute}, []string{"check", "create", "-yes", number}, exitError,
			[]string{"429 too_many_requests", "Next: run the command again in 60 s", "Next: idverify doctor", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#fragments\n"}},
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
		{"scope", "", sandboxfake.Fault{}, []string{"token", "-scope", "console"}, exitProblem, []string{"invalid_scope", "Next: set -scope to scopes of these credentials: those of a project can have phone_check, sim_check, subscriber_check, coverage\n", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#token-errors\n"}},
		{"no scope", "", sandboxfake.Fault{}, []string{"token", "-scope", ","}, exitUsage, []string{"no scopes"}},
		{"timeout", "", sandboxfake.Fault{}, []string{"check", "list", "-timeout", "1ns"}, exitError, []string{"deadline exceeded", "Next: set a longer -timeout"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			srv, env := newService(t)
			if row.operation != "" {
				srv.Inject(sandboxfake.Match{Operation: row.operation}, row.fault)
			}

			got := runProgram(t, env, "", row.args...)

			got.expect(t, row.code, nil, append(row.stderr, "idverify: ", "!idverify: idverify"))
			if got.stdout != "" {
				t.Errorf("errors must be on stderr, stdout:\n%s", got.stdout)
			}
		})
	}
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
			env := maps.Clone(env)
			env[row.variable] = row.value

			got := runProgram(t, env, "", "check", "list")

			got.expect(t, row.code, nil, append(row.stderr, "idverify: "))
		})
	}
}

// onWrite calls f once, when a text is written.
type onWrite struct {
	text string
	f    func()
	once sync.Once
}

func (w *onWrite) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.text)) {
		w.once.Do(w.f)
	}
	return len(p), nil
}

func TestCheckWait_Interrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	_, env := newService(t, sandboxfake.WithRequestLog(&onWrite{text: "phone_check.get", f: interrupt}))
	checkID, _ := create(t, env, number)
	var stdout, stderr bytes.Buffer
	p := &program{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: func(name string) string { return env[name] }}

	code := p.run(ctx, []string{"check", "wait", checkID})

	result{code, stdout.String(), stderr.String()}.expect(t, exitError, nil,
		[]string{"context canceled", "Next: idverify check wait " + checkID + "\n"})
}

func TestCheckCreate_Interrupted(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	ctx, interrupt := context.WithCancel(t.Context())
	stdin := &blockedReader{read: interrupt, closed: t.Context().Done()}
	var stdout, stderr bytes.Buffer
	p := &program{stdin: stdin, stdout: &stdout, stderr: &stderr, getenv: func(name string) string { return env[name] }}

	code := p.run(ctx, []string{"check", "create", "-yes", "-"})

	result{code, stdout.String(), stderr.String()}.expect(t, exitError, nil, []string{"read the number: context canceled"})
	if n := requests(srv, "phone_check.create"); n != 0 {
		t.Errorf("creates = %d, want 0", n)
	}
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
		{"reachability", "coverage.device_ip", `{"network_id":"` + hostile + `","network_name":"` + hostile + `","country_code":"` + hostile +
			`","supported_products":["` + hostile + `"]}`, "reachability 192.0.2.2"},
		{"country", "coverage.country", `{"country_code":"` + hostile + `","dialing_code":44,"products":[{"product_id":"` + hostile + `","coverage":"` + hostile +
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

func TestCheck_NextCommandOfFake(t *testing.T) {
	t.Parallel()

	got := runProgram(t, nil, "", "check", "get", "-fake", "-product", "sim_check", "2f1f4b0c-1f57-4f7c-9d2c-0f8f6f1d9a11")

	got.expect(t, exitProblem, nil, []string{"Next: idverify check list -fake -product sim_check\n"})
	next := runProgram(t, nil, "", "check", "list", "-fake", "-product", "sim_check")
	next.expect(t, exitOK, []string{"SIM unchanged"}, nil)
}
