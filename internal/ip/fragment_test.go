package ip_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/ip/iptest"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// cutter sends packets to the peer that the stack cuts at 576 bytes.
type cutter struct {
	*world
	route ip.Route
	parts map[uint64]int            // by token: as Config.Cut was told
	whole map[uint64]buffers.Packet // by token: the packets that were sent
}

func newCutter(t *testing.T, change ...func(*ip.Config)) *cutter {
	w := &cutter{parts: map[uint64]int{}, whole: map[uint64]buffers.Packet{}}
	change = append(change, func(c *ip.Config) {
		c.MTU = 576
		c.Cut = func(token uint64, n int) { w.parts[token] = n }
	})
	w.world = newWorld(t, change...)
	w.find()
	return w
}

func (w *cutter) find() {
	w.Zero(w.IP.FindRoute(&w.route, &ip.Query{Target: peer, Protocol: wire.ProtocolUDP, TTL: 64}))
	w.True(w.route.FragmentsHere)
}

// packet is a packet of n bytes to be sent.
func (w *cutter) packet(n int) buffers.Packet {
	p, err := w.Pool.Alloc(n)
	w.NoError(err)
	p, err = w.Pool.Transmit(p)
	w.NoError(err)
	return p
}

func (w *cutter) cut(n int, token uint64) {
	p := w.packet(n)
	if token != 0 {
		w.whole[token] = p
	}
	w.True(w.IP.SendFragments(w.Now, &w.route, p, token))
}

// failed takes the failures, which are the sent packets themselves.
func (w *cutter) failed(errno unix.Errno) (tokens []uint64) {
	for _, f := range w.IP.Failures() {
		w.Equal(errno, f.Errno)
		w.Equal(w.whole[f.Token], f.Packet)
		tokens = append(tokens, f.Token)
		w.Pool.FreeTransmit(f.Packet)
	}
	w.IP.ClearFailures()
	return tokens
}

// sent takes the queued fragments and returns the tokens of the packets in their order. Each must be whole.
func (w *cutter) sent(size int) (tokens []uint64) {
	at, left := 0, 0
	for _, o := range w.IP.Output(0) {
		s := w.Parse(o.Packet.Bytes())
		w.Equal(peerMAC, s.Eth.Target())
		w.False(s.IP.DontFragment())
		w.Equal(at, s.IP.Offset())
		if at == 0 {
			tokens = append(tokens, o.Token)
			left = w.parts[o.Token]
		}
		w.Equal(tokens[len(tokens)-1], o.Token)
		at += len(s.Segment)
		if left--; !s.IP.MoreFragments() {
			w.Equal(size, at)
			at = 0
			if o.Token != 0 {
				w.Zero(left)
				w.Pool.FreeTransmit(w.whole[o.Token])
			}
		}
		w.Pool.FreeTransmit(o.Packet)
	}
	w.Zero(at)
	w.IP.Took(0, len(w.IP.Output(0)))
	return tokens
}

// A packet that is to be cut waits for its neighbour in one piece: it is one of the frames that may wait, gives way as a whole, and is cut when
// the neighbour is known, in its order, as soon as there are buffers.
func TestCutPacketsWaitInOnePiece(t *testing.T) {
	w := newCutter(t)
	const more = 2
	for i := range uint64(ip.WaitingPerTarget + more) {
		w.cut(1500, i) // token 0 is one without
	}
	w.Equal([]uint64{1}, w.failed(unix.EHOSTUNREACH))
	w.EqualValues(more, w.IP.GivenUp(host.GiveUpOldest))
	w.Empty(w.parts, "none was cut")
	w.Equal(ip.WaitingPerTarget+1, w.Pool.Ledger().Transmitting, "and the request")
	w.Out()
	w.In(iptest.ARPFrame(wire.ARPReply, peerMAC, peer, ourMAC, us))
	next := uint64(more)
	turns := 0
	for ; next < ip.WaitingPerTarget+more; turns++ {
		w.IP.Refresh()
		for _, token := range w.sent(1500) {
			w.Equal(next, token)
			next++
		}
		if next < ip.WaitingPerTarget+more {
			w.LessOrEqual(w.IP.Deadline(), w.Now.Add(time.Millisecond), "the rest waits for buffers")
		}
		w.Less(turns, 100)
	}
	w.Greater(turns, 1, "there were buffers for all")
	w.Equal(3, w.parts[more])
	w.Empty(w.IP.Failures())
	w.EqualValues(more, w.IP.Stats().Lost)
}

// Without an answer the whole packet is lost.
func TestCutPacketWithoutAnAnswer(t *testing.T) {
	w := newCutter(t)
	w.cut(5000, 7)
	w.Out()
	for range 40 {
		w.After(100 * time.Millisecond)
		w.Out()
	}
	w.Equal([]uint64{7}, w.failed(unix.EHOSTUNREACH))
	w.EqualValues(1, w.IP.Stats().Lost)
}

