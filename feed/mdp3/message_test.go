package mdp3

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// counted is an entry whose byte i is i.
func counted(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func TestFieldsOfEveryEntry(t *testing.T) {
	w32 := func(at int) uint32 { return uint32(at) | uint32(at+1)<<8 | uint32(at+2)<<16 | uint32(at+3)<<24 }
	w64 := func(at int) int64 { return int64(w32(at)) | int64(w32(at+4))<<32 }
	b := (*BookEntry)(counted(BookEntryLen))
	require.Equal(t, []int64{w64(0), int64(w32(8)), int64(w32(12)), int64(w32(16)), int64(w32(20)), 24, 25, 26},
		[]int64{b.Price(), int64(b.Size()), int64(b.Security()), int64(b.RptSeq()), int64(b.Orders()), int64(b.Level()),
			int64(b.Action()), int64(b.Type())})
	v := (*VolumeEntry)(counted(VolumeEntryLen))
	require.Equal(t, []uint32{w32(0), w32(4), w32(8)}, []uint32{uint32(v.Size()), uint32(v.Security()), v.RptSeq()})
	s := (*StatisticsEntry)(counted(StatisticsEntryLen))
	require.Equal(t, w64(0), s.Price())
	require.Equal(t, []uint32{w32(8), w32(12)}, []uint32{uint32(s.Security()), s.RptSeq()})
}

func TestCheck(t *testing.T) {
	message := func(template, schema byte) Message { return Message{10, 0, 0, 0, template, 0, schema, 0, 9, 0} }
	require.NoError(t, message(Book46, 1).Check())
	err := message(Book46, 2).Check()
	require.ErrorIs(t, err, ErrSchema)
	require.EqualError(t, err, "mdp3: schema is not 1: type 46 (0x2e, '.') at byte 6: have 2, want 1")
	err = message(99, 1).Check()
	var unknown UnknownTemplateError
	require.True(t, errors.As(err, &unknown))
	require.EqualError(t, err, "mdp3: unknown template 99")
	require.Equal(t, []int{-7, -9, 0}, []int{PriceExponent(Book32), PriceExponent(Book46), PriceExponent(Heartbeat12)})
}

var sink int64 // keeps the compiler from leaving out what is measured

// walk reads a packet and each of its book entries.
func walk(b []byte) (n int) {
	_, messages, err := Parse(b)
	if err != nil {
		return -1
	}
	for m, rest := Next(messages); m != nil; m, rest = Next(rest) {
		if m.Template() != Book32 {
			continue
		}
		g, err := m.Group(BookEntryLen)
		if err != nil {
			return -1
		}
		for i := range g.Count {
			e := (*BookEntry)(g.Entry(i))
			sink += e.Price() + int64(e.Size())
		}
		n += g.Count
	}
	return n
}

// BenchmarkParse is one entry of a message with ten.
func BenchmarkParse(b *testing.B) {
	packet := refresh(10, 32)
	b.ReportAllocs()
	for i := 0; i < b.N; i += 10 {
		walk(packet)
	}
}

func TestParsingDoesNotAllocate(t *testing.T) {
	packet := refresh(10, 32)
	require.Equal(t, 10, walk(packet))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		walk(packet)
		if (Message{10, 0, 0, 0, 99, 0, 1, 0, 9, 0}).Check() == nil {
			t.Error("unknown")
		}
	}))
}
