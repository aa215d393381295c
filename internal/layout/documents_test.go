package layout

import (
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// quoted is a name in a document: a package's, or of a field or method of a type.
var quoted = regexp.MustCompile("`\\*?([A-Za-z]\\w*)\\.([A-Z]\\w*)(?:\\.([A-Z]\\w*))?")

// namesOfOthers are of types of gnet that have a namesake here.
var namesOfOthers = []string{"Engine.Stop", "Engine.Addrs"}

// TestDocumentsNameWhatThereIs: each name that a document quotes, of a package here or of a type of xtreme, is there.
func TestDocumentsNameWhatThereIs(t *testing.T) {
	from := newImporter(t, token.NewFileSet())
	all, err := packages()
	require.NoError(t, err)
	scopes := map[string]*types.Scope{}
	for path := range all {
		if !strings.HasPrefix(path, module) || strings.Contains(path, "/internal/") {
			continue
		}
		if pkg, err := from.Import(path); err == nil && pkg.Name() != "main" {
			scopes[pkg.Name()] = pkg.Scope()
		}
	}
	require.Contains(t, scopes, "xtreme")
	documents, err := filepath.Glob("../../*.md")
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir("../../docs", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			documents = append(documents, path)
		}
		return err
	}))
	var missing []string
	for _, file := range documents {
		if base := filepath.Base(file); base == "CHANGELOG.md" || base == "counters.md" { // what there was; names of counters
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for i, line := range strings.Split(string(text), "\n") {
			for _, m := range quoted.FindAllStringSubmatch(line, -1) {
				if !isThere(scopes, m[1], m[2], m[3]) && !slices.Contains(namesOfOthers, m[0][1:]) {
					missing = append(missing, strings.TrimPrefix(file, "../../")+":"+strconv.Itoa(i+1)+": "+m[0][1:])
				}
			}
		}
	}
	require.Empty(t, strings.Join(missing, "\n"))
}

// isThere reports whether first.second or first.second.third is a name of a package here, or second a field or method of a type of xtreme. Other
// names are those of others: nothing is said of them.
func isThere(scopes map[string]*types.Scope, first, second, third string) bool {
	if scope, ok := scopes[first]; ok {
		o := scope.Lookup(second)
		return o != nil && (third == "" || hasMember(o, third))
	}
	if o, ok := scopes["xtreme"].Lookup(first).(*types.TypeName); ok {
		return hasMember(o, second)
	}
	return true
}

func hasMember(o types.Object, name string) bool {
	member, _, _ := types.LookupFieldOrMethod(o.Type(), true, o.Pkg(), name)
	return member != nil
}
