// Idverify is a program for people who run a backend on this SDK.
//
//	go run ./cmd/idverify help
//
// These are its commands; "idverify help COMMAND" lists the flags of one:
//
//	examine       send valid and forged messages to a receiver of callbacks or redirects
//	explain       explain why a captured callback or redirect is rejected
//	doctor        check the environment of a backend
//	conform       test a service, or a fake of it, against the protocol
//	check create  create a check
//	check get     print a check
//	check list    list checks
//	check wait    wait until a check has ended
//	check traces  print the recorded steps of a check
//	reachability  print the products that work for a device
//	token         obtain an access token
//	version       print the version of the program
//
// Results are on stdout, progress and errors on stderr. The exit code is 0 if all is well, 1 if the
// command found a problem, 2 if it was used wrongly, and 3 if it could not run, for example because
// the service is unavailable. See docs/tools.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal kills the program.
	context.AfterFunc(ctx, stop)
	p := &program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, proxy: http.ProxyFromEnvironment, now: time.Now, withTimeout: context.WithTimeout}
	os.Exit(p.run(ctx, os.Args[1:]))
}

// Exit codes.
const (
	exitOK      = 0
	exitProblem = 1 // the command found a problem
	exitUsage   = 2
	exitError   = 3 // the command could not run
)

// program holds the input, output, environment and clock of a command.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	proxy          func(*http.Request) (*url.URL, error) // nil for none
	now            func() time.Time
	withTimeout    func(context.Context, time.Duration) (context.Context, context.CancelFunc)
}

// command is a command of the program.
type command struct {
	name    string // "check create" for a command with two words
	summary string // for the list of commands
	run     func(ctx context.Context, p *program, args []string) (code int)
}

// commands returns all commands, in the order of the list.
func commands() []command {
	return []command{
		{"examine", "send valid and forged messages to a receiver of callbacks or redirects", examine},
		{"explain", "explain why a captured callback or redirect is rejected", explain},
		{"doctor", "check the environment of a backend", doctor},
		{"conform", "test a service, or a fake of it, against the protocol", conform},
		{"check create", "create a check", checkCreate},
		{"check get", "print a check", checkGet},
		{"check list", "list checks", checkList},
		{"check wait", "wait until a check has ended", checkWait},
		{"check traces", "print the recorded steps of a check", checkTraces},
		{"reachability", "print the products that work for a device", reachability},
		{"token", "obtain an access token", token},
		{"version", "print the version of the program", version},
	}
}

// run runs the command that args begin with, and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	out := &checkedWriter{w: p.stdout}
	checked := *p
	checked.stdout = out
	code := checked.command(ctx, args)
	if out.err == nil {
		return code
	}
	// A reader that has closed its pipe, such as head, needs no message. A command that returns
	// exitError has printed one.
	if code != exitError && !errors.Is(out.err, syscall.EPIPE) {
		fmt.Fprintf(p.stderr, "idverify: %v (the output is incomplete, but the command has run)\n", out.err)
	}
	return exitError
}

// checkedWriter is a writer that keeps its first error.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// command runs the command that args begin with.
func (p *program) command(ctx context.Context, args []string) int {
	if len(args) == 0 {
		fmt.Fprint(p.stderr, usage(""))
		return exitUsage
	}
	if c, rest, ok := findCommand(args); ok {
		return c.run(ctx, p, rest)
	}
	for i, arg := range args[:min(len(args), 2)] {
		if isHelp(arg) { // also of "check -h"
			return p.help(ctx, slices.Concat(args[:i], args[i+1:]))
		}
	}
	return p.unknownCommand(args)
}

// isHelp reports whether arg requests the usage.
func isHelp(arg string) bool { return slices.Contains([]string{"help", "-h", "-help", "--help"}, arg) }

// findCommand returns the command that args begin with, and the rest of args.
func findCommand(args []string) (c command, rest []string, ok bool) {
	for _, c := range commands() {
		words := strings.Fields(c.name)
		if len(args) >= len(words) && strings.Join(args[:len(words)], " ") == c.name {
			return c, args[len(words):], true
		}
	}
	return command{}, nil, false
}

// checkPrefix begins the names of the commands for checks.
const checkPrefix = "check "

// help prints the list of commands, of those for checks, or the flags of the command in args.
func (p *program) help(ctx context.Context, args []string) int {
	switch c, rest, ok := findCommand(args); {
	case ok && len(rest) == 0:
		return c.run(ctx, p, []string{"-h"})
	case len(args) == 0 || len(args) == 1 && isHelp(args[0]):
		fmt.Fprint(p.stdout, usage(""))
		return exitOK
	case len(args) == 1 && args[0]+" " == checkPrefix:
		fmt.Fprint(p.stdout, usage(checkPrefix))
		return exitOK
	}
	return p.unknownCommand(args)
}

// unknownCommand reports that args do not begin with a command, and lists the commands.
func (p *program) unknownCommand(args []string) int {
	problem, words, prefix := "unknown", 1, ""
	switch {
	case args[0]+" " != checkPrefix:
	case len(args) == 1:
		problem, prefix = "incomplete", checkPrefix
	default:
		words, prefix = 2, checkPrefix
	}
	var names []string
	for _, c := range commands() {
		if strings.HasPrefix(c.name, prefix) {
			names = append(names, c.name)
		}
	}
	fmt.Fprintf(p.stderr, "idverify: %s command %q (the commands are %s)\n", problem, strings.Join(args[:words], " "), strings.Join(names, ", "))
	return exitUsage
}

// usage returns the list of the commands whose names begin with prefix.
func usage(prefix string) string {
	var b strings.Builder
	b.WriteString("Usage: idverify " + prefix + "COMMAND [FLAGS] [ARGUMENTS]\n\nCommands:\n")
	for _, c := range commands() {
		if name, ok := strings.CutPrefix(c.name, prefix); ok {
			fmt.Fprintf(&b, "  %-16s %s\n", name, c.summary)
		}
	}
	b.WriteString("\n\"idverify help " + prefix + "COMMAND\" lists the flags of a command.\n")
	return b.String()
}

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
