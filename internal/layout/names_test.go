package layout

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestXtremeNamesWhatItsSignaturesUse: an ordinary program imports xtreme and conf alone. So every type that an exported name of xtreme
// leads to, by signatures, fields and methods, has a name in xtreme, or is of conf or of the standard library; and so has every constant of
// these types.
func TestXtremeNamesWhatItsSignaturesUse(t *testing.T) {
	from := newImporter(t, token.NewFileSet())
	pkg, err := from.Import(module + "xtreme")
	require.NoError(t, err)
	w := &walk{pkg: pkg, named: map[*types.TypeName]string{}, seen: map[types.Type]bool{}}
	scope := pkg.Scope()
	for _, name := range scope.Names() {
		if o, ok := scope.Lookup(name).(*types.TypeName); ok && o.Exported() && o.IsAlias() {
			if n, ok := types.Unalias(o.Type()).(*types.Named); ok {
				w.named[n.Obj()] = name
			}
		}
	}
	for _, name := range scope.Names() {
		if o := scope.Lookup(name); o.Exported() {
			w.visit(o.Type(), name)
		}
	}
	for o := range w.named {
		_, err := from.Import(o.Pkg().Path()) // else its constants are not all known
		require.NoError(t, err)
		w.constants(o)
	}
	slices.Sort(w.missing)
	require.Empty(t, strings.Join(w.missing, "\n"), "give them names in xtreme/names.go")
}

type walk struct {
	pkg     *types.Package
	named   map[*types.TypeName]string // what aliases of xtreme name
	seen    map[types.Type]bool
	missing []string
}

// visit follows a type; where tells by which way it was reached.
func (w *walk) visit(t types.Type, where string) {
	t = types.Unalias(t)
	if w.seen[t] {
		return
	}
	w.seen[t] = true
	switch t := t.(type) {
	case *types.Named:
		w.visitNamed(t, where)
	case *types.Pointer:
		w.visit(t.Elem(), where)
	case *types.Slice:
		w.visit(t.Elem(), where)
	case *types.Array:
		w.visit(t.Elem(), where)
	case *types.Chan:
		w.visit(t.Elem(), where)
	case *types.Map:
		w.visit(t.Key(), where)
		w.visit(t.Elem(), where)
	case *types.Signature:
		for _, tuple := range []*types.Tuple{t.Params(), t.Results()} {
			for i := range tuple.Len() {
				w.visit(tuple.At(i).Type(), where)
			}
		}
	case *types.Struct:
		for i := range t.NumFields() {
			if f := t.Field(i); f.Exported() || f.Embedded() {
				w.visit(f.Type(), where+"."+f.Name())
			}
		}
	case *types.Interface:
		for i := range t.NumMethods() {
			if m := t.Method(i); m.Exported() {
				w.visit(m.Type(), where+"."+m.Name())
			}
		}
	}
}

func (w *walk) visitNamed(t *types.Named, where string) {
	o := t.Obj()
	if o.Pkg() == nil || !strings.HasPrefix(o.Pkg().Path()+"/", module) || o.Pkg().Path() == module+"conf" {
		return
	}
	if name := w.named[o]; name == "" && o.Pkg() != w.pkg {
		w.missing = append(w.missing, o.Pkg().Name()+"."+o.Name()+", by "+where)
		return
	}
	where = o.Name()
	w.visit(t.Underlying(), where)
	for i := range t.NumMethods() {
		if m := t.Method(i); m.Exported() {
			w.visit(m.Type(), where+"."+m.Name())
		}
	}
}

// constants reports those of an aliased type that have no name in xtreme.
func (w *walk) constants(o *types.TypeName) {
	for _, name := range o.Pkg().Scope().Names() {
		c, ok := o.Pkg().Scope().Lookup(name).(*types.Const)
		if !ok || !c.Exported() || !types.Identical(c.Type(), o.Type()) || o.Pkg().Path() == module+"conf" {
			continue
		}
		if !w.hasConstant(c) {
			w.missing = append(w.missing, "constant "+o.Pkg().Name()+"."+name)
		}
	}
}

func (w *walk) hasConstant(c *types.Const) bool {
	for _, name := range w.pkg.Scope().Names() {
		x, ok := w.pkg.Scope().Lookup(name).(*types.Const)
		if ok && x.Exported() && types.Identical(x.Type(), c.Type()) && constant.Compare(x.Val(), token.EQL, c.Val()) {
			return true
		}
	}
	return false
}

// Each error of package ring that a program may ask for has a name in xtreme: errors are in no signature.
func TestXtremeNamesTheErrors(t *testing.T) {
	parsed := func(folder string) map[string]bool {
		names := map[string]bool{}
		for _, f := range files(t) {
			if f.folder != folder || f.test {
				continue
			}
			text, err := os.ReadFile(filepath.Join(root, f.path))
			require.NoError(t, err)
			file, err := parser.ParseFile(token.NewFileSet(), f.path, text, 0)
			require.NoError(t, err)
			for _, d := range file.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, s := range g.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						names[s.Name.Name] = true
					case *ast.ValueSpec:
						for _, n := range s.Names {
							names[n.Name] = true
						}
					}
				}
			}
		}
		return names
	}
	face := parsed("xtreme")
	isError := regexp.MustCompile(`^Err[A-Z]|^[A-Z]\w*Error$|^CallbackPanic$`)
	found := 0
	for name := range parsed("ring") {
		if isError.MatchString(name) {
			found++
			require.True(t, face[name], "xtreme has no name for ring.%s", name)
		}
	}
	require.Greater(t, found, 10)
}

// Examples need no package below xtreme, but for buffers in parts that know no rings.
func TestExamplesImportTheFaceAlone(t *testing.T) {
	for _, f := range files(t) {
		if f.test || !strings.HasPrefix(f.folder, "examples/") {
			continue
		}
		for _, i := range f.imports {
			require.False(t, strings.HasPrefix(i, module+"ring"), "%s imports %s: xtreme has names for it", f.path, i)
			if i == module+"buffers" {
				require.NotContains(t, f.imports, module+"xtreme", "%s imports buffers: xtreme has names for it", f.path)
			}
		}
	}
}
