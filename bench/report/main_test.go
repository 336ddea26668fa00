package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseOptions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args string
		want options
	}{
		{"", options{count: 3, root: "."}},
		{"-root .. -ci", options{ci: true, count: 3, root: ".."}},
		{"-write -draw -count 1", options{write: true, draw: true, count: 1, root: "."}},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			got, err := parseOptions(strings.Fields(tt.args))

			if err != nil || got != tt.want {
				t.Errorf("options = %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestParseOptions_WithoutEffect(t *testing.T) {
	t.Parallel()
	const excluded = "-ci excludes -write, -draw and -count"
	for args, want := range map[string]string{
		"-ci -write":   excluded,
		"-draw -ci":    excluded,
		"-ci -count 3": excluded,
		"-count 0":     "-count must be at least 1",
		"-count -1":    "-count must be at least 1",
		"ci":           `unexpected argument "ci"`,
		"-ci write":    `unexpected argument "write"`,
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			_, err := parseOptions(strings.Fields(args))

			if err == nil || err.Error() != want {
				t.Errorf("error = %v, want %s", err, want)
			}
		})
	}
}

func TestCompareWithCommitted_Invalid(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, file, want string }{
		{"no file", "", "bench/ratios.txt: no ratios (run bash bench/run -write)"},
		{"no ratios", "# none\n\n", "bench/ratios.txt: no ratios (run bash bench/run -write)"},
		{"truncated", "bench Read x-htt", "bench/ratios.txt: line 1: 3 fields, want 6"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := &measurer{root: rootWithRatios(t, tt.file), log: io.Discard}

			err := compareWithCommitted(t.Context(), m, io.Discard)

			if err == nil || err.Error() != tt.want {
				t.Errorf("error = %v, want %s", err, tt.want)
			}
		})
	}
}

func TestReportAll_InvalidFile(t *testing.T) {
	t.Parallel()
	m := &measurer{root: rootWithRatios(t, "<<<<<<< HEAD\n"), count: 1, log: io.Discard}
	var out strings.Builder

	err := reportAll(t.Context(), m, &out, options{write: true})

	if err == nil || !strings.Contains(err.Error(), "line 1: 2 fields") || out.Len() > 0 {
		t.Errorf("error = %v, output = %q, want an error before the first measurement", err, out.String())
	}
}

func TestReportAll_PrintsBeforeError(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":    "module root\n\ngo 1.26\n",
		"x_test.go": "package x\n\nimport \"testing\"\n\nfunc BenchmarkTokenHit(b *testing.B) {\n\tb.ReportMetric(7, \"x-oauth2\")\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := &measurer{root: root, count: 1, log: io.Discard}
	var out strings.Builder

	err := reportAll(t.Context(), m, &out, options{}) // there is no directory signature

	if err == nil || !strings.Contains(err.Error(), "signature: ") || !strings.Contains(out.String(), " 7 x-oauth2 ") {
		t.Errorf("error = %v, output = %s\nwant the result of the first package", err, out.String())
	}
}
