package openapitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	_ "github.com/oapi-codegen/runtime" // for the generated client
)

// TestDocument_GeneratesClient runs a program with a client that oapi-codegen generates from the
// document. docs/sandbox.md shows the command.
func TestDocument_GeneratesClient(t *testing.T) {
	t.Parallel()
	p := start(t)
	source, err := os.ReadFile("testdata/main.go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	client, main := filepath.Join(dir, "client.go"), filepath.Join(dir, "main.go")
	if err := os.WriteFile(main, source, 0o600); err != nil {
		t.Fatal(err)
	}
	generate := exec.CommandContext(t.Context(), "go", "tool", "oapi-codegen", "-package", "main", "-generate", "types,client", "-o", client, documentFile)
	if output, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("generate the client: %v\n%s", err, output)
	}
	run := exec.CommandContext(t.Context(), "go", "run", client, main)
	run.Env = append(os.Environ(), "URL="+p.URL, "CA="+p.CAFile, "CONTROL="+p.ControlToken)

	output, err := run.CombinedOutput()

	if err != nil || string(output) != "true 404\n" {
		t.Errorf("the program with the generated client: %v\n%s", err, output)
	}
}
