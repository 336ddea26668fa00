package receivertest_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/idverify/idverify-go/receivertest"
)

// fakeTB records what a test reports. Other methods of testing.TB must not be called.
type fakeTB struct {
	testing.TB
	ctx context.Context

	mu     sync.Mutex
	errors []string
	logs   []string
	fatal  string
}

func (f *fakeTB) Helper()                  {}
func (f *fakeTB) Context() context.Context { return f.ctx }
func (f *fakeTB) Error(args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors = append(f.errors, fmt.Sprint(args...))
}
func (f *fakeTB) Log(args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logs = append(f.logs, fmt.Sprint(args...))
}
func (f *fakeTB) Fatal(args ...any) { f.fatal = fmt.Sprint(args...); runtime.Goexit() }

func runFake(t *testing.T, r receivertest.Receiver) *fakeTB {
	t.Helper()
	f := &fakeTB{ctx: t.Context()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		receivertest.Run(f, r)
	}()
	<-done
	return f
}

func TestRun_Failures(t *testing.T) {
	t.Parallel()
	acceptsAll := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })

	f := runFake(t, receivertest.Receiver{
		Keys: newKeys(t), URL: callbackURL, Handler: acceptsAll,
		Only: []string{"callback/changed-match", "callback/no-digest", "callback/effect"},
	})

	if len(f.errors) != 2 || f.fatal != "" {
		t.Fatalf("errors = %q, fatal %q, want one for each failed rule", f.errors, f.fatal)
	}
	for _, want := range []string{"callback/changed-match (critical): accepted an invalid message (changed match): response 204 No Content\n", "curl "} {
		if !strings.Contains(f.errors[0], want) {
			t.Errorf("error = %q, want %q", f.errors[0], want)
		}
	}
	if len(f.logs) != 2 || !strings.Contains(f.logs[0], "CRITICAL: the receiver does not verify signatures") || !strings.Contains(f.logs[1], "callback/effect: needs a probe with Effects") {
		t.Errorf("log = %q, want the conclusion and the rule that is not applicable", f.logs)
	}
}

func TestRun_InvalidReceiver(t *testing.T) {
	t.Parallel()

	f := runFake(t, receivertest.Receiver{})

	if !strings.Contains(f.fatal, "Keys is nil") {
		t.Errorf("fatal = %q, want the invalid receiver", f.fatal)
	}
}
