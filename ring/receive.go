package ring

import (
	"fmt"
	"io"
	"net/netip"
	"syscall"
)

// SpaceError reports that the first waiting packet is longer than the caller will take; it stays where it is. It is ENOBUFS for errors.Is,
// as VMA answers when there is no room for one packet (recvfrom_zcopy).
type SpaceError struct {
	Need int // bytes of the first packet
	Room int // what the caller would take
}

// Error is the failure in a sentence.
func (e *SpaceError) Error() string {
	return fmt.Sprintf("the first packet has %d bytes, room is %d: %v", e.Need, e.Room, syscall.ENOBUFS)
}

// Unwrap gives the errno.
func (e *SpaceError) Unwrap() error { return syscall.ENOBUFS }

// Mode is how the socket's packets reach the application; see SetReceiveMode. Owner only.
func (s *Socket) Mode() Mode {
	if !s.readable() {
		return 0
	}
	return s.mode
}

// ReceiveCallback is the socket's receive callback, nil without one. Owner only.
func (s *Socket) ReceiveCallback() ReceiveCallback {
	if !s.readable() {
		return nil
	}
	return s.active().callback
}

// Waiting is how many packets wait on the socket, for Receive or for the next Poll, and how many bytes are in them. Owner only.
func (s *Socket) Waiting() (packets, bytes int) {
	if !s.readable() {
		return 0, 0
	}
	return int(s.active().received.n + s.active().unseen.n), s.active().waiting
}

// ReceiveUpTo is Socket.Receive with a limit of bytes, for extra_api: it moves packets while all of them together have at most limit bytes; 0
// is no limit. Packets are moved whole. When not even the first one fits, the error is a *SpaceError and nothing is moved; Socket.Read takes a
// part of it. Owner only.
func ReceiveUpTo(s *Socket, dst []Completion, limit int) (packets, bytes int, err error) {
	return s.receive(dst, limit, anyPath)
}

// ReceiveOffloaded is ReceiveUpTo for packets that the kernel has not copied: it stops before one that came through the kernel's socket
// (Completion.ViaKernel). When the first one is such a packet, or the kernel's stack carries the socket, the error is EIO and nothing is moved.
// Owner only. (VMA: recvfrom_zcopy with MSG_VMA_ZCOPY_FORCE.)
func ReceiveOffloaded(s *Socket, dst []Completion, limit int) (packets, bytes int, err error) {
	return s.receive(dst, limit, offloadedOnly)
}

// Arguments of receive.
const (
	noLimit                = 0
	anyPath, offloadedOnly = false, true
)

// receive is Receive, ReceiveUpTo and, with offloaded set, ReceiveOffloaded.
func (s *Socket) receive(dst []Completion, limit int, offloaded bool) (packets, bytes int, err error) {
	if !s.readable() {
		return 0, 0, &OpError{Op: "receive", Err: ErrOwner}
	}
	switch {
	case s.mode == Completions:
		return 0, 0, &OpError{Op: "receive", Err: ErrMode}
	case limit < 0:
		return 0, 0, badArgument("receive", "limit of bytes", limit)
	}
	if err := s.usable("receive"); err != nil {
		return 0, 0, err
	}
	if len(dst) == 0 {
		return 0, 0, badArgument("receive", "destination of length", 0)
	}
	if offloaded && !s.isOffloaded() {
		return 0, 0, errCopied
	}
	a := s.active()
	for packets < len(dst) && a.received.n > 0 {
		first := s.ring().slab.at(a.received.head)
		if offloaded && first.viaKernel {
			if packets == 0 {
				return 0, 0, errCopied
			}
			break
		}
		n := first.packet.Len()
		if limit > 0 && n > limit-bytes {
			if packets == 0 {
				return 0, 0, &OpError{Op: "receive", Err: &SpaceError{Need: n, Room: limit}}
			}
			break
		}
		s.popRecord(s.ring(), &dst[packets], &a.received)
		bytes += n
		packets++
	}
	if packets > 0 {
		if r := s.ring(); r.tracing != TraceOff {
			r.traceCompletions("receive", dst[:packets])
		}
		return packets, bytes, nil
	}
	return 0, 0, s.nothingToReceive()
}

// errCopied is made once: a program that falls back to ReceiveUpTo meets it for each such packet.
var errCopied error = &OpError{Op: "receive without a copy of the kernel's", Err: syscall.EIO}

// Read copies what waits on a socket in Callback or Queue mode into b, and releases the packets it empties. Of a stream it takes
// as much as fits; the rest of a packet waits for the next Read or Receive. Of a datagram socket it takes one datagram: what does not
// fit is lost, with ErrTruncated. from is the sender. Without anything it answers as Receive does. Owner only.
func (s *Socket) Read(b []byte) (n int, from netip.AddrPort, err error) {
	n, from, err = s.read(b)
	if err == nil || err == ErrTruncated {
		if r := s.ring(); r.tracing != TraceOff {
			s.traceRead(r, from, b[:n], err)
		}
	}
	return n, from, err
}

// read is Read without a line in a log.
func (s *Socket) read(b []byte) (n int, from netip.AddrPort, err error) {
	if !s.readable() {
		return 0, from, &OpError{Op: "read", Err: ErrOwner}
	}
	if s.mode == Completions {
		return 0, from, &OpError{Op: "read", Err: ErrMode}
	}
	if err := s.usable("read"); err != nil {
		return 0, from, err
	}
	if s.active().received.n == 0 {
		return 0, from, s.nothingToReceive()
	}
	if s.handle.Kind == KindDatagram {
		return s.readDatagram(b)
	}
	from = s.remote()
	for s.active().received.n > 0 && n < len(b) {
		p := s.ring().slab.at(s.active().received.head).packet
		k := p.CopyTo(b[n:])
		if k < p.Len() {
			if err := p.Pull(k); err != nil {
				if n > 0 {
					return n, from, nil // what was copied is gone from the queue; the next call meets the same packet
				}
				return 0, from, &OpError{Op: "read a part of a packet", Err: err}
			}
			s.activate().waiting -= k
			return n + k, from, nil
		}
		n += k
		s.releaseFirst()
	}
	return n, from, nil
}

// readDatagram is Read of the first waiting datagram; what does not fit into b is lost.
func (s *Socket) readDatagram(b []byte) (n int, from netip.AddrPort, err error) {
	rec := s.ring().slab.at(s.active().received.head)
	from, err = rec.source, rec.err
	n = rec.packet.CopyTo(b)
	if n < rec.packet.Len() {
		err = ErrTruncated
	}
	s.releaseFirst()
	return n, from, err
}

// releaseFirst releases the first waiting packet.
func (s *Socket) releaseFirst() {
	p := s.ring().slab.at(s.active().received.head).packet
	s.activate().waiting -= p.Len()
	_ = p.Release() // it is in the queue: nobody else has used up this reference
	s.activate().received.pop(&s.ring().slab)
}

// nothingToReceive is the error of Receive and Read when no packet waits: the connection's failure, io.EOF after FIN, or ErrNothing. The end is
// behind the packets that a suspended callback has not seen.
func (s *Socket) nothingToReceive() error {
	switch {
	case s.active().unseen.n > 0:
		return ErrNothing
	case s.state == stateDead:
		return &OpError{Op: "receive", Addr: s.remote(), Err: s.active().fatal}
	case s.handle.Ended:
		return io.EOF
	}
	return ErrNothing
}
