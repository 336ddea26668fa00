package main

import (
	"bytes"
	"errors"
	"io/fs"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// result is the output of a command.
type result struct {
	code           int
	stdout, stderr string
}

// runProgram runs a command with environment variables and an input.
func runProgram(t *testing.T, env map[string]string, stdin string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := newProgram(env)
	p.stdin, p.stdout, p.stderr = strings.NewReader(stdin), &stdout, &stderr
	code := p.run(t.Context(), args)
	return result{code, stdout.String(), stderr.String()}
}

func TestProgram_Commands(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string // parts of the output
	}{
		{"none", nil, exitUsage, "", "Usage: idverify COMMAND"},
		{"flags of help", []string{"help", "check", "create"}, exitOK, "-callback-url", ""},
		{"help of doctor", []string{"help", "doctor"}, exitOK, "-callback-url URL", ""},
		{"help of examine", []string{"help", "examine"}, exitOK, "-strict", ""},
		{"help of an unknown command", []string{"help", "exmaine"}, exitUsage, "", `unknown command "exmaine" (the commands are examine, explain, doctor, check create, `},
		{"unknown check command", []string{"check", "creat"}, exitUsage, "", `unknown command "check creat" (the commands are check create, check get, check list, check wait, check traces)`},
		{"help of an unknown check command", []string{"check", "creat", "-h"}, exitUsage, "", `unknown command "check creat" (the commands are check create, `},
		{"check alone", []string{"check"}, exitUsage, "", `incomplete command "check" (the commands are check create, check get, check list, check wait, check traces)`},
		{"-h of check", []string{"check", "-h"}, exitOK, "Usage: idverify check COMMAND [FLAGS] [ARGUMENTS]\n\nCommands:\n  create ", ""},
		{"--help of check", []string{"check", "--help"}, exitOK, "\n  traces           print the recorded steps of a check\n", ""},
		{"help of check", []string{"help", "check"}, exitOK, "\"idverify help check COMMAND\" lists the flags", ""},
		{"-h of help", []string{"help", "-h"}, exitOK, "Usage: idverify COMMAND", ""},
		{"help of help", []string{"help", "help"}, exitOK, "Usage: idverify COMMAND", ""},
		{"-h of a check command", []string{"check", "create", "-h"}, exitOK, "-callback-url URL", ""},
		{"arguments of version", []string{"version", "foo", "bar"}, exitUsage, "", "version: unexpected number of arguments: 2"},
		{"help", []string{"help"}, exitOK, "Usage: idverify COMMAND", ""},
		{"-h", []string{"-h"}, exitOK, "Usage: idverify COMMAND", ""},
		{"unknown", []string{"exmaine"}, exitUsage, "", `unknown command "exmaine" (the commands are examine, explain, doctor, check create, `},
		{"version", []string{"version"}, exitOK, "idverify (devel) go1.", ""},
		{"flags of a command", []string{"version", "-h"}, exitOK, "Usage: idverify version", ""},
		{"unknown flag", []string{"version", "-x"}, exitUsage, "", `idverify: version: flag provided but not defined: -x ("idverify version -h" lists the flags)`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			got := runProgram(t, nil, "", row.args...)

			if got.code != row.code || !strings.Contains(got.stdout, row.stdout) || !strings.Contains(got.stderr, row.stderr) {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", got.code, row.code, got.stdout, got.stderr)
			}
			if (row.stdout == "") != (got.stdout == "") || (row.stderr == "") != (got.stderr == "") {
				t.Errorf("results must be on stdout and usage errors on stderr\nstdout: %s\nstderr: %s", got.stdout, got.stderr)
			}
		})
	}
}

// TestProgram_Help reads the usage of each command. A user can pass it to a pager, and flags with
// the same meaning have the same name.
func TestProgram_Help(t *testing.T) {
	t.Parallel()
	durations := regexp.MustCompile(`(?m)^  -(\S+) duration$`)
	for _, c := range commands() {
		words := strings.Fields(c.name)

		help := runProgram(t, nil, "", append([]string{"help"}, words...)...)
		for _, flag := range []string{"-h", "--help"} {
			if got := runProgram(t, nil, "", append(words, flag)...); got != help || got.code != exitOK || got.stderr != "" || !strings.HasPrefix(got.stdout, "Usage: idverify "+c.name) {
				t.Errorf("%s %s: exit code %d, want the usage on stdout, as of help\nstdout: %s\nstderr: %s", c.name, flag, got.code, got.stdout, got.stderr)
			}
		}

		if strings.Contains(help.stdout, "\n  -json\n") == (c.name == "version") {
			t.Errorf("%s: want the flag -json, unless the command has one line of output:\n%s", c.name, help.stdout)
		}
		for _, m := range durations.FindAllStringSubmatch(help.stdout, -1) {
			if m[1] != "timeout" {
				t.Errorf("%s: -%s is a duration, want the name -timeout", c.name, m[1])
			}
		}
	}
}

func TestProgram_Transcript(t *testing.T) {
	t.Parallel()

	runTranscript(t, "program", nil)
}

// failingWriter fails with an error after the first bytes.
type failingWriter struct {
	left int
	err  error
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, w.err
	}
	return len(p), nil
}

func TestProgram_OutputNotWritten(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left on device")
	_, env := newService(t)
	checkID, _ := create(t, env, number)
	capture := rawHead(signedCallback(t), "", "\r\n") + capturedBody
	explainArgs := []string{"explain", "-jwks", jwksFile(t, testKeys()[0]), "-host", "api.example.com"}
	for _, row := range []struct {
		name   string
		args   []string
		left   int
		err    error
		stderr string
	}{
		{"help", []string{"help"}, 0, full, "no space left"},
		{"version", []string{"version"}, 0, full, "no space left"},
		{"token", []string{"token"}, 0, full, "no space left"},
		{"second line", []string{"token"}, 30, full, "no space left"},
		{"token as JSON", []string{"token", "-json"}, 0, full, "no space left"},
		{"check get", []string{"check", "get", checkID}, 0, full, "no space left"},
		{"check list", []string{"check", "list"}, 0, full, "no space left"},
		{"check list as JSON", []string{"check", "list", "-json"}, 0, full, "no space left"},
		{"check traces", []string{"check", "traces", checkID}, 0, full, "no space left"},
		{"reachability", []string{"reachability", "-country", "GB"}, 0, full, "no space left"},
		{"rules", []string{"examine", "-list"}, 0, full, "no space left"},
		{"explain", explainArgs, 0, full, "no space left"},
		{"doctor", []string{"doctor", "-only", "config-base-url"}, 0, full, "no space left"},
		{"closed pipe", []string{"version"}, 0, &fs.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			p := newProgram(env)
			p.stdin, p.stdout, p.stderr = strings.NewReader(capture), &failingWriter{row.left, row.err}, &stderr

			code := p.run(t.Context(), row.args)

			if code != exitError || (row.stderr == "") != (stderr.Len() == 0) || row.stderr != "" && strings.Count(stderr.String(), row.stderr) != 1 {
				t.Errorf("exit code %d, want %d\nstderr: %s", code, exitError, stderr.String())
			}
		})
	}
}
