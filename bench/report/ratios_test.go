package main

import (
	"bytes"
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

	got, err := parseRatios(bytes.NewReader(formatRatios(r)))

	if err != nil {
		t.Fatal(err)
	}
	want := map[key]summary{
		{"bench", "Read", "x-httptest"}: {1.25, 1.2, 1.3},
		{"bench", "Read", "allocs"}:     {16, 16, 16},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(summary{})); diff != "" {
		t.Errorf("ratios (-want +got):\n%s", diff)
	}
}

func TestParseRatios_Invalid(t *testing.T) {
	t.Parallel()
	const line = "bench Read x-httptest 1.25 1.2 1.3\n"
	for _, tt := range []struct{ name, file, want string }{
		{"empty", "", "no ratios"},
		{"only a comment", "# none\n\n", "no ratios"},
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

func TestWriteComparison(t *testing.T) {
	t.Parallel()
	moved := comparison{compared: 3, moved: []move{{key{"bench", "Read", "x-httptest"}, summary{1.25, 1.2, 1.3}, 1.5}}}
	for _, tt := range []struct {
		name          string
		c             comparison
		before        machine
		contains, not string
	}{
		{"nothing moved", comparison{compared: 3}, machine{}, "no ratio moved (3 compared)", "busy with other work"},
		{"moved", moved, machine{}, "moved: bench Read: committed 1.25 (1.2 to 1.3), now 1.5 x-httptest", "busy with other work"},
		{"moved on a busy machine", moved, machine{busy: 0.5}, "busy with other work", "no ratio moved"},
		{"not committed", comparison{compared: 1, added: []key{{"bench", "List", "x-httptest"}}}, machine{}, "not in bench/ratios.txt: bench List", "moved:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder

			writeComparison(&out, tt.c, tt.before, machine{})

			if got := out.String(); !strings.Contains(got, tt.contains) || strings.Contains(got, tt.not) {
				t.Errorf("output = %s\nwant %q and not %q", got, tt.contains, tt.not)
			}
		})
	}
}
