package tcptest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/packetdrill"
)

// Each file of testdata has scripts that begin alike: what stands before the first "=== name" is the beginning of each. A script is played with
// sequence numbers that begin anywhere, so that they wrap in some of them.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.pkt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		t.Run(strings.TrimSuffix(filepath.Base(path), ".pkt"), func(t *testing.T) {
			for _, x := range sections(string(text)) {
				t.Run(x.name, func(t *testing.T) {
					script, err := packetdrill.Parse(path, x.text)
					require.NoError(t, err)
					for _, c := range []PlayConfig{{}, {LocalISN: 0xffffffff, RemoteISN: 0xfffffff0}, {LocalISN: 0x7ffffffe, RemoteISN: 0x7ffffe00}} {
						require.NoError(t, Play(script, c), "the first numbers are %#x and %#x", c.LocalISN, c.RemoteISN)
					}
				})
			}
		})
	}
}

type section struct{ name, text string }

// sections divides a file. Lines keep their numbers.
func sections(text string) (list []section) {
	lines := strings.SplitAfter(text, "\n")
	var common, blank strings.Builder
	var names []string
	var bodies []strings.Builder
	for _, line := range lines {
		name, ok := strings.CutPrefix(line, "=== ")
		switch {
		case ok:
			names = append(names, strings.TrimSpace(name))
			bodies = append(bodies, strings.Builder{})
			bodies[len(bodies)-1].WriteString(common.String() + blank.String() + "\n")
			blank.WriteString("\n")
		case names == nil:
			common.WriteString(line)
		default:
			bodies[len(bodies)-1].WriteString(line)
			blank.WriteString("\n")
		}
	}
	for i, name := range names {
		list = append(list, section{name, bodies[i].String()})
	}
	return list
}

func TestSections(t *testing.T) {
	list := sections("a\n=== one\nb\nc\n=== two\nd\n")
	require.Equal(t, fmt.Sprint([]section{{"one", "a\n\nb\nc\n"}, {"two", "a\n\n\n\n\nd\n"}}), fmt.Sprint(list))
}
