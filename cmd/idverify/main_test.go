package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/idverify/idverify-go/internal/tooltest"
)

// asProgram makes this test binary run as idverify.
const asProgram = "RUN_IDVERIFY=1"

func TestMain(m *testing.M) {
	if slices.Contains(os.Environ(), asProgram) {
		main()
	}
	tooltest.Overlap()
	os.Exit(m.Run())
}

// result is the output of a command.
type result struct {
	code           int
	stdout, stderr string
}

// newProgram returns a program with environment variables and without input. It has no timeouts, so
// that results do not depend on the load of the machine.
func newProgram(env map[string]string) *program {
	return &program{
		stdin: strings.NewReader(""), getenv: func(name string) string { return env[name] }, proxy: proxyOf(env), now: time.Now,
		withTimeout: func(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
			return context.WithCancel(ctx)
		},
	}
}

// runProgram runs a command with environment variables and an input.
func runProgram(t *testing.T, env map[string]string, stdin string, args ...string) result {
	t.Helper()
	p := newProgram(env)
	p.stdin = strings.NewReader(stdin)
	return p.runCommand(t.Context(), args...)
}

// runCommand runs a command, whose output also goes to the writers of p, if it has any.
func (p *program) runCommand(ctx context.Context, args ...string) result {
	var stdout, stderr bytes.Buffer
	once := *p
	once.stdout, once.stderr = both(p.stdout, &stdout), both(p.stderr, &stderr)
	code := once.run(ctx, args)
	return result{code, stdout.String(), stderr.String()}
}

func both(w io.Writer, buffer *bytes.Buffer) io.Writer {
	if w == nil {
		return buffer
	}
	return io.MultiWriter(w, buffer)
}

// watcher is a writer that calls found once, as soon as the text so far matches an expression.
type watcher struct {
	expression *regexp.Regexp
	found      func(match []string) // nil after the call
	text       strings.Builder
}

func watch(expression string, found func(match []string)) *watcher {
	return &watcher{expression: regexp.MustCompile(expression), found: found}
}

func (w *watcher) Write(p []byte) (int, error) {
	w.text.Write(p)
	if m := w.expression.FindStringSubmatch(w.text.String()); m != nil && w.found != nil {
		found := w.found
		w.found = nil
		found(m)
	}
	return len(p), nil
}

// stoppedClock is the clock of a program that stands still until a test moves it. The timeouts of
// the program use it, too.
type stoppedClock struct {
	mu       sync.Mutex // guards the fields below
	time     time.Time
	timeouts []*timeout // that have not ended
}

// timeout is a context that ends at a time of a stoppedClock.
type timeout struct {
	context.Context // of the caller
	due             time.Time
	done            chan struct{}
	end             func(error)
	err             error // set before done is closed
}

func (c *timeout) Done() <-chan struct{} { return c.done }

func (c *timeout) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// stopClock gives p a clock that stands still at a time.
func stopClock(p *program, at time.Time) *stoppedClock {
	c := &stoppedClock{time: at}
	p.now, p.withTimeout = c.now, c.withTimeout
	return c
}

func (c *stoppedClock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.time }

func (c *stoppedClock) withTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	t := &timeout{Context: parent, done: make(chan struct{})}
	var once sync.Once
	t.end = func(err error) {
		once.Do(func() {
			t.err = err
			close(t.done)
		})
	}
	stop := context.AfterFunc(parent, func() { t.end(parent.Err()) })
	c.mu.Lock()
	defer c.mu.Unlock()
	t.due = c.time.Add(d)
	c.timeouts = append(c.timeouts, t)
	return t, func() {
		stop()
		t.end(context.Canceled)
	}
}

// move moves the clock, and ends the timeouts that are due.
func (c *stoppedClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.time = c.time.Add(d)
	for _, t := range c.timeouts {
		if !t.due.After(c.time) {
			t.end(context.DeadlineExceeded)
		}
	}
}

