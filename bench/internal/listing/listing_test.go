package listing

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const list = "package p\n\n// All lists them.\nvar All = []h.Peer{\n\tb,\n}\n"

func TestUpdate(t *testing.T) {
	files := map[string][]byte{
		"b.go":      []byte("package p\n\nvar b = h.Peer{Name: \"b\"}\nvar other = h.Row{}\nfunc f() { var x = h.Peer{}; _ = x }\n"),
		"a.go":      []byte("package p\n\nvar (\n\tn = 1\n\ta h.Peer = made()\n\tc, d = h.Peer{}, 2\n)\n"),
		"a_test.go": []byte("package p\n\nvar tested = h.Peer{}\n"),
		"list.go":   []byte(list),
		"notes.txt": []byte("none"),
	}
	updated, missing, err := Update([]byte(list), "h.Peer", files)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "c"}, missing)
	require.Equal(t, "package p\n\n// All lists them.\nvar All = []h.Peer{\n\tb,\n\ta,\n\tc,\n}\n", string(updated), "at the end: the order is the reader's")

	again, missing, err := Update(updated, "h.Peer", files)
	require.NoError(t, err)
	require.Empty(t, missing)
	require.Equal(t, string(updated), string(again))
}

func TestUpdateRefuses(t *testing.T) {
	files := map[string][]byte{"b.go": []byte("package p\nvar b = h.Peer{}\n")}
	for text, want := range map[string]string{
		"package p\nvar All = []h.Peer{b, gone}\n": "gone",
		"package p\nvar All = []h.Peer{b, b}\n":    "twice",
		"package p\nvar All = []h.Peer{f()}\n":     "not the name",
		"package p\n":                              "no package-level variable All",
		"package":                                  "expected",
	} {
		_, _, err := Update([]byte(text), "h.Peer", files)
		require.Error(t, err, text)
		if want != "gone" {
			require.ErrorContains(t, err, want)
		}
	}
	_, _, err := Update([]byte(list), "h.Peer", map[string][]byte{"b.go": []byte("package")})
	require.Error(t, err)
}

func TestRead(t *testing.T) {
	files, err := Read(".")
	require.NoError(t, err)
	require.Contains(t, files, "listing.go")
}
