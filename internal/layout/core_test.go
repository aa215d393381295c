package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// coreMayCall is what package ring may use of internal/sys: who the caller is, where its thread runs, and where memory lies. Everything that
// reads, writes or makes a descriptor belongs into a transport or a driver.
var coreMayCall = []string{"AffinityMask", "CPU", "Goroutine", "NoEscape", "PinThread", "SetAffinity"}

// Package ring makes no system call for a socket and knows no descriptor.
func TestCoreHasNoDescriptors(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "ring", "*.go"))
	require.NoError(t, err)
	require.Greater(t, len(files), 20)
	called := map[string]bool{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		for _, i := range f.Imports {
			require.NotEqual(t, `"golang.org/x/sys/unix"`, i.Path.Value, "%s: errnos are package syscall's", path)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.SelectorExpr:
				switch id, _ := x.X.(*ast.Ident); {
				case id == nil:
				case id.Name == "sys":
					called[x.Sel.Name] = true
					require.Contains(t, coreMayCall, x.Sel.Name, path)
				case id.Name == "syscall":
					errno := x.Sel.Name == "Errno" || strings.ToUpper(x.Sel.Name) == x.Sel.Name && x.Sel.Name[0] == 'E'
					require.True(t, errno, "%s: syscall.%s is no errno", path, x.Sel.Name)
				}
			case *ast.StructType:
				for _, field := range x.Fields.List {
					for _, name := range field.Names {
						lower := strings.ToLower(name.Name)
						require.False(t, lower == "fd" || strings.HasSuffix(name.Name, "FD") || strings.HasSuffix(lower, "descriptor"),
							"%s: field %s is a descriptor", path, name.Name)
					}
				}
			}
			return true
		})
	}
	for _, name := range coreMayCall {
		require.True(t, called[name], "sys.%s is not used any more: take it off the list", name)
	}
	require.True(t, slices.IsSorted(coreMayCall))
}
