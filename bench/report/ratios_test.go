package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRatios_RoundTrip(t *testing.T) {
	t.Parallel()
	r := resultsOf(map[key][]float64{
		{"bench", "Read", "x-httptest"}:  {1.25, 1.2, 1.3},
		{"bench", "Read", "allocs"}:      {16},
		{"bench", "Memory", "KiB/check"}: {56}, // not a ratio
	})

	written, kept := ratios{}.update(r)
	got, err := parseRatios(bytes.NewReader(written.format()))

	if err != nil || len(kept) != 0 {
		t.Fatalf("kept = %v, error = %v, want none", kept, err)
	}
	want := map[key]summary{
		{"bench", "Read", "x-httptest"}: {1.25, 1.2, 1.3},
		{"bench", "Read", "allocs"}:     {16, 16, 16},
	}
	if diff := cmp.Diff(want, got.values, cmp.AllowUnexported(summary{})); diff != "" {
		t.Errorf("ratios (-want +got):\n%s", diff)
	}
}

func TestWriteRatios_KeepsOthers(t *testing.T) {
	t.Parallel()
	const comment = "# Written by bash bench/run -write. Columns: package, benchmark, unit, median, minimum, maximum.\n"
	for _, tt := range []struct {
		name, file string
		measured   []key
		want, out  string
	}{
		{"no file", "", []key{{"p", "A", "x-raw"}}, "p A x-raw 2 2 2\n", ""},
		{
			"others around and between", "p First x-raw 1 1 1\np A x-raw 1 1 1\np Third x-raw 0.002594 0.001 154\np Fourth allocs 3 3 3\np B x-raw 1 1 1\np Last x-raw 1 1 1\n",
			[]key{{"p", "A", "x-raw"}, {"p", "B", "x-raw"}},
			"p First x-raw 1 1 1\np A x-raw 2 2 2\np Third x-raw 0.002594 0.001 154\np Fourth allocs 3 3 3\np B x-raw 2 2 2\np Last x-raw 1 1 1\n",
			"not measured, kept in bench/ratios.txt: p First x-raw\nnot measured, kept in bench/ratios.txt: p Third x-raw\nnot measured, kept in bench/ratios.txt: p Fourth allocs\nnot measured, kept in bench/ratios.txt: p Last x-raw\n",
		},
		{
			"same benchmark in another package", "q A x-raw 1 1 1\n", []key{{"p", "A", "x-raw"}, {"p", "A", "allocs"}, {"p", "A", "ms"}},
			"q A x-raw 1 1 1\np A x-raw 2 2 2\np A allocs 2 2 2\n", "not measured, kept in bench/ratios.txt: q A x-raw\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := rootWithRatios(t, tt.file)
			committed, err := readRatios(root)
			if err != nil {
				t.Fatal(err)
			}
			var measured results
			for _, k := range tt.measured {
				measured.add(k, 2)
			}
			var out strings.Builder

			err = writeRatios(&out, root, committed, &measured)

			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(comment+tt.want, string(readFile(filepath.Join(root, ratiosFile)))); diff != "" {
				t.Errorf("file (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.out, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

// rootWithRatios returns a root directory with the content of ratios.txt. Without content, the file
// does not exist.
func rootWithRatios(t *testing.T, content string) string {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "bench"), 0o755); err != nil {
		t.Fatal(err)
	}
	if content != "" {
		if err := os.WriteFile(filepath.Join(root, ratiosFile), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestParseRatios_Invalid(t *testing.T) {
	t.Parallel()
	const line = "bench Read x-httptest 1.25 1.2 1.3\n"
	for _, tt := range []struct{ name, file, want string }{
		{"truncated", line + "bench Read x-htt", "line 2: 3 fields"},
		{"too many fields", "bench Read x-httptest 1 1 1 1\n", "line 1: 7 fields"},
		{"duplicate", line + line, "line 2: duplicate"},
		{"not a number", "bench Read x-httptest 1 1 many\n", "invalid syntax"},
		{"reversed range", "bench Read x-httptest 1.25 1.3 1.2\n", "outside the range"},
		{"NaN", "bench Read x-httptest NaN 1 2\n", "outside the range"},
		{"huge line", strings.Repeat("a", 1<<20), "too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := parseRatios(strings.NewReader(tt.file))

			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	ratio, count, small := key{"bench", "Read", "x-httptest"}, key{"bench", "Read", "allocs"}, key{"signature", "Claim", "x-raw"}
	committed := map[key]summary{ratio: {1, 0.9, 1.1}, count: {16, 16, 16}, small: {0.007, 0.006, 0.008}}
	for _, tt := range []struct {
		name        string
		now         map[key][]float64
		moved, adds int
	}{
		{"nothing", nil, 0, 0},
		{"in the range", map[key][]float64{ratio: {1.1}}, 0, 0},
		{"within the tolerance", map[key][]float64{ratio: {1.2}}, 0, 0},
		{"above", map[key][]float64{ratio: {1.22}}, 1, 0},
		{"below", map[key][]float64{ratio: {0.8}}, 1, 0},
		{"twice a small cost", map[key][]float64{small: {0.016}}, 0, 0},
		{"above a small cost", map[key][]float64{small: {0.019}}, 1, 0},
		{"one outlier", map[key][]float64{ratio: {1, 3, 1}}, 0, 0},
		{"same allocations", map[key][]float64{count: {16}}, 0, 0},
		{"one allocation more", map[key][]float64{count: {17}}, 1, 0},
		{"one allocation fewer", map[key][]float64{count: {15}}, 1, 0},
		{"not committed", map[key][]float64{{"bench", "List", "x-httptest"}: {1}}, 0, 1},
		{"another unit", map[key][]float64{{"bench", "Read", "ms"}: {1}}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := compare(committed, resultsOf(tt.now))

			if len(c.moved) != tt.moved || len(c.added) != tt.adds {
				t.Errorf("moved = %v, added = %v, want %d and %d", c.moved, c.added, tt.moved, tt.adds)
			}
		})
	}
}

func TestRatios_Missing(t *testing.T) {
	t.Parallel()
	runs := []measurement{
		{dir: ".", bench: "Read|List"},
		{dir: "bench", bench: "none", test: "TestBubble"},
		{dir: "bench", main: "./size"},
		{dir: "bench/fakes", bench: "(Start|Read)/^sandboxfake"},
	}
	measured := resultsOf(map[key][]float64{{".", "List", "allocs"}: {1}})
	for _, tt := range []struct {
		row  key
		want bool
	}{
		{key{".", "List", "allocs"}, false},
		{key{".", "List", "x-raw"}, true}, // another unit
		{key{".", "Read/TLS", "x-raw"}, true},
		{key{".", "TokenHit", "allocs"}, false},
		{key{"signature", "List", "allocs"}, false},
		{key{"bench", "Bubble/rounds=2", "x-raw"}, true},
		{key{"bench", "Import/size", "x-nethttp"}, false},
		{key{"bench/fakes", "Start/sandboxfake-in-memory", "x-httptest"}, true},
		{key{"bench/fakes", "Start/sandboxfake/clients=8", "x-httptest"}, true},
		{key{"bench/fakes", "Start/s3rver", "x-httptest"}, false},
		{key{"bench/fakes", "Start", "x-httptest"}, false},
		{key{"bench/fakes", "List/sandboxfake", "x-httptest"}, false},
	} {
		t.Run(fmt.Sprint(tt.row), func(t *testing.T) {
			t.Parallel()
			committed := ratios{order: []key{tt.row}}

			missing := committed.missing(runs, measured)

			if got := len(missing) == 1; got != tt.want {
				t.Errorf("missing = %v, want the row: %v", missing, tt.want)
			}
		})
	}
}

func TestWriteComparison(t *testing.T) {
	t.Parallel()
	moved := comparison{compared: 3, moved: []move{{key{"bench", "Read", "x-httptest"}, summary{1.25, 1.2, 1.3}, 1.5}}}
	for _, tt := range []struct {
		name          string
		c             comparison
		before        machine
		contains, not string
		err           string
	}{
		{"nothing moved", comparison{compared: 3}, machine{}, "no ratio moved (3 compared)", "busy with other work", ""},
		{"nothing moved on a busy machine", comparison{compared: 3}, machine{busy: 0.5}, "no ratio moved (3 compared)\nthe machine was busy with other work", "moved:", ""},
		{"moved", moved, machine{}, "moved: bench Read: committed 1.25 (1.2 to 1.3), now 1.5 x-httptest", "busy with other work", ""},
		{"moved on a busy machine", moved, machine{busy: 0.5}, "busy with other work", "no ratio moved", ""},
		{"not committed", comparison{compared: 1, added: []key{{"bench", "List", "x-httptest"}}}, machine{}, "not in bench/ratios.txt (run bash bench/run -write): bench List", "moved:", ""},
		{"not measured", comparison{compared: 1, missing: []key{{"bench", "List", "x-httptest"}}}, machine{}, "not measured: bench List x-httptest", "moved:", "bench/ratios.txt: 1 ratios of the selection were not measured (delete those of benchmarks that no longer exist)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder

			err := writeComparison(&out, tt.c, tt.before, machine{})

			if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
				t.Errorf("error = %v, want %q", err, tt.err)
			}
			if got := out.String(); !strings.Contains(got, tt.contains) || strings.Contains(got, tt.not) {
				t.Errorf("output = %s\nwant %q and not %q", got, tt.contains, tt.not)
			}
		})
	}
}
