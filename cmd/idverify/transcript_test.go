package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the output in testdata/transcripts")

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
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
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
		if err := os.WriteFile(path, []byte(updated.String()), 0o666); err != nil {
			t.Fatal(err)
		}
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
		input, err := os.ReadFile(m[2])
		if err != nil {
			t.Fatal(err)
		}
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

func TestTranscripts_Documented(t *testing.T) {
	t.Parallel()
	page := readText(t, "../../docs/tools.md")
	var tests strings.Builder
	sources, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range sources {
		tests.WriteString(readText(t, path))
	}

	paths, err := filepath.Glob("testdata/transcripts/*.txt")

	if err != nil || len(paths) == 0 {
		t.Fatalf("found %d transcripts, error %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		if text := readText(t, path); !strings.Contains(page, "\n"+text+"```\n") {
			t.Errorf("docs/tools.md does not contain %s. Copy it:\n%s", path, text)
		}
		if !strings.Contains(tests.String(), `runTranscript(t, "`+name+`"`) {
			t.Errorf("no test runs %s", path)
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
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
