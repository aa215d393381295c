package resp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReplies(t *testing.T) {
	for _, c := range []struct {
		write         func(w *Writer)
		two, andThree string
	}{
		{func(w *Writer) { w.Simple("OK") }, "+OK\r\n", "+OK\r\n"},
		{func(w *Writer) { w.Error("ERR a\r\nb") }, "-ERR a  b\r\n", "-ERR a  b\r\n"},
		{func(w *Writer) { w.Int(-5) }, ":-5\r\n", ":-5\r\n"},
		{func(w *Writer) { w.Bool(true); w.Bool(false) }, ":1\r\n:0\r\n", ":1\r\n:0\r\n"},
		{func(w *Writer) { w.Bulk(nil) }, "$0\r\n\r\n", "$0\r\n\r\n"},
		{func(w *Writer) { w.BulkString("a\r\n") }, "$3\r\na\r\n\r\n", "$3\r\na\r\n\r\n"},
		{func(w *Writer) { w.Null() }, "$-1\r\n", "_\r\n"},
		{func(w *Writer) { w.Array(2) }, "*2\r\n", "*2\r\n"},
		{func(w *Writer) { w.Set(2) }, "*2\r\n", "~2\r\n"},
		{func(w *Writer) { w.Map(2) }, "*4\r\n", "%2\r\n"},
		{func(w *Writer) { w.Verbatim("hi") }, "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"},
	} {
		two, three := Writer{Version: 2}, Writer{Version: 3}
		c.write(&two)
		c.write(&three)
		require.Equal(t, c.two, string(two.B))
		require.Equal(t, c.andThree, string(three.B))
	}
}
