// Report measures the client, the signatures and the fake: bash bench/run [FLAG...]
//
// A ratio is the quotient of two medians that were measured in turn, so that load on the machine
// affects both. Report runs each benchmark several times and prints the median and the range. If
// the range of a ratio is wide, it measures the benchmark again. It prints the load of the machine
// before and after, and warns if other work makes the times unreliable.
//
// With -write, the ratios of benchmarks that were not measured, such as those of a program that is
// not installed, stay in the file. Report lists them.
//
// With -ci it runs a short selection once and compares it with the committed ratios. A ratio that
// moved is listed, but only a benchmark that does not run, or a committed ratio of the selection
// that was not measured, is an error.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// ratiosFile contains the committed ratios.
const ratiosFile = "bench/ratios.txt"

// repeatUntil is the time from the start until which noisy benchmarks are measured again.
const repeatUntil = 6 * time.Minute

// confirmUntil is the time from the start until which -ci measures ratios that moved again.
const confirmUntil = 45 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	o, err := parseOptions(os.Args[1:])
	if err == nil {
		m := &measurer{root: o.root, count: o.count, log: os.Stderr, deadline: time.Now().Add(repeatUntil)}
		if o.ci {
			err = compareWithCommitted(ctx, m, os.Stdout)
		} else {
			err = reportAll(ctx, m, os.Stdout, o)
		}
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// options are the flags of the command.
type options struct {
	ci, write, draw bool
	count           int
	root            string
}

// parseOptions parses the arguments. It returns an error if one of them would have no effect.
func parseOptions(args []string) (o options, err error) {
	flags := flag.NewFlagSet("bash bench/run", flag.ExitOnError)
	flags.BoolVar(&o.ci, "ci", false, "run a short selection and compare it with "+ratiosFile)
	flags.BoolVar(&o.write, "write", false, "write the ratios to "+ratiosFile)
	flags.BoolVar(&o.draw, "draw", false, "draw docs/growth.svg")
	flags.IntVar(&o.count, "count", 3, "runs of each benchmark")
	flags.StringVar(&o.root, "root", ".", "root directory of the repository")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	excluded := false
	flags.Visit(func(f *flag.Flag) { excluded = excluded || slices.Contains([]string{"write", "draw", "count"}, f.Name) })
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.ci && excluded:
		return o, errors.New("-ci excludes -write, -draw and -count")
	case o.count < 1:
		return o, errors.New("-count must be at least 1")
	}
	return o, nil
}

// compareWithCommitted implements -ci.
func compareWithCommitted(ctx context.Context, m *measurer, out io.Writer) error {
	committed, err := readRatios(m.root)
	if err != nil {
		return err
	}
	if len(committed.order) == 0 {
		return fmt.Errorf("%s: no ratios (run bash bench/run -write)", ratiosFile)
	}
	before := readMachine()
	m.count = 1
	m.deadline = time.Now().Add(confirmUntil)
	var now results
	for _, run := range selection {
		if err := m.confirm(ctx, &now, run, committed.values); err != nil {
			return err
		}
	}
	c := compare(committed.values, &now)
	c.missing = committed.missing(selection, &now)
	return writeComparison(out, c, before, readMachine())
}

// reportAll measures and prints everything. After an error, it prints the results up to then.
func reportAll(ctx context.Context, m *measurer, out io.Writer, o options) error {
	var committed ratios
	if o.write {
		var err error
		if committed, err = readRatios(m.root); err != nil {
			return err
		}
	}
	writeLoad(out, "before", readMachine())
	all, err := m.measureAll(ctx)
	all.print(out)
	writeLoad(out, "after", readMachine())
	if err != nil {
		return err
	}
	if o.write {
		if err := writeRatios(out, m.root, committed, all); err != nil {
			return err
		}
	}
	if o.draw {
		return drawGrowth(ctx, m)
	}
	return nil
}

// measureAll returns the results of everything, or those up to the error.
func (m *measurer) measureAll(ctx context.Context) (*results, error) {
	each := make([]results, len(everything))
	err := m.measureEach(ctx, each, everything)
	all := new(results)
	for i := range each {
		all.merge("", &each[i])
	}
	if err != nil {
		return all, err
	}
	for _, p := range profiles {
		if err := m.profile(ctx, all, p); err != nil {
			return all, err
		}
	}
	return all, nil
}

// drawGrowth draws docs/growth.svg from the output of BenchmarkGrowth.
func drawGrowth(ctx context.Context, m *measurer) error {
	command := m.command(ctx, "bench", "run", "./growth")
	command.Stdin = bytes.NewReader(m.growth)
	command.Stderr = os.Stderr
	svg, err := command.Output()
	if err != nil {
		return fmt.Errorf("draw: %w", err)
	}
	return os.WriteFile(filepath.Join(m.root, "docs/growth.svg"), svg, 0o644)
}
