package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

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

func requests(srv *sandboxfake.Server, operation string) (count int) {
	for _, r := range srv.Requests() {
		if r.Operation == operation {
			count++
		}
	}
	return count
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
				if _, err := srv.Device().Open(t.Context(), checkURL); err != nil {
					t.Fatal(err)
				}
			}

			run("wait", checkID).expect(t, row.code, []string{"COMPLETED\nResult        " + row.result + "\n", "…" + row.number[10:], "!" + row.number}, nil)
			run("get", checkID).expect(t, exitOK, []string{checkID, row.result, "order-1", "!" + row.number}, nil)
			run("list", "-reference", "order-1").expect(t, exitOK, []string{checkID, row.result, "!" + row.number}, nil)
			run("traces", checkID).expect(t, exitOK, []string{"check accepted", "check finished", "status=COMPLETED\n"}, nil)
			run("get", checkID, "-show-numbers").expect(t, exitOK, []string{row.number}, nil)
			document := run("wait", "-json", checkID).decode(t)
			if document["matched"] != row.matched || document["sim_unchanged"] != row.sim || document["phone_number"] != "…"+row.number[10:] {
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
	if _, err := srv.Device().Open(t.Context(), checkURL); err != nil {
		t.Fatal(err)
	}

	runProgram(t, env, "", "check", "wait", expired).expect(t, exitProblem, nil,
		[]string{"check not found", "Next: read the callback", "Next: set -product", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#error-codes-of-checks\n"})
	got := runProgram(t, env, "", "check", "wait", "-json", "-product", "subscriber_check", failed)

	got.expect(t, exitProblem, nil, nil)
	if document := got.decode(t); document["matched"] != "unknown" || document["sim_unchanged"] != "unknown" || document["check_id"] != failed {
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
	if n := requests(srv, "phone_check.create"); n != 1 {
		t.Errorf("creates = %d, want 1", n)
	}
}

func TestCheckCreate_Rejected(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	for _, row := range []struct {
		name, stdin, stderr string
		args                []string
	}{
		{"without -yes", "y\n", "set -yes", []string{number}},
		{"without -yes, from stdin", number + "\ny\n", "set -yes", []string{"-"}},
		{"malformed number", "", "Next", []string{"-yes", "07700900012"}},
		{"no number", "", "Usage: idverify check create", []string{"-yes"}},
		{"two numbers", "", "unexpected number of arguments: 2", []string{"-yes", number, number}},
		{"-open of a real service", "", "-open requires -fake", []string{"-yes", "-open", number}},
		{"URL of a SIMCheck", "", "a SIMCheck has no device", []string{"-yes", "-product", "sim_check", "-callback-url", "https://shop.example.com/", number}},
		{"redirect without v0.2", "", "v0.2", []string{"-yes", "-redirect-url", "https://shop.example.com/", number}},
		{"unknown product", "", "must be phone_check", []string{"-product", "phone", number}},
		{"version", "", "version", []string{"-yes", "-version", "2", number}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			got := runProgram(t, env, row.stdin, append([]string{"check", "create"}, row.args...)...)

			stderr := []string{row.stderr, "!7700900012"}
			if row.stderr == "Next" {
				stderr = []string{"malformed", "See:  https://github.com/idverify/idverify-go/blob/main/docs/errors.md#sentinels\n", "!7700900012"}
			}
			got.expect(t, exitUsage, []string{"!Check ID"}, stderr)
		})
	}
	t.Cleanup(func() {
		if n := requests(srv, "phone_check.create") + requests(srv, "sim_check.create"); n != 0 {
			t.Errorf("creates = %d, want 0: each one can cost money", n)
		}
	})
}

// Cron and CI pass /dev/null as stdin, which is a character device.
func TestCheckCreate_NullDevice(t *testing.T) {
	t.Parallel()
	srv, env := newService(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var stdout, stderr bytes.Buffer
	p := &program{stdin: null, stdout: &stdout, stderr: &stderr, getenv: func(name string) string { return env[name] }}

	code := p.run(t.Context(), []string{"check", "create", number})

	result{code, stdout.String(), stderr.String()}.expect(t, exitUsage, nil, []string{"set -yes", "![y/N]"})
	if n := requests(srv, "phone_check.create"); n != 0 {
		t.Errorf("creates = %d, want 0: each one can cost money", n)
	}
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
	if n := requests(srv, "subscriber_check.create"); n != 1 {
		t.Errorf("creates = %d, want 1: each one can cost money", n)
	}
	m := regexp.MustCompile(`Next: idverify (check list -product subscriber_check -version v0.2 -reference \S+)\n`).FindStringSubmatch(got.stderr)
	if m == nil {
		t.Fatalf("stderr contains no command:\n%s", got.stderr)
	}
	found := runProgram(t, env, "", strings.Fields(m[1])...)
	found.expect(t, exitOK, []string{"ACCEPTED", "…12"}, nil)
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
		{"JSON", []string{"-json", number}, exitOK, `"matched": "yes"`},
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
