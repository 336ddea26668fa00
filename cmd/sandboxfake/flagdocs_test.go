package main

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// submatches returns the sorted first groups of all matches of an expression.
func submatches(expression, text string) []string {
	var found []string
	for _, match := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return found
}

// TestParseFlags_Usage requires the usage on stdout, so that "sandboxfake -h | less" shows it, and
// errors in one line.
func TestParseFlags_Usage(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		arg            string
		code           int
		stdout, stderr string
	}{
		{"-h", exitOK, "Usage of sandboxfake:\n  -addr host:port\n", ""},
		{"-x", exitUsage, "", "sandboxfake: flag provided but not defined: -x (\"sandboxfake -h\" lists the flags)\n"},
		{"start", exitUsage, "", "sandboxfake: unexpected argument \"start\" (\"sandboxfake -h\" lists the flags)\n"},
	} {
		var stdout, stderr strings.Builder

		f, code := parseFlags([]string{row.arg}, &stdout, &stderr)

		if f != nil || code != row.code || !strings.HasPrefix(stdout.String(), row.stdout) || (row.stdout == "") != (stdout.Len() == 0) || stderr.String() != row.stderr {
			t.Errorf("%s: exit code %d, want %d\nstdout: %s\nstderr: %s", row.arg, code, row.code, &stdout, &stderr)
		}
	}
}

func TestFlags_Documented(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var want []string
	set := flag.NewFlagSet("sandboxfake", flag.ContinueOnError)
	new(flags).define(set)
	set.VisitAll(func(f *flag.Flag) { want = append(want, f.Name) }) // in lexical order
	comment, _, _ := strings.Cut(read("main.go"), "\npackage main")
	_, section, _ := strings.Cut(read("../../docs/sandbox.md"), "\n## Flags\n")
	section, _, _ = strings.Cut(section, "\n## ")
	// The first cell of a row can contain several flags.
	cells := strings.Join(submatches(`(?m)^\| (.*?) \|`, section), "\n")

	inComment := submatches(`(?m)^//\t-([a-z-]+)`, comment)
	inTable := submatches("`-([a-z-]+)", cells)

	if diff := cmp.Diff(want, inComment); diff != "" {
		t.Errorf("flags in the package comment (-program +comment):\n%s", diff)
	}
	if diff := cmp.Diff(want, inTable); diff != "" {
		t.Errorf("flags in the table of docs/sandbox.md (-program +table):\n%s", diff)
	}
}
