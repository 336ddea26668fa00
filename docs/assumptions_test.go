// Package docs_test keeps the documents true to the code.
package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A place is a file and the names in it: `check.go`, `minPeriod`, `maxPeriod`.
var (
	quoted    = regexp.MustCompile("`([^`]+)`")
	qualified = regexp.MustCompile(`^[A-Za-z]+\.([A-Za-z]+)$`) // a method or a field
)

func TestEveryPlaceThatTheAssumptionsNameIsThere(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("assumptions.md")
	if err != nil {
		t.Fatal(err)
	}
	places := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) < 2 || strings.HasPrefix(line, "| Decision") {
			continue
		}
		for place := range strings.SplitSeq(cells[len(cells)-1], ";") {
			names := quoted.FindAllStringSubmatch(place, -1)
			if len(names) == 0 {
				t.Errorf("a decision has no place in the code: %s", line)
				continue
			}
			places++
			file := names[0][1]
			if rest, ok := strings.CutPrefix(file, "fake/"); ok {
				file = "sandboxfake/" + rest
			}
			code, err := os.ReadFile(filepath.Join("..", file))
			if err != nil {
				t.Errorf("%s is not there: %s", file, line)
				continue
			}
			for _, name := range names[1:] {
				word := qualified.ReplaceAllString(name[1], "$1")
				if !regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`).Match(code) {
					t.Errorf("%s has no %s: %s", file, name[1], line)
				}
			}
		}
	}
	if places < 100 {
		t.Errorf("only %d places were found: is the page still a list of tables?", places)
	}
}
