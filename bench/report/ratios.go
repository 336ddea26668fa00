package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A ratio may leave its committed range by the larger of these: a share of the end of the range,
// and a difference. docs/performance.md shows how they were chosen.
const (
	tolerance  = 0.10
	difference = 0.01 // of costs much smaller than the baseline, which vary more
)

// formatRatios returns the content of ratios.txt: ratios and numbers of allocations.
func formatRatios(r *results) []byte {
	var b bytes.Buffer
	b.WriteString("# Written by bash bench/run -write. Columns: package, benchmark, unit, median, minimum, maximum.\n")
	for _, k := range r.order {
		if k.isRatio() || k.isCount() {
			s := summarize(r.values[k])
			fmt.Fprintf(&b, "%s %s %s %.4g %.4g %.4g\n", k.pkg, k.name, k.unit, s.median, s.least, s.most)
		}
	}
	return b.Bytes()
}

// parseRatios parses the content of ratios.txt. Empty lines and comments are allowed.
func parseRatios(file io.Reader) (map[key]summary, error) {
	ratios := make(map[key]summary)
	scanner := bufio.NewScanner(file)
	for n := 1; scanner.Scan(); n++ {
		fields := strings.Fields(scanner.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 6 {
			return nil, fmt.Errorf("line %d: %d fields, want 6", n, len(fields))
		}
		k := key{fields[0], fields[1], fields[2]}
		if _, ok := ratios[k]; ok {
			return nil, fmt.Errorf("line %d: duplicate result", n)
		}
		var s summary
		for i, value := range []*float64{&s.median, &s.least, &s.most} {
			var err error
			if *value, err = strconv.ParseFloat(fields[3+i], 64); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
		if !(s.least <= s.median && s.median <= s.most) {
			return nil, fmt.Errorf("line %d: the median is outside the range", n)
		}
		ratios[k] = s
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	if len(ratios) == 0 {
		return nil, fmt.Errorf("no ratios (run bash bench/run -write)")
	}
	return ratios, nil
}

// comparison is the difference between the committed and the current ratios.
type comparison struct {
	compared int
	moved    []move
	added    []key // are not committed
}

// move is a result outside its committed range and the tolerance.
type move struct {
	key
	committed summary
	now       float64
}

// compare compares the medians of now with the committed ratios. Numbers of allocations have no
// tolerance.
func compare(committed map[key]summary, now *results) comparison {
	var c comparison
	for _, k := range now.order {
		if !k.isRatio() && !k.isCount() {
			continue
		}
		was, ok := committed[k]
		if !ok {
			c.added = append(c.added, k)
			continue
		}
		c.compared++
		below, above := max(tolerance*was.least, difference), max(tolerance*was.most, difference)
		if k.isCount() {
			below, above = 0, 0
		}
		if median := summarize(now.values[k]).median; median < was.least-below || median > was.most+above {
			c.moved = append(c.moved, move{k, was, median})
		}
	}
	return c
}

// writeComparison writes the summary for a person who reads the log of a CI run.
func writeComparison(w io.Writer, c comparison, before, after machine) {
	fmt.Fprintf(w, "before: %s\nafter: %s\n", before, after)
	for _, m := range c.moved {
		fmt.Fprintf(w, "moved: %s %s: committed %.4g (%.4g to %.4g), now %.4g %s\n", m.pkg, m.name, m.committed.median, m.committed.least, m.committed.most, m.now, m.unit)
	}
	for _, k := range c.added {
		fmt.Fprintf(w, "not in %s: %s %s %s\n", ratiosFile, k.pkg, k.name, k.unit)
	}
	if len(c.moved) == 0 {
		fmt.Fprintf(w, "no ratio moved (%d compared)\n", c.compared)
		return
	}
	fmt.Fprintf(w, "%d of %d ratios moved by more than %.0f %% beyond their committed range; this is not an error\n", len(c.moved), c.compared, 100*tolerance)
	if before.loaded() || after.loaded() {
		fmt.Fprintln(w, "the machine was busy with other work: measure again before you rely on these ratios")
	}
}
