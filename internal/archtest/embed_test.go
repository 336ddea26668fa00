package archtest

import (
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestEmbed_Fake keeps the inspector out of tests that import the fake: they would embed its files
// and initialize its templates at every start.
func TestEmbed_Fake(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,EmbedFiles", module+"/sandboxfake")
	list.Dir = root
	output := must(list.Output())(t)

	var packages, embedded []string
	for decoder := json.NewDecoder(strings.NewReader(string(output))); ; {
		var p struct {
			ImportPath string
			EmbedFiles []string
		}
		if err := decoder.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p.ImportPath)
		if _, ok := localPath(p.ImportPath); ok {
			embedded = append(embedded, p.EmbedFiles...)
		}
	}

	if !slices.Equal(embedded, []string{"timeline.html", "testkeys.pem"}) {
		t.Errorf("the dependencies of sandboxfake embed %q, want only the test keys and the page of the timeline", embedded)
	}
	if len(packages) < 100 {
		t.Errorf("sandboxfake has %d dependencies, want all of them", len(packages))
	}
	for _, path := range packages {
		if path == "html/template" || path == "text/template" || strings.Contains(path, "/inspector") {
			t.Errorf("sandboxfake depends on %s", path)
		}
	}
}
