package replay

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/feed/iextp"
	"github.com/socketxtreme/socketxtreme/feed/moldudp64"
)

func TestTheGeneratorIsTheDocumentedOne(t *testing.T) {
	require.Equal(t, uint64(0xe220a8397b1dcdaf), SplitMix64(0))
	m := Impairment{Seed: 42, Loss: [2]uint32{100, 500}}
	var n [2]int
	seed := uint64(42)
	for i := uint64(1); i <= 100_000; i++ {
		for line := range 2 {
			want := SplitMix64(seed*0x9E3779B97F4A7C15+uint64(line)*0xD1B54A32D192ED03+i)%10_000 < uint64(m.Loss[line])
			require.Equal(t, want, m.Dropped(line, i))
			if want {
				n[line]++
			}
		}
	}
	require.InDelta(t, 1000, n[0], 150)
	require.InDelta(t, 5000, n[1], 350)
}

func TestSpansAndRates(t *testing.T) {
	s, err := ParseSpan("5-9")
	require.NoError(t, err)
	require.Equal(t, []bool{false, true, true, false}, []bool{s.Has(4), s.Has(5), s.Has(9), s.Has(10)})
	s, err = ParseSpan("5-")
	require.NoError(t, err)
	require.True(t, s.Has(1<<60))
	for _, bad := range []string{"", "5", "0-3", "9-5", "a-b"} {
		_, err := ParseSpan(bad)
		require.ErrorContains(t, err, fmt.Sprintf("%q", bad))
	}
	p, err := ParsePair("100,7")
	require.NoError(t, err)
	require.Equal(t, [2]uint32{100, 7}, p)
	for _, bad := range []string{"", "x", "1,20000", "-1"} {
		_, err := ParsePair(bad)
		require.ErrorContains(t, err, fmt.Sprintf("%q", bad))
	}
	_, err = ParseMode("loud")
	require.ErrorContains(t, err, `"loud"`)
}

// numbered is an IEX packet of n two-byte messages that say which they are.
func numbered(seq uint64, n int) []byte {
	b := iextp.AppendHeader(nil, iextp.Segment{Protocol: iextp.DEEP10, Channel: 1, Session: 5, Seq: seq,
		SendTime: int64(seq)})
	for i := range n {
		b = iextp.AppendMessage(b, []byte{byte(seq + uint64(i)), byte((seq + uint64(i)) >> 8)})
	}
	iextp.Finish(b, n)
	return b
}

// content is the messages of a packet, and where it begins.
func content(t *testing.T, b []byte) (seq uint64, all []int) {
	h, blocks, err := iextp.Parse(b)
	require.NoError(t, err)
	for m, rest := iextp.Next(blocks); m != nil; m, rest = iextp.Next(rest) {
		all = append(all, int(m[0])|int(m[1])<<8)
	}
	require.Len(t, all, int(h.Count()))
	return h.Seq(), all
}

func TestRecuttingKeepsMessagesAndOrder(t *testing.T) {
	d, err := newDialect(handler.DEEP)
	require.NoError(t, err)
	s := &spoiler{m: &Impairment{}, line: 1, cut: &recutter{d: d}}
	next, packets := 1, 0
	emit := func(o out) {
		seq, all := content(t, o.b)
		require.Equal(t, next, int(seq))
		require.LessOrEqual(t, len(all), 3)
		for _, m := range all {
			require.Equal(t, next, m)
			next++
		}
		packets++
	}
	seq := uint64(1)
	for i := range 200 {
		n := i % 7 // heartbeats among them
		s.take(0, numbered(seq, n), emit)
		seq += uint64(n)
	}
	s.flush(0, emit)
	require.Equal(t, int(seq), next)
	require.Greater(t, packets, 200)
}

