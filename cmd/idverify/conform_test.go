package main

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/conformance"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/sandboxfake"
)

// conformToAll runs all rules against the program sandboxfake, whose output with -json is stdout.
func conformToAll(t *testing.T, stdout *bufio.Reader) {
	t.Helper()
	line := must(stdout.ReadBytes('\n'))(t)
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
	noError(t, json.Unmarshal(line, &announced))
	env := map[string]string{
		clientIDVariable: announced.Project.ClientID, clientSecretVariable: announced.Project.ClientSecret,
		workspaceVariables + "CLIENT_ID": announced.Workspace.ClientID, workspaceVariables + "CLIENT_SECRET": announced.Workspace.ClientSecret,
		caFileVariable: announced.CAFile, controlTokenVariable: announced.ControlToken,
	}
	addr := tooltest.ReservedAddress(t)

	got := runProgram(t, env, "", "conform", "-base-url", announced.URL, "-yes", "-json", "-timeout", "5m",
		"-callback-url", "http://"+addr+"/callbacks", "-listen", addr, "-advance-url", announced.URL+"/_sandbox/advance")

	got.expect(t, exitOK, nil, []string{"Creates up to 59 checks of phone numbers reserved for fiction, and 5 projects, which are deleted at the end.", "examined 50 of 50 rules\n"})
	var report receivertest.Report
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || report.Kind != receivertest.KindService || len(report.Findings) != len(conformance.Rules()) {
		t.Errorf("error %v, %d findings of the kind %q, want one for each rule of the service", err, len(report.Findings), report.Kind)
	}
	for _, f := range report.Findings {
		if f.Result != receivertest.ResultPass {
			t.Errorf("%s: %s: %s", f.Rule, f.Result, f.Detail)
		}
	}
}

func TestConform_Fault(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	srv.Inject(sandboxfake.Match{Operation: "sim_check.create", Repeat: true}, sandboxfake.Fault{Body: `{"check_id":"a","status":"COMPLETED","no_sim_change":true}`})
	path := filepath.Join(t.TempDir(), "report.xml")

	text := runProgram(t, env, "", "conform", "-yes")
	junit := runProgram(t, env, "", "conform", "-yes", "-junit", "-o", path)

	const failure = "FAIL  SIMCheck, number ending in 5, 6, 7, 8 or 9: COMPLETED, SIM change: number ending in 55: no_sim_change is true, want false"
	text.expect(t, exitProblem, []string{
		failure + "\n      service/sim-check-change: docs/protocol.md, section 4; assumes the paths of SIMChecks\n",
		"\nn/a   service/workspace-scopes: requires credentials of the workspace (IDVERIFY_WORKSPACE_CLIENT_ID",
		" passed, 2 failed, ",
		"!pass  ",
	}, []string{"See:  " + docsURL + "protocol.md\n", "!projects"})
	junit.expect(t, exitProblem, nil, []string{failure + " (service/sim-check-change)\n", " passed, 2 failed, "})
	var suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
	}
	if err := xml.Unmarshal([]byte(readText(t, path)), &suite); err != nil || suite.Tests != len(conformance.Rules()) || suite.Failures != 2 {
		t.Errorf("JUnit: error %v, %d tests and %d failures, want %d and 2", err, suite.Tests, suite.Failures, len(conformance.Rules()))
	}
}

func TestConform_InvalidCredentials(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	env[clientSecretVariable] = "wrong-secret"

	got := runProgram(t, env, "", "conform", "-yes")

	got.expect(t, exitProblem, []string{
		"status is 401 Unauthorized, want 200 OK (compare the credentials with those of the project)\n      service/token: ",
		": depends on service/token\n",
		"!wrong-secret",
	}, []string{"!wrong-secret"})
	if n := creates(srv); n != 0 {
		t.Errorf("%d checks were created, want none", n)
	}
}

// creates returns the number of created checks.
func creates(srv *sandboxfake.Server) int {
	n := 0
	for _, r := range srv.Requests() {
		if strings.HasSuffix(r.Operation, "_check.create") && r.Status == http.StatusCreated {
			n++
		}
	}
	return n
}

func TestConform_LiveProject(t *testing.T) {
	t.Parallel()
	srv, _ := newService(t)
	env := environment(t, srv, srv.NewProject(idverify.ProjectParams{Name: "Live", Mode: idverify.ModeLive}).Credentials)

	got := runProgram(t, env, "", "conform", "-yes")

	got.expect(t, exitProblem, []string{"the project is charged for checks (use a sandbox project)", " 1 failed, "}, nil)
	if n := creates(srv); n != 1 {
		t.Errorf("%d checks were charged, want 1", n)
	}
}

