package doctest_test

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// elsewhere lists the programs in commands that are not of this repository, and what runs them.
var elsewhere = map[string]string{
	"oapi-codegen": "internal/e2e/openapi",
	"curl":         "cmd/sandboxfake, and TestTutorial",
	"./shop":       "TestTutorial",
	"node":         "receivertest", "python3": "receivertest",
	"sha256sum": "script/reproduce",
	"export":    "a shell", "wait": "a shell", "examination=$!": "a shell", "cd": "a shell", "mkdir": "a shell", "tee": "a shell",
}

// ranBy lists the commands that run code of this repository and are in no script, with the test
// that runs them, or the reason why nothing does.
var ranBy = map[string]string{
	"go run .":                           "TestMain_SignsIn, TestExamine_Programs",
	"go run ./cmd/sandboxfake":           "TestProgram_VersionFlag",
	"go run -C examples/backend ./local": "TestRun_PrintedCommands",
	"bash bench/run":                     "needs eight minutes of an idle machine; the check ratios runs bench/run -ci",
	"bash bench/run -write":              "changes the figures with which other runs are compared",
	"script/api -w":                      "changes the export with which script/api compares the API",
	"script/release":                     "needs a tag; the check release runs it with --snapshot",
	"script/release-check vX.Y.Z":        "runs all checks before a release",
	"script/licenses":                    "the name of a script, which .goreleaser.yaml runs",
}

// commandWord matches the beginning of a command in a code span or a text block.
var commandWord = regexp.MustCompile(`^(?:[A-Z]+=\S+ )*(?:go (?:run|test|get|install|mod|build|work|list|tool) |(?:idverify|bash|docker|cd|apt-get|cat|npm|chronyc) \S|(?:sandboxfake|curl|od|grep|oapi-codegen|sha256sum) -|script/|timedatectl )`)

// pageCommands returns the commands of a page, without comments: the lines of its shell blocks, the
// lines of its text blocks that begin with "$", and its code spans.
func pageCommands(t *testing.T, page string) (commands []string) {
	t.Helper()
	text := readPage(t, page)
	for _, block := range codeBlock.FindAllString(text, -1) {
		lines := strings.Split(block, "\n")
		language := strings.Trim(lines[0], " `")
		transcript := strings.Contains(block, "\n$ ")
		for _, line := range lines[1 : len(lines)-1] {
			line = strings.TrimSpace(line)
			command, typed := strings.CutPrefix(line, "$ ")
			command, _, _ = strings.Cut(command, " #")
			if command != "" && command != "echo $?" && (language == "sh" || typed || !transcript && commandWord.MatchString(command+" ")) {
				commands = append(commands, strings.TrimSpace(command))
			}
		}
	}
	for _, span := range codeSpans(codeBlock.ReplaceAllString(text, "")) {
		if commandWord.MatchString(span + " ") {
			commands = append(commands, span)
		}
	}
	return commands
}

