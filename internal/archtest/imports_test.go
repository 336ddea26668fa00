// Package archtest holds the tests of how the module is built: who may import whom, and what it may depend on. It has no code of its own.
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
)

const module = "github.com/idverify/idverify-go"

// root is the module's directory, seen from this one.
const root = "../.."

// importRule says what the code of a package may import.
type importRule struct {
	pkg      string // "examples/*" is every package below examples
	local    string // packages of ours
	external string // packages of other modules
}

// importRules is the table of docs/architecture.md, "Who may import whom". The first row whose package fits decides; a package without a row has no place yet.
var importRules = []importRule{
	{pkg: "internal/wire"},
	{pkg: "internal/archtest"},
	{pkg: "internal/synctest"},
	{pkg: "signature", external: "github.com/lestrrat-go/jwx/v2/jwk"},
	{pkg: ".", local: "internal/wire signature", external: "github.com/hashicorp/go-retryablehttp golang.org/x/oauth2"},
	{pkg: "sandboxfake/internal/memnet"},
	{pkg: "sandboxfake/internal/rsql"},
	{pkg: "sandboxfake/internal/vclock"},
	{pkg: "sandboxfake", local: "internal/wire signature . sandboxfake/internal/memnet sandboxfake/internal/rsql sandboxfake/internal/vclock"},
	{pkg: "cmd/sandboxfake", local: "signature . sandboxfake"},
	{pkg: "conformance", local: "."},
	{pkg: "examples/passwordless", local: "signature . sandboxfake examples/passwordless/internal/signin"},
	{pkg: "examples/passwordless/internal/signin", local: "signature ."},
	{pkg: "examples/*", local: "signature . sandboxfake"},
}

func TestPackagesImportOnlyWhatTheHouseAllows(t *testing.T) {
	t.Parallel()

	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		i := slices.IndexFunc(importRules, func(r importRule) bool { return r.matches(f.pkg) })
		if i < 0 {
			t.Errorf("%s: package %s has no row in the table of who may import whom", f.path, f.pkg)
			continue
		}
		for _, path := range f.imports {
			if ours, ok := localPath(path); ok {
				if !contains(importRules[i].local, ours) {
					t.Errorf("%s imports %s, which package %s may not", f.path, ours, f.pkg)
				}
			} else if isModule(path) && !contains(importRules[i].external, path) {
				t.Errorf("%s imports %s, which package %s may not", f.path, path, f.pkg)
			}
		}
	}
}

// A test inside a package that used the fake, which imports that package, would be a cycle or soon become one.
func TestOnlyExternalTestsImportTheFake(t *testing.T) {
	t.Parallel()

	for _, f := range goFiles(t) {
		internal := f.test && !strings.HasSuffix(f.name, "_test") && !strings.HasPrefix(f.pkg, "examples/")
		if internal && slices.Contains(f.imports, module+"/sandboxfake") {
			t.Errorf("%s imports sandboxfake but is in package %s: make it an external test, package %s_test", f.path, f.name, f.name)
		}
	}
}

func TestTestsImportOneModuleMoreThanTheCode(t *testing.T) {
	t.Parallel()

	for _, f := range goFiles(t) {
		for _, path := range f.imports {
			if _, ours := localPath(path); !f.test || ours || !isModule(path) {
				continue
			}
			allowed := slices.ContainsFunc(importRules, func(r importRule) bool { return contains(r.external, path) })
			if !allowed && path != "github.com/google/go-cmp/cmp" && !strings.HasPrefix(path, "golang.org/x/") {
				t.Errorf("%s imports %s: tests use go-cmp and golang.org/x", f.path, path)
			}
		}
	}
}

// jwx/v2 gets no more releases upstream. The day it is replaced, one file changes.
func TestJWXIsImportedInOneFile(t *testing.T) {
	t.Parallel()

	var importers []string
	for _, f := range goFiles(t) {
		if slices.ContainsFunc(f.imports, func(path string) bool { return strings.HasPrefix(path, "github.com/lestrrat-go/") }) {
			importers = append(importers, f.path)
		}
	}

	if !slices.Equal(importers, []string{"signature/keyset.go"}) {
		t.Errorf("jwx is imported in %q, want signature/keyset.go alone", importers)
	}
}

func TestBubbles_SkippedInFIPSMode(t *testing.T) {
	t.Parallel()

	// Users read the imports of this example; its test calls synctest.SkipInFIPSMode.
	allowed := []string{"internal/synctest/synctest.go", "sandboxfake/example_synctest_test.go"}
	for _, f := range goFiles(t) {
		if slices.Contains(f.imports, "testing/synctest") && !slices.Contains(allowed, f.path) {
			t.Errorf("%s imports testing/synctest: import internal/synctest, or the test panics under GODEBUG=fips140=on", f.path)
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

// localPath is the import path of one of our packages as the table names it.
func localPath(path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// isModule tells a package that is not of the standard library: its first element has a dot.
func isModule(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return strings.Contains(first, ".")
}

// goFile is a Go file of the module.
type goFile struct {
	path    string // from the root, with slashes
	pkg     string // its directory, as the table names it
	name    string // of its package clause
	test    bool
	imports []string
}

// goFiles reads the imports of every Go file of the module. Nested modules have requirements of their own and are left out.
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
		t.Fatalf("found %d Go files: is %s the module's directory?", len(files), root)
	}
	return files
}
