package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// measurement is a set of benchmarks of one package.
type measurement struct {
	dir   string // of the package
	bench string // regular expression for -bench
	test  string // name of a test that prints results, for -run
	main  string // package of a program that prints results, for go run; replaces bench and test
	time  string // for -benchtime
	once  bool   // run each benchmark once, because it takes long
}

// everything lists the measurements of bench/run.
var everything = []measurement{
	{dir: ".", bench: "OverNetHTTP|PageOf100|TokenHit|WithObserver"},
	{dir: "signature", bench: "OverRawRSA"},
	{dir: "bench", bench: "OverRawRSA"},
	{dir: "bench", bench: "none", test: "TestBubble"},
	{dir: "bench", main: "./size", once: true},
	{dir: "bench/fakes", bench: "Start|Read|Create|List|Memory", time: "500ms"},
	{dir: "bench/fakes", bench: "Concurrent", time: "2s"},
	{dir: "sandboxfake", bench: "Timers", time: "3x"},
	{dir: "sandboxfake", bench: "Growth", time: "500ms", once: true},
}

// selection lists the measurements for -ci, which take 45 to 60 seconds.
var selection = []measurement{
	{dir: ".", bench: "OverNetHTTP|PageOf100|WithObserver", time: "500ms"},
	{dir: "signature", bench: "OverRawRSA", time: "300ms"},
	{dir: "bench", bench: "none", test: "TestBubble", time: "500ms"},
	{dir: "bench/fakes", bench: "(Start|Read|Create|List|Memory|Concurrent)/^sandboxfake", time: "500ms"},
}

// measurer runs benchmarks.
type measurer struct {
	root     string
	count    int // runs of each benchmark
	log      io.Writer
	deadline time.Time // no benchmark is measured again after it
	growth   []byte    // output of BenchmarkGrowth
}

// maxRepeats limits how often a noisy benchmark is measured again.
const maxRepeats = 2

// measure adds the results of a measurement to all.
func (m *measurer) measure(ctx context.Context, all *results, run measurement) error {
	count := m.count
	if run.once {
		count = 1
	}
	if err := m.run(ctx, all, run, count); err != nil {
		return err
	}
	if len(all.order) == 0 {
		return fmt.Errorf("%s has no benchmark %s%s%s", run.dir, run.main, run.test, run.bench)
	}
	return nil
}

// measureEach adds the results of each measurement to its element of each, and measures noisy
// benchmarks again.
func (m *measurer) measureEach(ctx context.Context, each []results, runs []measurement) error {
	for i, run := range runs {
		if err := m.measure(ctx, &each[i], run); err != nil {
			return err
		}
	}
	return m.repeatNoisy(ctx, each, runs)
}

// repeatNoisy measures noisy benchmarks again until the deadline, and keeps the results with the
// smallest range. each contains the results of each of the measurements.
func (m *measurer) repeatNoisy(ctx context.Context, each []results, runs []measurement) error {
	for range maxRepeats {
		for i, run := range runs {
			for _, name := range each[i].noisy() {
				if time.Now().After(m.deadline) {
					fmt.Fprintln(m.log, "no time left to measure noisy benchmarks again")
					return nil
				}
				var again results
				run.bench = exactly(name)
				if err := m.run(ctx, &again, run, m.count); err != nil {
					return err
				}
				each[i].replaceQuieter(name, &again)
			}
		}
	}
	return nil
}

// confirm adds the results of a measurement to all. It measures the benchmarks that moved again,
// and keeps the results of all runs.
func (m *measurer) confirm(ctx context.Context, all *results, run measurement, committed map[key]summary) error {
	var got results
	if err := m.measure(ctx, &got, run); err != nil {
		return err
	}
	var names []string
	for _, moved := range compare(committed, &got).moved {
		if !slices.Contains(names, moved.name) {
			names = append(names, moved.name)
		}
	}
	for _, name := range names {
		if time.Now().After(m.deadline) {
			break
		}
		var again results
		run.bench = exactly(name)
		if err := m.run(ctx, &again, run, 2); err != nil {
			return err
		}
		got.merge(name, &again)
	}
	all.merge("", &got)
	return nil
}

// exactly returns the regular expression for -bench that selects one benchmark.
func exactly(name string) string {
	return "^" + strings.ReplaceAll(regexp.QuoteMeta(name), "/", "$/^") + "$"
}

// run runs go test, and adds its results.
func (m *measurer) run(ctx context.Context, into *results, run measurement, count int) error {
	fmt.Fprintf(m.log, "… %s %s%s %s\n", run.dir, run.main, run.test, run.bench)
	output, err := m.goCommand(ctx, run.dir, run.args(count)...)
	if err != nil {
		return err
	}
	if run.bench == "Growth" {
		m.growth = output
	}
	return into.parseBenchmarks(run.dir, bytes.NewReader(output), runtime.GOMAXPROCS(0))
}

// covers reports whether the benchmarks or the test of the measurement include a result. It matches
// each part of the name between slashes, as go test does.
func (m measurement) covers(k key) bool {
	bench := m.bench
	if m.test != "" {
		bench = "^" + strings.TrimPrefix(m.test, "Test") + "$"
	}
	patterns, names := strings.Split(bench, "/"), strings.Split(k.name, "/")
	if m.main != "" || k.pkg != m.dir || len(names) < len(patterns) {
		return false
	}
	for i, pattern := range patterns {
		if !regexp.MustCompile(pattern).MatchString(names[i]) {
			return false
		}
	}
	return true
}

// args returns the arguments of the command go.
func (m measurement) args(count int) []string {
	if m.main != "" {
		return []string{"run", m.main}
	}
	test := "^$"
	if m.test != "" {
		test = "^" + m.test + "$"
	}
	args := []string{"test", "-run", test, "-bench", m.bench, "-count", strconv.Itoa(count), "-timeout", "20m"}
	if m.time != "" {
		args = append(args, "-benchtime", m.time)
	}
	return args
}

// goCommand runs the command go in a directory below the root, and returns its standard output.
func (m *measurer) goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	command := m.command(ctx, dir, args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: go %s: %w\n%s%s", dir, strings.Join(args, " "), err, output, stderr.Bytes())
	}
	return output, nil
}

// command returns the command go in a directory below the root. When ctx is canceled, it is
// interrupted, so that it removes its temporary files.
func (m *measurer) command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = filepath.Join(m.root, dir)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	return command
}
