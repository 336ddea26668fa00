package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// vocabulary lists expressions that can be misunderstood, or that have two spellings, and what to
// write instead. See CONTRIBUTING.md, "Prose".
var vocabulary = []struct {
	avoid   string // a regular expression; case is ignored
	instead string
}{
	{`\b(?:the|this|our|its|by|in) (specifications?|contracts?)\b`, "docs/protocol.md, or the RFC"},
	{`\ball the same\b`, "still, nevertheless"},
	{`\bwhat is (not|no)\b`, "name the thing"},
	{`\bscrub(s|bed|bing)?\b`, "redact, sanitize"},
	{`\bunder way\b`, "in flight (request), in progress (work)"},
	{`\b(fall|falls|fell|falling) due\b`, "become due"},
	{`\b(run|runs|ran|running) out\b`, "expire"},
	{`\bwithdr(aw|aws|ew|awn|awing|awal)\b`, "revoke, remove"},
	{`\bundecided\b`, "retryable, verification unavailable"},
	{`\bjudg(e|es|ed|ing|ment)\b`, "verify, evaluate"},
	{`\bbeside\b`, "alongside, next to"},
	{`\bfor (good|ever)\b`, "permanently"},
	{`\bforeign\b`, "untrusted, other"},
	{`\bstrangers?\b`, "anyone, another client"},
	{`\b(cut|cuts|cutting) off\b`, "truncated"},
	{`\b(break|breaks|broke|broken|breaking) off\b`, "connection lost, truncated"},
	{`\btime-outs?\b`, "timeout"},
	{`\bset-ups?\b`, "setup"},
	{`\b(the|an|its|same|check|request|project|key|workspace|credential|member|client|by|with|unknown|new|old|another|each|every|these|those) (?-i:ids?)\b`, "ID"},
	{`\b(behavi|hono|colo|favo|neighbo)urs?(ed|ing|s|able)?\b`, "American spelling"},
	{`\b(cancelled|cancelling|labelled|labelling|modelled|signalled|licences?|artefacts?|whilst|amongst|catalogues?)\b`, "American spelling"},
	{`\b(recogn|initial|serial|normal|author|organ|summar|minim|maxim|optim|modern|synchron|general|special|util|real)is(e|es|ed|ing|ation)\b`, "American spelling"},
}

const maxColumns = 100

// finding is a violation of a prose rule.
type finding struct {
	path string
	line int
	text string
	rule string
}

func TestProse_Vocabulary(t *testing.T) {
	t.Parallel()

	for _, path := range proseFiles(t) {
		for _, f := range findings(t, path) {
			t.Errorf("%s:%d: %q: %s", f.path, f.line, f.text, f.rule)
		}
	}
}

func TestProse_FindsViolations(t *testing.T) {
	t.Parallel()

	const source = "package p\n\n" +
		"// F scrubs what runs out.\n" +
		"func F() error { return errors.New(\"the key was withdrawn\") }\n\n" +
		"func TestAnOldMessageIsNotBelieved(t *testing.T) {}\n\n" +
		"// A comment that is longer than a hundred columns, and therefore hard to read, must be wrapped by the author of the line\n"

	var got []string
	for _, f := range goFindings(t, "p_test.go", []byte(source)) {
		got = append(got, fmt.Sprintf("%s:%d %s", f.path, f.line, f.text))
	}

	want := []string{
		"p_test.go:3 scrubs", "p_test.go:3 runs out", "p_test.go:4 withdrawn",
		"p_test.go:6 TestAnOldMessageIsNotBelieved", "p_test.go:8 121 columns",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("findings = %q, want %q", got, want)
	}
}

// isProse reports whether a file contains prose that this test reads.
func isProse(path string) bool {
	switch filepath.Base(path) {
	case "Dockerfile", "openapi.json":
		return true
	case "prose_test.go":
		return false // it contains the vocabulary
	}
	switch filepath.Base(filepath.Dir(path)) {
	case "script", ".ci":
		return true
	}
	return strings.HasSuffix(path, ".go.txt") || slices.Contains([]string{".go", ".md", ".js", ".mjs", ".html", ".css", ".py", ".sh", ".yml", ".yaml"}, filepath.Ext(path))
}

func TestProse_FindsViolationsInPrograms(t *testing.T) {
	t.Parallel()
	const source = "// Scrubs the page.\ntry {\n  show('The key was withdrawn.');\n}\n"

	got := lineFindings("page.js", source)

	if len(got) != 2 || got[0].line != 1 || got[0].text != "Scrubs" || got[1].line != 3 || got[1].text != "withdrawn" {
		t.Errorf("findings = %v, want Scrubs in line 1 and withdrawn in line 3", got)
	}
	for _, path := range []string{"actions.js", "receiver.mjs", "receiver.go.txt", "index.html", "inspector.css", "receiver.py", "walkthrough.sh", "check", "run", "nightly.yml", "alerts.yaml", "Dockerfile", "openapi.json"} {
		if !slices.ContainsFunc(proseFiles(t), func(file string) bool { return filepath.Base(file) == path }) {
			t.Errorf("%s is not read", path)
		}
	}
}

