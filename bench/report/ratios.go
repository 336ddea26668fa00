package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A ratio may leave its committed range by the larger of these: a share of the end of the range,
// and a difference. On an idle machine, most ratios stay within 8 %.
const (
	tolerance  = 0.10
	difference = 0.01 // of costs much smaller than the baseline, which vary more
)

// ratios is the content of ratios.txt: ratios and numbers of allocations, in the order of the file.
type ratios struct {
	order  []key
	values map[key]summary
}

// update replaces the ratios that were measured. It keeps the others at their place, and returns
// their keys.
func (r ratios) update(measured *results) (updated ratios, kept []key) {
	updated.values = make(map[key]summary)
	for _, k := range measured.order {
		if k.isRatio() || k.isCount() {
			updated.order = append(updated.order, k)
			updated.values[k] = summarize(measured.values[k])
		}
	}
	var previous key
	for _, k := range r.order {
		if _, ok := updated.values[k]; !ok {
			after := slices.Index(updated.order, previous) + 1
			updated.order = slices.Insert(updated.order, after, k)
			updated.values[k] = r.values[k]
			kept = append(kept, k)
		}
		previous = k
	}
	return updated, kept
}

// missing returns the ratios that the measurements cover and that have no result.
func (r ratios) missing(runs []measurement, measured *results) (missing []key) {
	for _, k := range r.order {
		covered := slices.ContainsFunc(runs, func(run measurement) bool { return run.covers(k) })
		if _, ok := measured.values[k]; covered && !ok {
			missing = append(missing, k)
		}
	}
	return missing
}

// format returns the content of ratios.txt.
func (r ratios) format() []byte {
	var b bytes.Buffer
	b.WriteString("# Written by bash bench/run -write. Columns: package, benchmark, unit, median, minimum, maximum.\n")
	for _, k := range r.order {
		s := r.values[k]
		fmt.Fprintf(&b, "%s %s %s %.4g %.4g %.4g\n", k.pkg, k.name, k.unit, s.median, s.least, s.most)
	}
	return b.Bytes()
}

// readRatios reads ratios.txt below the root directory. If there is no such file, it returns no
// ratios.
func readRatios(root string) (ratios, error) {
	file, err := os.Open(filepath.Join(root, ratiosFile))
	if errors.Is(err, fs.ErrNotExist) {
		return ratios{}, nil
	}
	if err != nil {
		return ratios{}, err
	}
	defer file.Close()
	r, err := parseRatios(file)
	if err != nil {
		return ratios{}, fmt.Errorf("%s: %w", ratiosFile, err)
	}
	return r, nil
}

// writeRatios writes ratios.txt below the root directory. It lists the committed ratios that were
// not measured and therefore kept.
func writeRatios(out io.Writer, root string, committed ratios, measured *results) error {
	updated, kept := committed.update(measured)
	for _, k := range kept {
		fmt.Fprintf(out, "not measured, kept in %s: %s %s %s\n", ratiosFile, k.pkg, k.name, k.unit)
	}
	return os.WriteFile(filepath.Join(root, ratiosFile), updated.format(), 0o644)
}

// parseRatios parses the content of ratios.txt. Empty lines and comments are allowed.
func parseRatios(file io.Reader) (ratios, error) {
	r := ratios{values: make(map[key]summary)}
	scanner := bufio.NewScanner(file)
	for n := 1; scanner.Scan(); n++ {
		fields := strings.Fields(scanner.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 6 {
			return ratios{}, fmt.Errorf("line %d: %d fields, want 6", n, len(fields))
		}
		k := key{fields[0], fields[1], fields[2]}
		if _, ok := r.values[k]; ok {
			return ratios{}, fmt.Errorf("line %d: duplicate result", n)
		}
		var s summary
		for i, value := range []*float64{&s.median, &s.least, &s.most} {
			var err error
			if *value, err = strconv.ParseFloat(fields[3+i], 64); err != nil {
				return ratios{}, fmt.Errorf("line %d: %w", n, err)
			}
		}
		if !(s.least <= s.median && s.median <= s.most) {
			return ratios{}, fmt.Errorf("line %d: the median is outside the range", n)
		}
		r.order = append(r.order, k)
		r.values[k] = s
	}
	if err := scanner.Err(); err != nil {
		return ratios{}, err
	}
	return r, nil
}

// comparison is the difference between the committed and the current ratios.
type comparison struct {
	compared int
	moved    []move
	added    []key // are not committed
	missing  []key // are committed, but were not measured
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

// writeComparison writes the summary for a person who reads the log of a CI run. It returns an
// error if committed ratios were not measured.
func writeComparison(w io.Writer, c comparison, before, after machine) error {
	fmt.Fprintf(w, "before: %s\nafter: %s\n", before, after)
	for _, m := range c.moved {
		fmt.Fprintf(w, "moved: %s %s: committed %.4g (%.4g to %.4g), now %.4g %s\n", m.pkg, m.name, m.committed.median, m.committed.least, m.committed.most, m.now, m.unit)
	}
	for _, k := range c.added {
		fmt.Fprintf(w, "not in %s (run bash bench/run -write): %s %s %s\n", ratiosFile, k.pkg, k.name, k.unit)
	}
	for _, k := range c.missing {
		fmt.Fprintf(w, "not measured: %s %s %s\n", k.pkg, k.name, k.unit)
	}
	if len(c.moved) == 0 {
		fmt.Fprintf(w, "no ratio moved (%d compared)\n", c.compared)
	} else {
		fmt.Fprintf(w, "%d of %d rows moved: ratios by more than %.0f %% beyond their committed range, allocations by any number; this is not an error\n", len(c.moved), c.compared, 100*tolerance)
	}
	if before.loaded() || after.loaded() {
		fmt.Fprintln(w, busyWarning)
	}
	if len(c.missing) > 0 {
		return fmt.Errorf("%s: %d ratios of the selection were not measured (delete those of benchmarks that no longer exist)", ratiosFile, len(c.missing))
	}
	return nil
}
