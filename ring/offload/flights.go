package offload

import (
	"syscall"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

// flights are the sends whose ends are to be reported to their sockets.
type flights struct {
	pool  *buffers.DriverPool
	list  []flight // by token - 1; the token names the send on its link
	free  []uint32 // empty places of list
	ended []result // that the next turn reports
}

// flight is a send on a link whose end is to be reported to its socket.
type flight struct {
	s *ring.Socket
	t ring.Transmission
	n int // bytes of payload
	// gathered is the copy that was given to the stack, for a packet that linearize has copied; else zero.
	gathered  buffers.Packet
	fragments int           // that have not ended, of a datagram that was cut; else 0
	errno     syscall.Errno // of the first fragment that was lost
}

// result is a send that has ended.
type result struct {
	flight
	e syscall.Errno
}

// isEmpty reports whether no link has a send.
func (f *flights) isEmpty() bool { return len(f.list) == len(f.free) }

// add keeps a send whose end is to be reported until its link returns it; the token names it there. p is what the stack is given: the
// packet, or a copy of it. remove forgets it.
func (f *flights) add(s *ring.Socket, t ring.Transmission, p buffers.Packet) (token uint64) {
	x := flight{s: s, t: t, n: t.Packet.Len()}
	if p != t.Packet {
		x.gathered = p
	}
	if n := len(f.free); n > 0 {
		i := f.free[n-1]
		f.free = f.free[:n-1]
		f.list[i] = x
		return uint64(i) + 1
	}
	f.list = append(f.list, x)
	return uint64(len(f.list))
}

// cut notes that the datagram of a token leaves in fragments (ip.Config.Cut). Each of them has the token.
func (f *flights) cut(token uint64, fragments int) { f.list[token-1].fragments = fragments }

// endFrame notes that a link (completed), or the stack, has returned a frame with a token, and returns the send that has ended with it. A
// datagram that was cut ends with the last of its fragments, and with the error of the first one that was lost: before, ok is false.
//
//	frame       is                       its packet             the send's packet
//	sent whole  the send's               ends with the send     the same
//	gathered    linearize's copy         is freed here          complete
//	a fragment  a copy                   is freed here          complete, as gathered if there is one, with the last fragment
func (f *flights) endFrame(token uint64, p buffers.Packet, errno syscall.Errno, completed bool) (r result, ok bool) {
	x := &f.list[token-1]
	if x.errno == 0 {
		x.errno = errno
	}
	whole := p == x.t.Packet
	switch {
	case whole:
	case completed:
		_ = p.Release() // alone since it was taken for sending
	default:
		f.pool.FreeTransmit(p)
	}
	if x.fragments > 1 {
		x.fragments--
		return result{}, false
	}
	if x.fragments > 0 && !x.gathered.IsZero() {
		f.pool.FreeTransmit(x.gathered)
	}
	r.flight = f.remove(token)
	r.t.IsComplete = whole && completed
	r.e = r.errno
	return r, true
}

// endLater is endFrame outside a turn: the next one reports the send.
func (f *flights) endLater(token uint64, p buffers.Packet, errno syscall.Errno) {
	if r, ok := f.endFrame(token, p, errno, true); ok {
		f.ended = append(f.ended, r)
	}
}

// fail has the next turn report a send that did not become a frame of its own.
func (f *flights) fail(s *ring.Socket, t ring.Transmission, e syscall.Errno) {
	f.ended = append(f.ended, result{flight{s: s, t: t, n: t.Packet.Len()}, e})
}

// remove is the send with a token that a link or the stack has returned.
func (f *flights) remove(token uint64) flight {
	x := f.list[token-1]
	f.list[token-1] = flight{}
	f.free = append(f.free, uint32(token-1))
	return x
}

// freeTransmission releases a packet whose end no socket waits for.
func (f *flights) freeTransmission(t ring.Transmission) {
	f.pool.Complete(t.Packet)
	_ = t.Packet.Release() // alone since it was taken for sending
}

// drop frees the packets of all sends, when the ring is closed: those whose frames, copies, were freed with the stack, and those that ended
// and were not reported, which are left only if the ring gave up waiting for its sockets.
func (f *flights) drop() {
	for i := range f.list {
		x := &f.list[i]
		if x.fragments == 0 && x.gathered.IsZero() {
			continue // an empty place, or the packet was the frame
		}
		f.freeTransmission(x.t)
		if x.fragments > 0 && !x.gathered.IsZero() {
			f.pool.FreeTransmit(x.gathered)
		}
	}
	for _, r := range f.ended {
		if !r.t.IsComplete {
			f.pool.Complete(r.t.Packet)
		}
		_ = r.t.Packet.Release() // cannot fail: the driver has a reference since it took the packet for sending
	}
	f.list, f.free, f.ended = nil, nil, nil
}
