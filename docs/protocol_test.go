// Package docs_test verifies the claims that the documents make about the code.
package docs_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/internal/wire"
	"github.com/idverify/idverify-go/sandboxfake"
)

const protocolPage = "protocol.md"

var update = flag.Bool("update", false, "rewrite the references of docs/protocol.md to code that has moved to another file")

// protocolSections are the headings that comments cite by number.
var protocolSections = []string{
	"1. Versions and operations",
	"2. Tokens",
	"3. JSON, lists and search",
	"4. Checks",
	"5. Device reachability",
	"6. Callbacks",
	"7. Signatures and keys",
	"8. Problems",
	"9. Limits",
	"10. Console",
	"11. The client",
	"12. The verifier",
	"13. The fake",
	"14. The inbox",
}

func TestProtocol_CodeReferences(t *testing.T) {
	t.Parallel()
	files := declarations(t)
	moved := make(map[string]string) // code cells, by their old text

	rules := 0
	for _, tb := range readTables(t, protocolPage) {
		if !slices.Equal(tb.header, []string{"Rule", "Status", "Code"}) {
			continue
		}
		for _, row := range tb.rows {
			rules++
			status, code := row.cells[1], row.cells[2]
			if status != "specified" && status != "our decision" {
				t.Errorf("%s: status = %q, want specified or our decision", at(protocolPage, row), status)
			}
			references := parseReferences(code)
			if len(references) == 0 {
				t.Errorf("%s: no code reference", at(protocolPage, row))
			}
			if fixed := formatReferences(repair(references, files)); *update && fixed != formatReferences(references) {
				moved[code] = fixed
				references = parseReferences(fixed)
			}
			for _, r := range references {
				if !r.exists() {
					t.Errorf("%s: %s does not exist; if the code has moved, run go test ./docs -run Protocol -update", at(protocolPage, row), r.file)
					continue
				}
				for _, name := range r.names {
					if !files[r.file][name] {
						t.Errorf("%s: %s does not declare %s; if it has moved, run go test ./docs -run Protocol -update", at(protocolPage, row), r.file, name)
					}
				}
			}
		}
	}

	if rules < 200 {
		t.Errorf("found %d rules, want at least 200", rules)
	}
	if len(moved) > 0 {
		rewriteCode(t, moved)
	}
}

// rewriteCode replaces the last cell of rows of the protocol page.
func rewriteCode(t *testing.T, moved map[string]string) {
	t.Helper()
	page, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for old, fixed := range moved {
		text = strings.ReplaceAll(text, " | "+old+" |\n", " | "+fixed+" |\n")
	}
	if err := os.WriteFile(protocolPage, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestProtocol_Sections(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}

	var got []string
	for line := range strings.Lines(string(page)) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			got = append(got, strings.TrimSpace(heading))
		}
	}

	if !slices.Equal(got, protocolSections) {
		t.Errorf("sections = %q, want %q: comments cite them by number", got, protocolSections)
	}
}

var citation = regexp.MustCompile(`docs/protocol\.md,[\s/]+sections?\s+([0-9]+)(?:\s+(?:and|to)\s+([0-9]+))?`)

func TestProtocol_Citations(t *testing.T) {
	t.Parallel()

	err := walkModule(func(path string) error {
		if !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".md") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		for _, match := range citation.FindAllStringSubmatch(string(text), -1) {
			for _, number := range match[1:] {
				if n, err := strconv.Atoi(number); number != "" && (err != nil || n < 1 || n > len(protocolSections)) {
					t.Errorf("%s cites section %s of docs/protocol.md, which does not exist", path, number)
				}
			}
		}
		return nil
	})

	if err != nil {
		t.Fatal(err)
	}
}

func TestProtocol_Fragments(t *testing.T) {
	t.Parallel()
	want := constantValues(t, "internal/wire", "BadRequest")

	var got []string
	for _, row := range findTable(t, protocolPage, "Fragment").rows {
		got = append(got, codeSpans(row.cells[0])...)
	}

	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("fragments = %q, want %q", got, want)
	}
}

func TestProtocol_Operations(t *testing.T) {
	t.Parallel()
	var want [][]string
	for _, op := range wire.Operations() {
		scope := "`" + op.Scope + "`"
		switch op {
		case wire.Token, wire.Revoke:
			scope = "Basic"
		default:
			if op.Scope == "" {
				scope = "none"
			}
		}
		want = append(want, []string{"`" + op.Name + "`", op.Method, "`" + op.Path + "`", scope, strconv.Itoa(op.Success)})
	}

	tb := findTable(t, protocolPage, "Operation")

	for i, row := range tb.rows {
		if i < len(want) && !slices.Equal(row.cells, want[i]) {
			t.Errorf("%s: row = %q, want %q", at(protocolPage, row), row.cells, want[i])
		}
	}
	if len(tb.rows) != len(want) {
		t.Errorf("%d operations are documented, want %d", len(tb.rows), len(want))
	}
}

// TestProtocol_DescribedStatus requires a rule for each member and query parameter of the OpenAPI
// description of the service, with the same status.
func TestProtocol_DescribedStatus(t *testing.T) {
	t.Parallel()
	named := map[string]map[string]bool{"specified": {}, "our decision": {}}
	word := regexp.MustCompile(`\w+`)
	for _, tb := range readTables(t, protocolPage) {
		if !slices.Equal(tb.header, []string{"Rule", "Status", "Code"}) {
			continue
		}
		for _, row := range tb.rows {
			for _, span := range codeSpans(row.cells[0]) {
				for _, name := range word.FindAllString(span, -1) {
					named[row.cells[1]][name] = true
				}
			}
		}
	}
	var document any
	if err := json.Unmarshal(sandboxfake.OpenAPI(), &document); err != nil {
		t.Fatal(err)
	}

	found := 0
	var visit func(name string, value any)
	visit = func(name string, value any) {
		object, _ := value.(map[string]any)
		if status, ok := object["x-status"].(string); ok && name != "" && object["in"] != "path" && object["in"] != "header" {
			found++
			if !named[status][name] {
				t.Errorf("OpenAPI says that %s is %s, but no such rule of docs/%s names it", name, status, protocolPage)
			}
		}
		for key, inner := range object {
			switch key {
			case "properties":
				for name, member := range inner.(map[string]any) {
					visit(name, member)
				}
			case "parameters":
				for _, p := range inner.([]any) {
					visit(p.(map[string]any)["name"].(string), p)
				}
			default:
				visit("", inner)
			}
		}
	}
	visit("", document)

	if found < 100 {
		t.Errorf("found %d members and parameters, want at least 100", found)
	}
}