func TestProgram_Commands(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string // parts of the output
	}{
		{"none", nil, exitUsage, "", "Usage: idverify COMMAND"},
		{"flags of help", []string{"help", "check", "create"}, exitOK, "-callback-url", ""},
		{"help of doctor", []string{"help", "doctor"}, exitOK, "-callback-url URL", ""},
		{"help of examine", []string{"help", "examine"}, exitOK, "-strict", ""},
		{"help of an unknown command", []string{"help", "exmaine"}, exitUsage, "", `unknown command "exmaine" (the commands are examine, explain, doctor, conform, check create, `},
		{"unknown check command", []string{"check", "creat"}, exitUsage, "", `unknown command "check creat" (the commands are check create, check get, check list, check wait, check traces)`},
		{"help of an unknown check command", []string{"check", "creat", "-h"}, exitUsage, "", `unknown command "check creat" (the commands are check create, `},
		{"check alone", []string{"check"}, exitUsage, "", `incomplete command "check" (the commands are check create, check get, check list, check wait, check traces)`},
		{"-h of check", []string{"check", "-h"}, exitOK, "Usage: idverify check COMMAND [FLAGS] [ARGUMENTS]\n\nCommands:\n  create ", ""},
		{"--help of check", []string{"check", "--help"}, exitOK, "\n  traces           print the recorded steps of a check\n", ""},
		{"help of check", []string{"help", "check"}, exitOK, "\"idverify help check COMMAND\" lists the flags", ""},
		{"-h of help", []string{"help", "-h"}, exitOK, "Usage: idverify COMMAND", ""},
		{"help of help", []string{"help", "help"}, exitOK, "Usage: idverify COMMAND", ""},
		{"-h of a check command", []string{"check", "create", "-h"}, exitOK, "-callback-url URL", ""},
		{"arguments of version", []string{"version", "foo", "bar"}, exitUsage, "", "version: unexpected number of arguments: 2"},
		{"help", []string{"help"}, exitOK, "Usage: idverify COMMAND", ""},
		{"-h", []string{"-h"}, exitOK, "Usage: idverify COMMAND", ""},
		{"unknown", []string{"exmaine"}, exitUsage, "", `unknown command "exmaine" (the commands are examine, explain, doctor, conform, check create, `},
		{"version", []string{"version"}, exitOK, "idverify (devel) go1.", ""},
		{"flags of a command", []string{"version", "-h"}, exitOK, "Usage: idverify version", ""},
		{"unknown flag", []string{"version", "-x"}, exitUsage, "", `idverify: version: flag provided but not defined: -x ("idverify version -h" lists the flags)`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			got := runProgram(t, nil, "", row.args...)

			if got.code != row.code || !strings.Contains(got.stdout, row.stdout) || !strings.Contains(got.stderr, row.stderr) {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", got.code, row.code, got.stdout, got.stderr)
			}
			if (row.stdout == "") != (got.stdout == "") || (row.stderr == "") != (got.stderr == "") {
				t.Errorf("results must be on stdout and usage errors on stderr\nstdout: %s\nstderr: %s", got.stdout, got.stderr)
			}
		})
	}
}

// TestProgram_Help reads the usage of each command. A user can pass it to a pager, and flags with
// the same meaning have the same name.
func TestProgram_Help(t *testing.T) {
	t.Parallel()
	durations := regexp.MustCompile(`(?m)^  -(\S+) duration$`)
	for _, c := range commands() {
		words := strings.Fields(c.name)

		help := runProgram(t, nil, "", append([]string{"help"}, words...)...)
		for _, flag := range []string{"-h", "--help"} {
			if got := runProgram(t, nil, "", append(words, flag)...); got != help || got.code != exitOK || got.stderr != "" || !strings.HasPrefix(got.stdout, "Usage: idverify "+c.name) {
				t.Errorf("%s %s: exit code %d, want the usage on stdout, as of help\nstdout: %s\nstderr: %s", c.name, flag, got.code, got.stdout, got.stderr)
			}
		}

		if strings.Contains(help.stdout, "\n  -json\n") == (c.name == "version") {
			t.Errorf("%s: want the flag -json, unless the command has one line of output:\n%s", c.name, help.stdout)
		}
		for _, m := range durations.FindAllStringSubmatch(help.stdout, -1) {
			if m[1] != "timeout" {
				t.Errorf("%s: -%s is a duration, want the name -timeout", c.name, m[1])
			}
		}
	}
}

func TestProgram_Transcript(t *testing.T) {
	t.Parallel()

	runTranscript(t, "program", nil)
}

// failingWriter fails with an error after the first bytes.
type failingWriter struct {
	left int
	err  error
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, w.err
	}
	return len(p), nil
}

