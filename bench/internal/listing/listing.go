// Package listing is for tests of packages that declare things in files of their own and have a list of all of them: it holds that the list is
// complete.
package listing

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Update returns the source of a list with what is missing on it at its end. The list is the package-level variable All, a slice of elements
// of the type; declarations are the other package-level variables of that type, in the named files. It is an error if the list has
// something that is not declared.
func Update(list []byte, typeName string, files map[string][]byte) (updated []byte, missing []string, err error) {
	var declared []string
	for _, name := range sortedSources(files) {
		names, err := declarations(name, files[name], typeName)
		if err != nil {
			return nil, nil, err
		}
		declared = append(declared, names...)
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "list.go", list, 0)
	if err != nil {
		return nil, nil, err
	}
	literal := listOf(f)
	if literal == nil {
		return nil, nil, fmt.Errorf("no package-level variable All with a slice of %s", typeName)
	}
	var listed []string
	for _, e := range literal.Elts {
		id, ok := e.(*ast.Ident)
		if !ok || !slices.Contains(declared, id.Name) || slices.Contains(listed, id.Name) {
			return nil, nil, fmt.Errorf("%s: not the name of a declared %s, or listed twice", fset.Position(e.Pos()), typeName)
		}
		listed = append(listed, id.Name)
	}
	var added bytes.Buffer
	for _, name := range declared {
		if !slices.Contains(listed, name) {
			missing = append(missing, name)
			fmt.Fprintf(&added, "\t%s,\n", name)
		}
	}
	end := fset.Position(literal.Rbrace).Offset
	updated, err = format.Source(slices.Concat(list[:end], added.Bytes(), list[end:]))
	return updated, missing, err
}

// sortedSources are the names of Go files that are no tests.
func sortedSources(files map[string][]byte) (names []string) {
	for name := range files {
		if filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func listOf(f *ast.File) (literal *ast.CompositeLit) {
	eachVariable(f, func(name string, spec *ast.ValueSpec, value ast.Expr) {
		if name == "All" {
			literal, _ = value.(*ast.CompositeLit)
		}
	})
	return literal
}

// declarations are the package-level variables of the type: those whose type is written, or whose value is a literal of it.
func declarations(name string, text []byte, typeName string) (names []string, err error) {
	f, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
	if err != nil {
		return nil, err
	}
	eachVariable(f, func(name string, spec *ast.ValueSpec, value ast.Expr) {
		literal, _ := value.(*ast.CompositeLit)
		if nameOf(spec.Type) == typeName || literal != nil && nameOf(literal.Type) == typeName {
			names = append(names, name)
		}
	})
	return names, nil
}

// eachVariable visits the package-level variables; value is nil where there is none.
func eachVariable(f *ast.File, visit func(name string, spec *ast.ValueSpec, value ast.Expr)) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			spec := s.(*ast.ValueSpec)
			for i, id := range spec.Names {
				var value ast.Expr
				if len(spec.Values) == len(spec.Names) {
					value = spec.Values[i]
				}
				visit(id.Name, spec, value)
			}
		}
	}
}

// nameOf is a type's name as it is written.
func nameOf(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.SelectorExpr:
		return nameOf(t.X) + "." + t.Sel.Name
	}
	return ""
}

// Read reads the files of a folder.
func Read(folder string) (files map[string][]byte, err error) {
	files = map[string][]byte{}
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	for _, name := range names {
		if files[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	return files, err
}
