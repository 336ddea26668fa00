package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// maxSpread is the spread of a ratio beyond which it is noisy: (maximum - minimum) / median.
const maxSpread = 0.03

// key identifies a result: the directory of a package, a benchmark without the word Benchmark and
// the number of processors, and a unit.
type key struct{ pkg, name, unit string }

// isRatio reports whether the result is a ratio of times or of memory.
func (k key) isRatio() bool { return strings.HasPrefix(k.unit, "x-") }

// isCount reports whether the result is a number of allocations, which does not depend on load.
func (k key) isCount() bool { return k.unit == "allocs" || k.unit == "more-allocs" }

// results contains the values of each run by key, in the order of the first run.
type results struct {
	order  []key
	values map[key][]float64
}

func (r *results) add(k key, value float64) {
	if r.values == nil {
		r.values = make(map[key][]float64)
	}
	if _, ok := r.values[k]; !ok {
		r.order = append(r.order, k)
	}
	r.values[k] = append(r.values[k], value)
}

// summary is the median of the runs, and their range.
type summary struct{ median, least, most float64 }

// summarize returns the summary of values, which must not be empty.
func summarize(values []float64) summary {
	sorted := slices.Sorted(slices.Values(values))
	return summary{median: sorted[(len(sorted)-1)/2], least: sorted[0], most: sorted[len(sorted)-1]}
}

// spread returns the width of the range relative to the median.
func (s summary) spread() float64 { return (s.most - s.least) / s.median }

// noisy returns the names of the benchmarks with a noisy ratio.
func (r *results) noisy() (names []string) {
	for _, k := range r.order {
		if k.isRatio() && summarize(r.values[k]).spread() > maxSpread && !slices.Contains(names, k.name) {
			names = append(names, k.name)
		}
	}
	return names
}

// replaceQuieter replaces the values of a benchmark by those of another measurement, if the widest
// spread among its ratios is smaller there.
func (r *results) replaceQuieter(name string, other *results) {
	if other.widest(name) >= r.widest(name) {
		return
	}
	for k, values := range other.values {
		if k.name == name {
			r.values[k] = values
		}
	}
}

func (r *results) widest(name string) (spread float64) {
	for k, values := range r.values {
		if k.name == name && k.isRatio() {
			spread = max(spread, summarize(values).spread())
		}
	}
	return spread
}

// merge adds the results of other for one benchmark, or for all if name is empty.
func (r *results) merge(name string, other *results) {
	for _, k := range other.order {
		if name != "" && k.name != name {
			continue
		}
		for _, v := range other.values[k] {
			r.add(k, v)
		}
	}
}

// print writes the results as a table. It marks a ratio that is still noisy.
func (r *results) print(w io.Writer) {
	for _, k := range r.order {
		s := summarize(r.values[k])
		mark := ""
		if k.isRatio() && s.spread() > maxSpread {
			mark = "  noisy"
		}
		fmt.Fprintf(w, "%-60s %10.4g %-26s (%.4g to %.4g)%s\n", k.pkg+" "+k.name, s.median, k.unit, s.least, s.most, mark)
	}
}

// parseBenchmarks adds the results in the output of go test -bench. It skips lines of other kinds,
// and the time per operation, which is the sum of both sides. processors is the number that go
// test appends to each name.
func (r *results) parseBenchmarks(pkg string, output io.Reader, processors int) error {
	scanner := bufio.NewScanner(output)
	for scanner.Scan() {
		line, ok := strings.CutPrefix(scanner.Text(), "Benchmark")
		fields := strings.Fields(line)
		if !ok || len(fields) < 2 {
			continue // a name alone precedes the log of its benchmark
		}
		if _, err := strconv.Atoi(fields[1]); err != nil {
			continue
		}
		if len(fields)%2 != 0 {
			return fmt.Errorf("truncated line %q", scanner.Text())
		}
		name := strings.TrimSuffix(fields[0], "-"+strconv.Itoa(processors))
		for i := 2; i < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return fmt.Errorf("line %q: %w", scanner.Text(), err)
			}
			if unit := fields[i+1]; unit != "ns/op" {
				r.add(key{pkg, name, unit}, value)
			}
		}
	}
	return scanner.Err()
}
