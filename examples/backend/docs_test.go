package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// TestDocs_RiverRecipe verifies that docs/replicas.md shows the code of jobs.go.
func TestDocs_RiverRecipe(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/replicas.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("jobs.go")
	if err != nil {
		t.Fatal(err)
	}

	shown := 0
	for _, block := range goBlock.FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(block[1], "river.") {
			continue
		}
		shown++
		if !strings.Contains(string(code), block[1]) {
			t.Errorf("docs/replicas.md shows code that is not in jobs.go:\n%s", block[1])
		}
	}
	if shown != 1 {
		t.Errorf("docs/replicas.md shows %d recipes, want 1", shown)
	}
}
