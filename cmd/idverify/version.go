package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version prints the version of the program, of Go, and the platform.
func version(_ context.Context, p *program, args []string) int {
	flags := p.newFlags("version", "")
	if code, ok := parse(flags, args); !ok {
		return code
	}
	name := "(unknown version)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		name = info.Main.Version
	}
	fmt.Fprintf(p.stdout, "idverify %s %s %s/%s\n", name, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return exitOK
}
