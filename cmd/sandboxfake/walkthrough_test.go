package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// need skips the test, and says so, when a tool of a walk-through is not installed. Where IDVERIFY_INTEROP is set, as in continuous integration, it must be.
func requireTool(t *testing.T, condition bool, what string) {
	t.Helper()
	switch {
	case condition:
	case os.Getenv("IDVERIFY_INTEROP") != "":
		t.Fatalf("the walk-through did not run: %s", what)
	default:
		t.Skipf("the walk-through did not run: %s", what)
	}
}

func installed(tools ...string) bool {
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			return false
		}
	}
	return true
}

func TestTheWalkThroughWithCurl(t *testing.T) {
	t.Parallel()
	requireTool(t, installed("sh", "curl", "sed"), "sh, curl and sed are needed")
	p, a := startJSON(t)
	script := exec.CommandContext(t.Context(), "sh", "testdata/walkthrough/walkthrough.sh")
	script.Env = append(os.Environ(), "URL="+a.URL, "CA="+a.CAFile, "ID="+a.Project.ClientID, "SECRET="+a.Project.ClientSecret, "CONTROL="+a.Token)

	output, err := script.CombinedOutput()

	t.Logf("\n%s", output)
	if err != nil || !strings.HasSuffix(string(output), "all as expected\n") {
		t.Errorf("the walk-through of docs/testing.md does not work: %v\nthe program's log:\n%s", err, p.log.String())
	}
}

// interopModules is where npm http-signature is installed for the tests of the signature package, and for this one: npm ci.
const interopModules = "../../signature/testdata/interop"

func TestTheWalkThroughWithNode(t *testing.T) {
	t.Parallel()
	requireTool(t, installed("node"), "Node.js is not installed")
	modules, err := filepath.Abs(filepath.Join(interopModules, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = os.Stat(filepath.Join(modules, "http-signature"))
	requireTool(t, err == nil, "install npm http-signature with 'npm ci' in signature/testdata/interop")
	p, a := startJSON(t)
	line, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	script := exec.CommandContext(t.Context(), "node", "testdata/walkthrough/walkthrough.js")
	script.Stdin = strings.NewReader(string(line))
	script.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+a.CAFile, "NODE_PATH="+modules)

	output, err := script.CombinedOutput()

	t.Logf("\n%s", output)
	if err != nil || !strings.HasSuffix(string(output), "a forged callback is refused\n") {
		t.Errorf("the walk-through of docs/testing.md does not work: %v\nthe program's log:\n%s", err, p.log.String())
	}
}