// A packet whose neighbour answers, and for whose fragments no buffers become free, is lost for want of them.
func TestCutPacketWithoutBuffers(t *testing.T) {
	w := newCutter(t)
	w.cut(1500, 7)
	w.Out()
	w.KnowPeer()
	var taken []buffers.Packet
	for {
		p, err := w.Pool.Alloc(100)
		if err != nil {
			break
		}
		taken = append(taken, p)
	}
	for range 40 {
		w.After(100 * time.Millisecond)
	}
	w.Equal([]uint64{7}, w.failed(unix.ENOBUFS))
	for _, p := range taken {
		w.NoError(p.Release())
	}
	w.Out()
}

// The loss of each fragment is told: all that are queued for a link that goes down, and those that do not fit the link of another member.
func TestLossOfFragmentsIsTold(t *testing.T) {
	for _, other := range []bool{false, true} {
		w := newCutter(t, func(c *ip.Config) {
			if other {
				c.Interfaces = append(c.Interfaces, c.Interfaces[0])
				c.Interfaces[1].MTU = 400
			}
		})
		if other {
			w.IP.SetMember(0, ip.MemberActive)
			w.IP.SetMember(1, ip.MemberInactive)
		}
		w.KnowPeer()
		w.Out()
		w.IP.Refresh()
		w.find()
		w.Equal(ip.RouteOverLink, w.route.Kind)
		w.cut(1200, 7) // 552, 552, 96
		w.Equal(3, w.parts[7])
		w.Pool.FreeTransmit(w.whole[7])
		want, lost := unix.ENETDOWN, 3
		if other {
			w.IP.SetMember(1, ip.MemberActive)
			want, lost = unix.EMSGSIZE, 2
		}
		w.IP.SetDown(0, true)
		if other {
			w.Len(w.IP.Output(1), 1)
			w.EqualValues(7, w.IP.Output(1)[0].Token)
			w.left(1)
		}
		var tokens []uint64
		for range lost {
			tokens = append(tokens, 7)
		}
		w.lostAll(want, uint64(lost), tokens...)
	}
}

// A packet that waited for its neighbour is cut by the link that it leaves by.
func TestCutForASmallerMember(t *testing.T) {
	w := newCutter(t, func(c *ip.Config) {
		smaller := c.Interfaces[0]
		smaller.MTU = 400
		c.Interfaces = append(c.Interfaces, smaller)
	})
	w.IP.SetMember(0, ip.MemberActive)
	w.IP.SetMember(1, ip.MemberInactive)
	w.find()
	w.cut(1200, 0)
	w.Out()
	w.IP.SetMember(1, ip.MemberActive)
	w.IP.SetDown(0, true)
	w.KnowPeer()
	w.IP.Refresh()
	for _, o := range w.IP.Output(1) {
		w.LessOrEqual(o.Packet.Len(), 14+400)
	}
	w.Len(w.IP.Output(1), 4)
	w.left(1)
	w.Zero(w.IP.Stats().Lost)
}

// smallHeadroom is a pool whose buffers have no room for the headers of a frame.
func smallHeadroom(t *testing.T) *buffers.DriverPool {
	layout := buffers.Layout{SmallSize: 2048, SmallCount: 16, Headroom: 16}
	pool, err := buffers.New(make([]byte, layout.Bytes()), layout)
	require.NoError(t, err)
	return pool
}

// A packet that waited for its neighbour and cannot be cut is one loss.
func TestCutPacketThatCannotBeCutIsOneLoss(t *testing.T) {
	pool := smallHeadroom(t)
	w := newCutter(t, func(c *ip.Config) { c.Pool = pool })
	w.Pool = pool
	w.cut(1200, 7)
	w.Out()
	w.KnowPeer()
	w.IP.Refresh()
	w.Equal([]uint64{7}, w.failed(unix.ENOBUFS))
	w.EqualValues(1, w.IP.Stats().NoBuffer)
	w.Zero(w.IP.Stats().Lost, "it counts as a frame without a buffer")
}

// A packet that cannot be cut at once is the caller's, which counts it.
func TestPacketThatCannotBeCutIsTheCallersLoss(t *testing.T) {
	pool := smallHeadroom(t)
	w := newCutter(t, func(c *ip.Config) { c.Pool = pool })
	w.Pool = pool
	w.KnowPeer()
	w.find()
	p := w.packet(1200)
	w.False(w.IP.SendFragments(w.Now, &w.route, p, 7))
	w.Pool.FreeTransmit(p)
	w.Zero(w.IP.Stats().NoBuffer + w.IP.Stats().Lost)
}
