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

// TestMain looks at the end of all tests whether a goroutine of a server has outlived it.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if leaked := leakedGoroutines(5 * time.Second); leaked != "" {
			fmt.Fprintf(os.Stderr, "goroutines that outlived their server:\n%s", leaked)
			code = 1
		}
	}
	os.Exit(code)
}

// leakedGoroutines returns the stacks of the goroutines that run our code, or serve or call HTTP, once patience is over; net/http's may need a moment to see that their connection is closed.
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
