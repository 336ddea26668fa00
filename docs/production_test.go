package docs_test

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
var logMessage = regexp.MustCompile(`^(?:idverify|signature|inbox): [a-z]`)

// TestProduction_LogRecords compares the log records of docs/production.md with the code.
func TestProduction_LogRecords(t *testing.T) {
	t.Parallel()
	documented := make(map[string][]string) // levels by message
	for _, row := range findTable(t, productionPage, "Level").rows {
		message := codeSpans(row.cells[1])[0]
		documented[message] = append(documented[message], row.cells[0])
	}
	logged := make(map[string][]string)
	for _, dir := range []string{".", "signature", "inbox"} {
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
	if !ok || !slices.Contains([]string{"LogAttrs", "ErrorContext", "WarnContext", "log", "logRetry"}, f.Sel.Name) {
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

// TestProduction_LogRecordsElsewhere compares the lists of other pages with that of
// docs/production.md.
func TestProduction_LogRecordsElsewhere(t *testing.T) {
	t.Parallel()
	var client, verifier []string // the records of WithLogger, and of the loggers of package signature
	for _, row := range findTable(t, productionPage, "Level").rows {
		record := row.cells[0] + " " + codeSpans(row.cells[1])[0]
		switch row.cells[2] {
		case "`WithLogger`":
			client = append(client, record)
		case "`JWKSOptions.Logger`", "`VerifierOptions.Logger`":
			verifier = append(verifier, record)
		}
	}

	_, section, _ := strings.Cut(readPage(t, "../README.md"), "\n## Logging\n")
	section, _, _ = strings.Cut(section, "\n```")
	var readme []string
	level := ""
	for _, match := range regexp.MustCompile("at level (\\w+)|`([^`]+: [^`]+)`").FindAllStringSubmatch(strings.ToLower(section), -1) {
		if match[1] != "" {
			level = match[1]
			continue
		}
		readme = append(readme, level+" "+match[2])
	}
	var security []string
	for _, row := range findTable(t, "security.md", "Level").rows {
		security = append(security, row.cells[0]+" "+codeSpans(row.cells[1])[0])
	}

	for page, lists := range map[string][2][]string{"README.md": {readme, client}, "docs/security.md": {security, verifier}} {
		got, want := lists[0], lists[1]
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s lists the log records %q, want %q as in docs/%s", page, got, want, productionPage)
		}
	}
}
