package doctest_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestRunbook_Commands verifies that the commands of the program idverify in the runbook exist, and
// that the program has their flags.
func TestRunbook_Commands(t *testing.T) {
	t.Parallel()
	commands, literals := programCommands(t)
	text := readPage(t, runbookPage)
	lines := codeSpans(codeBlock.ReplaceAllString(text, ""))
	for _, block := range codeBlock.FindAllString(text, -1) {
		lines = append(lines, strings.Split(block, "\n")...)
	}

	found := 0
	for _, line := range lines {
		rest, ok := strings.CutPrefix(line, "idverify ")
		if !ok {
			continue
		}
		found++
		if !slices.ContainsFunc(commands, func(c string) bool { return strings.HasPrefix(rest+" ", c+" ") }) {
			t.Errorf("docs/%s: %q: the program has no such command, only %q", runbookPage, line, commands)
		}
		for _, match := range regexp.MustCompile(` -([a-z-]+)`).FindAllStringSubmatch(line, -1) {
			if !literals[match[1]] {
				t.Errorf("docs/%s: %q: the program has no flag -%s", runbookPage, line, match[1])
			}
		}
	}
	if found < 5 {
		t.Errorf("the runbook has %d commands, want at least 5", found)
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
