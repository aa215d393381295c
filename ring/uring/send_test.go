package uring_test

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

func TestSendBackPressure(t *testing.T) {
	for name, half := range map[string]bool{"open peer": false, "half-closed peer": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s, peer := w.pair()
			if half {
				w.NoError(peer.CloseWrite())
				w.event(s, fin)
			}
			b := bytes.Repeat([]byte("0123456789abcdef"), 4096)
			sent := 0
			fill := func() {
				for {
					n, err := s.Send(b)
					sent += n
					if err != nil {
						w.ErrorIs(err, ring.ErrWouldBlock)
						return
					}
				}
			}
			fill()
			w.silent(20 * time.Millisecond) // no OUT, and no spinning on the peer's FIN
			got := make(chan int64)
			go func() {
				n, _ := io.Copy(io.Discard, peer)
				got <- n
			}()
			for range 20 {
				w.Equal(ring.EventOut, w.event(s, ring.EventOut).Events)
				fill()
			}
			w.NoError(s.Close())
			w.Equal(int64(sent), <-got)
		})
	}
}

// chain is a packet of n bytes in buffers of size bytes each, counting on from start.
func (w *world) chain(start, n, size int) buffers.Packet {
	w.t.Helper()
	var p buffers.Packet
	for off := 0; off < n; off += size {
		b := make([]byte, min(size, n-off))
		for i := range b {
			b[i] = pattern(start + off + i)
		}
		p = w.pool.Append(p, w.packet(b))
	}
	w.Equal(n, p.Len())
	return p
}

func pattern(i int) byte { return byte(i ^ i>>8 ^ i>>16) }

func TestSendPacketsInOrder(t *testing.T) {
	for name, size := range map[string]int{"512 small buffers": 2048, "16 large ones": 65536} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s, peer := w.pair()
			const each, n = 1 << 20, 2
			for i := range n {
				w.NoError(s.SendPacket(w.chain(i*each, each, size), netip.AddrPort{}, uint64(100+i)))
			}
			w.silent(30 * time.Millisecond) // the peer does not read
			_, err := s.Send([]byte("must wait"))
			w.ErrorIs(err, ring.ErrWouldBlock)
			got := make(chan []byte)
			go func() {
				b := make([]byte, n*each)
				_, _ = io.ReadFull(peer, b)
				got <- b
			}()
			for i := range n {
				c := w.event(s, ring.EventSent)
				w.NoError(c.Err)
				w.Equal(uint64(100+i), c.Token)
			}
			for i, b := range <-got {
				if b != pattern(i) {
					w.FailNow("wrong byte", "at %d", i)
				}
			}
		})
	}
}

func TestSendPacketDatagrams(t *testing.T) {
	modes(t, func(t *testing.T, w *world, s *ring.Socket) {
		w.poll() // a ring that was never polled only prepares
		peer := w.peerOf(s)
		to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
		const n = 200
		for i := range n {
			w.NoError(s.SendPacket(w.packet(binary.LittleEndian.AppendUint32(nil, uint32(i))), to, uint64(i)))
		}
		w.NoError(s.Ring().Flush())
		b := make([]byte, 70000)
		for i := range n {
			m, err := peer.Read(b)
			w.NoError(err)
			w.Equal(4, m)
			w.Equal(uint32(i), binary.LittleEndian.Uint32(b))
		}
		for range n {
			w.NoError(w.event(s, ring.EventSent).Err)
		}
		for _, p := range []buffers.Packet{w.packet(nil), w.chain(0, 65507, 65536), w.chain(0, 60000, 2048)} {
			size := p.Len()
			w.NoError(s.SendPacket(p, to, 7))
			w.NoError(w.event(s, ring.EventSent).Err)
			m, err := peer.Read(b)
			w.NoError(err)
			w.Equal(size, m)
			for i := range m {
				w.Equal(pattern(i), b[i])
			}
		}
		w.NoError(s.SendPacket(w.chain(0, 100, 1), to, 8))
		w.ErrorIs(w.event(s, ring.EventSent).Err, unix.EMSGSIZE)
		w.NoError(s.SendPacket(w.packet([]byte("x")), netip.MustParseAddrPort("[::1]:9"), 9))
		w.ErrorIs(w.event(s, ring.EventSent).Err, unix.EAFNOSUPPORT)
		w.NoError(s.SendPacket(w.packet([]byte("x")), netip.MustParseAddrPort("255.255.255.255:9"), 10))
		w.ErrorIs(w.event(s, ring.EventSent).Err, unix.EACCES)
	})
}

// More sends than the submission queue has entries, from before the ring was bound on.
func TestSendMany(t *testing.T) {
	w := newWorld(t)
	s := w.udp(ring.Config{SendQueue: 2000})
	w.NoError(s.SetSendBuffer(4 << 20))
	peer := w.peerOf(s)
	w.NoError(peer.SetReadBuffer(8 << 20))
	to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
	const n = 1000
	for i := range n {
		w.NoError(s.SendPacket(w.packet(make([]byte, 10)), to, uint64(i)))
	}
	for range n {
		w.NoError(w.event(s, ring.EventSent).Err)
	}
}

func TestSendUnderBackPressureOfDatagrams(t *testing.T) {
	w := newWorld(t)
	s := w.udp()
	w.NoError(s.SetSendBuffer(8192))
	w.poll()
	peer := w.peerOf(s)
	to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
	for i := range 250 {
		w.NoError(s.SendPacket(w.packet(make([]byte, 2000)), to, uint64(i)))
	}
	for range 250 {
		w.NoError(w.event(s, ring.EventSent).Err)
	}
}

func TestCloseWithSends(t *testing.T) {
	w := newWorld(t)
	// Aborted: each token comes back, CLOSED is last.
	s, _ := w.pair()
	for i := range 8 {
		w.NoError(s.SendPacket(w.chain(0, 1<<19, 65536), netip.AddrPort{}, uint64(i)))
	}
	for range 10 {
		w.poll()
	}
	w.kept = nil
	before := 0
	w.NoError(s.Abort())
	for {
		c := w.next("SENT or CLOSED", func(c *ring.Completion) bool { return c.Socket == s })
		if c.Events == ring.EventClosed {
			break
		}
		w.True(c.Events.Has(ring.EventSent))
		before++
	}
	w.Positive(before)
	// Reset by the peer.
	s, peer := w.pair()
	for i := range 6 {
		w.NoError(s.SendPacket(w.chain(0, 1<<19, 65536), netip.AddrPort{}, uint64(i)))
	}
	w.poll()
	w.reset(peer)
	for range 6 {
		w.event(s, ring.EventSent)
	}
	w.kept = nil
	w.NoError(s.Close())
	w.event(s, ring.EventClosed)
}
