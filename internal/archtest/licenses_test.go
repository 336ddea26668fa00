package archtest

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var licenseRow = regexp.MustCompile(`(?m)^\| ([a-z]\S*) \| \S+ \|$`)

func TestLicenses_ListIsComplete(t *testing.T) {
	t.Parallel()
	command := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".", "./signature", "./sandboxfake", "./cmd/sandboxfake", "./cmd/idverify")
	command.Dir = root
	out := must(command.Output())(t)
	linked := strings.Fields(string(out))
	slices.Sort(linked)
	linked = slices.DeleteFunc(slices.Compact(linked), func(path string) bool { return path == module })

	list := must(os.ReadFile(root + "/THIRD_PARTY_LICENSES.md"))(t)
	var listed []string
	for _, m := range licenseRow.FindAllSubmatch(list, -1) {
		listed = append(listed, string(m[1]))
	}

	if !slices.Equal(listed, linked) {
		t.Errorf("THIRD_PARTY_LICENSES.md lists %q, want the linked modules %q", listed, linked)
	}
}
