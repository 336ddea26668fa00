package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version prints the version of the program, of Go, and the platform.
func version(_ context.Context, p *program, args []string) int {
	flags := newFlags("version", "")
	if _, code, ok := p.parseArguments(flags, args, 0, 0); !ok {
		return code
	}
	fmt.Fprintf(p.stdout, "idverify %s %s %s/%s\n", moduleVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return exitOK
}

// moduleVersion returns the version of the program, or "(devel)".
func moduleVersion() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return "(devel)"
	}
	return cmp.Or(info.Main.Version, "(devel)")
}
