// Report measures the ratios in docs/performance.md: bash bench/run [FLAG...]
//
// A ratio is the quotient of two medians that were measured in turn, so that load on the machine
// affects both. Report runs each benchmark several times and prints the median and the range. If
// the range of a ratio is wide, it measures the benchmark again. It prints the load of the machine
// before and after.
//
// With -ci it runs a short selection once and compares it with the committed ratios. A ratio that
// moved is listed, but only a benchmark that does not run is an error.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// ratiosFile contains the committed ratios.
const ratiosFile = "bench/ratios.txt"

// repeatUntil is the time from the start until which noisy benchmarks are measured again.
const repeatUntil = 6 * time.Minute

// confirmUntil is the time from the start until which -ci measures ratios that moved again.
const confirmUntil = 45 * time.Second

func main() {
	ci := flag.Bool("ci", false, "run a short selection and compare it with "+ratiosFile)
	write := flag.Bool("write", false, "write the ratios to "+ratiosFile)
	draw := flag.Bool("draw", false, "draw docs/growth.svg")
	count := flag.Int("count", 3, "runs of each benchmark")
	root := flag.String("root", ".", "root directory of the repository")
	flag.Parse()
	m := &measurer{root: *root, count: *count, log: os.Stderr, deadline: time.Now().Add(repeatUntil)}
	var err error
	if *ci {
		err = compareWithCommitted(context.Background(), m, os.Stdout)
	} else {
		err = reportAll(context.Background(), m, os.Stdout, *write, *draw)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// compareWithCommitted implements -ci.
func compareWithCommitted(ctx context.Context, m *measurer, out io.Writer) error {
	file, err := os.Open(filepath.Join(m.root, ratiosFile))
	if err != nil {
		return err
	}
	defer file.Close()
	committed, err := parseRatios(file)
	if err != nil {
		return fmt.Errorf("%s: %w", ratiosFile, err)
	}
	before := readMachine()
	m.count = 1
	m.deadline = time.Now().Add(confirmUntil)
	var now results
	for _, run := range selection {
		if err := m.confirm(ctx, &now, run, committed); err != nil {
			return err
		}
	}
	writeComparison(out, compare(committed, &now), before, readMachine())
	return nil
}

// reportAll measures and prints everything.
func reportAll(ctx context.Context, m *measurer, out io.Writer, write, draw bool) error {
	fmt.Fprintf(out, "before: %s\n", readMachine())
	each := make([]results, len(everything))
	for i, run := range everything {
		if err := m.measure(ctx, &each[i], run); err != nil {
			return err
		}
	}
	if err := m.repeatNoisy(ctx, each, everything); err != nil {
		return err
	}
	var all results
	for i := range each {
		all.merge("", &each[i])
	}
	for _, p := range profiles {
		if err := m.profile(ctx, &all, p); err != nil {
			return err
		}
	}
	all.print(out)
	fmt.Fprintf(out, "after: %s\n", readMachine())
	if write {
		if err := os.WriteFile(filepath.Join(m.root, ratiosFile), formatRatios(&all), 0o644); err != nil {
			return err
		}
	}
	if draw {
		return drawGrowth(ctx, m)
	}
	return nil
}

// drawGrowth draws docs/growth.svg from the output of BenchmarkGrowth.
func drawGrowth(ctx context.Context, m *measurer) error {
	command := exec.CommandContext(ctx, "go", "run", "./growth")
	command.Dir = filepath.Join(m.root, "bench")
	command.Stdin = bytes.NewReader(m.growth)
	command.Stderr = os.Stderr
	svg, err := command.Output()
	if err != nil {
		return fmt.Errorf("draw: %w", err)
	}
	return os.WriteFile(filepath.Join(m.root, "docs/growth.svg"), svg, 0o644)
}
