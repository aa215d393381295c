package ringtest

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

// backPressure is the case "send takes what fits, OUT follows".
func backPressure(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	var sent []byte
	send := func(b []byte) bool {
		n, err := s.Send(b)
		sent = append(sent, b[:n]...)
		w.Less(len(sent), 64<<20, "a peer that reads nothing must stop us")
		if err != nil {
			w.ErrorIs(err, ring.ErrWouldBlock)
			w.ErrorIs(err, unix.EAGAIN)
		}
		return err == nil
	}
	chunk := make([]byte, 1<<16)
	seq := uint32(0)
	// There may be some room yet after the first refusal, when segments reach the peer's queue: it stops at some point.
	for full := false; !full; {
		for i := 0; i < len(chunk); i += 4 {
			binary.LittleEndian.PutUint32(chunk[i:], seq)
			seq++
		}
		if send(chunk) {
			continue
		}
		settle := func() (out bool) {
			for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
				w.poll()
			}
			if out = len(w.kept) > 0; out {
				w.event(s, ring.EventOut, nil)
				w.Empty(w.listKept())
			}
			return out
		}
		out := settle()
		again := send([]byte("x"))
		full = !again && !out && !settle()
	}
	got := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(peer)
		got <- all
	}()
	w.event(s, ring.EventOut, nil)
	_, err := s.Send([]byte("end"))
	w.NoError(err)
	w.closeAndWait(s)
	w.True(bytes.Equal(append(sent, "end"...), await(w, got)))
	w.Zero(len(w.kept))
}

// vectored is the case "vectored send".
func vectored(t *testing.T, b Backend) {
	w := newWorld(t, b)
	if !b.Streams {
		got := make([]byte, 13)
		u := w.udp(w.local)
		up := w.udpPeer(u.LocalAddr())
		_, err := u.SendVector([][]byte{[]byte("a"), nil, []byte("b")}, up.LocalAddr().(*net.UDPAddr).AddrPort())
		w.NoError(err)
		w.flush()
		n, err := up.Read(got)
		w.NoError(err)
		w.Equal("ab", string(got[:n]))
		_, err = u.SendVector(make([][]byte, 65), up.LocalAddr().(*net.UDPAddr).AddrPort())
		w.ErrorContains(err, "65")
	}
	if b.Datagrams {
		return
	}
	s, peer := w.pair()
	n, err := s.SendVector([][]byte{[]byte("one "), nil, []byte("two "), []byte("three")}, netip.AddrPort{})
	w.NoError(err)
	w.Equal(13, n)
	w.Equal("one two three", string(w.take(peer, 13)))
	_, err = s.SendVector(make([][]byte, 65), netip.AddrPort{})
	w.ErrorContains(err, "65")
}

// packet makes a packet for sending that holds data.
func (w *world) packet(data []byte) buffers.Packet {
	w.t.Helper()
	p, err := w.pool.Alloc(len(data))
	w.NoError(err)
	w.Equal(len(data), copy(p.Room(), data))
	w.NoError(p.SetLen(len(data)))
	return p
}

// sentPacket is the case "sent packets: SENT with the token, buffer home".
func sentPacket(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	p := w.packet([]byte("by reference"))
	w.NoError(s.SendPacket(p, netip.AddrPort{}, 42))
	w.False(p.Valid(), "the ring has it now")
	w.ErrorIs(p.Release(), buffers.ErrStale)
	w.NoError(s.Ring().Flush())
	w.Equal("by reference", string(w.take(peer, 12)))
	c := w.event(s, ring.EventSent, nil)
	w.Equal(uint64(42), c.Token)
	l := w.pool.Ledger()
	w.Zero(l.Transmitting + l.Completing)

	// What was received can be sent on without a copy, in any number. A peer may acknowledge with its next data: SENT is awaited then.
	sent := func(i int) {
		w.next("SENT", func(c *ring.Completion) bool { return c.Events.Has(ring.EventSent) && c.Token == uint64(i) })
	}
	const echoes = 100
	for i := range echoes {
		w.write(peer, []byte("echo"))
		c := w.next("data", func(c *ring.Completion) bool { return c.Socket == s && c.Events.Has(ring.EventPacket) })
		if i > 0 {
			sent(i - 1)
		}
		w.NoError(s.SendPacket(c.Packet, netip.AddrPort{}, uint64(i)))
		w.NoError(s.Ring().Flush())
		w.Equal("echo", string(w.take(peer, 4)))
	}
	sent(echoes - 1)

	// All or nothing: refused packets stay the caller's.
	p = w.packet([]byte("x"))
	w.NoError(p.Retain())
	w.Error(s.SendPacket(p, netip.AddrPort{}, 0), "a packet with two references")
	w.NoError(p.Release())
	w.Error(s.SendPacket(p, w.local, 0), "a destination on a stream")
	w.True(p.Valid())
	w.NoError(p.Release())
	w.Error(s.SendPacket(p, netip.AddrPort{}, 0), "a stale packet")
	w.Error(s.SendPacket(buffers.Packet{}, netip.AddrPort{}, 0), "no packet")
}

