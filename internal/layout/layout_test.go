package layout

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	root   = "../.."
	module = "github.com/socketxtreme/socketxtreme/"
)

// level is how high a folder stands: a package may import only what stands lower, or its own kind. The longest prefix counts.
var level = map[string]int{
	"internal/layout":      0,
	"internal/clock":       1,
	"internal/wire":        1,
	"internal/cure":        1,
	"internal/packetdrill": 1,
	"internal/version":     1,
	"feed":                 1,
	"feed/book":            2,
	"feed/iextp":           2,
	"feed/moldudp64":       2,
	"feed/itch":            2,
	"feed/pitch":           2,
	"feed/mdp3":            2,
	"internal/wheel":       2,
	"internal/sys":         2,
	"internal/pace":        2,
	"internal/phc":         2,
	"buffers":              3,
	"stats":                3,
	"stats/metrics":        4,
	"internal/hoststat":    3,
	"conf":                 3,
	"internal/host":        3,
	"internal/testnet":     3,
	"ring/link":            4,
	"internal/ip":          5,
	"ring":                 5,
	"tcp":                  6,
	"udp":                  6,
	"internal/ip/iptest":   7,
	"ring/internal/direct": 6,
	"ring/transport":       6,
	"ring/ringtest":        7,
	"ring/epoll":           7,
	"ring/uring":           7,
	"ring/offload":         8,
	"simnet":               9,
	"tcp/tcptest":          10,
	"xtreme":               9,
	"reactor":              10,
	"extra_api":            10,
	"reactor/gnet":         11,
	"reactor/netconn":      11,
	"reactor/gnetrun":      12,
	"cmd":                  13,
	"scripts/vm":           0,
	"scripts/gameday":      14,
	"examples":             13,
	"bench/harness":        13,
	"bench/internal":       13,
	"bench/peers":          14,
	"bench/rows":           14,
	"bench":                15,
	"internal/readme":      14,
	"interop":              13,

	"ring/transport/stack":           7,
	"ring/transport/repair":          7,
	"ring/transport/stream":          7,
	"ring/transport/memory/protocol": 4,

	"ring/offload/handoff":    7,
	"ring/offload/steering":   6,
	"ring/offload/nic":        7,
	"ring/offload/shadow":     7,
	"ring/offload/flowrecord": 6,
	"ring/offload/torture":    9,
}

// never is what some packages may not import at all, whatever its level.
var never = map[string][]string{
	"tcp":     {"time", "os", "net", "golang.org/x/sys/unix", "syscall"},
	"udp":     {"time", "os", "net", "golang.org/x/sys/unix", "syscall"},
	"buffers": {"golang.org/x/sys/unix", "syscall", "os", "time"},

	"ring/transport/memory/protocol": {"golang.org/x/sys/unix", "syscall", "os", "net", "sync", "math/rand/v2"},

	"feed":           {"time", "os", "net", "sync", "golang.org/x/sys/unix", "syscall"},
	"feed/book":      {"time", "os", "net", "sync", "golang.org/x/sys/unix", "syscall"},
	"feed/iextp":     {"time", "os", "net", "sync", "golang.org/x/sys/unix", "syscall"},
	"feed/moldudp64": {"time", "os", "net", "sync", "golang.org/x/sys/unix", "syscall"},
	"feed/itch":      {"time", "os", "net", "sync", "golang.org/x/sys/unix", "syscall"},
	"feed/pitch":     {"time", "os", "net", "sync", "golang.org/x/sys/unix", "syscall"},
	"feed/mdp3":      {"time", "os", "net", "sync", "golang.org/x/sys/unix", "syscall"},
}

// onlyIn are modules, by the beginning of what is imported, and the folders whose packages may import them: programs that use sockets do not
// carry them.
var onlyIn = map[string][]string{
	"github.com/prometheus/":      {"stats/metrics", "cmd/xtstat"},
	"github.com/gdamore/tcell/":   {"cmd/xtstat"},
	"github.com/safchain/ethtool": {"cmd/xtstat"},
	"github.com/google/nftables":  {"internal/testnet/firewall"},
	module + "stats/metrics":      {"cmd/xtstat"},
}

// What only some programs want is imported where the list says alone.
func TestImportsStayWhereTheyBelong(t *testing.T) {
	for _, f := range files(t) {
		for _, i := range f.imports {
			for prefix, folders := range onlyIn {
				if !strings.HasPrefix(i, prefix) {
					continue
				}
				allowed := false
				for _, folder := range folders {
					allowed = allowed || f.folder == folder || strings.HasPrefix(f.folder, folder+"/")
				}
				require.True(t, allowed || f.test && f.folder == "stats/metrics", "%s imports %s, which only %v may", f.path, i, folders)
			}
		}
	}
}

type file struct {
	path, folder string
	test         bool
	imports      []string
}

// files is every Go file of the repository.
func files(t *testing.T) []file {
	var all []file
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && name != "." && name != ".." && (strings.HasPrefix(name, ".") || name == "testdata") {
			return filepath.SkipDir
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		f := file{path: rel, folder: filepath.ToSlash(filepath.Dir(rel)), test: strings.HasSuffix(name, "_test.go")}
		for _, i := range parsed.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, p)
		}
		all = append(all, f)
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, len(all), 50, "the walk found too little to mean anything")
	return all
}

// levelOf finds the level of a folder by its longest known prefix.
func levelOf(t *testing.T, folder string) (int, string) {
	for f := folder; f != "."; f = filepath.ToSlash(filepath.Dir(f)) {
		if l, ok := level[f]; ok {
			return l, f
		}
	}
	t.Fatalf("folder %s has no level: give it one in layout_test.go", folder)
	return 0, ""
}

func TestImportsPointDown(t *testing.T) {
	for _, f := range files(t) {
		if f.test {
			continue // tests may stand on anything
		}
		mine, place := levelOf(t, f.folder)
		for _, i := range f.imports {
			for _, n := range never[place] {
				require.NotEqual(t, n, i, "%s", f.path)
			}
			theirs, ok := strings.CutPrefix(i, module)
			if !ok {
				continue
			}
			l, other := levelOf(t, theirs)
			if other != place {
				require.Less(t, l, mine, "%s imports %s, which does not stand below it", f.path, i)
			}
		}
	}
}

func TestUnsafeHasItsPlaces(t *testing.T) {
	for _, f := range files(t) {
		for _, i := range f.imports {
			if i == "unsafe" && f.folder != "internal/sys" && !strings.HasSuffix(f.path, "_unsafe.go") && !f.test {
				t.Errorf("%s imports unsafe: that belongs into internal/sys or a file named *_unsafe.go", f.path)
			}
		}
	}
}
