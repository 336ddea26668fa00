// Package doctest_test verifies the claims that the pages in docs make about the code.
package doctest_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

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

// rule is an item of a list of the protocol page, which ends with its code:
//
//   - Requests use HTTPS only. (specified: `options.go`, `parseBaseURL`)
type rule struct {
	line      int // counted from 1
	text      string
	specified bool // or our decision
	code      string
}

var ruleLine = regexp.MustCompile("^- (.+) \\((specified: )?(`[^()]+`)\\)$")

func readRules(t *testing.T) []rule {
	t.Helper()
	var rules []rule
	for i, line := range strings.Split(readPage(t, protocolPage), "\n") {
		if m := ruleLine.FindStringSubmatch(line); m != nil {
			rules = append(rules, rule{i + 1, m[1], m[2] != "", m[3]})
		} else if strings.HasPrefix(line, "- ") {
			t.Errorf("docs/%s:%d: rule without code", protocolPage, i+1)
		}
	}
	return rules
}

func TestProtocol_CodeReferences(t *testing.T) {
	t.Parallel()
	files := declarations(t)
	moved := make(map[string]string) // references, by their old text

	rules := readRules(t)
	for _, rule := range rules {
		references := parseReferences(rule.code)
		if fixed := formatReferences(repair(references, files)); *update && fixed != rule.code {
			moved[rule.code] = fixed
			references = parseReferences(fixed)
		}
		for _, r := range references {
			if !r.exists() {
				t.Errorf("docs/%s:%d: %s does not exist; if the code has moved, run go test ./internal/doctest -run Protocol -update", protocolPage, rule.line, r.file)
				continue
			}
			for _, name := range r.names {
				if !files[r.file][name] {
					t.Errorf("docs/%s:%d: %s does not declare %s; if it has moved, run go test ./internal/doctest -run Protocol -update", protocolPage, rule.line, r.file, name)
				}
			}
		}
	}

	if len(rules) < 200 {
		t.Errorf("found %d rules, want at least 200", len(rules))
	}
	if len(moved) > 0 {
		rewriteCode(t, moved)
	}
}

// rewriteCode replaces the references of rules of the protocol page.
func rewriteCode(t *testing.T, moved map[string]string) {
	t.Helper()
	text := readPage(t, protocolPage)
	for old, fixed := range moved {
		text = strings.ReplaceAll(text, "("+old+")\n", "("+fixed+")\n")
		text = strings.ReplaceAll(text, "(specified: "+old+")\n", "(specified: "+fixed+")\n")
	}
	noError(t, os.WriteFile(docs+protocolPage, []byte(text), 0o644))
}

func TestProtocol_Sections(t *testing.T) {
	t.Parallel()

	var got []string
	for line := range strings.Lines(readPage(t, protocolPage)) {
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

	noError(t, walkModule(func(path string) error {
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
	}))
}

// TestProtocol_Operations compares the table with the routes, except those of projects below a
// workspace.
func TestProtocol_Operations(t *testing.T) {
	t.Parallel()
	var want []string
	for _, op := range wire.Operations() {
		if strings.Contains(op.Path, "/{workspace_id}/projects") {
			continue
		}
		scope := cmp.Or(op.Scope, "none")
		if op == wire.Token || op == wire.Revoke {
			scope = "Basic"
		}
		want = append(want, fmt.Sprintf("%s %s %s %s", op.Name, op.Method, op.Path, scope))
		success := http.StatusOK
		switch {
		case op == wire.Token:
		case strings.HasSuffix(op.Name, ".create"):
			success = http.StatusCreated
		case strings.HasSuffix(op.Name, ".delete"):
			success = http.StatusNoContent
		}
		if op.Success != success {
			t.Errorf("status after success of %s = %d, docs/%s says %d", op.Name, op.Success, protocolPage, success)
		}
	}

	var got []string
	for _, row := range findTable(t, protocolPage, "Path").rows {
		for part := range strings.SplitSeq(row.cells[2], "; ") {
			method, names, _ := strings.Cut(part, " ")
			for _, name := range codeSpans(names) {
				product, _, _ := strings.Cut(name, ".")
				line := fmt.Sprintf("%s %s %s %s", name, method, strings.Trim(row.cells[0], "`"), strings.Trim(row.cells[1], "`"))
				got = append(got, strings.ReplaceAll(line, "{product}", product))
			}
		}
	}

	slices.Sort(want)
	slices.Sort(got)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("operations (-code +page):\n%s", diff)
	}
}

// TestProtocol_DescribedStatus requires a rule for each member and query parameter of the OpenAPI
// description of the service, with the same status.
func TestProtocol_DescribedStatus(t *testing.T) {
	t.Parallel()
	named := map[string]map[string]bool{"specified": {}, "our decision": {}}
	word := regexp.MustCompile(`\w+`)
	for _, rule := range readRules(t) {
		status := "our decision"
		if rule.specified {
			status = "specified"
		}
		for _, span := range codeSpans(rule.text) {
			for _, name := range word.FindAllString(span, -1) {
				named[status][name] = true
			}
		}
	}
	var document any
	noError(t, json.Unmarshal(sandboxfake.OpenAPI(), &document))

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
