package layout

import (
	"go/ast"
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

// ordered are the packages whose files have an order in ARCHITECTURE.md, and how many of a hundred calls between files may go to a file
// further up. A function or method counts once for each file that calls it. Types, fields and constants do not count: a reader follows
// calls.
var ordered = map[string]int{
	"ring":                  7,
	"ring/offload":          7,
	"ring/offload/nic":      8,
	"ring/offload/shadow":   4,
	"ring/offload/steering": 0,
	"ring/offload/handoff":  0,
	"ring/link/xdp":         7,
	"ring/link/record":      8,
	"ring/link/guard":       7,
	"ring/transport/repair": 0,
	"stats":                 7,
	"internal/hoststat":     25,
}

var fileName = regexp.MustCompile("`([a-z0-9_]+\\.go)`")

// documented is the order of a package's files in ARCHITECTURE.md: those of the table that begins with "file of", from top to bottom.
func documented(t *testing.T, folder string) (order []string) {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "| file of `"+folder+"` | idea |\n")
	require.True(t, ok, "ARCHITECTURE.md has no table of the files of %s", folder)
	table, _, _ = strings.Cut(table, "\n\n")
	for _, row := range strings.Split(table, "\n") {
		cells := strings.Split(row, "|")
		require.Greater(t, len(cells), 2, row)
		for _, m := range fileName.FindAllStringSubmatch(cells[1], -1) {
			require.NotContains(t, order, m[1], "twice")
			order = append(order, m[1])
		}
	}
	return order
}

// TestFilesCallDownwards: a reader who walks through a package from the top of its table to the bottom seldom turns back.
func TestFilesCallDownwards(t *testing.T) {
	for folder, most := range ordered {
		t.Run(folder, func(t *testing.T) {
			order := documented(t, folder)
			names, all := calls(t, folder)
			names = slices.DeleteFunc(names, func(name string) bool { return name == "doc.go" })
			require.ElementsMatch(t, names, order, "the table of ARCHITECTURE.md has each file once")
			var up []string
			for c := range all {
				if slices.Index(order, c.from) > slices.Index(order, c.to) {
					up = append(up, c.from+" calls "+c.name+" of "+c.to)
				}
			}
			slices.Sort(up)
			share := 100 * float64(len(up)) / float64(max(len(all), 1))
			t.Logf("%d of %d calls go up: %.1f %%", len(up), len(all), share)
			require.False(t, share > float64(most), "more than %d %%:\n%s", most, strings.Join(up, "\n"))
		})
	}
}

// call is a function or method of another file that a file calls, or takes the value of.
type call struct{ from, to, name string }

// calls are those between the files of a package.
func calls(t *testing.T, folder string) (names []string, all map[call]bool) {
	needGo(t)
	list, err := packages()
	require.NoError(t, err)
	p := list[module+folder]
	require.NotNil(t, p, folder)
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
		require.NoError(t, err)
		parsed, names = append(parsed, f), append(names, name)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	pkg, err := (&types.Config{Importer: newImporter(t, fset)}).Check(p.ImportPath, fset, parsed, info)
	require.NoError(t, err)
	all = map[call]bool{}
	for id, o := range info.Uses {
		if _, ok := o.(*types.Func); !ok || o.Pkg() != pkg {
			continue
		}
		from, to := filepath.Base(fset.Position(id.Pos()).Filename), filepath.Base(fset.Position(o.Pos()).Filename)
		if from != to {
			all[call{from, to, types.ObjectString(o, func(*types.Package) string { return "" })}] = true
		}
	}
	return names, all
}