func TestProgram_OutputNotWritten(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left on device")
	_, env := newService(t)
	checkID, _ := create(t, env, number)
	capture := rawHead(signedCallback(t), "", "\r\n") + capturedBody
	explainArgs := []string{"explain", "-jwks", writeFile(t, jwks(testKeys()[0])), "-host", "api.example.com"}
	for _, row := range []struct {
		name   string
		args   []string
		left   int
		err    error
		stderr string
	}{
		{"help", []string{"help"}, 0, full, "no space left"},
		{"version", []string{"version"}, 0, full, "no space left"},
		{"token", []string{"token"}, 0, full, "no space left"},
		{"second line", []string{"token"}, 30, full, "no space left"},
		{"token as JSON", []string{"token", "-json"}, 0, full, "no space left"},
		{"check get", []string{"check", "get", checkID}, 0, full, "no space left"},
		{"check list", []string{"check", "list"}, 0, full, "no space left"},
		{"check list as JSON", []string{"check", "list", "-json"}, 0, full, "no space left"},
		{"check traces", []string{"check", "traces", checkID}, 0, full, "no space left"},
		{"reachability", []string{"reachability", "-country", "GB"}, 0, full, "no space left"},
		{"rules", []string{"examine", "-list"}, 0, full, "no space left"},
		{"explain", explainArgs, 0, full, "no space left"},
		{"rules of a service", []string{"conform", "-list"}, 0, full, "no space left"},
		{"report", []string{"conform", "-fake"}, 0, full, "no space left"},
		{"doctor", []string{"doctor", "-only", "config-base-url"}, 0, full, "no space left"},
		{"closed pipe", []string{"version"}, 0, &fs.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := newProgram(env)
			p.stdin, p.stdout = strings.NewReader(capture), &failingWriter{row.left, row.err}

			got := p.runCommand(t.Context(), row.args...)

			if got.code != exitError || (row.stderr == "") != (got.stderr == "") || row.stderr != "" && strings.Count(got.stderr, row.stderr) != 1 {
				t.Errorf("exit code %d, want %d\nstderr: %s", got.code, exitError, got.stderr)
			}
		})
	}
}

var update = flag.Bool("update", false, "rewrite the output in testdata/transcripts, and the files of testdata/explain")

// runTranscript runs the commands of testdata/transcripts/NAME.txt in this process and compares
// their output. A transcript contains:
//
//	$ idverify version                             a command, and its output on stdout and stderr
//	$ idverify explain < request.txt               a command with a file as its input
//	$ echo 447700900012 | idverify check create -  a command with a line as its input
//	$ echo $?                                      the exit code of the command before
//
// In the output, … represents any text of a line, and a line … any number of lines. With -update,
// lines that do not match are rewritten. Before a command runs, the functions in setup can replace
// its arguments, and the input and output of the program.
func runTranscript(t *testing.T, name string, env map[string]string, setup ...transcriptSetup) {
	t.Helper()
	path := filepath.Join("testdata", "transcripts", name+".txt")
	text := must(os.ReadFile(path))(t)
	var updated strings.Builder
	code := 0
	for _, step := range transcriptSteps(t, string(text)) {
		var output string
		output, code = step.run(t, env, code, setup)
		if !matches(step.output, output) {
			if !*update {
				t.Errorf("%s: $ %s\noutput:\n%s\nwant:\n%s", path, step.command, output, step.output)
			}
			step.output = merge(step.output, output)
		}
		updated.WriteString("$ " + step.command + "\n" + step.output)
	}
	if *update {
		noError(t, os.WriteFile(path, []byte(updated.String()), 0o666))
	}
}

// transcriptSetup changes a command of a transcript before it runs, and returns its arguments.
type transcriptSetup func(args []string, p *program) []string

// transcriptStep is a command with its output.
type transcriptStep struct{ command, output string }

func transcriptSteps(t *testing.T, text string) []transcriptStep {
	t.Helper()
	var steps []transcriptStep
	for line := range strings.Lines(text) {
		command, ok := strings.CutPrefix(line, "$ ")
		switch {
		case ok:
			steps = append(steps, transcriptStep{command: strings.TrimSpace(command)})
		case steps == nil:
			t.Fatalf("the transcript does not begin with a command: %q", line)
		default:
			steps[len(steps)-1].output += line
		}
	}
	return steps
}

var (
	echoInput = regexp.MustCompile(`^echo (\S+) \| idverify (.*)$`)
	fileInput = regexp.MustCompile(`^idverify (.*) < (\S+)$`)
)

