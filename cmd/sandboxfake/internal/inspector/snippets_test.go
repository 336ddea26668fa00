package inspector_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/internal/tooltest"
)

// snippet evaluates an expression of JavaScript with the functions of snippets.js in s, those of
// products.js in p and the value input, and returns the result.
func snippet[T any](t *testing.T, expression string, input any) T {
	t.Helper()
	tooltest.Require(t, tooltest.Installed("node"), "run script/setup interop, which installs Node.js")
	dir := t.TempDir()
	files := map[string]string{
		"package.json": `{"type": "module"}`,
		"main.js": `import fs from 'node:fs';
import * as s from './snippets.js';
import * as p from './products.js';
const input = JSON.parse(fs.readFileSync(0, 'utf8'));
process.stdout.write(JSON.stringify(` + expression + `));`,
	}
	for _, name := range []string{"snippets.js", "products.js"} {
		files[name] = string(must(os.ReadFile(filepath.Join("assets", name)))(t))
	}
	for name, content := range files {
		noError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	stdin := must(json.Marshal(input))(t)
	node := exec.CommandContext(t.Context(), "node", "main.js")
	node.Dir, node.Stdin = dir, strings.NewReader(string(stdin))

	output, err := node.Output()
	if err != nil {
		t.Fatalf("node: %v", err)
	}

	var result T
	noError(t, json.Unmarshal(output, &result))
	return result
}

// checkView is a check of the control plane, as far as snippets.js uses it.
type checkView struct {
	Product     string `json:"product"`
	Version     string `json:"version"`
	PhoneNumber string `json:"phone_number"`
	ReferenceID string `json:"reference_id,omitempty"`
	Status      string `json:"status"`
	Match       *bool  `json:"match,omitempty"`
	NoSIMChange *bool  `json:"no_sim_change,omitempty"`
}

// goTestCase is a check, and the injected fault of its callback.
type goTestCase struct {
	Check checkView      `json:"check"`
	Fault map[string]any `json:"fault,omitempty"`
}

// goTestCases are checks of each product and version, with each status. In some, the result is not
// the one that the number determines.
func goTestCases() []goTestCase {
	check := func(product, version, number, status string, match, noSIMChange *bool) goTestCase {
		return goTestCase{Check: checkView{product, version, number, "", status, match, noSIMChange}}
	}
	var cases []goTestCase
	for _, version := range []string{"v0.1", "v0.2"} {
		cases = append(cases,
			check("phone_check", version, "447700900012", "COMPLETED", new(true), nil),
			check("phone_check", version, "447700900012", "COMPLETED", new(false), nil),
			check("phone_check", version, "447700900012", "ERROR", new(false), nil),
			check("phone_check", version, "447700900013", "EXPIRED", nil, nil),
			check("phone_check", version, "447700900013", "ACCEPTED", nil, nil),
			check("subscriber_check", version, "447700900012", "COMPLETED", new(true), new(true)),
			check("subscriber_check", version, "447700900012", "COMPLETED", new(true), new(false)),
			check("subscriber_check", version, "447700900016", "COMPLETED", new(false), nil),
			check("subscriber_check", version, "447700900099", "ERROR", nil, nil),
		)
	}
	cases = append(cases,
		check("sim_check", "v0.1", "447700900012", "COMPLETED", nil, new(true)),
		check("sim_check", "v0.1", "447700900017", "COMPLETED", nil, new(false)),
		check("sim_check", "v0.1", "447700900099", "ERROR", nil, nil))
	for _, fault := range []map[string]any{{"wrong_key": true}, {"drop": true}, {"truncate": true}, {"status": 503}} {
		c := check("phone_check", "v0.1", "447700900012", "COMPLETED", new(true), nil)
		c.Fault = fault
		cases = append(cases, c)
	}
	hostile := check("phone_check", "v0.1", "447700900012", "COMPLETED", new(true), nil)
	hostile.Check.ReferenceID = "\"`\\ \u202e\u2028\ufeff\U000e0001'; panic(1) //\t\x01\x7f"
	return append(cases, hostile)
}

// expected returns a text that the generated test of the case must contain: the result that the
// test verifies, or the fault that it injects.
func (c goTestCase) expected() string {
	switch {
	case c.Fault != nil:
		return "sandboxfake.Fault{"
	case c.Check.Match != nil && c.Check.Status == "COMPLETED":
		return "want " + map[bool]string{true: "yes", false: "no"}[*c.Check.Match] + `"`
	case c.Check.Status == "ACCEPTED":
		return "want COMPLETED"
	}
	return "want " + c.Check.Status
}

var testFunc = regexp.MustCompile(`func (Test\w+)\(`)

func TestSnippets_GoTest(t *testing.T) {
	t.Parallel()
	cases := goTestCases()
	tests := snippet[[]string](t, "input.map(({ check, fault }) => s.goTest(check, fault))", cases)
	dir := newModule(t)
	for i, source := range tests {
		if want := cases[i].expected(); !strings.Contains(source, want) {
			t.Errorf("test %d does not contain %q\n%s", i, want, source)
		}
		// All tests are in one package, which is faster.
		source = testFunc.ReplaceAllString(source, fmt.Sprintf("func ${1}_%d(", i))
		noError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("snippet%d_test.go", i)), []byte(source), 0o600))
	}
	unformatted, err := exec.CommandContext(t.Context(), "gofmt", "-l", dir).CombinedOutput()
	if err != nil || len(unformatted) > 0 {
		t.Errorf("gofmt: %v\n%s", err, unformatted)
	}
	command := exec.CommandContext(t.Context(), "go", "test", "-mod=mod", "-v", ".")
	command.Dir = dir
	command.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOPROXY=off")

	output, err := command.CombinedOutput()

	if passed := strings.Count(string(output), "--- PASS"); err != nil || passed != len(tests) {
		t.Errorf("%d of %d tests pass, error %v\n%s", passed, len(tests), err, output)
	}
}

// newModule returns the directory of a new module that requires this one.
func newModule(t *testing.T) string {
	t.Helper()
	root := must(filepath.Abs("../../../.."))(t)
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		text := string(must(os.ReadFile(filepath.Join(root, name)))(t))
		if name == "go.mod" {
			text = strings.Replace(text, "module github.com/idverify/idverify-go\n", "module example.com/foo\n", 1)
			text += fmt.Sprintf("\nrequire github.com/idverify/idverify-go v0.0.0\nreplace github.com/idverify/idverify-go => %q\n", root)
		}
		noError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}
