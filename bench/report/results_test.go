package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResults_ParseBenchmarks(t *testing.T) {
	t.Parallel()
	read := key{"bench/fakes", "Read/gofakes3", "x-httptest"}
	for _, tt := range []struct {
		name, output string
		want         map[key][]float64
	}{
		{"empty", "", nil},
		{"other lines", "goos: linux\nPASS\nok  \tbench\t1.2s\n--- BENCH: BenchmarkRead-2\n", nil},
		{"one result", "BenchmarkRead/gofakes3-2   1843   190666 ns/op   1.334 x-httptest\n", map[key][]float64{read: {1.334}}},
		{"several runs", "BenchmarkRead/gofakes3-2 1 5 ns/op 1.3 x-httptest\nBenchmarkRead/gofakes3-2 1 5 ns/op 1.2 x-httptest\n", map[key][]float64{read: {1.3, 1.2}}},
		{"several units", "BenchmarkMemory-2 1 5 ns/op 56 KiB/server 0.8 x-httptest\n", map[key][]float64{{"bench/fakes", "Memory", "KiB/server"}: {56}, {"bench/fakes", "Memory", "x-httptest"}: {0.8}}},
		{"number in a name", "BenchmarkGrowth/1000/read-2 1 5 ns/op 1 x-100\n", map[key][]float64{{"bench/fakes", "Growth/1000/read", "x-100"}: {1}}},
		{"a name without a result", "BenchmarkRead\nBenchmarkRead/gofakes3\n", nil},
		{"a name before a log", "BenchmarkRead/gofakes3-2 read_test.go:3: warm up\n", nil},
		{"huge value", "BenchmarkRead/gofakes3-2 1 5 ns/op 1e300 x-httptest\n", map[key][]float64{read: {1e300}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var r results

			err := r.parseBenchmarks("bench/fakes", strings.NewReader(tt.output), 2)

			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, r.values); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResults_ParseInvalidBenchmarks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, output, want string }{
		{"truncated", "BenchmarkRead-2 1 5 ns/op 1.3", "truncated line"},
		{"not a number", "BenchmarkRead-2 1 5 ns/op many x-httptest", "invalid syntax"},
		{"out of range", "BenchmarkRead-2 1 1e999 x-httptest", "out of range"},
		{"huge line", "BenchmarkRead-2 1 5 ns/op " + strings.Repeat("1", 1<<20), "too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := new(results).parseBenchmarks("bench", strings.NewReader(tt.output), 2)

			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []float64
		want   summary
	}{
		{[]float64{2}, summary{2, 2, 2}},
		{[]float64{3, 1}, summary{1, 1, 3}},
		{[]float64{3, 1, 2}, summary{2, 1, 3}},
	} {
		t.Run(fmt.Sprint(tt.values), func(t *testing.T) {
			t.Parallel()
			if got := summarize(tt.values); got != tt.want {
				t.Errorf("summarize = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestResults_Noisy(t *testing.T) {
	t.Parallel()
	r := resultsOf(map[key][]float64{
		{"p", "Quiet", "x-raw"}:   {1, 1.01, 1.02},
		{"p", "Noisy", "x-raw"}:   {1, 1.1, 1.2},
		{"p", "Noisy", "allocs"}:  {9, 9, 9},
		{"p", "Bytes", "B/check"}: {1, 2, 3}, // not a ratio
		{"p", "Zero", "x-raw"}:    {0, 0, 0},
	})

	got := r.noisy()

	if diff := cmp.Diff([]string{"Noisy"}, got); diff != "" {
		t.Errorf("noisy (-want +got):\n%s", diff)
	}
}

func TestResults_ReplaceQuieter(t *testing.T) {
	t.Parallel()
	a, b := key{"p", "A", "x-raw"}, key{"p", "B", "x-raw"}
	r := resultsOf(map[key][]float64{a: {1, 2}, b: {1, 2}})

	r.replaceQuieter("A", resultsOf(map[key][]float64{a: {1, 1.5}, b: {1, 1}}))
	r.replaceQuieter("B", resultsOf(map[key][]float64{b: {1, 3}}))

	if diff := cmp.Diff(map[key][]float64{a: {1, 1.5}, b: {1, 2}}, r.values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestExactly(t *testing.T) {
	t.Parallel()
	if got, want := exactly("Read/a.b/clients=8"), `^Read$/^a\.b$/^clients=8$`; got != want {
		t.Errorf("exactly = %s, want %s", got, want)
	}
}

func resultsOf(values map[key][]float64) *results {
	r := new(results)
	for k, vs := range values {
		for _, v := range vs {
			r.add(k, v)
		}
	}
	return r
}
