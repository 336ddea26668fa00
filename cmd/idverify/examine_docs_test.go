package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/idverify/idverify-go"
	"github.com/idverify/idverify-go/internal/tooltest"
	"github.com/idverify/idverify-go/receivertest"
	"github.com/idverify/idverify-go/signature"
)

// pageSection returns the text below a heading of docs/tools.md, up to the next one of the same
// or a higher level.
func pageSection(t *testing.T, heading string) string {
	t.Helper()
	_, section, ok := strings.Cut(readText(t, "../../docs/tools.md"), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("docs/tools.md has no heading %q", heading)
	}
	for level, _, _ := strings.Cut(heading, " "); level != ""; level = level[1:] {
		section, _, _ = strings.Cut(section, "\n"+level+" ")
	}
	return section
}

func TestExamine_FlagsDocumented(t *testing.T) {
	t.Parallel()
	var want []string
	flags := flag.NewFlagSet("examine", flag.ContinueOnError)
	new(examination).define(flags)
	flags.VisitAll(func(f *flag.Flag) { want = append(want, f.Name) }) // in lexical order

	var got []string
	for _, row := range regexp.MustCompile(`(?m)^\| (.*?) \|`).FindAllStringSubmatch(pageSection(t, "### Flags of examine"), -1) {
		for _, name := range regexp.MustCompile("`-([a-z-]+)").FindAllStringSubmatch(row[1], -1) {
			got = append(got, name[1])
		}
	}

	slices.Sort(got)
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("flags in docs/tools.md (-program +table):\n%s", diff)
	}
}

// TestExamine_CommandsDocumented parses each command of the section.
func TestExamine_CommandsDocumented(t *testing.T) {
	t.Parallel()
	commands := regexp.MustCompile(`(?m)^ *(?:\$ )?(idverify examine .*)$`).FindAllStringSubmatch(pageSection(t, "## Examine a receiver"), -1)

	for _, command := range commands {
		text, _, _ := strings.Cut(command[1], " #")
		args := shellWords(strings.TrimSuffix(strings.TrimSpace(text), " &"))[2:]
		e := &examination{}
		flags := flag.NewFlagSet("examine", flag.ContinueOnError)
		e.define(flags)
		if err := flags.Parse(args); err != nil {
			t.Errorf("%s: %v", text, err)
		} else if err := e.check(flags.Args(), nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if len(commands) < 5 {
		t.Errorf("found %d commands, want at least 5", len(commands))
	}
}

// startProbe runs a program of testdata/probe until the test ends. It returns the URL of its probe.
func startProbe(t *testing.T, interpreter, file string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), interpreter, "testdata/probe/"+file)
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { command.Wait() }) // the context is canceled before
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("%s does not print its URL: %v", file, err)
	}
	return strings.TrimSpace(line) + "/probe"
}

// TestExamine_ProbeSnippets runs the probes of docs/tools.md.
func TestExamine_ProbeSnippets(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ language, interpreter, file string }{
		{"js", "node", "probe.js"},
		{"py", tooltest.Python(t, "flask"), "probe.py"},
	} {
		t.Run(row.language, func(t *testing.T) {
			t.Parallel()
			snippet := regexp.MustCompile("(?s)```" + row.language + "\n(.*?)```").FindStringSubmatch(pageSection(t, "### Probe"))
			if snippet == nil || !strings.Contains(readText(t, "testdata/probe/"+row.file), snippet[1]) {
				t.Fatalf("docs/tools.md does not contain the probe of %s: %q", row.file, snippet)
			}
			tooltest.Require(t, tooltest.Installed(row.interpreter), "run script/setup interop, which installs Node.js and Python with Flask")
			probe := receivertest.HTTPProbe(startProbe(t, row.interpreter, row.file), nil)
			ctx := t.Context()

			before, beforeErr := probe.Effects(ctx, "check 1")
			createdErr := probe.Created(ctx, receivertest.Check{ID: "check 1", Product: "phone_check"})
			after, afterErr := probe.Effects(ctx, "check 1")
			slowErr := probe.SlowStore(ctx, true)
			slow, slowEffectsErr := probe.Effects(ctx, "check 1") // 0 while the store of the program is slow
			_, sessionErr := probe.Session(ctx)

			if err := errors.Join(beforeErr, createdErr, afterErr, slowErr, slowEffectsErr); err != nil {
				t.Fatal(err)
			}
			if before != 0 || after != 1 || slow != 0 {
				t.Errorf("effects = %d, %d after the check was created, and %d while the store is slow, want 0, 1 and 0", before, after, slow)
			}
			if !errors.Is(sessionErr, errors.ErrUnsupported) {
				t.Errorf("Session = %v, want ErrUnsupported", sessionErr)
			}
		})
	}
}

// TestExamine_FlagNames verifies that the details of a report name flags of the program in place of
// fields of package receivertest.
func TestExamine_FlagNames(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../receivertest/*.go")
	if err != nil || len(paths) == 0 {
		t.Fatalf("found %d files of receivertest, error %v", len(paths), err)
	}
	field := regexp.MustCompile(`\b(Probe|Receiver)\.[A-Z]\w*|\bBase64Digest\b|\bKeys\b`)

	replaced := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			// Errors of an invalid Receiver are for callers of the package.
			if !ok || literal.Kind != gotoken.STRING || filepath.Base(path) == "receiver.go" || strings.Contains(literal.Value, "receivertest: ") {
				return true
			}
			text := forFlags(receivertest.Report{Findings: []receivertest.Finding{{Detail: strings.Trim(literal.Value, "\"`")}}}).Findings[0].Detail
			if text != strings.Trim(literal.Value, "\"`") {
				replaced++
			}
			if found := field.FindString(text); found != "" {
				t.Errorf("%s: the command would print %s in %s: add it to fieldNames", path, found, text)
			}
			return true
		})
	}

	if replaced < 5 {
		t.Errorf("%d texts with fields are replaced, want at least 5", replaced)
	}
}

// TestExamine_Transcript examines a receiver whose clock skew is 5000 s instead of 5000 ms.
func TestExamine_Transcript(t *testing.T) {
	t.Parallel()
	server, handler := startReceiver(t)
	host := strings.TrimPrefix(server.URL, "http://")
	newReceiver := func(k keySet) {
		verifier, err := signature.NewVerifier(k.jwks(t), []string{host}, &signature.VerifierOptions{ClockSkew: 5000 * time.Second})
		if err != nil {
			t.Error(err)
		}
		handler.set <- idverify.CallbackHandler(verifier, func(context.Context, *idverify.Callback) error { return nil })
	}
	keySetPort := regexp.MustCompile(`(key set +https://127\.0\.0\.1:)\d+`)

	runTranscript(t, "examine", nil, func(args []string, p *program) []string {
		terminal := p.stdout
		p.stdout = writerFunc(func(text string) {
			text = strings.ReplaceAll(text, host, "127.0.0.1:3000")
			io.WriteString(terminal, keySetPort.ReplaceAllString(text, "${1}8446"))
		})
		p.stderr = io.MultiWriter(&announcement{announced: newReceiver}, p.stdout)
		args = append([]string{args[0], "-keys", "127.0.0.1:0"}, args[1:]...)
		args[len(args)-1] = strings.ReplaceAll(args[len(args)-1], "127.0.0.1:3000", host)
		return args
	})
}
