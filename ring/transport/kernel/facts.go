package kernel

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// Writable is called by a driver that ring.Driver.NotifyWritable has asked, when the kernel reports the socket as writable: its queue has
// room, or the connecting of a stream has ended. SO_ERROR then tells how it ended. It reports the fact to the sink.
func Writable(k *ring.Sink, s *ring.Socket) {
	switch {
	case !ring.IsConnecting(s):
		k.Writable(s)
	default:
		if e := sys.SocketError(FD(s)); e != 0 {
			k.Failed(s, e)
			return
		}
		k.Connected(s, sys.SockName(FD(s)))
	}
}

// Accepted reports a connection that a driver has accepted. A zero peer is asked for, but for unix-domain connections, whose peers have no
// address.
func Accepted(k *ring.Sink, l *ring.Socket, fd int, peer netip.AddrPort) {
	if !peer.IsValid() && !l.Unix() {
		if peer = sys.PeerName(fd); !peer.IsValid() {
			_ = unix.Close(fd) // reset before it was accepted, and the kernel does not tell of its peer any more
			return
		}
	}
	k.Accepted(l, ring.Conn(fd), peer)
}