func TestReorderDuplicateTruncateForeign(t *testing.T) {
	run := func() (got []string) {
		s := &spoiler{m: &Impairment{Seed: 3, Reorder: [2]uint32{2000}, Duplicate: [2]uint32{1000}, Truncate: [2]uint32{500},
			Foreign: [2]uint32{500}, Loss: [2]uint32{500}, BurstLen: 2, BurstGap: 50}}
		emit := func(o out) { got = append(got, fmt.Sprintf("%d:%d", o.i, len(o.b))) }
		for i := range uint64(1000) {
			s.take(0, numbered(i+1, 1), emit)
		}
		s.flush(0, emit)
		return got
	}
	a := run()
	require.Equal(t, a, run(), "a pure function of seed, line and index")
	count := map[int]int{}
	for _, g := range a {
		var i, n int
		_, err := fmt.Sscanf(g, "%d:%d", &i, &n)
		require.NoError(t, err)
		count[n]++
	}
	require.Len(t, count, 3, "whole, cut and foreign packets: %v", count)
}

func TestStoreAndServer(t *testing.T) {
	d, err := newDialect(handler.DEEP)
	require.NoError(t, err)
	store := newStore(d)
	for seq := uint64(1); seq < 1000; seq += 3 {
		store.Add(numbered(seq, 3))
		store.Add(numbered(seq, 3)) // the other line's copy
	}
	require.Equal(t, 999, store.Len())
	seq, none := content(t, store.Heartbeat())
	require.Equal(t, uint64(1000), seq)
	require.Empty(t, none)

	server, err := serve(netip.MustParseAddrPort("127.0.0.1:0"), store, Normal, nil)

	require.NoError(t, err)
	defer func() { require.NoError(t, server.Close()) }()
	c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(server.Addr()))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.NoError(t, c.SetDeadline(time.Now().Add(5*time.Second)))
	_, err = c.Write([]byte("nonsense"))
	require.NoError(t, err)
	_, err = c.Write(iextp.GapFill{Protocol: iextp.DEEP10, Channel: 1, Session: 5, From: 100, To: 900}.Append(nil))
	require.NoError(t, err)
	b := make([]byte, 2048)
	for next := 100; next < 900; {
		n, err := c.Read(b)
		require.NoError(t, err)
		seq, all := content(t, b[:n])
		require.Equal(t, next, int(seq))
		require.LessOrEqual(t, n, largest)
		next += len(all)
		require.Equal(t, next-1, all[len(all)-1])
	}
	require.Equal(t, uint64(1), server.Malformed.Load())
	store.Add(numbered(1, 2)) // it begins again
	require.Equal(t, 2, store.Len())
	require.Empty(t, store.Packets(50, 60, 9))
}

func TestRenumbering(t *testing.T) {
	iex, err := newDialect(handler.DEEP)
	require.NoError(t, err)
	b := numbered(500, 2)
	iex.renumber(b, 1, true, 7)
	h, _, err := iextp.Parse(b)
	require.NoError(t, err)
	require.Equal(t, []uint64{1, 6, 507}, []uint64{h.Seq(), uint64(h.Session()), uint64(h.SendTime())})
	mold, err := newDialect(handler.MoldUDP64)
	require.NoError(t, err)
	b = moldudp64.AppendHeader(nil, "SESSION001", 9, 0)
	mold.renumber(b, 1, true, 0)
	m, _, err := moldudp64.Parse(b)
	require.NoError(t, err)
	require.Equal(t, "SESSION00Z", m.Session())
	require.Equal(t, uint64(1), m.Seq())
	_, err = newDialect(handler.MDP3)
	require.ErrorContains(t, err, "mdp3")
}

func TestRunNamesWhatIsWrong(t *testing.T) {
	_, err := Run(context.Background(), Config{Pcap: "/nowhere.pcap", Interface: "lo"})
	require.ErrorContains(t, err, "/nowhere.pcap")
	_, err = Sender("no-such-interface")
	require.ErrorContains(t, err, `"no-such-interface"`)
}
