package mdp3

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// refresh is a packet with one book message of n entries of size bytes each, and a heartbeat behind it.
func refresh(n, size int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 77)
	b = binary.LittleEndian.AppendUint64(b, 123456789)
	m := []byte{0, 0, 11, 0, Book32, 0, 1, 0, 8, 0}
	m = append(m, make([]byte, 11)...)
	m = append(m, byte(size), byte(size>>8), byte(n))
	for i := range n {
		e := make([]byte, 40)
		binary.LittleEndian.PutUint64(e, uint64(1000+i))
		binary.LittleEndian.PutUint32(e[8:], 5)
		binary.LittleEndian.PutUint32(e[12:], 42)
		binary.LittleEndian.PutUint32(e[16:], uint32(9+i))
		binary.LittleEndian.PutUint32(e[20:], 3)
		e[24], e[25], e[26] = byte(1+i), ActionChange, EntryOffer
		m = append(m, e[:size]...)
	}
	binary.LittleEndian.PutUint16(m, uint16(len(m)))
	b = append(b, m...)
	return append(b, 10, 0, 0, 0, Heartbeat12, 0, 1, 0, 8, 0)
}

func TestParse(t *testing.T) {
	for _, size := range []int{27, 32, 40} { // newer versions append fields
		b := refresh(2, size)
		p, messages, err := Parse(b)
		require.NoError(t, err)
		require.Equal(t, uint32(77), p.Seq())
		require.Equal(t, int64(123456789), p.SendingTime())
		m, rest := Next(messages)
		require.Equal(t, []uint16{Book32, 1}, []uint16{m.Template(), m.Schema()})
		require.NoError(t, m.Check())
		require.Equal(t, uint16(8), m.Version())
		root, err := m.Root()
		require.NoError(t, err)
		require.Len(t, root, 11)
		g, err := m.Group(BookEntryLen)
		require.NoError(t, err)
		require.Equal(t, 2, g.Count)
		e := (*BookEntry)(g.Entry(1))
		require.Equal(t, []int64{1001, 5, 42, 10, 3, 2, ActionChange, EntryOffer}, []int64{e.Price(), int64(e.Size()), int64(e.Security()),
			int64(e.RptSeq()), int64(e.Orders()), int64(e.Level()), int64(e.Action()), int64(e.Type())})
		trade := (*TradeEntry)(g.Entry(0))
		require.Equal(t, []int64{1000, 5, 42, 9}, []int64{trade.Price(), int64(trade.Size()), int64(trade.Security()),
			int64(trade.RptSeq())})
		m, rest = Next(rest)
		require.Equal(t, uint16(Heartbeat12), m.Template())
		_, err = m.Group(1)
		require.ErrorIs(t, err, ErrGroup)
		m, _ = Next(rest)
		require.Nil(t, m)
	}
	_, err := first(t, refresh(2, 20)).Group(BookEntryLen)
	require.ErrorIs(t, err, ErrGroup, "entries shorter than what is read of them")
	require.EqualError(t, err, "mdp3: group longer than its message, or entries too short: type 32 (0x20) at byte 21: have 20, want 27")
	b := refresh(2, 32)
	b[12+10+11+2] = 200 // more entries than there are
	_, err = first(t, b).Group(BookEntryLen)
	require.ErrorIs(t, err, ErrGroup)
	b[12+2], b[12+3] = 0xff, 0xff // a block that exceeds the message
	_, err = first(t, b).Root()
	require.ErrorIs(t, err, ErrBlock)
	_, err = first(t, b).Group(BookEntryLen)
	require.ErrorIs(t, err, ErrGroup)
}

func first(t *testing.T, b []byte) Message {
	_, messages, err := Parse(b)
	require.NoError(t, err)
	m, _ := Next(messages)
	return m
}

func TestParseRefuses(t *testing.T) {
	b := refresh(1, 32)
	_, _, err := Parse(b[:11])
	require.ErrorIs(t, err, ErrShort)
	for cut := 13; cut < len(b); cut++ {
		if cut == len(b)-10 {
			continue // that is a whole packet without the heartbeat
		}
		_, _, err := Parse(b[:cut])
		require.ErrorIs(t, err, ErrSize, "%d bytes", cut)
	}
	b[12], b[13] = 4, 0
	_, _, err = Parse(b)
	require.ErrorIs(t, err, ErrSize)
}

func FuzzParse(f *testing.F) {
	f.Add(refresh(2, 32))
	f.Add(refresh(0, 27))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, messages, err := Parse(b)
		if err != nil {
			return
		}
		left := len(messages)
		for m, rest := Next(messages); m != nil; m, rest = Next(rest) {
			left -= len(m)
			_, _ = m.Root()
			_ = m.Check()
			if g, err := m.Group(BookEntryLen); err == nil {
				for i := range g.Count {
					(*BookEntry)(g.Entry(i)).Type()
					(*TradeEntry)(g.Entry(i)).RptSeq()
				}
			}
			if g, err := m.Group(0); err == nil && g.Count > 0 {
				require.Len(t, g.Entry(g.Count-1), g.Size)
			}
		}
		require.Zero(t, left)
	})
}
