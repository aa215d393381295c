package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// missing finds the texts of skips that say that the machine lacks something.
var missing = regexp.MustCompile(`^missing:|\bis missing|\b[Nn]o .* here\b|\bkernel has no\b|^Linux %s |\bfor root$|\bneeds CAP_|^no counter`)

// A test that skips because its machine lacks something calls testnet.Missing: SOCKETXTREME_TEST_REQUIRE can insist on every such thing. A skip
// whose reason is only in a variable cannot be told from one, and is none.
func TestSkipsForWhatIsMissingAskTestnet(t *testing.T) {
	variables := map[string]bool{"ring/ringtest/run.go": true} // the reason why the contract does not ask it of this kind of ring
	seen := 0
	for _, f := range files(t) {
		if filepath.ToSlash(f.path) == "internal/testnet/require.go" {
			continue
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, filepath.Join(root, f.path), nil, 0)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			name, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || name.Sel.Name != "Skip" && name.Sel.Name != "Skipf" || !f.test && f.folder != "ring/ringtest" && f.folder != "internal/testnet" {
				return true
			}
			seen++
			arg := call.Args[0]
			if sum, ok := arg.(*ast.BinaryExpr); ok {
				arg = sum.X
			}
			text, ok := arg.(*ast.BasicLit)
			if !ok {
				if !variables[filepath.ToSlash(f.path)] {
					t.Errorf("%s: a skip without a text", fset.Position(call.Pos()))
				}
				return true
			}
			why, err := strconv.Unquote(text.Value)
			require.NoError(t, err)
			if missing.MatchString(why) {
				t.Errorf("%s: %q is for testnet.Missing", fset.Position(call.Pos()), why)
			}
			return true
		})
	}
	require.Greater(t, seen, 20, "the walk found too little to mean anything")
}
