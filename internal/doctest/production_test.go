package doctest_test

import (
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logMessage matches the message of a log record.
var logMessage = regexp.MustCompile(`^(?:idverify|signature|inbox|checkflow): [a-z]`)

// mentioned matches the message of a log record in a page.
var mentioned = regexp.MustCompile("(?:`|msg=\")((?:idverify|signature|inbox|checkflow): [a-z ]+)[`\"]")

// TestProduction_LogRecords compares the log records of docs/production.md with the code.
func TestProduction_LogRecords(t *testing.T) {
	t.Parallel()
	documented := make(map[string][]string) // levels by message
	for _, row := range findTable(t, productionPage, "Level").rows {
		message := codeSpans(row.cells[1])[0]
		documented[message] = append(documented[message], row.cells[0])
	}
	logged := make(map[string][]string)
	for _, dir := range []string{".", "signature", "inbox", "checkflow"} {
		for _, file := range packageFiles(t, dir) {
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if message, level := loggedBy(call); message != "" {
						logged[message] = append(logged[message], level)
					}
				}
				return true
			})
		}
	}

	if got, want := slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(logged)); !slices.Equal(got, want) {
		t.Errorf("docs/%s lists the log records %q, want %q", productionPage, got, want)
	}
	for _, m := range mentioned.FindAllStringSubmatch(readPage(t, productionPage), -1) {
		if logged[m[1]] == nil {
			t.Errorf("docs/%s contains the log message %q, which no package logs", productionPage, m[1])
		}
	}
	for message, levels := range logged {
		for _, level := range levels {
			if level != "" && !slices.Contains(documented[message], level) {
				t.Errorf("docs/%s lists %q at the levels %q, want %s", productionPage, message, documented[message], level)
			}
		}
	}
}

// loggedBy returns the message of a call that writes a log record, and its level if that is a
// constant. The message is empty for other calls.
func loggedBy(call *ast.CallExpr) (message, level string) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"LogAttrs", "ErrorContext", "WarnContext", "log", "logRetry", "claim"}, f.Sel.Name) {
		return "", ""
	}
	if name, ok := strings.CutSuffix(f.Sel.Name, "Context"); ok {
		level = strings.ToLower(name)
	}
	for _, argument := range call.Args {
		switch argument := argument.(type) {
		case *ast.SelectorExpr:
			if name, ok := strings.CutPrefix(argument.Sel.Name, "Level"); ok {
				level = strings.ToLower(name)
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(argument.Value); err == nil && argument.Kind == token.STRING && logMessage.MatchString(text) {
				message = text
			}
		}
	}
	return message, level
}
