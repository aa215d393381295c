package iextp

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// golden is a segment of two messages, byte by byte.
var golden = []byte{
	1, 0, 0x04, 0x80, 1, 0, 0, 0, 0x00, 0x0b, 0xa7, 0x50, // version, protocol, channel, session
	9, 0, 2, 0, // payload, count
	0x10, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0x15, 0xcd, 0x5b, 7, 0, 0, 0, 0, // offset, sequence, time
	3, 0, 'a', 'b', 'c', 2, 0, 'd', 'e',
}

func TestParse(t *testing.T) {
	h, blocks, err := Parse(append(golden[:len(golden):len(golden)], 0xff)) // padding behind is no harm
	require.NoError(t, err)
	require.Equal(t, uint16(DEEP10), h.Protocol())
	require.Equal(t, []uint64{1, 0x50a70b00, 9, 2, 16, 7, 123456789}, []uint64{uint64(h.Channel()), uint64(h.Session()),
		uint64(h.PayloadLen()), uint64(h.Count()), h.Offset(), h.Seq(), uint64(h.SendTime())})
	m, rest := Next(blocks)
	require.Equal(t, "abc", string(m))
	m, rest = Next(rest)
	require.Equal(t, "de", string(m))
	m, _ = Next(rest)
	require.Nil(t, m)
}

func TestParseRefuses(t *testing.T) {
	change := func(at int, v byte) []byte {
		b := append([]byte(nil), golden...)
		b[at] = v
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"empty":              {nil, ErrShort},
		"short header":       {golden[:39], ErrShort},
		"version 2":          {change(0, 2), ErrVersion},
		"cut":                {golden[:48], ErrLength},
		"longer payload":     {change(12, 10), ErrLength},
		"message too long":   {change(45, 3), ErrLength},
		"a byte left over":   {change(40, 5), ErrLength},
		"more than counted":  {change(14, 1), ErrCount},
		"fewer than counted": {change(14, 3), ErrCount},
	} {
		_, _, err := Parse(c.b)
		require.ErrorIs(t, err, c.want, name)
	}
}

func TestWriting(t *testing.T) {
	b := AppendHeader(nil, Segment{Protocol: DEEP10, Channel: 1, Session: 0x50a70b00, Offset: 16, Seq: 7,
		SendTime: 123456789})
	b = AppendMessage(AppendMessage(b, []byte("abc")), []byte("de"))
	Finish(b, 2)
	require.Equal(t, golden, b)
}

func TestGapFill(t *testing.T) {
	g := GapFill{Protocol: DEEP10, Channel: 1, Session: 9, From: 100, To: 200}
	b := g.Append(nil)
	require.Len(t, b, GapFillLen)
	require.Equal(t, uint64(199), binary.LittleEndian.Uint64(b[24:]), "the end is inclusive")
	got, err := ParseGapFill(b)
	require.NoError(t, err)
	require.Equal(t, g, got)
	for _, bad := range [][]byte{nil, b[:31], append(b[:16:16], make([]byte, 17)...),
		GapFill{From: 5, To: 5}.Append(nil)} {
		_, err := ParseGapFill(bad)
		require.ErrorIs(t, err, ErrGapFill)
	}
}

// FuzzParse: what Parse accepts can be walked to the end, and has as many messages as its header says.
func FuzzParse(f *testing.F) {
	f.Add(golden)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, blocks, err := Parse(b)
		if err != nil {
			return
		}
		n, size := uint32(0), 0
		for m, rest := Next(blocks); m != nil; m, rest = Next(rest) {
			n++
			size += 2 + len(m)
		}
		require.Equal(t, h.Count(), n)
		require.Equal(t, h.PayloadLen(), size)
		_, _ = ParseGapFill(b)
	})
}
