package ringtest

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// turns polls until the condition holds.
func (w *world) turns(holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); w.poll() {
		w.True(time.Now().Before(end), "what was expected did not come")
	}
}

// receiveParts: what waits on a socket is taken whole, by a limit, or in parts, and counted to the byte.
func receiveParts(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u := w.socket(ring.KindDatagram, w.local)
	w.NoError(u.SetReceiveMode(ring.Queue, nil))
	w.NoError(u.Bind(w.local))
	peer := w.udpPeer(u.LocalAddr())
	for _, m := range []string{"four", "sixsix", "", "cut here"} {
		w.write(peer, []byte(m))
	}
	w.turns(func() bool { n, _ := u.Waiting(); return n == 4 })
	w.kept = nil // IN
	_, bytes := u.Waiting()
	w.Equal(18, bytes)
	into := make([]ring.Completion, 4)
	var space *ring.SpaceError
	_, _, err := ring.ReceiveUpTo(u, into, 3)
	w.ErrorAs(err, &space)
	w.ErrorIs(err, unix.ENOBUFS)
	w.Equal(ring.SpaceError{Need: 4, Room: 3}, *space)
	_, _, err = ring.ReceiveUpTo(u, into, -1)
	w.ErrorIs(err, unix.EINVAL)
	n, bytes, err := ring.ReceiveUpTo(u, into, 9)
	w.NoError(err)
	w.Equal([]int{1, 4}, []int{n, bytes})
	w.NoError(into[0].Packet.Release())
	room := make([]byte, 6)
	k, from, err := u.Read(room)
	w.NoError(err)
	w.Equal("sixsix", string(room[:k]))
	w.Equal(peer.LocalAddr().String(), from.String())
	k, _, err = u.Read(room)
	w.NoError(err)
	w.Zero(k)
	k, _, err = u.Read(room[:3])
	w.ErrorIs(err, ring.ErrTruncated)
	w.Equal("cut", string(room[:k]))
	packets, bytes := u.Waiting()
	w.Zero(packets + bytes)
	_, _, err = u.Read(room)
	w.ErrorIs(err, ring.ErrNothing)
	w.ErrorIs(err, ring.ErrWouldBlock)
	w.Equal(uint64(4), u.Stats().Packets)
	w.Equal(uint64(18), u.Stats().Bytes)

	// Queue and Callback are one way of delivery: the callback comes and goes.
	w.NoError(u.SetReceiveMode(ring.Callback, func(*ring.Socket, *ring.Completion) ring.Verdict { return ring.Drop }))
	w.write(peer, []byte("dropped"))
	w.turns(func() bool { return u.Stats().CallbackDrops == 1 })
	w.NoError(u.SetReceiveMode(ring.Queue, nil))
	w.write(peer, []byte("kept"))
	w.event(u, ring.EventIn, nil)
	failed := make(chan error)
	go func() { failed <- u.SetReceiveMode(ring.Queue, nil) }()
	w.ErrorIs(<-failed, ring.ErrOwner)
	w.closeAndWait(u)
	packets, bytes = u.Waiting()
	w.Zero(packets + bytes)
}

// warm: a warm send sends nothing; what follows it is the first that arrives.
func warm(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u := w.udp(w.local)
	peer := w.udpPeer(u.LocalAddr())
	to := netip.MustParseAddrPort(peer.LocalAddr().String())
	for range 10 {
		w.NoError(u.WarmSend([]byte("warm"), to))
	}
	w.Equal(ring.SocketStats{WarmSends: 10}, u.Stats())
	w.Equal(uint64(10), u.Ring().Stats().WarmSends)
	w.Empty(w.kept)
	_, err := u.SendTo([]byte("real"), to)
	w.NoError(err)
	w.poll()
	room := make([]byte, 8)
	n, err := peer.Read(room)
	w.NoError(err)
	w.Equal("real", string(room[:n]))
	w.ErrorIs(u.WarmSend(nil, netip.AddrPort{}), unix.EDESTADDRREQ)
	if b.Datagrams {
		return
	}
	s, _ := w.pair()
	err = s.WarmSend([]byte("x"), netip.AddrPort{})
	w.ErrorIs(err, ring.ErrNotSupported)
	w.Equal("warm.kernel_tcp", s.WarmSendReason().Code)
}