// TestPages_Commands verifies that each command of a page exists, with its packages, tests, checks
// and flags, and that a test or a check runs it. Tests of cmd/idverify, cmd/sandboxfake, the
// examples and the tutorial, and TestPages_Install, run the commands for users, and compare the
// output that a page shows.
func TestPages_Commands(t *testing.T) {
	t.Parallel()
	names, literals := programCommands(t)
	found, used := 0, make(map[string]bool)
	for _, page := range allPages(t) {
		for _, line := range pageCommands(t, page) {
			for command := range strings.SplitSeq(strings.ReplaceAll(line, " | ", " && "), "&& ") {
				command = strings.TrimSpace(strings.Trim(command, "()&"))
				command = regexp.MustCompile(`^(?:[A-Z_]+=\S+ )*`).ReplaceAllString(command, "")
				words := strings.Fields(command)
				found++
				used[words[0]], used[command] = true, true
				if problem := commandProblem(t, page, words, names, literals); problem != "" {
					t.Errorf("docs/%s: %s: %s", page, line, problem)
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("found %d commands, want at least 100", found)
	}
	for name := range elsewhere {
		if !used[name] {
			t.Errorf("no page has the command %s, which this test lists", name)
		}
	}
	for command, by := range ranBy {
		if !used[command] {
			t.Errorf("no page has the command %s, which this test lists", command)
		}
		for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(by, -1) {
			if !declaresTest(t, "^"+name+"$") {
				t.Errorf("%s: there is no test %s", command, name)
			}
		}
	}
}

// allPages returns the paths of the pages, from docs.
func allPages(t *testing.T) []string {
	t.Helper()
	pages := []string{"../README.md", "../CONTRIBUTING.md", "../SECURITY.md", "../cmd/sandboxfake/README.md"}
	for _, pattern := range []string{"docs/*.md", "examples/*/README.md"} {
		paths := must(filepath.Glob(filepath.Join(root, pattern)))(t)
		for _, path := range paths {
			rel := must(filepath.Rel(docs, path))(t)
			pages = append(pages, filepath.ToSlash(rel))
		}
	}
	return pages
}

// commandProblem returns why a command does not exist, or "".
func commandProblem(t *testing.T, page string, words []string, names []string, literals map[string]bool) string {
	t.Helper()
	rest := strings.Join(words[1:], " ")
	switch words[0] {
	case "idverify":
		if words[1] != "help" && words[1] != "exmaine" && !slices.ContainsFunc(names, func(c string) bool { return strings.HasPrefix(rest+" ", c+" ") }) {
			return "the program has no such command"
		}
		for _, m := range regexp.MustCompile(` -([a-z-]+)`).FindAllStringSubmatch(rest, -1) {
			if !literals[m[1]] {
				return "the program has no flag -" + m[1]
			}
		}
	case "sandboxfake": // cmd/sandboxfake runs it
	case "docker":
		workflow := readPage(t, "../.github/workflows/nightly.yml")
		if !strings.Contains(workflow, strings.Join(words, " ")) {
			return "the workflow nightly.yml does not run it"
		}
	case "go":
		if problem := goProblem(t, page, words[1:]); problem != "" || words[1] != "run" || len(words) == 2 {
			return problem
		}
		return notRun(t, words)
	case "bash", "script/check", "script/setup", "script/api", "script/nightly", "script/release", "script/release-check", "script/licenses":
		script := words[0]
		if script == "bash" {
			script = words[1]
		}
		text, err := os.ReadFile(filepath.Join(root, script))
		if err != nil {
			return err.Error()
		}
		if script == "script/check" || script == "script/setup" {
			for _, name := range words[1:] {
				if !regexp.MustCompile(`(?m)^(?:check_|\t)` + name + `\)?\(?\)`).Match(text) {
					return script + " has no " + name
				}
			}
		}
		return notRun(t, words)
	default:
		if elsewhere[words[0]] == "" {
			return "no test runs it: add it to one, or to the list of this test"
		}
	}
	return ""
}

// notRun returns a problem if ranBy does not list a command and no script runs it: for checks and
// groups of tools, each of them.
func notRun(t *testing.T, words []string) string {
	t.Helper()
	command := strings.Join(words, " ")
	if ranBy[command] != "" {
		return ""
	}
	var scripts strings.Builder
	for _, name := range []string{".ci/run", "script/check", "script/nightly", "script/setup", "script/release-check"} {
		scripts.WriteString(readPage(t, "../"+name))
	}
	patterns := []string{regexp.QuoteMeta(command) + "$"}
	if words[0] == "script/check" || words[0] == "script/setup" {
		patterns = nil
		for _, name := range words[1:] {
			patterns = append(patterns, "(?:"+words[0]+`|set --) .*\b`+name+`\b`)
		}
	}
	for _, pattern := range patterns {
		if !regexp.MustCompile("(?m)" + pattern).MatchString(scripts.String()) {
			return "nothing runs it: add it to a check, or to ranBy"
		}
	}
	return ""
}

// goProblem returns why the packages, tests or benchmarks of a command of go do not exist, or "".
// Paths begin at the root of the repository, or at the directory that the command or page names.
func goProblem(t *testing.T, page string, words []string) string {
	t.Helper()
	dir, run := root, ""
	var paths []string
	for i := 1; i < len(words); i++ {
		switch word := words[i]; {
		case word == "-C":
			i++
			dir = filepath.Join(root, words[i])
		case word == "-run" || word == "-bench":
			i++
			if pattern := strings.Trim(words[i], "'"); pattern != "^$" {
				run = pattern
			}
		case strings.HasPrefix(word, "github.com/idverify/idverify-go"):
			path, _, _ := strings.Cut(strings.TrimPrefix(word, "github.com/idverify/idverify-go"), "@")
			paths = append(paths, filepath.Join(root, path))
		case strings.HasPrefix(word, "./"):
			paths = append(paths, filepath.Join(dir, strings.TrimSuffix(word, "...")))
		}
	}
	for _, path := range paths {
		if files, err := filepath.Glob(filepath.Join(path, "*")); err != nil || len(files) == 0 {
			return path + " does not exist"
		}
	}
	if run != "" && !declaresTest(t, run) {
		return "no test or benchmark has the name " + run
	}
	return ""
}

// declaresTest reports whether a test or benchmark of the repository has a name that matches each
// alternative of a pattern.
func declaresTest(t *testing.T, pattern string) bool {
	t.Helper()
	for alternative := range strings.SplitSeq(pattern, "|") {
		name := regexp.MustCompile(alternative)
		matches := false
		for path, names := range declarations(t) {
			for declared := range names {
				matches = matches || strings.HasSuffix(path, "_test.go") && regexp.MustCompile("^(Test|Benchmark)").MatchString(declared) && name.MatchString(declared)
			}
		}
		if !matches {
			return false
		}
	}
	return true
}

// TestRunbook_Queries verifies that the queries of the runbook use rules of docs/alerts.yaml.
func TestRunbook_Queries(t *testing.T) {
	t.Parallel()
	rules := readPage(t, "alerts.yaml")
	queries := regexp.MustCompile(`(?m)^sum by .*\((idverify:[a-z0-9:]+)`).FindAllStringSubmatch(readPage(t, runbookPage), -1)

	for _, query := range queries {
		if !strings.Contains(rules, "- record: "+query[1]+"\n") {
			t.Errorf("docs/%s: %s: docs/alerts.yaml has no rule %s", runbookPage, query[0], query[1])
		}
	}
	if len(queries) < 3 {
		t.Errorf("found %d queries, want at least 3", len(queries))
	}
}

// TestPages_Words limits the length of the pages.
func TestPages_Words(t *testing.T) {
	t.Parallel()
	total := 0
	for _, page := range allPages(t) {
		words := len(strings.Fields(readPage(t, page)))
		if page == "../README.md" && words > 1600 {
			t.Errorf("README.md has %d words, want at most 1,600", words)
		}
		if page == "../README.md" || !strings.HasPrefix(page, "../") {
			total += words
		}
	}

	if total > 35_500 {
		t.Errorf("README.md and docs have %d words, want at most 35,500: shorten them", total)
	}
}

// programCommands returns the names of the commands of cmd/idverify, and the strings in its code,
// which include the names of its flags.
func programCommands(t *testing.T) (commands []string, literals map[string]bool) {
	t.Helper()
	literals = make(map[string]bool)
	for _, file := range packageFiles(t, "cmd/idverify") {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					literals[text] = true
				}
			case *ast.FuncDecl:
				if n.Recv == nil && n.Name.Name == "commands" {
					commands = firstElements(n)
				}
			}
			return true
		})
	}
	if len(commands) == 0 {
		t.Fatal("cmd/idverify/main.go has no commands")
	}
	return commands, literals
}

// firstElements returns the strings that composite literals in n begin with.
func firstElements(n ast.Node) (texts []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if c, ok := n.(*ast.CompositeLit); ok && len(c.Elts) > 0 {
			if lit, ok := c.Elts[0].(*ast.BasicLit); ok {
				text, _ := strconv.Unquote(lit.Value)
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}
