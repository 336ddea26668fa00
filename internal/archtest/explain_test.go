package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// TestExplain_Callers keeps the output of Verifier.Explain out of responses: it would help an
// attacker. Only tests and the program idverify, which prints it, call it.
func TestExplain_Callers(t *testing.T) {
	t.Parallel()

	for _, f := range goFiles(t) {
		if f.test || f.pkg == "cmd/idverify" {
			continue
		}
		set := token.NewFileSet()
		parsed := must(parser.ParseFile(set, filepath.Join(root, f.path), nil, parser.SkipObjectResolution))(t)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Explain" {
				t.Errorf("%s:%d uses Explain: its result must not reach a response", f.path, set.Position(s.Pos()).Line)
			}
			return true
		})
	}
}