// largeSends is the case "two large sends on one stream keep their order".
func largeSends(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	const n, size = 24, 65536
	var want []byte
	for i := range n {
		data := bytes.Repeat([]byte{byte('a' + i)}, size)
		binary.LittleEndian.PutUint32(data, uint32(i))
		want = append(want, data...)
		w.NoError(s.SendPacket(w.packet(data), netip.AddrPort{}, uint64(i)))
	}
	if _, err := s.Send([]byte("overtaking")); err != nil {
		w.ErrorIs(err, ring.ErrWouldBlock)
	} else {
		want = append(want, "overtaking"...) // everything before it had gone out
	}
	for range 50 {
		w.poll() // the peer does not read: the kernel's queue fills, sends stay under way
	}
	got := make(chan []byte, 1)
	go func() {
		all := make([]byte, len(want))
		m, _ := io.ReadFull(peer, all)
		got <- all[:m]
	}()
	out := len(want) > n*size
	for i := range n {
		c := w.next("SENT", func(c *ring.Completion) bool { return c.Events.Has(ring.EventSent) })
		w.Equal(uint64(i), c.Token)
		w.NoError(c.Err)
		out = out || c.Events.Has(ring.EventOut) // OUT may come with the last SENT
	}
	w.True(bytes.Equal(want, await(w, got)))
	if !out {
		w.event(s, ring.EventOut, nil)
	}
}

// sentDatagrams is the case "sent datagrams".
func sentDatagrams(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u := w.udp(w.local)
	peer := w.udpPeer(u.LocalAddr())
	to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
	w.poll() // a ring that was never polled sends nothing yet
	const n = 50
	for i := range n {
		w.NoError(u.SendPacket(w.packet(binary.LittleEndian.AppendUint32(nil, uint32(i))), to, uint64(i)))
	}
	w.NoError(u.Ring().Flush())
	got := make([]byte, 8)
	for i := range n {
		_, err := peer.Read(got)
		w.NoError(err)
		w.Equal(uint32(i), binary.LittleEndian.Uint32(got))
	}
	seen := map[uint64]bool{}
	for range n {
		c := w.event(u, ring.EventSent, nil)
		w.False(seen[c.Token])
		seen[c.Token] = true
	}
	// A datagram that cannot be sent says so, and its buffer returns to the pool.
	w.NoError(u.SendPacket(w.packet([]byte("x")), netip.MustParseAddrPort("255.255.255.255:9"), 77))
	c := w.completionOf(u)
	w.Equal(ring.EventSent, c.Events)
	w.Equal(uint64(77), c.Token)
	w.ErrorIs(c.Err, unix.EACCES)
}

// closeWithSends is the case "close with sends under way".
func closeWithSends(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	const n, size = 24, 65536
	for i := range n {
		w.NoError(s.SendPacket(w.packet(make([]byte, size)), netip.AddrPort{}, uint64(i)))
	}
	w.NoError(s.Close())
	for range 20 {
		w.poll()
	}
	got := make(chan int64, 1)
	go func() {
		m, _ := io.Copy(io.Discard, peer)
		got <- m
	}()
	for i := range n {
		c := w.event(s, ring.EventSent, nil)
		w.Equal(uint64(i), c.Token)
	}
	w.event(s, ring.EventClosed, nil)
	w.Equal(int64(n*size), await(w, got))

	// Nobody reads: after the close timeout the rest is given up, every token comes back, CLOSED is last.
	s, _ = w.pair(ring.Config{CloseTimeout: 50 * time.Millisecond})
	for i := range n {
		w.NoError(s.SendPacket(w.packet(make([]byte, size)), netip.AddrPort{}, uint64(i)))
	}
	for range 20 {
		w.poll()
	}
	w.NoError(s.Close())
	for i := range n {
		c := w.completionOf(s)
		w.Equal(ring.EventSent, c.Events)
		w.Equal(uint64(i), c.Token)
	}
	w.event(s, ring.EventClosed, nil)
}

// sendAfterReset is the case "sending to a reset connection".
func sendAfterReset(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	w.reset(peer)
	time.Sleep(time.Millisecond)
	_, err := s.Send([]byte("x"))
	w.ErrorIs(err, unix.ECONNRESET)
	w.next("the reset", func(c *ring.Completion) bool { return c.Socket == s && c.Events.Has(ring.EventHup) })
	p := w.packet([]byte("x"))
	w.ErrorIs(s.SendPacket(p, netip.AddrPort{}, 1), unix.EPIPE)
	w.NoError(p.Release())
	w.closeAndWait(s)

	s, peer = w.pair()
	for i := range 8 {
		w.NoError(s.SendPacket(w.packet(make([]byte, 65536)), netip.AddrPort{}, uint64(i)))
	}
	w.poll()
	w.reset(peer)
	sent := 0
	for down := false; !down || sent < 8; {
		c := w.completionOf(s)
		if c.Events.Has(ring.EventSent) {
			sent++
		}
		if c.Events.Has(ring.EventHup) { // by itself or with a SENT
			down = true
			w.ErrorIs(c.Err, unix.ECONNRESET)
			w.NoError(s.Close())
		}
	}
	w.event(s, ring.EventClosed, nil)
}
