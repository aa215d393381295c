package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// columns is the longest line with a comment, a tab being four columns wide.
const columns = 145

// forbidden are words that say nothing of software, or that only this project used; what to write instead is in brackets.
var forbidden = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	"hears?", "heard", "hearing", "deaf", // receives, is notified, is called
	"promise[sd]?",        // guarantees, asks for
	"whoever", "nobody's", // name the goroutine, the socket, the caller
	"of its own accord",  // by itself
	"errands?",           // job
	"bereft", "orphans?", // lost, idle
	"foreigners?",             // other sockets of the host
	"phonebook", "rouse[sd]?", // directory, wake
	"forsakes?", "disowns?", // release, forget
	"card was at hand",                       // not tested on a NIC
	"see above", "see below", "described at", // what is there
}, "|") + `)\b`)

// Comments fit a screen, and use the words of the field.
func TestCommentsArePlain(t *testing.T) {
	for _, f := range files(t) {
		path := filepath.Join(root, f.path)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		lines := strings.Split(string(text), "\n")
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		require.NoError(t, err)
		for _, group := range parsed.Comments {
			for _, c := range group.List {
				checkComment(t, f.path, fset.Position(c.Pos()).Line, lines, c)
			}
		}
	}
}

// Documents use the words of the field, too.
func TestDocumentsArePlain(t *testing.T) {
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, documents)
	for _, name := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "bench/README.md"} {
		documents = append(documents, filepath.Join(root, name))
	}
	for _, path := range documents {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for i, line := range strings.Split(string(text), "\n") {
			if word := forbidden.FindString(line); word != "" {
				t.Errorf("%s:%d: the word %q: see the list in internal/layout/comments_test.go", path, i+1, word)
			}
		}
	}
}

func checkComment(t *testing.T, path string, first int, lines []string, c *ast.Comment) {
	for i, text := range strings.Split(c.Text, "\n") {
		line := lines[first-1+i]
		if width := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")); width > columns {
			t.Errorf("%s:%d: %d columns, more than %d", path, first+i, width, columns)
		}
		if word := forbidden.FindString(text); word != "" && !strings.HasSuffix(path, "comments_test.go") {
			t.Errorf("%s:%d: the word %q in a comment: see the list in internal/layout/comments_test.go", path, first+i, word)
		}
	}
}
