package archtest

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// allowedModules lists the modules that each go.mod for users may require directly, in addition to
// those of golang.org/x.
var allowedModules = map[string][]string{
	".": {
		"github.com/google/go-cmp", // only in tests
		"github.com/hashicorp/go-retryablehttp",
		"github.com/lestrrat-go/jwx/v2",
		"rsc.io/qr", // only in cmd/sandboxfake
	},
	"inbox": {
		module,
		"github.com/google/go-cmp", // only in tests, like the databases
		"github.com/jackc/pgx/v5",
		"modernc.org/sqlite",
	},
	"otelidverify": {
		module,
		"github.com/google/go-cmp", // only in tests, like the SDK
		"go.opentelemetry.io/otel",
		"go.opentelemetry.io/otel/metric",
		"go.opentelemetry.io/otel/sdk",
		"go.opentelemetry.io/otel/sdk/metric",
		"go.opentelemetry.io/otel/trace",
	},
	"redisstore": {module, "github.com/redis/go-redis/v9"},
}

func TestGoMod_RequiresAllowedModules(t *testing.T) {
	t.Parallel()
	for dir, allowed := range allowedModules {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
			command.Dir = filepath.Join(root, dir)

			out := must(command.Output())(t)
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

			if want := strings.TrimSuffix(module+"/"+dir, "/."); mod.Module.Path != want {
				t.Errorf("module = %s, want %s", mod.Module.Path, want)
			}
			for _, r := range mod.Require {
				if !r.Indirect && !slices.Contains(allowed, r.Path) && !strings.HasPrefix(r.Path, "golang.org/x/") {
					t.Errorf("go.mod requires %s, which every user would depend on: move the code that needs it to another module", r.Path)
				}
			}
			if mod.Toolchain != "" || dir == "." && len(mod.Replace) > 0 || len(mod.Tool) > 0 {
				t.Errorf("go.mod has a toolchain, replace or tool directive: a tool belongs in script/check, anything else in a nested module")
			}
		})
	}
}