// proseFiles returns the files of the repository with prose, including those of nested modules.
func proseFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		testdata := d.Name() == "testdata" && path != filepath.Join(root, "cmd", "sandboxfake", "testdata") // examples for users
		skip := testdata || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".github" && d.Name() != ".ci"
		if d.IsDir() && skip && path != root {
			return filepath.SkipDir
		}
		if !d.IsDir() && isProse(path) {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			files = append(files, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 100 {
		t.Fatalf("found %d files, want the whole repository", len(files))
	}
	return files
}

func findings(t *testing.T, path string) []finding {
	t.Helper()
	text := must(os.ReadFile(filepath.Join(root, path)))(t)
	switch filepath.Ext(path) {
	case ".go":
		return goFindings(t, filepath.ToSlash(path), text)
	case ".md":
		return lineFindings(filepath.ToSlash(path), inlineCode.ReplaceAllString(string(text), "``"))
	}
	return lineFindings(filepath.ToSlash(path), string(text))
}

// inlineCode matches a code span of Markdown, which usually contains identifiers.
var inlineCode = regexp.MustCompile("`[^`\n]*`")

// lineFindings checks each line of a text. In a program, it includes the code.
func lineFindings(path, text string) []finding {
	var all []finding
	number := 0
	for line := range strings.Lines(text) {
		number++
		all = append(all, words(path, number, line)...)
	}
	return all
}

// testName matches the names of tests, benchmarks and fuzz targets that follow the rule:
// TestType_Behavior or TestType.
var testName = regexp.MustCompile(`^(Test|Benchmark|Fuzz)[A-Z0-9][A-Za-z0-9]*(_[A-Za-z0-9]+)?$`)

// sentence matches a test name that is a sentence: it begins with an article or a pronoun, or it has
// no underscore and a verb.
var sentence = regexp.MustCompile(`^(Test|Benchmark|Fuzz)(A|An|The|Every|All|No|Each|What|Who|Only|Nobody)[A-Z]|^[A-Za-z0-9]+[a-z](Is|Are|Does|Do|Has|Have|May|Must|Cannot|Can|Keeps|Gets|Ends|Makes|Leaves)[A-Z][A-Za-z0-9]*$`)

const maxTestName = 60

// goFindings checks comments, string literals with more than one word, and names of tests.
func goFindings(t *testing.T, path string, source []byte) []finding {
	t.Helper()
	files := token.NewFileSet()
	file := must(parser.ParseFile(files, path, source, parser.ParseComments|parser.SkipObjectResolution))(t)

	var all []finding
	for _, group := range file.Comments {
		output := strings.Contains(group.Text(), "Output:") // of an example; its lines cannot be wrapped
		for _, comment := range group.List {
			place := files.Position(comment.Pos())
			for i, line := range strings.Split(comment.Text, "\n") {
				all = append(all, words(path, place.Line+i, line)...)
				if i > 0 || strings.TrimLeft(string(source[place.Offset-place.Column+1:place.Offset]), "\t") == "" {
					if n := len([]rune(line)) + place.Column - 1; n > maxColumns && !output && canWrap(line) {
						all = append(all, finding{path, place.Line + i, strconv.Itoa(n) + " columns", "wrap comments at 100 columns"})
					}
				}
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING && strings.Contains(n.Value, " ") {
				all = append(all, words(path, files.Position(n.Pos()).Line, n.Value)...)
			}
		case *ast.FuncDecl:
			name := n.Name.Name
			if strings.HasSuffix(path, "_test.go") && n.Recv == nil && isTest(name) && (!testName.MatchString(name) || sentence.MatchString(name) || len(name) > maxTestName) {
				all = append(all, finding{path, files.Position(n.Pos()).Line, name, "name tests TestType_Behavior"})
			}
		}
		return true
	})
	slices.SortStableFunc(all, func(a, b finding) int { return cmp.Compare(a.line, b.line) })
	return all
}

func isTest(name string) bool {
	return name != "TestMain" && (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Benchmark") || strings.HasPrefix(name, "Fuzz"))
}

// canWrap reports whether a comment line may be wrapped: it is not code, not a directive for a tool
// and not one long word such as a URL.
func canWrap(comment string) bool {
	fixed := strings.HasPrefix(comment, "//\t") || strings.HasPrefix(comment, "//go:") || strings.HasPrefix(comment, "//nolint") || strings.HasPrefix(comment, "//lint:")
	return !fixed && strings.Contains(comment[min(len(comment), 20):], " ")
}

// words returns the findings of the vocabulary in a text that begins at the given line of a file.
func words(path string, line int, text string) []finding {
	var all []finding
	for i, avoid := range compiled() {
		for _, m := range avoid.FindAllStringIndex(text, -1) {
			all = append(all, finding{path, line + strings.Count(text[:m[0]], "\n"), text[m[0]:m[1]], "write: " + vocabulary[i].instead})
		}
	}
	return all
}

// compiled returns the regular expressions of the vocabulary.
var compiled = sync.OnceValue(func() []*regexp.Regexp {
	all := make([]*regexp.Regexp, len(vocabulary))
	for i, v := range vocabulary {
		all[i] = regexp.MustCompile(`(?i)` + v.avoid)
	}
	return all
})
