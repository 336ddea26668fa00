package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestVersion_Line(t *testing.T) {
	t.Parallel()
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "4bfda16"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "false"}}
	modified := append(commit[:2:2], debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	for _, row := range []struct {
		name  string
		build *debug.BuildInfo
		want  string
	}{
		{"release", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: commit}, "v1.2.3 (commit 4bfda16, 2026-01-02T03:04:05Z)"},
		{"uncommitted changes", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3+dirty"}, Settings: modified}, "v1.2.3+dirty (commit 4bfda16, 2026-01-02T03:04:05Z, modified)"},
		{"module from the proxy", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3"},
		{"go run", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "(devel)"},
		{"no module", &debug.BuildInfo{}, "(unknown version)"},
		{"no build information", nil, "(unknown version)"},
	} {
		got := versionLine(row.build)

		if want := "sandboxfake " + row.want + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + "\n"; got != want {
			t.Errorf("%s: line = %q, want %q", row.name, got, want)
		}
	}
}
