package doctest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// root is the directory of the module, relative to this one. Paths of pages are relative to docs.
const (
	root = "../.."
	docs = root + "/docs/"
)

// declarations returns what each Go file of the module declares, by its path from the root:
// constants, variables, types, functions, methods as "Name" and as "Type.Name", struct fields as
// "Type.Field", and the keys of composite literals.
func declarations(t *testing.T) map[string]map[string]bool {
	t.Helper()
	return must(parseModule())(t)
}

var parseModule = sync.OnceValues(func() (map[string]map[string]bool, error) {
	files := make(map[string]map[string]bool)
	err := walkModule(func(path string) error {
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files[path] = declared(file)
		return nil
	})
	return files, err
})

// walkModule calls visit with the path from the root, with slashes, of every file that is not in a
// hidden directory.
func walkModule(visit func(path string) error) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if strings.HasPrefix(entry.Name(), ".") && path != root {
				return filepath.SkipDir
			}
			return nil
		}
		path, err = filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(path))
	})
}

func declared(file *ast.File) map[string]bool {
	names := make(map[string]bool)
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			names[decl.Name.Name] = true
			if decl.Recv != nil {
				names[receiver(decl.Recv.List[0].Type)+"."+decl.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				declareSpec(names, spec)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if pair, ok := n.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.BasicLit); ok && key.Kind == token.STRING {
				text, _ := strconv.Unquote(key.Value)
				names[text] = true
			}
		}
		return true
	})
	return names
}

func declareSpec(names map[string]bool, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			names[name.Name] = true
		}
	case *ast.TypeSpec:
		names[spec.Name.Name] = true
		var fields *ast.FieldList
		switch kind := spec.Type.(type) {
		case *ast.StructType:
			fields = kind.Fields
		case *ast.InterfaceType:
			fields = kind.Methods
		default:
			return
		}
		for _, field := range fields.List {
			for _, name := range field.Names {
				names[spec.Name.Name+"."+name.Name] = true
			}
		}
	}
}

// receiver returns the name of a receiver's type.
func receiver(expr ast.Expr) string {
	switch expr := expr.(type) {
	case *ast.StarExpr:
		return receiver(expr.X)
	case *ast.IndexExpr:
		return receiver(expr.X)
	case *ast.IndexListExpr:
		return receiver(expr.X)
	case *ast.Ident:
		return expr.Name
	}
	return ""
}

// constantValues returns the values of the string constants that are declared in one group with the
// constant name, in the package at dir.
func constantValues(t *testing.T, dir, name string) []string {
	t.Helper()
	for _, file := range packageFiles(t, dir) {
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			found := false
			var values []string
			for _, spec := range group.Specs {
				spec := spec.(*ast.ValueSpec)
				found = found || spec.Names[0].Name == name
				if len(spec.Values) == 1 {
					if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
						text, _ := strconv.Unquote(literal.Value)
						values = append(values, text)
					}
				}
			}
			if found {
				return values
			}
		}
	}
	t.Fatalf("package %s has no constant %s", dir, name)
	return nil
}

// packageFiles parses the files of a package, tests aside.
func packageFiles(t *testing.T, dir string) []*ast.File {
	t.Helper()
	paths := must(filepath.Glob(filepath.Join(root, dir, "*.go")))(t)
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file := must(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
		files = append(files, file)
	}
	return files
}

// codeReference is a file and the names declared in it: `check.go`, `minPeriod`, `maxPeriod`.
type codeReference struct {
	file  string
	names []string
}

// parseReferences parses references separated by semicolons.
func parseReferences(cell string) []codeReference {
	var references []codeReference
	for part := range strings.SplitSeq(cell, ";") {
		if spans := codeSpans(part); len(spans) > 0 {
			references = append(references, codeReference{spans[0], spans[1:]})
		}
	}
	return references
}

func formatReferences(references []codeReference) string {
	parts := make([]string, len(references))
	for i, r := range references {
		parts[i] = "`" + strings.Join(append([]string{r.file}, r.names...), "`, `") + "`"
	}
	return strings.Join(parts, "; ")
}

// exists reports whether the file of a reference exists.
func (r codeReference) exists() bool {
	_, err := os.Stat(filepath.Join(root, filepath.FromSlash(r.file)))
	return err == nil
}

// repair returns the references with each name moved to the file that now declares it. It looks in
// the file's directory and below, then everywhere, and leaves a name that it cannot find, or finds
// in several files.
func repair(references []codeReference, files map[string]map[string]bool) []codeReference {
	var repaired []codeReference
	add := func(file string, names ...string) {
		for i := range repaired {
			if repaired[i].file == file {
				repaired[i].names = append(repaired[i].names, names...)
				return
			}
		}
		repaired = append(repaired, codeReference{file, names})
	}
	for _, r := range references {
		if len(r.names) == 0 {
			add(r.file)
		}
		for _, name := range r.names {
			file := r.file
			if !files[file][name] {
				if found := declaringFile(files, name, filepath.ToSlash(filepath.Dir(r.file))); found != "" {
					file = found
				}
			}
			add(file, name)
		}
	}
	return repaired
}

// declaringFile returns the only file that declares a name, tests aside, or "". Files of the
// directory dir count before those below it, and these before all others.
func declaringFile(files map[string]map[string]bool, name, dir string) string {
	byDistance := make([][]string, 3)
	for file, names := range files {
		if strings.HasSuffix(file, "_test.go") || !names[name] {
			continue
		}
		switch fileDir := filepath.ToSlash(filepath.Dir(file)); {
		case fileDir == dir:
			byDistance[0] = append(byDistance[0], file)
		case strings.HasPrefix(fileDir, dir+"/"):
			byDistance[1] = append(byDistance[1], file)
		default:
			byDistance[2] = append(byDistance[2], file)
		}
	}
	for _, found := range byDistance {
		if len(found) > 0 {
			if len(found) == 1 {
				return found[0]
			}
			return ""
		}
	}
	return ""
}
