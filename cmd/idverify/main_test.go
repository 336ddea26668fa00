package main

import (
	"bytes"
	"strings"
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
	p := &program{
		stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr,
		getenv: func(name string) string { return env[name] },
	}
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
		{"help", []string{"help"}, exitOK, "Usage: idverify COMMAND", ""},
		{"-h", []string{"-h"}, exitOK, "Usage: idverify COMMAND", ""},
		{"unknown", []string{"exmaine"}, exitUsage, "", `unknown command "exmaine"`},
		{"version", []string{"version"}, exitOK, "idverify (devel) go1.", ""},
		{"flags of a command", []string{"version", "-h"}, exitOK, "", "Usage: idverify version"},
		{"unknown flag", []string{"version", "-x"}, exitUsage, "", "flag provided but not defined: -x"},
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

func TestProgram_Transcript(t *testing.T) {
	t.Parallel()

	runTranscript(t, "program", nil)
}
