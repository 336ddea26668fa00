package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// machine describes the machine and its load.
type machine struct {
	processor string
	cores     int
	load      float64 // average number of running processes in the last minute
	busy      float64 // share of the processor time that was used in the last moment
}

// readMachine describes the machine. Values that only Linux has are zero elsewhere.
func readMachine() machine {
	usedBefore, totalBefore := processorTime(readFile("/proc/stat"))
	time.Sleep(500 * time.Millisecond)
	used, total := processorTime(readFile("/proc/stat"))
	m := machine{
		processor: processorModel(readFile("/proc/cpuinfo")),
		cores:     runtime.NumCPU(),
		load:      lastMinute(readFile("/proc/loadavg")),
	}
	if total > totalBefore {
		m.busy = (used - usedBefore) / (total - totalBefore)
	}
	return m
}

// readFile returns the content of a file, or nil if it does not exist.
func readFile(name string) []byte {
	content, _ := os.ReadFile(name)
	return content
}

func (m machine) String() string {
	return fmt.Sprintf("load %.2f, %.0f %% of %d cores busy, %s, %s", m.load, 100*m.busy, m.cores, m.processor, runtime.Version())
}

// loaded reports whether other processes use so much that times are unreliable.
func (m machine) loaded() bool { return m.busy > 0.2 }

// busyWarning follows the load of a loaded machine.
const busyWarning = "the machine was busy with other work: measure again before you rely on these ratios"

// writeLoad writes the load of the machine before or after the benchmarks.
func writeLoad(w io.Writer, when string, m machine) {
	fmt.Fprintf(w, "%s: %s\n", when, m)
	if m.loaded() {
		fmt.Fprintln(w, busyWarning)
	}
}

// processorModel returns the model in the content of /proc/cpuinfo.
func processorModel(cpuinfo []byte) string {
	for line := range bytes.Lines(cpuinfo) {
		if name, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// lastMinute returns the first number in the content of /proc/loadavg, or 0.
func lastMinute(loadavg []byte) float64 {
	first, _, _ := strings.Cut(string(loadavg), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return max(load, 0)
}

// processorTime returns the used and the total processor time in the content of /proc/stat. Time
// that the host gave to other machines counts as used.
func processorTime(stat []byte) (used, total float64) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) < 6 || fields[0] != "cpu" {
		return 0, 0
	}
	for i, field := range fields[1:min(len(fields), 9)] { // the rest is included in the first
		ticks, _ := strconv.ParseFloat(field, 64)
		total += ticks
		if i != 3 && i != 4 { // idle, waiting for a device
			used += ticks
		}
	}
	return used, total
}
