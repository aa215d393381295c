package extraapi_test

import (
	"bytes"
	"net/netip"

	"golang.org/x/sys/unix"

	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/ring"
)

func udpBindLocal(w *world) { w.NotZero(w.udp().LocalAddr().Port()) }

func udpBindForeign(w *world) {
	w.ErrorIs(w.socket(ring.KindDatagram).Bind(notOurs), unix.EADDRNOTAVAIL)
}

func udpBindTwice(w *world) { w.ErrorIs(w.udp().Bind(w.local), unix.EINVAL) }

func udpBindTaken(w *world) {
	w.ErrorIs(w.socket(ring.KindDatagram).Bind(w.udp().LocalAddr()), unix.EADDRINUSE)
}

// VMA's three: a local, a remote and a bogus address, each again and again. Of the last the routes decide.
func udpConnectAgain(w *world) {
	s := w.socket(ring.KindDatagram)
	a, b := w.peer(), w.peer()
	for range 5 {
		for _, p := range []*peer{a, b} {
			w.NoError(s.Connect(p.addr()))
			_, err := s.Send([]byte("to you"))
			w.NoError(err)
			w.Equal("to you", string(p.read()))
		}
	}
	w.Equal(1, s.NumRings())
}

// A datagram to port 0 goes nowhere; that it goes is the kernel's word.
func udpConnectPortZero(w *world) {
	s := w.socket(ring.KindDatagram)
	p := w.peer()
	for range 3 {
		w.NoError(s.Connect(port0(p.addr())))
	}
	n, err := extraapi.Send(s, []byte("to nobody"), netip.AddrPort{}, 0)
	w.NoError(err)
	w.Equal(9, n)
	c := w.event(s, ring.EventErr) // the host's answer that nobody is there
	w.ErrorIs(c.Err, unix.ECONNREFUSED)
	p.nothing()
}

func udpSend(w *world) {
	s, p := w.socket(ring.KindDatagram), w.peer()
	w.NoError(s.Connect(p.addr()))
	n, err := extraapi.Send(s, []byte("datagram"), netip.AddrPort{}, 0)
	w.NoError(err)
	w.Equal(8, n)
	w.Equal("datagram", string(p.read()))
}

func udpSendTo(w *world) {
	s, p := w.udp(), w.peer()
	n, err := extraapi.Send(s, []byte("datagram"), p.addr(), 0)
	w.NoError(err)
	w.Equal(8, n)
	w.Equal("datagram", string(p.read()))
}

func udpSendClosed(w *world) {
	s, p := w.udp(), w.peer()
	w.closed(s)
	_, err := s.Send([]byte("x"))
	w.ErrorIs(err, unix.EBADF)
	_, err = s.SendTo([]byte("x"), p.addr())
	w.ErrorIs(err, unix.EBADF)
	_, err = extraapi.Send(nil, nil, netip.AddrPort{}, 0)
	w.ErrorIs(err, unix.EBADF)
}

func udpSendLargest(w *world) {
	s, p := w.udp(), w.peer()
	_, err := s.SendTo(make([]byte, 65508), p.addr())
	w.ErrorIs(err, unix.EMSGSIZE)
	n, err := s.SendTo(bytes.Repeat([]byte{7}, 65507), p.addr())
	w.NoError(err)
	w.Equal(65507, n)
	w.Len(p.read(), 65507)
}

// An address is a type here: what is left of a short one is none at all, or another family's.
func udpBadAddress(w *world) {
	s := w.udp()
	for bad, want := range map[netip.AddrPort]error{{}: unix.EINVAL, netip.MustParseAddrPort("[::1]:9"): unix.EAFNOSUPPORT} {
		w.ErrorIs(s.Connect(bad), want, bad)
		_, err := s.SendTo([]byte("x"), bad)
		w.ErrorIs(err, want, bad)
	}
}

func udpBadFlags(w *world) {
	s, p := w.udp(), w.peer()
	for _, flags := range []int{0xff, -1, extraapi.DummyFlag | 1} {
		_, err := extraapi.Send(s, []byte("x"), p.addr(), flags)
		w.ErrorIs(err, unix.EINVAL)
		w.ErrorContains(err, "flags")
	}
	p.nothing()
}

func udpSendToPortZero(w *world) {
	_, err := w.udp().SendTo([]byte("x"), port0(w.peer().addr()))
	w.ErrorIs(err, unix.EINVAL)
}

func udpEmptyPieces(w *world) {
	s, p := w.udp(), w.peer()
	n, err := s.SendVector([][]byte{nil, []byte("ab"), {}, []byte("c"), nil}, p.addr())
	w.NoError(err)
	w.Equal(3, n)
	w.Equal("abc", string(p.read()))
	n, err = s.SendVector([][]byte{nil, {}}, p.addr())
	w.NoError(err)
	w.Zero(n)
	w.Empty(p.read(), "an empty datagram is one")
}

func udpEmptyDatagrams(w *world) {
	s, p := w.udp(), w.peer()
	for range 3 {
		_, err := s.SendTo(nil, p.addr())
		w.NoError(err)
		w.Empty(p.read())
		p.write(nil, s.LocalAddr())
		w.Empty(w.text(s))
	}
}

func udpVectorTooLong(w *world) {
	_, err := w.udp().SendVector([][]byte{make([]byte, 65000), make([]byte, 508)}, w.peer().addr())
	w.ErrorIs(err, unix.EMSGSIZE)
}

func udpLongDatagrams(w *world) {
	s, p := w.udp(), w.peer()
	for _, size := range []int{1473, 2049, 9001, 40_000} {
		sent := make([]byte, size)
		for i := range sent {
			sent[i] = byte(i * 7)
		}
		p.write(sent, s.LocalAddr())
		w.Equal(string(sent), w.text(s))
		_, err := s.SendVector([][]byte{sent[:size/3], nil, sent[size/3:]}, p.addr())
		w.NoError(err)
		w.True(bytes.Equal(sent, p.read()))
	}
}
