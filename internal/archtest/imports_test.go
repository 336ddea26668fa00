// Package archtest tests the architecture of the module: the imports of its packages, its
// dependencies, their licenses, and its prose. It contains only tests.
package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/idverify/idverify-go/internal/tooltest"
)

const module = "github.com/idverify/idverify-go"

// root is the directory of the module, relative to this package.
const root = "../.."

// importRule lists what the code of a package may import, apart from the standard library.
type importRule struct {
	pkg      string // "examples/*" matches every package below examples, without nested modules
	local    string // packages of this module, separated by spaces
	external string // packages of other modules, separated by spaces
}

// importRules is the table "Imports" of docs/architecture.md. The first rule that matches a package
// applies. Every package needs a rule.
var importRules = []importRule{
	{pkg: "internal/wire"},
	{pkg: "internal/atomicfile"},
	{pkg: "internal/renewals"},
	{pkg: "internal/redact"},
	{pkg: "internal/verifierlog"},
	{pkg: "internal/archtest"},
	{pkg: "internal/synctest"},
	{pkg: "internal/tooltest"},
	{pkg: "internal/pgtest", local: "internal/tooltest"},
	{pkg: "internal/timeline", local: "internal/redact"},
	{pkg: "signature", local: "internal/redact internal/verifierlog", external: "github.com/lestrrat-go/jwx/v2/jwk"},
	{pkg: "internal/attack", local: "signature"},
	{pkg: ".", local: "internal/redact internal/renewals internal/verifierlog internal/wire signature", external: "github.com/hashicorp/go-retryablehttp golang.org/x/oauth2"},
	{pkg: "checkflow", local: "internal/redact signature ."},
	{pkg: "checkflow/storetest", local: "checkflow"},
	{pkg: "internal/killtest", local: "checkflow"},
	{pkg: "sandboxfake/internal/memnet"},
	{pkg: "sandboxfake/internal/rsql"},
	{pkg: "sandboxfake/internal/vclock"},
	{pkg: "sandboxfake", local: "internal/renewals internal/timeline internal/wire signature . sandboxfake/internal/memnet sandboxfake/internal/rsql sandboxfake/internal/vclock", external: "golang.org/x/net/idna"},
	{pkg: "cmd/sandboxfake/internal/inspector", local: "internal/timeline", external: "rsc.io/qr"},
	{pkg: "cmd/sandboxfake", local: "internal/atomicfile signature . sandboxfake cmd/sandboxfake/internal/inspector", external: "rsc.io/qr"},
	{pkg: "receivertest", local: "internal/attack"},
	{pkg: "internal/conformance", local: "internal/redact . receivertest"},
	{pkg: "cmd/idverify", local: "internal/atomicfile internal/conformance signature . sandboxfake receivertest", external: "golang.org/x/term"},
	{pkg: "examples/passwordless", local: "checkflow sandboxfake examples/passwordless/internal/signin"},
	{pkg: "examples/passwordless/internal/signin", local: ". checkflow"},
	{pkg: "examples/*", local: "signature . checkflow sandboxfake"},
}

func TestImports_Packages(t *testing.T) {
	t.Parallel()

	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		i := slices.IndexFunc(importRules, func(r importRule) bool { return r.matches(f.pkg) })
		if i < 0 {
			t.Errorf("%s: package %s has no rule in importRules", f.path, f.pkg)
			continue
		}
		for _, path := range f.imports {
			if ours, ok := localPath(path); ok {
				if !contains(importRules[i].local, ours) {
					t.Errorf("%s imports %s, which importRules does not allow for package %s", f.path, ours, f.pkg)
				}
			} else if isModule(path) && !contains(importRules[i].external, path) {
				t.Errorf("%s imports %s, which importRules does not allow for package %s", f.path, path, f.pkg)
			}
		}
	}
}

// TestImports_FakeFromExternalTests finds internal tests that import the fake. The fake imports the
// package under test, so these would be import cycles, or could become ones. Programs cannot be
// imported.
func TestImports_FakeFromExternalTests(t *testing.T) {
	t.Parallel()

	for _, f := range goFiles(t) {
		internal := f.test && !strings.HasSuffix(f.name, "_test") && !strings.HasPrefix(f.pkg, "examples/") && f.name != "main"
		if internal && slices.Contains(f.imports, module+"/sandboxfake") {
			t.Errorf("%s imports sandboxfake and is in package %s, want package %s_test", f.path, f.name, f.name)
		}
	}
}

func TestImports_AllowedInTests(t *testing.T) {
	t.Parallel()

	for _, f := range goFiles(t) {
		for _, path := range f.imports {
			if _, ours := localPath(path); !f.test || ours || !isModule(path) {
				continue
			}
			allowed := slices.ContainsFunc(importRules, func(r importRule) bool { return contains(r.external, path) })
			if !allowed && path != "github.com/google/go-cmp/cmp" && !strings.HasPrefix(path, "golang.org/x/") {
				t.Errorf("%s imports %s: tests may import the modules of the code, go-cmp and golang.org/x", f.path, path)
			}
		}
	}
}

// TestImports_JWX keeps jwx/v2, which gets no more releases, replaceable by changing one file.
func TestImports_JWX(t *testing.T) {
	t.Parallel()

	var importers []string
	for _, f := range goFiles(t) {
		if slices.ContainsFunc(f.imports, func(path string) bool { return strings.HasPrefix(path, "github.com/lestrrat-go/") }) {
			importers = append(importers, f.path)
		}
	}

	if !slices.Equal(importers, []string{"signature/keyset.go"}) {
		t.Errorf("files that import jwx = %q, want only signature/keyset.go", importers)
	}
}

func TestImports_Synctest(t *testing.T) {
	t.Parallel()

	// The example shows users the standard import. Its test calls synctest.SkipInFIPSMode.
	allowed := []string{"internal/synctest/synctest.go", "sandboxfake/example_synctest_test.go"}
	for _, f := range goFiles(t) {
		if slices.Contains(f.imports, "testing/synctest") && !slices.Contains(allowed, f.path) {
			t.Errorf("%s imports testing/synctest, want internal/synctest: the test would panic with GODEBUG=fips140=on", f.path)
		}
	}
}

func (r importRule) matches(pkg string) bool {
	if dir, ok := strings.CutSuffix(r.pkg, "*"); ok {
		return strings.HasPrefix(pkg, dir)
	}
	return r.pkg == pkg
}

func contains(list, name string) bool { return slices.Contains(strings.Fields(list), name) }

// localPath returns the name in importRules of a package of this module.
func localPath(path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// isModule reports whether an import path is outside the standard library: its first element
// contains a dot.
func isModule(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return strings.Contains(first, ".")
}

// goFile is a Go file of the module.
type goFile struct {
	path    string // relative to root, with slashes
	pkg     string // its directory, as named in importRules
	name    string // of the package clause
	test    bool
	imports []string
}

// goFiles returns the Go files of the module without those of nested modules.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	var files []goFile
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			nested := err == nil && path != root
			if nested || d.Name() == "testdata" || path != root && strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		f := goFile{path: filepath.ToSlash(rel), pkg: filepath.ToSlash(filepath.Dir(rel)), name: parsed.Name.Name, test: strings.HasSuffix(path, "_test.go")}
		for _, spec := range parsed.Imports {
			f.imports = append(f.imports, strings.Trim(spec.Path.Value, "`\""))
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("found %d Go files in %s, want at least 20", len(files), root)
	}
	return files
}

// must returns v, or fails the test.
func must[T any](v T, err error) func(testing.TB) T { return tooltest.Must(v, err) }
