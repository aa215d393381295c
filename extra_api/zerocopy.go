package extraapi

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Flags are the flags of RecvFromZeroCopy. Values that are not named here are EINVAL.
type Flags uint32

// The flags, with the kernel's and VMA's values.
const (
	DontWait      Flags = unix.MSG_DONTWAIT // accepted, without effect: the call never waits
	Peek          Flags = unix.MSG_PEEK     // refused: the packet would be queued and the caller's at once
	WaitAll       Flags = unix.MSG_WAITALL  // refused: the call never waits
	ZeroCopy      Flags = 0x00040000        // MSG_VMA_ZCOPY: accepted, without effect: packets are never copied
	ZeroCopyForce Flags = 0x01000000        // MSG_VMA_ZCOPY_FORCE: only packets that the kernel has not copied, else EIO
)

// The reasons for what is refused.
var (
	noPeek = ring.Reason{Code: "zcopy.peek",
		Text: "MSG_PEEK returns a packet that stays queued, so that its buffer has two owners (in VMA that corrupts counters)"}
	noWaitAll = ring.Reason{Code: "zcopy.waitall",
		Text: "MSG_WAITALL waits, and nothing here does: take what there is, and poll for more"}
)

// RecvFromZeroCopy takes queued packets of a socket in pull mode into dst, without copying: datagrams one by one, a stream's data in pieces
// and in order. packets is how many, bytes the sum of their lengths. A packet belongs to the caller until it is released (FreePackets,
// Packet.Release, or Packet.Lend for another goroutine), also after the socket was closed. The completion also has source, destination,
// interface and time.
//
// maxBytes limits bytes; 0 is no limit. A packet is never cut: if the first one is longer than maxBytes, or dst has length 0, the error is
// ENOBUFS (a *ring.SpaceError, with the length) and all packets stay queued. Recv takes a part of a packet, by copying.
//
// ZeroCopyForce stops before a packet that was received through the kernel's socket, such as a fragmented datagram on an offloaded socket. If
// that is the first one, or if the kernel carries the socket, the error is EIO and all packets stay queued.
//
// If nothing is queued the error is EAGAIN; after the peer's FIN io.EOF; after the connection failed its error, each time. A socket in
// completion mode returns ErrMode. EventIn comes once for all packets that arrived since the last EventIn: receive until EAGAIN. Owner only.
// (VMA: recvfrom_zcopy.)
func RecvFromZeroCopy(s *xtreme.Socket, dst []xtreme.Completion, maxBytes int, flags Flags) (packets, bytes int, err error) {
	switch {
	case s == nil:
		return 0, 0, noSocket("RecvFromZeroCopy")
	case flags == 0 && len(dst) > 0:
	default: // what the flags mean depends on the socket, which only the owner may ask
		if err := s.Check(); err != nil {
			return 0, 0, receiveFailed("RecvFromZeroCopy", err)
		}
		if err := flags.check(s); err != nil {
			return 0, 0, err
		}
	}
	if len(dst) == 0 && s.Mode() != ring.Completions {
		return 0, 0, fmt.Errorf("extraapi: RecvFromZeroCopy: destination of length 0: no room for a packet: %w", unix.ENOBUFS)
	}
	if flags&ZeroCopyForce != 0 {
		packets, bytes, err = ring.ReceiveOffloaded(s, dst, maxBytes)
	} else {
		packets, bytes, err = ring.ReceiveUpTo(s, dst, maxBytes)
	}
	if err != nil && err != ring.ErrNothing {
		err = receiveFailed("RecvFromZeroCopy", err)
	}
	return packets, bytes, err
}

// check returns an error for flags that are unknown, or that this socket cannot have.
func (f Flags) check(s *xtreme.Socket) error {
	refuse := func(why ring.Reason) error {
		return fmt.Errorf("extraapi: RecvFromZeroCopy: %w", &ring.FeatureError{Feature: why.Text, Code: why.Code})
	}
	switch unknown := f &^ (DontWait | Peek | WaitAll | ZeroCopy | ZeroCopyForce); {
	case unknown != 0:
		return fmt.Errorf("extraapi: RecvFromZeroCopy: flags %#x: %w", uint32(unknown), unix.EINVAL)
	case f&Peek != 0:
		return refuse(noPeek)
	case f&WaitAll != 0:
		return refuse(noWaitAll)
	case f&ZeroCopyForce != 0 && !s.IsOffloaded():
		return fmt.Errorf("extraapi: RecvFromZeroCopy: zero copy was required, the path is %v: %w", s.Path(), unix.EIO)
	}
	return nil
}

// Recv copies queued data of a socket in pull mode into b, as recv(2) does, and returns how many bytes and from where they came. Of a stream it
// takes as much as fits into b; the next Recv or RecvFromZeroCopy goes on behind that. Of a datagram socket it takes one datagram; bytes that do
// not fit are lost, with ErrTruncated. Errors are those of RecvFromZeroCopy, and buffers.ErrShared for a packet that a callback has
// retained: it can be taken whole only. Owner only. (VMA: recv.)
func Recv(s *xtreme.Socket, b []byte) (n int, from netip.AddrPort, err error) {
	if s == nil {
		return 0, from, noSocket("Recv")
	}
	n, from, err = s.Read(b)
	if err != nil && err != ring.ErrNothing {
		err = receiveFailed("Recv", err)
	}
	return n, from, err
}
