package extraapi

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Flags are what recvfrom_zcopy takes in its flags argument. Those that are not named here are EINVAL.
type Flags uint32

// The flags, with the kernel's and VMA's values.
const (
	DontWait      Flags = unix.MSG_DONTWAIT // taken and without effect: no call here waits
	Peek          Flags = unix.MSG_PEEK     // refused: two pollers of one packet
	WaitAll       Flags = unix.MSG_WAITALL  // refused: no call here waits
	ZeroCopy      Flags = 0x00040000        // MSG_VMA_ZCOPY: taken and without effect, every packet is handed over
	ZeroCopyForce Flags = 0x01000000        // MSG_VMA_ZCOPY_FORCE: only what the kernel has not copied, else EIO
)

// The reasons for what is refused.
var (
	noPeek = ring.Reason{Code: "zcopy.peek",
		Text: "MSG_PEEK hands out a packet that stays queued: two pollers of one buffer (VMA does it, and corrupts its counters)"}
	noWaitAll = ring.Reason{Code: "zcopy.waitall",
		Text: "MSG_WAITALL waits, and nothing here does: take what there is, and poll for more"}
)

// RecvFromZeroCopy takes waiting packets of a socket in pull mode, without copying, into dst: datagrams one by one, pieces of a stream in
// order. packets is how many, bytes the sum of their lengths. Each is the caller's until FreePackets (or its Release, or Lend for another
// goroutine), also after the socket was closed; source, destination, interface and time are in the completion.
//
// maxBytes, if not 0, limits bytes. A packet is never cut: when the first is longer, or dst has no room for one, the answer is ENOBUFS
// (a *ring.SpaceError says how long it is), and everything stays. Recv takes part of a packet, by copying.
//
// ZeroCopyForce stops before a packet that came through the kernel's socket, as a fragmented datagram does on an offloaded one; when that is the
// first, or the kernel's stack carries the socket, it is EIO and everything stays.
//
// With nothing waiting it is EAGAIN; after the peer's FIN io.EOF; after a failure of the connection that failure, each time. A
// socket in completion mode answers ErrMode. EventIn is given once for what arrived since the last: receive until EAGAIN. Owner only.
func RecvFromZeroCopy(s *xtreme.Socket, dst []xtreme.Completion, maxBytes int, flags Flags) (packets, bytes int, err error) {
	switch {
	case s == nil:
		return 0, 0, noSocket("RecvFromZeroCopy")
	case flags == 0 && len(dst) > 0:
	default: // what they mean depends on the socket, which is its poller's to look at
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

// check refuses what cannot be done; the packets stay.
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

// Recv copies what waits on a socket in pull mode into b, as recv(2) does. Of a stream it takes as much as fits, and what is left of a
// packet is where the next Recv or RecvFromZeroCopy begins. Of a datagram socket it takes one datagram: what does not fit is lost, with
// ErrTruncated. Errors are those of RecvFromZeroCopy; a packet that a callback retained and kept cannot be taken in parts
// (buffers.ErrShared), only whole. Owner only.
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
