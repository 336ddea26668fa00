package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/internal/tooltest"
)

func TestWalkthrough_Curl(t *testing.T) {
	t.Parallel()
	tooltest.Require(t, tooltest.Installed("sh", "curl", "sed", "openssl"), "run script/setup interop, which installs curl and openssl")
	p, a := startJSON(t)
	script := exec.CommandContext(t.Context(), "sh", "testdata/walkthrough/walkthrough.sh")
	script.Env = append(os.Environ(), "URL="+a.URL, "CA="+a.CAFile, "ID="+a.Project.ClientID, "SECRET="+a.Project.ClientSecret, "CONTROL="+a.Token)

	output, err := script.CombinedOutput()

	t.Logf("\n%s", output)
	if err != nil || !strings.HasSuffix(string(output), "all as expected\n") {
		t.Errorf("the walkthrough fails: %v\nlog of sandboxfake:\n%s", err, p.log.String())
	}
}

// interopModules is where 'npm ci' installs http-signature. The tests of package signature use it
// too.
const interopModules = "../../signature/testdata/interop"

func TestWalkthrough_Node(t *testing.T) {
	t.Parallel()
	tooltest.Require(t, tooltest.Installed("node"), "run script/setup interop, which installs Node.js")
	modules, err := filepath.Abs(filepath.Join(interopModules, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = os.Stat(filepath.Join(modules, "http-signature"))
	tooltest.Require(t, err == nil, "run 'npm ci' in signature/testdata/interop")
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
	if err != nil || !strings.HasSuffix(string(output), "the forged callback is rejected\n") {
		t.Errorf("the walkthrough fails: %v\nlog of sandboxfake:\n%s", err, p.log.String())
	}
}

func TestWalkthrough_Python(t *testing.T) {
	t.Parallel()
	python := tooltest.Python(t, "cryptography, requests")
	tooltest.Require(t, python != "", "run script/setup interop, which installs Python with cryptography and requests")
	p, a := startJSON(t)
	line, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	script := exec.CommandContext(t.Context(), python, "testdata/walkthrough/walkthrough.py")
	script.Stdin = strings.NewReader(string(line))
	script.Env = append(os.Environ(), "REQUESTS_CA_BUNDLE="+a.CAFile)

	output, err := script.CombinedOutput()

	t.Logf("\n%s", output)
	if err != nil || !strings.HasSuffix(string(output), "the forged callback is rejected\n") {
		t.Errorf("the walkthrough fails: %v\nlog of sandboxfake:\n%s", err, p.log.String())
	}
}
