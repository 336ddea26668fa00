package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// versionLine describes the program in one line: its version, the commit and its time if they are
// known, the version of Go and the platform. info may be nil.
func versionLine(info *debug.BuildInfo) string {
	version, commit := "(unknown version)", ""
	if info != nil {
		settings := make(map[string]string)
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if info.Main.Version != "" {
			version = info.Main.Version
		}
		// "go run" and builds from a module archive record no commit.
		if revision := settings["vcs.revision"]; revision != "" {
			parts := []string{"commit " + revision, settings["vcs.time"]}
			if settings["vcs.modified"] == "true" {
				parts = append(parts, "modified")
			}
			commit = " (" + strings.Join(parts, ", ") + ")"
		}
	}
	return fmt.Sprintf("sandboxfake %s%s %s %s/%s\n", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
