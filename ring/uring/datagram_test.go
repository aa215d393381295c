package uring_test

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// modes runs a test on a socket that is read directly and on one that is received by multishot: the fifth of its ring.
func modes(t *testing.T, f func(t *testing.T, w *world, s *ring.Socket), c ...ring.Config) {
	t.Run("direct", func(t *testing.T) {
		w := newWorld(t)
		f(t, w, w.udp(c...))
	})
	t.Run("multishot", func(t *testing.T) {
		w := newWorld(t)
		for range 4 {
			w.udp()
		}
		f(t, w, w.udp(c...))
	})
}

func TestDatagramEcho(t *testing.T) {
	modes(t, func(t *testing.T, w *world, s *ring.Socket) {
		peer := w.peerOf(s)
		for i := range 300 {
			msg := make([]byte, 8+i)
			binary.LittleEndian.PutUint64(msg, uint64(i))
			w.write(peer, msg)
			c := w.event(s, ring.EventPacket)
			w.Equal(msg, c.Packet.Bytes())
			w.Equal(peer.LocalAddr().String(), c.Source.String())
			w.Equal(s.LocalAddr(), c.Destination)
			_, err := s.SendTo(c.Packet.Bytes(), c.Source)
			w.NoError(err)
			w.NoError(c.Packet.Release())
			back := make([]byte, 1000)
			n, err := peer.Read(back)
			w.NoError(err)
			w.Equal(msg, back[:n])
		}
	})
}

func TestDatagramSizes(t *testing.T) {
	modes(t, func(t *testing.T, w *world, s *ring.Socket) {
		peer := w.peerOf(s)
		for _, n := range []int{65507, 0, 1, 0, 0, 40000, 2048, 0, 3} {
			msg := make([]byte, n)
			for i := range msg {
				msg[i] = byte(i * 7)
			}
			w.write(peer, msg)
			c := w.event(s, ring.EventPacket)
			w.NoError(c.Err)
			w.Equal(n, c.Packet.Len())
			w.Equal(string(msg), string(c.Packet.Bytes()))
			w.NoError(c.Packet.Release())
		}
	})
	modes(t, func(t *testing.T, w *world, s *ring.Socket) {
		peer := w.peerOf(s)
		w.write(peer, make([]byte, 5000))
		w.write(peer, []byte("whole"))
		c := w.event(s, ring.EventPacket)
		w.ErrorIs(c.Err, ring.ErrTruncated)
		w.GreaterOrEqual(c.Packet.Len(), 1000)
		w.NoError(c.Packet.Release())
		c = w.event(s, ring.EventPacket)
		w.NoError(c.Err)
		w.Equal("whole", string(c.Packet.Bytes()))
		w.NoError(c.Packet.Release())
	}, ring.Config{LargestDatagram: 1000})
}

func TestDatagramMeta(t *testing.T) {
	modes(t, func(t *testing.T, w *world, s *ring.Socket) {
		peer := w.peerOf(s)
		before := time.Now()
		w.write(peer, []byte("x"))
		c := w.event(s, ring.EventPacket)
		w.NoError(c.Packet.Release())
		lo, err := net.InterfaceByName("lo")
		w.NoError(err)
		w.Equal(uint32(lo.Index), c.IfIndex)
		w.Equal(s.LocalAddr(), c.Destination)
		w.Equal(ring.StampSoftware, c.Time.Source)
		w.WithinDuration(before, c.Time.Time(), time.Second)
	}, ring.Config{PacketInfo: true, Timestamps: true})
}

func TestDatagramError(t *testing.T) {
	modes(t, func(t *testing.T, w *world, s *ring.Socket) {
		nobody := w.peerOf(s)
		to := nobody.LocalAddr().(*net.UDPAddr).AddrPort()
		w.NoError(nobody.Close())
		w.NoError(s.Connect(to)) // connected sockets receive ICMP errors
		_, err := s.Send([]byte("anybody?"))
		w.NoError(err)
		c := w.event(s, ring.EventErr)
		w.ErrorIs(c.Err, unix.ECONNREFUSED)
		again, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(to), net.UDPAddrFromAddrPort(s.LocalAddr()))
		w.NoError(err)
		defer again.Close()
		w.write(again, []byte("here"))
		c = w.event(s, ring.EventPacket)
		w.Equal("here", string(c.Packet.Bytes()))
		w.NoError(c.Packet.Release())
	})
}

// The ways of receiving change with the rate: idle sockets go cold, busy ones hot. The order must hold across the changes.
func TestHotAndCold(t *testing.T) {
	w := newWorld(t)
	s := w.udp()
	peer := w.peerOf(s)
	next := uint32(0)
	expect := func(until uint32) {
		for next < until {
			c := w.event(s, ring.EventPacket)
			w.Equal(next, binary.LittleEndian.Uint32(c.Packet.Bytes()))
			w.NoError(c.Packet.Release())
			next++
		}
	}
	sent := uint32(0)
	send := func(n int) {
		for range n {
			w.write(peer, binary.LittleEndian.AppendUint32(nil, sent))
			sent++
		}
	}
	for range 4 {
		for range 100 { // one by one: hot, or becoming so
			send(1)
			expect(sent)
		}
		for range 20 { // in bursts
			send(12)
			expect(sent)
		}
		for range 25_000 { // cold, with something arriving as it changes
			w.poll()
		}
		for i := range 300 {
			send(3)
			if i%3 == 0 {
				expect(sent - 2)
			}
		}
		expect(sent)
	}
}
