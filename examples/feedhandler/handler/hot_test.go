package handler

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/capture"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/iextp"
	"github.com/socketxtreme/socketxtreme/feed/iextp/deep"
)

// recorded is a capture in memory.
type recorded struct {
	payloads [][]byte
	times    []int64
}

func load(t testing.TB, name string) (r recorded) {
	in, err := capture.Open(captureFile(t, name))
	require.NoError(t, err)
	var arena []byte
	var rec capture.Record
	for {
		err := in.Next(&rec)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if cap(arena)-len(arena) < len(rec.Payload) {
			arena = make([]byte, 0, 1<<20)
		}
		at := len(arena)
		arena = append(arena, rec.Payload...)
		r.payloads = append(r.payloads, arena[at:len(arena):len(arena)])
		r.times = append(r.times, rec.Time)
	}
	return r
}

// BenchmarkDEEPOffline is a packet of a capture in memory, from its header to the book, per message: one line, and the
// same packets on two lines.
func BenchmarkDEEPOffline(b *testing.B) {
	r := load(b, "iex/iex-deep10-20260713.pcap.gz")
	for _, lines := range []int{1, 2} {
		b.Run(map[int]string{1: "one line", 2: "two lines"}[lines], func(b *testing.B) {
			c, err := NewChannel(Config{Proto: DEEP, Lines: feedLines[:lines], ClockOffset: 37e9})
			require.NoError(b, err)
			b.ReportAllocs()
			b.ResetTimer()
			for done := uint64(0); done < uint64(b.N); {
				before := c.messages
				for i, p := range r.payloads {
					for l := range lines {
						c.Input(uint8(l), p, r.times[i], Ref{})
					}
					if i&1023 == 0 && done+c.messages-before >= uint64(b.N) {
						break
					}
				}
				done += c.messages - before
				b.StopTimer() // the capture again, on new books
				c, err = NewChannel(Config{Proto: DEEP, Lines: feedLines[:lines], ClockOffset: 37e9})
				require.NoError(b, err)
				b.StartTimer()
			}
		})
	}
}

// TestNothingAllocatesFromPacketToBook runs each capture twice through the same books: once to let them grow, as they
// may, and a second time as a new epoch, without an allocation.
func TestNothingAllocatesFromPacketToBook(t *testing.T) {
	for _, c := range []struct {
		file  string
		proto Proto
	}{{"iex/iex-deep10-20170425-restart.pcap", DEEP}, {"cme/cme-mdp3-v6-20161112-ab.pcap", MDP3},
		{"cboe/bats-pitch-realtime.pcap", PITCH}} {
		r := load(t, c.file)
		ch, err := NewChannel(Config{Proto: c.proto, Lines: feedLines[:2],
			Feed: feed.Config{EpochStart: 1, CopyBytes: 2048, GapTime: 1}})
		require.NoError(t, err)
		run := func() {
			for i, p := range r.payloads {
				if i%97 != 0 { // a loss on A that B heals
					ch.Input(0, p, r.times[i], Ref{})
				}
				if i > 0 {
					ch.Input(1, r.payloads[i-1], r.times[i], Ref{})
				}
			}
		}
		run()
		require.Zero(t, testing.AllocsPerRun(3, run), "%s", c.file)
	}
}

// Losses and what they do to books, without a capture: recovery off, the range is named and the books are stale.
func TestALossWithoutRecovery(t *testing.T) {
	var events []feed.Event
	c, err := NewChannel(Config{Proto: DEEP, Lines: feedLines[:1], Feed: feed.Config{GapPackets: 2, CopyBytes: 2048},
		OnEvent: func(_ *Channel, e *feed.Event) { events = append(events, *e) }})
	require.NoError(t, err)
	for seq := uint64(1); seq <= 10; seq++ {
		if seq == 4 || seq == 5 {
			continue
		}
		c.Input(0, levelPacket(seq, 1), int64(seq), Ref{})
	}
	s := Summarize([]*Channel{c}, Clock{Source: "test"})
	invariants(t, s)
	require.Equal(t, [][2]uint64{{4, 5}}, s.Channels[0].Gaps.Unrecovered)
	require.Equal(t, 1, s.Books.Stale)
	require.Equal(t, "STALE", s.Channels[0].State)
	require.Equal(t, []EpochSummary{{"1", 1, 10, 8, 8}}, s.Channels[0].Epochs)
	require.NotEmpty(t, events)
}

// levelPacket is one DEEP packet with n updates of one symbol.
func levelPacket(seq uint64, n int) []byte {
	b := iextp.AppendHeader(nil, iextp.Segment{Protocol: iextp.DEEP10, Channel: 1, Session: 1, Seq: seq,
		SendTime: int64(seq)})
	for i := range n {
		b = iextp.AppendMessage(b, deep.PriceLevel{Buy: true, Complete: true, Symbol: feed.SymbolOf("AA"),
			Size: 100, Price: int64(seq) + int64(i)}.Append(nil))
	}
	iextp.Finish(b, n)
	return b
}

func TestMalformedAndForeignPacketsAreCountedAndHealed(t *testing.T) {
	c, err := NewChannel(Config{Proto: Auto, Lines: feedLines[:2], Feed: feed.Config{GapTime: 1000, CopyBytes: 2048}})
	require.NoError(t, err)
	c.Input(0, []byte("what is this"), 0, Ref{}) // before the protocol is known
	for seq := uint64(1); seq <= 20; seq += 2 {
		p := levelPacket(seq, 2)
		if seq == 5 {
			c.Input(0, p[:len(p)-3], int64(seq), Ref{}) // cut
		} else {
			c.Input(0, p, int64(seq), Ref{})
		}
		if seq == 7 {
			other := levelPacket(99, 2)
			other[4] = 9 // another channel
			c.Input(0, other, int64(seq), Ref{})
		}
		c.Input(1, p, int64(seq), Ref{})
	}
	s := Summarize([]*Channel{c}, Clock{Source: "test"})
	invariants(t, s)
	a := s.Channels[0].Lines[0]
	require.Equal(t, uint64(1), a.Malformed)
	require.Equal(t, uint64(2), a.Foreign)
	require.Equal(t, uint64(2), a.Lost)
	require.Equal(t, uint64(20), s.Channels[0].Messages)
	require.Equal(t, "SYNC", s.Channels[0].State)
}
