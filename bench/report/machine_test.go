package main

import (
	"strings"
	"testing"
)

func TestProcessorTime(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, stat  string
		used, total float64
	}{
		{"empty", "", 0, 0},
		{"truncated", "cpu 1 2", 0, 0},
		{"another line", "intr 1 2 3 4 5 6 7 8\n", 0, 0},
		{"guests are part of the first", "cpu  1 2 3 100 50 4 5 6 1000 1000\ncpu0 9 9 9 9 9\n", 21, 171},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			used, total := processorTime([]byte(tt.stat))

			if used != tt.used || total != tt.total {
				t.Errorf("processorTime = %v, %v, want %v, %v", used, total, tt.used, tt.total)
			}
		})
	}
}

func TestLastMinute(t *testing.T) {
	t.Parallel()
	for loadavg, want := range map[string]float64{"1.33 1.07 2.36 4/111 19111\n": 1.33, "": 0, "many 1 2": 0, "-1 0 0": 0} {
		if got := lastMinute([]byte(loadavg)); got != want {
			t.Errorf("lastMinute(%q) = %v, want %v", loadavg, got, want)
		}
	}
}

func TestProcessorModel(t *testing.T) {
	t.Parallel()
	for cpuinfo, want := range map[string]string{"processor\t: 0\nmodel name\t: EPYC: 2\n": "EPYC: 2", "": "unknown processor", "model name": "unknown processor"} {
		if got := processorModel([]byte(cpuinfo)); got != want {
			t.Errorf("processorModel(%q) = %q, want %q", cpuinfo, got, want)
		}
	}
}

func TestWriteLoad(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		busy  float64
		lines int
	}{
		{"idle", 0.1, 1},
		{"busy", 0.5, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder

			writeLoad(&out, "after", machine{busy: tt.busy})

			got := out.String()
			if !strings.HasPrefix(got, "after: load ") || strings.Count(got, "\n") != tt.lines || strings.Contains(got, busyWarning) != (tt.lines > 1) {
				t.Errorf("output = %s\nwant %d lines", got, tt.lines)
			}
		})
	}
}
