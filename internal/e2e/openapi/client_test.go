package openapi

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	_ "github.com/oapi-codegen/runtime" // for the generated client
)

// TestDocument_GeneratesClient runs programs with clients that oapi-codegen generates from the
// descriptions. docs/sandbox.md shows the command.
func TestDocument_GeneratesClient(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string // in testdata
		document func(*testing.T) []byte
		want     string
	}{
		{"control", controlDocument, "true 404\n"},
		{"service", serviceDocument, "COMPLETED true 1 404\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := start(t)
			dir := t.TempDir()
			for _, source := range []string{"connect", row.name} {
				noError(t, os.CopyFS(dir, os.DirFS("testdata/"+source)))
			}
			document, client := filepath.Join(dir, "openapi.json"), filepath.Join(dir, "client.go")
			noError(t, os.WriteFile(document, row.document(t), 0o600))
			generate := exec.CommandContext(t.Context(), "go", "tool", "oapi-codegen", "-package", "main", "-generate", "types,client", "-o", client, document)
			if output, err := generate.CombinedOutput(); err != nil {
				t.Fatalf("generate the client: %v\n%s", err, output)
			}
			run := exec.CommandContext(t.Context(), "go", "run", client, filepath.Join(dir, "connect.go"), filepath.Join(dir, "main.go"))
			run.Env = append(os.Environ(), "URL="+p.URL, "CA="+p.CAFile, "CONTROL="+p.ControlToken, "CLIENT_ID="+p.Project.ClientID, "CLIENT_SECRET="+p.Project.ClientSecret)

			output, err := run.CombinedOutput()

			if err != nil || string(output) != row.want {
				t.Errorf("the program with the generated client: %v\n%s", err, output)
			}
		})
	}
}
