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

// upward is how many of a hundred references between files may go to a file further up: of calls alone, because a reader follows calls, and
// of all references, which are calls and uses of types, constants and variables of the package. An object counts once for each file that
// refers to it. Fields do not count: they are where their type is.
type upward struct{ calls, all int }

// ordered are the packages whose files have an order in ARCHITECTURE.md.
var ordered = map[string]upward{
	"ring":                    {7, 10},
	"ring/offload":            {7, 9},
	"ring/offload/nic":        {8, 10},
	"ring/offload/shadow":     {4, 5},
	"ring/offload/steering":   {0, 0},
	"ring/offload/handoff":    {0, 10},
	"ring/offload/flowrecord": {0, 16},
	"ring/link/xdp":           {7, 10},
	"ring/link/record":        {8, 31},
	"ring/link/guard":         {7, 11},
	"ring/transport/repair":   {0, 19},
	"ring/uring":              {13, 11},
	"xtreme":                  {14, 17},
	"reactor":                 {26, 22},
	"udp":                     {3, 9},
	"internal/host":           {8, 7},
	"stats":                   {7, 13},
	"internal/hoststat":       {25, 32},
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
			names, all := references(t, folder)
			names = slices.DeleteFunc(names, func(name string) bool { return name == "doc.go" })
			require.ElementsMatch(t, names, order, "the table of ARCHITECTURE.md has each file once")
			isUp := func(r reference) bool { return slices.Index(order, r.from) > slices.Index(order, r.to) }
			checkShare(t, "calls", most.calls, all, isUp, func(r reference) bool { return r.isCall })
			checkShare(t, "references", most.all, all, isUp, func(reference) bool { return true })
		})
	}
}

// TestFilesAreListed: packages whose files have no order in ARCHITECTURE.md have each file in their table once. A table may be of several
// folders below one: a row begins with a folder then, which its other files are in as well.
func TestFilesAreListed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	require.NoError(t, err)
	for folder, pattern := range map[string]string{"cmd/xtstat/internal": "*/*.go", "stats/metrics": "*.go"} {
		_, table, ok := strings.Cut(string(text), "| file of `"+folder+"` | idea |\n")
		require.True(t, ok, folder)
		table, _, _ = strings.Cut(table, "\n\n")
		var listed []string
		for row := range strings.Lines(table) {
			in := ""
			for _, m := range regexp.MustCompile("`([a-z]+/)?([a-z0-9_]+\\.go)`").FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
				if m[1] != "" {
					in = m[1]
				}
				listed = append(listed, in+m[2])
			}
		}
		paths, err := filepath.Glob(filepath.Join(root, folder, pattern))
		require.NoError(t, err)
		var files []string
		for _, path := range paths {
			if name := filepath.Base(path); name != "doc.go" && !strings.HasSuffix(name, "_test.go") {
				path, err = filepath.Rel(filepath.Join(root, folder), path)
				require.NoError(t, err)
				files = append(files, path)
			}
		}
		require.NotEmpty(t, files, folder)
		require.ElementsMatch(t, files, listed, folder)
	}
}

// checkShare fails if more than most of a hundred references that count go up.
func checkShare(t *testing.T, what string, most int, all map[reference]bool, isUp, counts func(reference) bool) {
	n, up := 0, []string(nil)
	for r := range all {
		if !counts(r) {
			continue
		}
		if n++; isUp(r) {
			up = append(up, r.from+" refers to "+r.name+" of "+r.to)
		}
	}
	slices.Sort(up)
	share := 100 * float64(len(up)) / float64(max(n, 1))
	t.Logf("%d of %d %s go up: %.1f %%", len(up), n, what, share)
	require.False(t, share > float64(most), "more than %d %% of the %s:\n%s", most, what, strings.Join(up, "\n"))
}

// reference is an object of another file that a file refers to.
type reference struct {
	from, to, name string
	isCall         bool // a function or method, called or taken as a value
}

// references are those between the files of a package.
func references(t *testing.T, folder string) (names []string, all map[reference]bool) {
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
	all = map[reference]bool{}
	for id, o := range info.Uses {
		_, isCall := o.(*types.Func) // methods have no scope
		if o.Pkg() != pkg || !isCall && o.Parent() != pkg.Scope() {
			continue
		}
		from, to := filepath.Base(fset.Position(id.Pos()).Filename), filepath.Base(fset.Position(o.Pos()).Filename)
		if from != to {
			all[reference{from, to, nameOf(o), isCall}] = true
		}
	}
	return names, all
}

// nameOf is an object's name, a method's with its receiver.
func nameOf(o types.Object) string {
	if f, ok := o.(*types.Func); ok {
		return types.ObjectString(f, func(*types.Package) string { return "" })
	}
	return o.Name()
}
