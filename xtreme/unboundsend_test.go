package xtreme_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// The first send of a socket without an address binds it, whichever of the calls it is. A stream has no other destination than its peer.
func TestFirstSendBinds(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		to := w.udp(loopback)
		packet := func() xtreme.Packet {
			p, err := w.poller.Pool().Alloc(1)
			w.NoError(err)
			copy(p.Bytes(), "x")
			return p
		}
		for name, send := range map[string]func(*xtreme.Socket) error{
			"SendTo": func(s *xtreme.Socket) error { _, err := s.SendTo([]byte("x"), to.LocalAddr()); return err },
			"SendVector": func(s *xtreme.Socket) error {
				_, err := s.SendVector([][]byte{[]byte("x")}, to.LocalAddr())
				return err
			},
			"SendPacket": func(s *xtreme.Socket) error { return s.SendPacket(packet(), to.LocalAddr(), 1) },
		} {
			s, err := w.poller.NewUDP(xtreme.IPv4, xtreme.UDPSocketConfig{})
			w.NoError(err)
			w.NoError(send(s), name)
			w.NotZero(s.LocalAddr().Port())
			w.NoError(w.poller.Flush())
			w.Equal("x", w.text(to), name)
			w.close(s)
		}

		stream, _ := w.pair(w.listen())
		_, err := stream.SendVector([][]byte{[]byte("x")}, to.LocalAddr())
		w.ErrorIs(err, unix.EINVAL, "a stream has one destination")
	})
}
