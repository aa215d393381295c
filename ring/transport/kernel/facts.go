package kernel

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// Writable reports what a driver has found out that was asked to by ring.Driver.NotifyWritable: the socket's queue has room, or the connecting
// of a stream has ended. The kernel tells both in the same way, and SO_ERROR reports how it ended.
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
