package sandboxfake_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// TestMain fails if goroutines of a server remain after all tests.
func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(failing.dir)
	if code == 0 {
		if leaked := leakedGoroutines(time.Minute); leaked != "" {
			fmt.Fprintf(os.Stderr, "goroutines that remain after all tests:\n%s", leaked)
			code = 1
		}
	}
	os.Exit(code)
}

// leakedGoroutines returns the stacks of the goroutines of this module and net/http that remain
// after patience. Goroutines of net/http take a moment to notice that their connection is closed.
func leakedGoroutines(patience time.Duration) string {
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		var profile bytes.Buffer
		pprof.Lookup("goroutine").WriteTo(&profile, 1)
		var leaked []string
		for stack := range strings.SplitSeq(profile.String(), "\n\n") {
			if strings.Contains(stack, "leakedGoroutines") {
				continue
			}
			if strings.Contains(stack, "idverify-go/") || strings.Contains(stack, "net/http") {
				leaked = append(leaked, stack)
			}
		}
		if len(leaked) == 0 || time.Now().After(deadline) {
			return strings.Join(leaked, "\n\n")
		}
	}
}