func TestConform_Unable(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	missing := filepath.Join(t.TempDir(), "missing", "file")
	for _, row := range []struct {
		name   string
		args   []string
		env    map[string]string
		stderr []string
	}{
		{"unreachable", []string{"-base-url", "https://" + unusedAddress}, nil, []string{"conform: connect to the service: dial: connect: connection refused\n", "Next: check the port of the base URL", "!127.0.0.1"}},
		{"untrusted", nil, map[string]string{caFileVariable: ""}, []string{"Next: set IDVERIFY_CA_FILE to the root certificate of the server"}},
		{"no base URL", nil, map[string]string{baseURLVariable: ""}, []string{"IDVERIFY_BASE_URL is missing", "See:  " + docsURL + "tools.md#connection-to-the-service\n"}},
		{"no secret", nil, map[string]string{clientSecretVariable: ""}, []string{"IDVERIFY_CLIENT_SECRET is missing"}},
		{"half of the workspace", nil, map[string]string{workspaceVariables + "CLIENT_ID": "id"}, []string{"IDVERIFY_WORKSPACE_CLIENT_SECRET is missing"}},
		{"address in use", []string{"-callback-url", "http://127.0.0.1/", "-listen", strings.TrimPrefix(srv.URL(), "https://")}, nil, []string{"conform: -listen: ", "address already in use"}},
		{"report", []string{"-o", missing}, nil, []string{"conform: write the report: "}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			changed := maps.Clone(env)
			maps.Copy(changed, row.env)

			got := runProgram(t, changed, "", append([]string{"conform", "-yes"}, row.args...)...)

			got.expectError(t, exitError, row.stderr...)
		})
	}
}

func TestConform_Interrupted(t *testing.T) {
	t.Parallel()
	_, env := newService(t)
	ctx, cancel := context.WithCancel(t.Context())
	p := newProgram(env)
	p.stderr = watch("examined 10 of 50 rules", func([]string) { cancel() })

	got := p.runCommand(ctx, "conform", "-yes")

	got.expect(t, exitError, []string{"\n9 passed, 0 failed, 1 not applicable, in "}, []string{"idverify: conform: interrupted\n"})
}

func TestConform_Usage(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		args []string
		want string // part of stderr
	}{
		{"argument", []string{"https://service.example.com"}, "pass the URL of the service with -base-url"},
		{"no -yes", nil, "nothing was sent: in a live project, the first check costs money"},
		{"base URL", []string{"-base-url", "http://service.example.com"}, "-base-url: "},
		{"fake and service", []string{"-fake", "-yes"}, "with -fake, -base-url, "},
		{"list and format", []string{"-list", "-json"}, "with -list, no other flag has an effect"},
		{"listen", []string{"-listen", ":0"}, "-listen has no effect without -callback-url"},
		{"callback URL", []string{"-callback-url", "/callbacks"}, "-callback-url must begin with https:// or http://"},
		{"query", []string{"-callback-url", "https://shop.example.com/?a=b"}, "-callback-url must not contain a query"},
		{"advance URL", []string{"-advance-url", "/advance"}, "-advance-url must begin with https:// or http://"},
		{"timeout", []string{"-timeout", "0"}, "-timeout must be positive"},
		{"two formats", []string{"-json", "-v"}, "only one of -json, -junit and -v"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			got := runProgram(t, nil, "", append([]string{"conform"}, row.args...)...)

			got.expectError(t, exitUsage, row.want)
		})
	}
}

func TestConform_List(t *testing.T) {
	t.Parallel()

	got := runProgram(t, nil, "", "conform", "-list")

	got.expect(t, exitOK, []string{
		"service/scope-required\n    scope is required.\n    docs/protocol.md, section 2\n",
		"requires a receiver of callbacks (-callback-url) and a clock that can be moved (-advance-url)\n",
	}, nil)
	if n := strings.Count(got.stdout, "\nservice/") + 1; n != len(conformance.Rules()) {
		t.Errorf("%d rules, want %d", n, len(conformance.Rules()))
	}
}

// TestConform_Costs verifies that the help and the page say what the command creates.
func TestConform_Costs(t *testing.T) {
	t.Parallel()
	help := runProgram(t, nil, "", "help", "conform").stdout
	page := pageSection(t, "## Test a service")

	for _, want := range []string{fmt.Sprintf("up to %d checks", conformance.Checks), fmt.Sprintf("%d projects", conformance.Projects)} {
		if !strings.Contains(help, want) || !strings.Contains(page, want) {
			t.Errorf("the help or docs/tools.md does not mention %q", want)
		}
	}
	if want := fmt.Sprintf("%d rules", len(conformance.Rules())); !strings.Contains(page, want) {
		t.Errorf("docs/tools.md does not mention %q", want)
	}
}

// TestConform_CommandsDocumented parses each command of the section.
func TestConform_CommandsDocumented(t *testing.T) {
	t.Parallel()
	commands := regexp.MustCompile(`(?m)^(?:\$ )?(idverify conform .*)$`).FindAllStringSubmatch(pageSection(t, "## Test a service"), -1)

	for _, command := range commands {
		text := strings.ReplaceAll(command[1], "$IDVERIFY_BASE_URL", "https://127.0.0.1:8443")
		args := shellWords(text)[2:]
		if got := runProgram(t, nil, "", append([]string{"conform", "-o", t.TempDir()}, args...)...); got.code == exitUsage && !strings.Contains(got.stderr, "set -yes") {
			t.Errorf("%s: %s", text, got.stderr)
		}
	}
	if len(commands) != 3 {
		t.Errorf("found %d commands, want 3", len(commands))
	}
}

func TestConform_Transcript(t *testing.T) {
	t.Parallel()

	runTranscript(t, "conform", nil)
}
