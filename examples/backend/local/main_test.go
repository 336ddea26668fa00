package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/idverify/idverify-go/examples/backend/internal/stack"
)

// command matches the lines of the announcement that a reader runs.
var command = regexp.MustCompile(`(?m)^(?:call|field|[A-Z]+=).*$`)

// TestRun_PrintedCommands runs the commands that the program prints, in one shell.
func TestRun_PrintedCommands(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	output, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, w)
		w.CloseWithError(err)
		ended <- err
	}()
	var text strings.Builder
	lines := bufio.NewScanner(output)
	for !strings.Contains(text.String(), "Ctrl-C") {
		if !lines.Scan() {
			if errors.Is(lines.Err(), stack.ErrNotInstalled) && os.Getenv("IDVERIFY_INTEROP") == "" {
				t.Skip(lines.Err())
			}
			t.Fatalf("the program ends: %v\n%s", lines.Err(), text.String())
		}
		text.WriteString(lines.Text() + "\n")
	}

	commands := strings.Join(command.FindAllString(text.String(), -1), "\n")
	printed, err := exec.CommandContext(ctx, "bash", "-ec", commands).CombinedOutput()

	if err != nil {
		t.Errorf("the printed commands fail: %v", err)
	}
	for _, want := range []string{`{"status":"signed_in"}`, `{"session":"`, `{"method":"sms"}`, `{"method":"phone_check"}`, `"acknowledged":true`} {
		if !strings.Contains(string(printed), want) {
			t.Errorf("the output of the commands does not contain %s:\n%s\n%s", want, commands, printed)
		}
	}
	go io.Copy(io.Discard, output) // until the program ends
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the program ends with %v", err)
	}
}