// run runs the command in this process, and returns its output and exit code. previous is the exit
// code of the command before.
func (s transcriptStep) run(t *testing.T, env map[string]string, previous int, setup []transcriptSetup) (output string, code int) {
	t.Helper()
	command, stdin := s.command, ""
	if command == "echo $?" {
		return fmt.Sprintln(previous), 0
	}
	if m := echoInput.FindStringSubmatch(command); m != nil {
		command, stdin = "idverify "+m[2], m[1]+"\n"
	} else if m := fileInput.FindStringSubmatch(command); m != nil {
		input := must(os.ReadFile(m[2]))(t)
		command, stdin = "idverify "+m[1], string(input)
	}
	args := shellWords(command)
	if args[0] != "idverify" {
		t.Fatalf("unsupported command of a transcript: $ %s", s.command)
	}
	var terminal bytes.Buffer
	p := newProgram(env)
	p.stdin, p.stdout, p.stderr = strings.NewReader(stdin), &terminal, &terminal
	args = args[1:]
	for _, f := range setup {
		args = f(args, p)
	}
	code = p.run(t.Context(), args)
	return terminal.String(), code
}

var shellWord = regexp.MustCompile(`'([^']*)'|"([^"]*)"|\S+`)

// shellWords returns the words of a command, which may be quoted as a whole.
func shellWords(command string) []string {
	var words []string
	for _, m := range shellWord.FindAllStringSubmatch(command, -1) {
		switch m[0][0] {
		case '\'':
			words = append(words, m[1])
		case '"':
			words = append(words, m[2])
		default:
			words = append(words, m[0])
		}
	}
	return words
}

// matches reports whether an output has the pattern of a transcript.
func matches(pattern, output string) bool {
	var expression strings.Builder
	expression.WriteString("^")
	for line := range strings.Lines(pattern) {
		if line == "…\n" {
			expression.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		expression.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", `[^\n]*`))
	}
	return regexp.MustCompile(expression.String() + "$").MatchString(output)
}

// merge returns output with each line of the pattern that still matches one.
func merge(pattern, output string) string {
	var merged strings.Builder
	old := strings.SplitAfter(pattern, "\n")
	for line := range strings.Lines(output) {
		for i, candidate := range old {
			if candidate != "…\n" && matches(candidate, line) {
				line, old = candidate, old[i+1:]
				break
			}
		}
		merged.WriteString(line)
	}
	return merged.String()
}

var transcriptBlock = regexp.MustCompile("(?s)```text\n(\\$ idverify .*?)```\n")

// TestTranscripts_Documented requires that docs/tools.md contains each transcript. There, a line …
// can replace lines.
func TestTranscripts_Documented(t *testing.T) {
	t.Parallel()
	blocks := transcriptBlock.FindAllStringSubmatch(readText(t, "../../docs/tools.md"), -1)
	var tests strings.Builder
	for _, path := range must(filepath.Glob("*_test.go"))(t) {
		tests.WriteString(readText(t, path))
	}

	paths, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("found %d transcripts, error %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		text := readText(t, path)
		if !slices.ContainsFunc(blocks, func(block []string) bool { return matches(block[1], text) }) {
			t.Errorf("docs/tools.md does not contain %s. Copy it:\n%s", path, text)
		}
		if !strings.Contains(tests.String(), `runTranscript(t, "`+name+`"`) {
			t.Errorf("no test runs %s", path)
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	return string(must(os.ReadFile(path))(t))
}

func TestTranscript_Matches(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, pattern, output string
		want                  bool
	}{
		{"same", "a\nb\n", "a\nb\n", true},
		{"different", "a\n", "b\n", false},
		{"more", "a\n", "a\nb\n", false},
		{"less", "a\nb\n", "a\n", false},
		{"part of a line", "id … ttl …\n", "id 1 ttl 2m\n", true},
		{"not across lines", "id …\n", "id 1\nb\n", false},
		{"any lines", "a\n…\nd\n", "a\nb\nc\nd\n", true},
		{"no lines", "a\n…\nd\n", "a\nd\n", true},
		{"special characters", "a.c (…)\n", "abc (1)\n", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()

			if got := matches(row.pattern, row.output); got != row.want {
				t.Errorf("matches(%q, %q) = %t", row.pattern, row.output, got)
			}
		})
	}
}

// TestProgram_Process runs main, which sets the timeouts.
func TestProgram_Process(t *testing.T) {
	t.Parallel()
	executable := must(os.Executable())(t)
	for timeout, want := range map[string]struct {
		code           int
		stdout, stderr string
	}{
		"1h":  {exitOK, "CHECK ID", ""},
		"1ns": {exitError, "", "Next: set a longer -timeout"},
	} {
		var stdout, stderr strings.Builder
		command := exec.CommandContext(t.Context(), executable, "check", "list", "-fake", "-timeout", timeout)
		command.Env, command.Stdout, command.Stderr = append(os.Environ(), asProgram), &stdout, &stderr

		_ = command.Run()

		if code := command.ProcessState.ExitCode(); code != want.code || !strings.Contains(stdout.String(), want.stdout) || !strings.Contains(stderr.String(), want.stderr) {
			t.Errorf("-timeout %s: exit code %d, output %q, error %q; want %+v", timeout, code, stdout.String(), stderr.String(), want)
		}
	}
}

// TestProgram_WithSandbox runs commands against the program sandboxfake.
func TestProgram_WithSandbox(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "sandboxfake")
	noError(t, tooltest.Build(binary, "github.com/idverify/idverify-go/cmd/sandboxfake"))
	t.Run("printed command", func(t *testing.T) {
		t.Parallel()
		runPrintedCommand(t, startSandbox(t, binary, "-ca-file", "it's the CA.pem"))
	})
	t.Run("conform", func(t *testing.T) {
		t.Parallel()
		conformToAll(t, startSandbox(t, binary, "-json"))
	})
}

