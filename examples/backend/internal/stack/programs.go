package stack

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// required lists the programs that the stack starts, with the names of their packages in Debian
// and Ubuntu, and where a package installs its program outside of PATH.
var required = []struct{ program, packageName, elsewhere string }{
	{"initdb", "postgresql", "/usr/lib/postgresql/*/bin/initdb"},
	{"nginx", "nginx", "/usr/sbin/nginx"},
}

// findPrograms returns the paths of the required programs.
func findPrograms() (map[string]string, error) {
	paths := make(map[string]string)
	var missing, packages []string
	for _, r := range required {
		path, err := exec.LookPath(r.program)
		if err != nil {
			found, _ := filepath.Glob(r.elsewhere)
			if len(found) == 0 {
				missing = append(missing, r.program)
				packages = append(packages, r.packageName)
				continue
			}
			path = slices.Max(found)
		}
		paths[r.program] = path
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w: %s (run script/setup postgres proxies, or apt-get install %s)",
			ErrNotInstalled, strings.Join(missing, ", "), strings.Join(packages, " "))
	}
	return paths, nil
}
