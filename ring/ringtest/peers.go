package ringtest

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/ring"
)

// Peers is the host at the other end of what the ring sends. It is DatagramPeers, StreamPeers or both, as the Backend says.
type Peers interface {
	// Local is an address of the ring's host, Other another one of its, Device the interface they are on.
	Local() netip.Addr
	Other() netip.Addr
	Device() string
	// Nobody is an address at the other end where no socket is.
	Nobody() netip.AddrPort
}

// DatagramPeers are Peers with datagram sockets.
type DatagramPeers interface {
	Peers
	// Dial makes a socket at the other end, connected to the ring's.
	Dial(to netip.AddrPort) Peer
}

// Peer is a datagram socket at the other end. Reads block until the deadline; LocalAddr is a *net.UDPAddr.
type Peer interface {
	net.Conn
	SetReadBuffer(bytes int) error
}

// Fickle are peers whose link can be taken from the ring and given back. They belong to rings that have CapPathChanges.
type Fickle interface {
	Peers
	Lose()
	Restore()
}

// StreamPeers are Peers with streams. A kernel answers by itself; other peers need the ring for a handshake, an acknowledgement or a
// retransmission: they poll it with turn while they wait, on the caller's goroutine.
type StreamPeers interface {
	Peers
	// DialStream connects to a listener of the ring's. When it returns, the connection stands at this end, and the ring has not been told
	// of it by anything that came after its last turn.
	DialStream(to netip.AddrPort, turn func()) (StreamPeer, error)
	// ListenStream makes a listener for connections of the ring's.
	ListenStream() (StreamListener, error)
	// BlackHole is an address that does not answer a SYN, not even with a reset.
	BlackHole() netip.AddrPort
}

// StreamPeer is a connection at the other end. Calls block until the deadline; its addresses are *net.TCPAddr. What it has not read when it
// is closed resets the connection, as anywhere.
type StreamPeer interface {
	net.Conn
	// CloseWrite sends FIN behind what was written.
	CloseWrite() error
	// Reset ends the connection with a reset.
	Reset() error
	// Deafen makes it drop every segment from now on: the ring receives nothing of it, not even a reset. It skips the test where that needs
	// a privilege.
	Deafen(t *testing.T)
}

// StreamListener is a listener at the other end.
type StreamListener interface {
	Addr() netip.AddrPort
	Accept(turn func()) (StreamPeer, error)
	Close() error
}

// streams returns the peers of the case as peers with streams, which they must have.
func (w *world) streams() StreamPeers {
	w.t.Helper()
	p, ok := w.peers.(StreamPeers)
	w.True(ok, "these peers have no streams")
	return p
}

// turn polls once, for peers that need the ring while they wait.
func (w *world) turn() {
	w.t.Helper()
	if w.poll() == 0 {
		time.Sleep(20 * time.Microsecond)
	}
}

// meanwhile runs f, which waits for a peer. Kernel peers must be served without polls of the ring; for others the ring is polled.
func (w *world) meanwhile(f func()) {
	w.t.Helper()
	if w.kernel {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	for {
		select {
		case <-done:
			return
		default:
			w.turn()
		}
	}
}

// await receives from a channel of a goroutine that waits for a peer, see meanwhile.
func await[T any](w *world, from <-chan T) (v T) {
	w.t.Helper()
	w.meanwhile(func() { v = <-from })
	return v
}

// take reads n bytes at the peer.
func (w *world) take(peer net.Conn, n int) []byte {
	w.t.Helper()
	b := make([]byte, n)
	var err error
	w.meanwhile(func() { _, err = io.ReadFull(peer, b) })
	w.NoError(err)
	return b
}

// takeAll reads at the peer until the end of the stream.
func (w *world) takeAll(peer net.Conn) []byte {
	w.t.Helper()
	var b []byte
	var err error
	w.meanwhile(func() { b, err = io.ReadAll(peer) })
	w.NoError(err)
	return b
}

// endOf returns how the stream ends at a peer that has read all data: io.EOF or an error.
func (w *world) endOf(peer net.Conn) (err error) {
	w.t.Helper()
	w.meanwhile(func() { _, err = peer.Read(make([]byte, 1)) })
	return err
}

// dial connects a peer to the listener.
func (w *world) dial(l *ring.Socket) StreamPeer {
	w.t.Helper()
	return w.dialTo(l.LocalAddr())
}

// dialTo connects a peer to an address of the ring, polling the ring meanwhile.
func (w *world) dialTo(a netip.AddrPort) StreamPeer {
	w.t.Helper()
	c, err := w.streams().DialStream(a, w.turn)
	w.NoError(err)
	return w.guardPeer(c)
}

// guardPeer sets a deadline on a peer, so that no case hangs, and closes it after the case.
func (w *world) guardPeer(c StreamPeer) StreamPeer {
	w.t.Helper()
	w.NoError(c.SetDeadline(time.Now().Add(6 * patience)))
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// pair is a connection: the ring's side, accepted, and the peer's side.
func (w *world) pair(c ...ring.Config) (*ring.Socket, StreamPeer) {
	w.t.Helper()
	l := w.listen(c...)
	peer := w.dial(l)
	return w.accept(l).Socket, peer
}

// connect makes a listener at the other end and a connection of the ring to it.
func (w *world) connect() (*ring.Socket, StreamPeer) {
	w.t.Helper()
	l, err := w.streams().ListenStream()
	w.NoError(err)
	defer l.Close()
	s := w.socket(ring.KindStream, w.local)
	w.NoError(s.Connect(l.Addr()))
	w.event(s, ring.EventOut, nil)
	peer, err := l.Accept(w.turn)
	w.NoError(err)
	return s, w.guardPeer(peer)
}

// reset closes a peer with a reset.
func (w *world) reset(c StreamPeer) {
	w.t.Helper()
	w.NoError(c.Reset())
}

// udpPeer is a UDP socket at the other end, connected to the ring's.
func (w *world) udpPeer(to netip.AddrPort) Peer {
	w.t.Helper()
	p, ok := w.peers.(DatagramPeers)
	w.True(ok, "these peers have no datagrams")
	c := p.Dial(to)
	w.NoError(c.SetDeadline(time.Now().Add(6 * patience))) // no case may hang
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// receiver returns a socket and a peer that writes to it, for cases that are about neither datagrams nor streams: a datagram socket, or a
// connection if the ring has no datagrams. On a connection a write is one packet only if the one before was delivered.
func (w *world) receiver(c ...ring.Config) (*ring.Socket, net.Conn) {
	w.t.Helper()
	if w.backend.Streams {
		return w.pair(c...)
	}
	s := w.udp(w.local, c...)
	return s, w.udpPeer(s.LocalAddr())
}

// unusedSocket returns a new socket of the kind that receiver uses, without a peer.
func (w *world) unusedSocket() *ring.Socket {
	w.t.Helper()
	if w.backend.Streams {
		return w.socket(ring.KindStream, w.local)
	}
	return w.socket(ring.KindDatagram, w.local)
}
