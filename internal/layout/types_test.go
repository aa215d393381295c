package layout

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// listed is a package as go list describes it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// needGo skips a test where there is no go command, which lists packages.
func needGo(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		testnet.Missing(t, "go", err)
	}
}

// packages is every package that reactors, xtreme and the drivers are made of, by its path, with the export data of the compiler.
var packages = sync.OnceValues(func() (map[string]*listed, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", module+"reactor", module+"ring/...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	all := map[string]*listed{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := &listed{}
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all[p.ImportPath] = p
	}
})

// newImporter loads packages from their export data.
func newImporter(t *testing.T, fset *token.FileSet) types.Importer {
	needGo(t)
	all, err := packages()
	require.NoError(t, err)
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		p, ok := all[path]
		if !ok || p.Export == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(p.Export)
	})
}
