package archtest

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// allowedModules lists the modules that go.mod may require directly, in addition to those of
// golang.org/x.
var allowedModules = []string{
	"github.com/google/go-cmp", // only in tests
	"github.com/hashicorp/go-retryablehttp",
	"github.com/lestrrat-go/jwx/v2",
	"rsc.io/qr", // only in cmd/sandboxfake
}

func TestGoMod_RequiresAllowedModules(t *testing.T) {
	t.Parallel()
	command := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	command.Dir = root

	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Module    struct{ Path string }
		Toolchain string
		Require   []struct {
			Path     string
			Indirect bool
		}
		Replace []struct{ Old struct{ Path string } }
		Tool    []struct{ Path string }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}

	if mod.Module.Path != module {
		t.Errorf("module = %s, want %s", mod.Module.Path, module)
	}
	for _, r := range mod.Require {
		if !r.Indirect && !slices.Contains(allowedModules, r.Path) && !strings.HasPrefix(r.Path, "golang.org/x/") {
			t.Errorf("go.mod requires %s, which every user would depend on: move the code that needs it to a nested module", r.Path)
		}
	}
	if mod.Toolchain != "" || len(mod.Replace) > 0 || len(mod.Tool) > 0 {
		t.Errorf("go.mod has a toolchain, replace or tool directive: a tool belongs in script/check, anything else in a nested module")
	}
}
