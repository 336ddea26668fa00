package doctest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	runbookPage    = "runbook.md"
	productionPage = "production.md"
)

// codeBlock is a block of code between fences.
var codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```$")

// quotedText is a text in quotation marks outside code.
var quotedText = regexp.MustCompile(`"([^"]+)"`)

// TestRunbook_NamesExist verifies that every alert, log record, error, attribute and name in the
// runbook is documented elsewhere or declared.
func TestRunbook_NamesExist(t *testing.T) {
	t.Parallel()
	known := make(map[string]bool)
	for _, page := range []string{productionPage, errorsPage, "security.md", "replicas.md", "tools.md", protocolPage} {
		text := readPage(t, page)
		for _, span := range codeSpans(codeBlock.ReplaceAllString(text, "")) {
			known[span] = true
			known[strings.TrimPrefix(span, "signature.")] = true
		}
		for _, block := range codeBlock.FindAllString(text, -1) {
			for _, word := range regexp.MustCompile(`\w+`).FindAllString(block, -1) {
				known[word] = true
			}
		}
	}
	for _, word := range regexp.MustCompile(`\w+`).FindAllString(readPage(t, "alerts.yaml"), -1) {
		known[word] = true
	}
	for _, names := range declarations(t) {
		for name := range names {
			known[name] = true
			known[name[strings.LastIndex(name, ".")+1:]] = true // of a field or method
		}
	}
	// Commands of other programs, and the command that installs this one.
	for _, command := range []string{"timedatectl", "chronyc tracking", "chronyc makestep", "go install github.com/idverify/idverify-go/cmd/idverify@latest"} {
		known[command] = true
	}
	alerts := alertNames(t)
	messages := logMessages(t)

	for _, span := range codeSpans(codeBlock.ReplaceAllString(readPage(t, runbookPage), "")) {
		switch {
		case strings.HasPrefix(span, "idverify "), span == "doctor": // TestPages_Commands
		case strings.HasPrefix(span, "Idverify"):
			if !slices.Contains(alerts, span) {
				t.Errorf("docs/%s: docs/alerts.yaml defines no alert %s", runbookPage, span)
			}
		case strings.Contains(span, ": "):
			if _, ok := messages[span]; !ok {
				t.Errorf("docs/%s: docs/%s lists no log record %q", runbookPage, productionPage, span)
			}
		case !known[span]:
			t.Errorf("docs/%s: %q is neither in another page nor declared", runbookPage, span)
		}
	}
}

// TestRunbook_ErrorTexts verifies that the code contains the quoted parts of errors.
func TestRunbook_ErrorTexts(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	noError(t, walkModule(func(path string) error {
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(filepath.Join(root, path))
			code.Write(text)
			return err
		}
		return nil
	}))

	// A quotation of one word is emphasis, such as "no".
	page := codeSpan.ReplaceAllString(codeBlock.ReplaceAllString(readPage(t, runbookPage), ""), "")
	quoted := 0
	for _, match := range quotedText.FindAllStringSubmatch(page, -1) {
		if !strings.Contains(match[1], " ") {
			continue
		}
		quoted++
		if !strings.Contains(code.String(), match[1]) {
			t.Errorf("docs/%s: no error contains %q", runbookPage, match[1])
		}
	}
	if quoted < 3 {
		t.Errorf("the runbook quotes %d errors, want at least 3", quoted)
	}
}

// TestRunbook_Complete verifies that each alert, and each log record that requires one, has a
// section or a page.
func TestRunbook_Complete(t *testing.T) {
	t.Parallel()
	var listed []string
	for _, row := range findTable(t, runbookPage, "Alert or log record").rows {
		listed = append(listed, codeSpans(row.cells[0])...)
	}

	for _, alert := range alertNames(t) {
		if !slices.Contains(listed, alert) {
			t.Errorf("docs/%s: the table of symptoms lacks the alert %s", runbookPage, alert)
		}
	}
	for message, alert := range logMessages(t) {
		if alert != "no" && message != "idverify: retry" && !slices.Contains(listed, message) {
			t.Errorf("docs/%s: the table of symptoms lacks the log record %q (alert: %s)", runbookPage, message, alert)
		}
	}
}

// alertNames returns the names of the alert rules.
func alertNames(t *testing.T) (names []string) {
	t.Helper()
	for _, match := range regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(readPage(t, "alerts.yaml"), -1) {
		names = append(names, match[1])
	}
	if len(names) == 0 {
		t.Fatal("docs/alerts.yaml has no alert rules")
	}
	return names
}

// logMessages returns the log records of docs/production.md and whether to alert on them. A record
// with several levels has the strictest one.
func logMessages(t *testing.T) map[string]string {
	t.Helper()
	messages := make(map[string]string)
	for _, row := range findTable(t, productionPage, "Level").rows {
		message, alert := codeSpans(row.cells[1])[0], row.cells[3]
		if old := messages[message]; old == "" || old == "no" {
			messages[message] = alert
		}
	}
	return messages
}

func readPage(t *testing.T, page string) string {
	t.Helper()
	return string(must(os.ReadFile(docs + page))(t))
}