// startSandbox starts the program sandboxfake, and returns its output.
func startSandbox(t *testing.T, binary string, args ...string) *bufio.Reader {
	t.Helper()
	server := exec.CommandContext(t.Context(), binary, append(args, "-quiet")...)
	server.Dir = t.TempDir()
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) } // lets it remove its CA file
	return tooltest.Start(t, server)
}

// runPrintedCommand runs the commands that the program sandboxfake prints.
func runPrintedCommand(t *testing.T, stdout io.Reader) {
	t.Helper()
	tooltest.Require(t, tooltest.Installed("sh", "env"), "install a POSIX shell")
	var export, command string
	for lines := bufio.NewScanner(stdout); command == "" && lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "export "):
			export = line
		case strings.HasPrefix(line, "go run ./cmd/idverify "):
			command = strings.TrimPrefix(line, "go run ./cmd/idverify ")
		}
	}
	printed, err := exec.CommandContext(t.Context(), "sh", "-c", export+"; env").Output()
	if err != nil {
		t.Fatalf("%v: %q", err, export)
	}
	env := make(map[string]string)
	for line := range strings.Lines(string(printed)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), "="); strings.HasPrefix(name, "IDVERIFY_") {
			env[name] = value
		}
	}

	got := runProgram(t, env, "", strings.Fields(command)...)

	got.expect(t, exitOK, []string{"ACCEPTED", "Check URL"}, []string{"The check was not charged"})
}

func TestProgram_ReadmeCommand(t *testing.T) {
	t.Parallel()
	m := regexp.MustCompile(`(?m)^idverify (check [^#\n]*)`).FindStringSubmatch(readText(t, "../../README.md"))
	if m == nil {
		t.Fatal("README.md has no command of the program idverify")
	}

	got := runProgram(t, nil, "", strings.Fields(m[1])...)

	got.expect(t, exitOK, []string{"Result  match"}, nil)
}

// pageCommand matches a command in a block or a code span of a page. Other tests run examine and
// conform.
var pageCommand = regexp.MustCompile("(?m)(?:^ *(?:\\$ )?(?:IDVERIFY_BASE_URL=\\S+ )?|`)idverify ((?:check|doctor|explain|help|reachability|token|version)\\b[^\n`#]*)")

// TestPages_Commands runs the commands of the pages with a fake of the service.
func TestPages_Commands(t *testing.T) {
	t.Parallel()
	_, env := newService(t)
	pages := must(filepath.Glob("../../docs/*.md"))(t)
	commands := make(map[string]bool)
	for _, page := range append(pages, "../../README.md") {
		for _, m := range pageCommand.FindAllStringSubmatch(readText(t, page), -1) {
			commands[strings.TrimSpace(m[1])] = true
		}
	}
	delete(commands, "explain") // the name of the command: it reads a request

	for command := range commands {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			text, path, found := strings.Cut(command, " < ")
			stdin := ""
			if found {
				stdin = readText(t, filepath.Join("testdata/explain", filepath.Base(path)))
			}

			got := runProgram(t, env, stdin, shellWords(text)...)

			if got.code == exitUsage && !strings.Contains(got.stderr, "set -yes") {
				t.Errorf("exit code %d\n%s", got.code, got.stderr)
			}
		})
	}
	if len(commands) < 20 {
		t.Errorf("found %d commands, want at least 20", len(commands))
	}
}

// noError and must fail the test if err is not nil. must returns v.
var noError = tooltest.NoError

func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }
