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

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
)

// capabilities is the case "capabilities are asserted both ways".
func capabilities(t *testing.T, b Backend) {
	w := newWorld(t, b)
	first, _ := w.receiver()
	r := first.Ring()
	w.Equal(b.Name, r.Kind())
	w.Equal(b.Caps.String(), r.Caps().String())
	for _, c := range ring.AllCaps() {
		why := r.Why(c)
		if b.Caps.Has(c) {
			w.Empty(why.Code, "%v is there and has a reason not to be", c)
		} else {
			w.NotEmpty(why.Code, "%v is missing without a reason", c)
			w.NotEmpty(why.Text, "%v is missing without a sentence", c)
		}
	}
	if b.Datagrams {
		w.Equal(b.Name, first.Path().Kind)
		return
	}
	s, peer := w.pair()
	defer peer.Close()
	err := s.SetOutPerAck(true)
	if b.Caps.Has(ring.CapOutPerAck) {
		w.NoError(err)
	} else {
		w.ErrorIs(err, ring.ErrNotSupported)
		w.ErrorContains(err, r.Why(ring.CapOutPerAck).Text)
	}
	w.Equal(b.Name, s.Path().Kind)
}

// datagram is the case "datagram: PACKET alone, with addresses".
func datagram(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s := w.udp(w.local, ring.Config{PacketInfo: true})
	peer := w.udpPeer(s.LocalAddr())
	w.write(peer, []byte("hello"))
	c := w.event(s, ring.EventPacket, nil)
	w.Equal("hello", string(c.Packet.Bytes()))
	w.Equal(1, c.Packet.NumBuffers())
	w.Equal(5, c.Packet.Len())
	w.Equal(peer.LocalAddr().(*net.UDPAddr).AddrPort(), c.Source)
	w.Equal(s.LocalAddr(), c.Destination)
	w.NotZero(c.IfIndex)
	w.Equal(uint64(s.ID()), c.UserData)
	w.Nil(c.Listener)
	w.Zero(c.Token)
	w.True(c.Time.IsZero())
	w.NoError(c.Packet.Release())

	n, err := s.SendTo([]byte("back"), c.Source)
	w.NoError(err)
	w.Equal(4, n)
	w.flush()
	got := make([]byte, 16)
	n, err = peer.Read(got)
	w.NoError(err)
	w.Equal("back", string(got[:n]))

	// The wildcard address: only the kernel knows where the datagram was sent to.
	any := w.udp(netip.MustParseAddrPort("0.0.0.0:0"))
	to := netip.AddrPortFrom(w.peers.Other(), any.LocalAddr().Port())
	w.write(w.udpPeer(to), []byte("x"))
	c = w.event(any, ring.EventPacket, nil)
	w.Equal(to, c.Destination)
	w.NotZero(c.IfIndex)
	w.NoError(c.Packet.Release())
}

// datagram6 is the case "datagram over IPv6".
func datagram6(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, err := w.set.NewSocket(ring.KindDatagram, ring.IPv6, ring.Config{})
	w.NoError(err)
	if err := s.Bind(netip.MustParseAddrPort("[::]:0")); err != nil {
		w.NoError(s.Abort())
		testnet.Missing(t, "ipv6", err)
	}
	to6 := netip.AddrPortFrom(netip.IPv6Loopback(), s.LocalAddr().Port())
	c6, err := net.DialUDP("udp6", nil, net.UDPAddrFromAddrPort(to6))
	w.NoError(err)
	defer c6.Close()
	w.write(c6, []byte("six"))
	c := w.event(s, ring.EventPacket, nil)
	w.Equal(to6, c.Destination)
	w.Equal(c6.LocalAddr().(*net.UDPAddr).AddrPort(), c.Source)
	w.NoError(c.Packet.Release())

	// A dual-stack socket reports IPv4 peers as IPv4.
	to4 := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), s.LocalAddr().Port())
	c4 := w.udpPeer(to4)
	w.write(c4, []byte("four"))
	c = w.event(s, ring.EventPacket, nil)
	w.Equal(c4.LocalAddr().(*net.UDPAddr).AddrPort(), c.Source)
	w.NoError(c.Packet.Release())
	_, err = s.SendTo([]byte("to four"), c.Source)
	w.NoError(err)
	got := make([]byte, 16)
	n, err := c4.Read(got)
	w.NoError(err)
	w.Equal("to four", string(got[:n]))
}

// stream6 is the case "stream over IPv6".
func stream6(t *testing.T, b Backend) {
	w := newWorld(t, b)
	l, err := w.set.NewSocket(ring.KindStream, ring.IPv6, ring.Config{})
	w.NoError(err)
	if err := l.Bind(netip.MustParseAddrPort("[::1]:0")); err != nil {
		w.NoError(l.Abort())
		testnet.Missing(t, "ipv6", err)
	}
	w.NoError(l.Listen(0))
	peer, err := net.DialTCP("tcp6", nil, net.TCPAddrFromAddrPort(l.LocalAddr()))
	w.NoError(err)
	defer peer.Close()
	s := w.accept(l).Socket
	w.Equal(l.LocalAddr(), s.LocalAddr())
	w.Equal(peer.LocalAddr().(*net.TCPAddr).AddrPort(), s.RemoteAddr())
	w.write(peer, []byte("six"))
	w.Equal("six", string(w.read(s, 3)))
	_, err = s.Send([]byte("back"))
	w.NoError(err)
	w.flush()
	got := make([]byte, 4)
	_, err = io.ReadFull(peer, got)
	w.NoError(err)
	w.Equal("back", string(got))
}

// streamData is the case "stream data: PACKET alone".
func streamData(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	w.write(peer, []byte("hello"))
	c := w.event(s, ring.EventPacket, nil)
	w.Equal("hello", string(c.Packet.Bytes()))
	w.Equal(peer.LocalAddr().(*net.TCPAddr).AddrPort(), c.Source)
	w.Equal(peer.RemoteAddr().(*net.TCPAddr).AddrPort(), c.Destination)
	w.NoError(c.Packet.Release())
	n, err := s.Send([]byte("back"))
	w.NoError(err)
	w.Equal(4, n)
	w.Equal("back", string(w.take(peer, 4)))

	// Much data, through large and small buffers, arrives whole and in order.
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<15)
	go func() { _, _ = peer.Write(want) }()
	w.True(bytes.Equal(want, w.read(s, len(want))))
}

// newConnection is the case "new connection: listener, peer, user data".
func newConnection(t *testing.T, b Backend) {
	w := newWorld(t, b)
	l := w.listen()
	peer := w.dial(l)
	c := w.accept(l)
	w.Equal(ring.EventNewConnection, c.Events)
	w.Equal(l, c.Listener)
	w.Equal(peer.LocalAddr().(*net.TCPAddr).AddrPort(), c.Source)
	w.Equal(l.LocalAddr(), c.Destination)
	w.Equal(uint64(c.Socket.ID()), c.UserData)
	w.True(c.Packet.IsZero())
	w.NotNil(c.Socket.Ring())
	w.Equal(c.Source, c.Socket.RemoteAddr())

	// A wildcard listener: the child knows its own address.
	any := w.socket(ring.KindStream, w.local)
	w.NoError(any.Bind(netip.MustParseAddrPort("0.0.0.0:0")))
	w.NoError(any.Listen(16))
	to := netip.AddrPortFrom(w.peers.Other(), any.LocalAddr().Port())
	w.dialTo(to)
	w.Equal(to, w.accept(any).Socket.LocalAddr())
}

// newConnectionWithData is the case "new connection and its data in one batch".
func newConnectionWithData(t *testing.T, b Backend) {
	w := newWorld(t, b)
	l := w.listen()
	for range 50 {
		peer := w.dial(l)
		w.write(peer, []byte("first"))
		time.Sleep(time.Millisecond) // both are there before the ring looks
		c := w.accept(l)
		s := c.Socket
		if !c.Events.Has(ring.EventPacket) {
			c = w.event(s, ring.EventPacket, nil)
		}
		w.Equal("first", string(c.Packet.Bytes()))
		w.NoError(c.Packet.Release())
		w.closeAndWait(s)
	}
}

// thousands is the case "thousands of children".
func thousands(t *testing.T, b Backend) {
	n := 2000
	if raceEnabled {
		n = 500
	}
	w := newWorld(t, b)
	w.room = 256
	l := w.listen()
	peers := make([]StreamPeer, n)
	byPort := map[uint16]int{}
	children := make([]*ring.Socket, 0, n)
	for i := range peers {
		peers[i] = w.dial(l)
		byPort[peers[i].LocalAddr().(*net.TCPAddr).AddrPort().Port()] = i
		if i%100 == 99 {
			for len(children) <= i {
				c := w.accept(l)
				c.Socket.SetUserData(uint64(byPort[c.Source.Port()]))
				children = append(children, c.Socket)
			}
		}
	}
	var msg [8]byte
	for i, p := range peers {
		binary.LittleEndian.PutUint64(msg[:], uint64(i))
		w.write(p, msg[:])
	}
	for range n {
		c := w.next("data", func(c *ring.Completion) bool { return c.Events.Has(ring.EventPacket) })
		w.Equal(c.UserData, binary.LittleEndian.Uint64(c.Packet.Bytes()))
		w.NoError(c.Packet.Release())
	}
	for _, s := range children {
		w.NoError(s.Close())
	}
	for range n {
		w.next("CLOSED", func(c *ring.Completion) bool { return c.Events == ring.EventClosed })
	}
	w.Equal(1, l.Ring().Sockets())
}

// connectDone is the case "connect done: OUT".
func connectDone(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.connect()
	w.Equal(peer.RemoteAddr().(*net.TCPAddr).AddrPort(), s.LocalAddr())
	w.write(peer, []byte("x"))
	w.Equal("x", string(w.read(s, 1)))
	w.silent(20 * time.Millisecond)
}

// connectRefused is the case "connect refused: IN|ERR|HUP".
func connectRefused(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s := w.socket(ring.KindStream, w.local)
	err := s.Connect(w.peers.Nobody())
	w.NoError(err)
	w.event(s, ring.EventIn|ring.EventErr|ring.EventHup, unix.ECONNREFUSED)
	w.silent(10 * time.Millisecond)
	_, err = s.Send([]byte("x"))
	w.ErrorIs(err, unix.EPIPE)
	w.closeAndWait(s)
}

// connectTimeout is the case "connect times out: IN|HUP".
func connectTimeout(t *testing.T, b Backend) {
	w := newWorld(t, b)
	hole := w.streams().BlackHole()
	// By the library's own limit, and by the transport's (the kernel's: one retransmission of the SYN, about 3 s).
	ours := w.socket(ring.KindStream, w.local)
	w.NoError(ours.Connect(hole))
	w.NoError(ours.SetConnectTimeout(50 * time.Millisecond))
	transports := w.socket(ring.KindStream, w.local)
	if w.kernel {
		w.NoError(unix.SetsockoptInt(transports.ID(), unix.IPPROTO_TCP, unix.TCP_SYNCNT, 1))
	}
	w.NoError(transports.Connect(hole))
	w.event(ours, ring.EventIn|ring.EventHup, unix.ETIMEDOUT)
	w.event(transports, ring.EventIn|ring.EventHup, unix.ETIMEDOUT)
	w.closeAndWait(ours)
	w.closeAndWait(transports)
}

// fin is the case "FIN: IN|RDHUP, after the data".
func fin(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	w.write(peer, []byte("last words"))
	w.NoError(peer.CloseWrite())
	time.Sleep(time.Millisecond)
	w.Equal("last words", string(w.read(s, 10)))
	w.event(s, ring.EventIn|ring.EventRdHup, nil)
	w.silent(10 * time.Millisecond) // once
	_, err := s.Send([]byte("still heard"))
	w.NoError(err)
	w.NoError(s.Close())
	w.Equal("still heard", string(w.takeAll(peer)))
	w.event(s, ring.EventClosed, nil)
}

// reset is the case "reset: IN|ERR|HUP|RDHUP".
func reset(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	w.reset(peer)
	w.event(s, ring.EventIn|ring.EventErr|ring.EventHup|ring.EventRdHup, unix.ECONNRESET)
	w.silent(10 * time.Millisecond)
	w.closeAndWait(s)
}

// resetAfterFin is the case "reset after FIN is reported".
func resetAfterFin(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.pair()
	w.NoError(peer.CloseWrite())
	w.event(s, ring.EventIn|ring.EventRdHup, nil)
	w.silent(10 * time.Millisecond)
	w.reset(peer)
	w.event(s, ring.EventIn|ring.EventErr|ring.EventHup|ring.EventRdHup, unix.ECONNRESET)
	w.silent(10 * time.Millisecond)
	w.closeAndWait(s)
}

// resetBeforeAccept: accept(2) returns a connection that the peer has reset, with the data that came before. Every ring announces it as any
// other.
func resetBeforeAccept(t *testing.T, b Backend) {
	w := newWorld(t, b)
	l := w.listen()
	for _, data := range []string{"", "hello"} {
		peer := w.dial(l)
		w.write(peer, []byte(data))
		from := peer.LocalAddr().(*net.TCPAddr).AddrPort()
		w.reset(peer)
		c := w.accept(l)
		s := c.Socket
		w.Equal(from, c.Source)
		w.Equal(from, s.RemoteAddr())
		got, events, cause := "", ring.Event(0), error(nil)
		for {
			if c.Events.Has(ring.EventPacket) {
				got += string(c.Packet.Bytes())
				w.release(c)
			}
			events |= c.Events
			if c.Err != nil {
				cause = c.Err
			}
			if events.Has(ring.EventHup) {
				break
			}
			c = w.completionOf(s)
		}
		w.Equal(data, got)
		w.True(events.Has(ring.EventIn|ring.EventErr|ring.EventHup|ring.EventRdHup), "%v", events)
		w.ErrorIs(cause, unix.ECONNRESET)
		w.closeAndWait(s)
	}
}

// keepaliveDeath is the case "keepalive death: IN|HUP".
func keepaliveDeath(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.connect()
	w.NoError(s.SetKeepAlive(time.Second, time.Second, 1))
	peer.Deafen(t)
	w.event(s, ring.EventIn|ring.EventHup, unix.ETIMEDOUT)
	w.closeAndWait(s)
}

// retransmissionTimeout is the case "retransmission time-out: IN|HUP".
func retransmissionTimeout(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, peer := w.connect()
	w.NoError(s.SetUserTimeout(500 * time.Millisecond))
	peer.Deafen(t)
	_, err := s.Send([]byte("anyone there?"))
	w.NoError(err)
	w.event(s, ring.EventIn|ring.EventHup, unix.ETIMEDOUT)
	w.closeAndWait(s)
}

// shutWindow: a peer that acknowledges but never reads: the window stays shut for longer than TCP_USER_TIMEOUT.
func shutWindow(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s, _ := w.pair()
	w.NoError(s.SetUserTimeout(500 * time.Millisecond))
	for full := false; !full; {
		_, err := s.Send(make([]byte, 1<<16))
		full = err != nil
	}
	c := w.next("the time-out", func(c *ring.Completion) bool { return c.Events.Has(ring.EventHup) })
	w.Equal(s, c.Socket)
	w.Equal((ring.EventIn | ring.EventHup).String(), (c.Events &^ ring.EventOut).String())
	w.ErrorIs(c.Err, unix.ETIMEDOUT)
	w.closeAndWait(s)
}

// datagramError is the case "ICMP error of a datagram socket: ERR, the socket lives".
func datagramError(t *testing.T, b Backend) {
	w := newWorld(t, b)
	s := w.socket(ring.KindDatagram, w.local)
	w.NoError(s.Connect(w.peers.Nobody()))
	_, err := s.Send([]byte("x"))
	w.NoError(err)
	w.event(s, ring.EventErr, unix.ECONNREFUSED)
	// It lives: connected to somebody who is there it works.
	peer := w.udpPeer(s.LocalAddr())
	w.NoError(s.Connect(peer.LocalAddr().(*net.UDPAddr).AddrPort()))
	w.write(peer, []byte("here"))
	w.Equal("here", string(w.read(s, 4)))
}

// busyConnection: rings read busy sockets in special ways. A connection that was busy for long keeps its order and ends as any other, and so do
// those beside it when it gets crowded.
func busyConnection(t *testing.T, b Backend) {
	w := newWorld(t, b)
	l := w.listen()
	busy := func() (*ring.Socket, StreamPeer) {
		peer := w.dial(l)
		s := w.accept(l).Socket
		for i := range 300 {
			w.write(peer, []byte{byte(i), byte(i >> 8)})
			w.Equal([]byte{byte(i), byte(i >> 8)}, w.read(s, 2))
		}
		return s, peer
	}
	s, peer := busy()
	w.write(peer, []byte("last"))
	w.NoError(peer.CloseWrite())
	w.Equal("last", string(w.read(s, 4)))
	w.event(s, ring.EventIn|ring.EventRdHup, nil)
	w.silent(5 * time.Millisecond)
	w.reset(peer)
	w.event(s, ring.EventIn|ring.EventErr|ring.EventHup|ring.EventRdHup, unix.ECONNRESET)
	w.closeAndWait(s)

	s, peer = busy()
	w.reset(peer)
	w.event(s, ring.EventIn|ring.EventErr|ring.EventHup|ring.EventRdHup, unix.ECONNRESET)
	w.closeAndWait(s)

	s, peer = busy()
	w.NoError(s.Suspend())
	w.write(peer, []byte("later"))
	w.silent(5 * time.Millisecond)
	w.NoError(s.Resume())
	w.Equal("later", string(w.read(s, 5)))
	w.NoError(s.Ring().Wait(time.Millisecond)) // asleep it is watched another way
	w.write(peer, []byte("again"))
	w.Equal("again", string(w.read(s, 5)))

	type pair struct {
		s    *ring.Socket
		peer StreamPeer
	}
	all := []pair{{s, peer}}
	for range 6 {
		s, peer := busy()
		all = append(all, pair{s, peer})
	}
	for round := range 50 {
		for i, p := range all {
			w.write(p.peer, []byte{byte(round), byte(i)})
		}
		for i, p := range all {
			w.Equal([]byte{byte(round), byte(i)}, w.read(p.s, 2))
		}
	}
	for _, p := range all[2:] {
		w.closeAndWait(p.s)
	}
	for range 300 { // few again
		w.write(all[0].peer, []byte("x"))
		w.Equal("x", string(w.read(all[0].s, 1)))
	}
	w.NoError(all[0].s.Close())
	w.event(all[0].s, ring.EventClosed, nil)
	w.ErrorIs(w.endOf(all[0].peer), io.EOF)
}
