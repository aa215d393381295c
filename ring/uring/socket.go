package uring

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// record is the driver's state of one socket. Each slot keeps its record, so a pointer to one stays valid when the table grows.
type record struct {
	socket *ring.Socket // nil: no socket, or let go
	handle *ring.Handle
	slot   uint32
	gen    uint32
	fd     int32
	kind   ring.SocketKind
	class  buffers.Class // of the receive that is armed, or was last
	family int           // of datagram sockets

	ops          operation // with the kernel, or prepared
	cancelled    operation // of those, what was asked to end
	wantsReceive bool      // the core wants to receive
	arming       bool      // in the list of those to be armed
	notify       bool      // the core waits for Writable
	peerDone     bool      // the peer is done sending: a one-shot poll would fire for that at once
	unix         bool      // a unix-domain connection
	readsByPoll  bool      // received by poll and read, see readPolled; as it was last armed
	unread       bool      // with readsByPoll: data may be there that the poll has reported already
	starved      bool      // stopped because there was no buffer; reportReset asks, for streams
	endSeen      bool      // the poll of watchReset has reported an end that reportReset has not handled yet
	failed       bool      // the connection's end was reported
	detaching    bool

	// Sending; see send.go.
	blocked   bool  // the kernel's queue is full
	postponed bool  // the submission queue was full
	busy      int   // sends whose result is not there
	head      int32 // list of sends held back while blocked
	tail      int32
	newest    int32 // stream: the transmission taken last, while it is not given back

	// Direct reading; see hot.go.
	direct    bool
	promoting bool   // to be read directly once the multishot is cancelled
	idle      uint32 // direct: turns without a datagram
	hits      uint32 // multishot: turns with a datagram, each soon after the one before
	last      uint32 // multishot: turn of the last datagram
}

// Attach makes the record of a socket, and registers buffers of its class with the kernel; nothing is received yet.
func (d *Driver) Attach(s *ring.Socket) error {
	h := ring.HandleOf(s)
	if h.Slot >= maxSlots {
		return fmt.Errorf("uring: attach: slot %d: a ring has at most %d sockets: %w", h.Slot, maxSlots, unix.EMFILE)
	}
	family := 0
	if h.Kind == ring.KindDatagram {
		var err error
		if family, err = unix.GetsockoptInt(int(h.Conn), unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil {
			return fmt.Errorf("uring: attach: address family of descriptor %d: %w", h.Conn, err)
		}
	}
	unixStream := h.Kind == ring.KindStream && s.Unix()
	if err := d.ensureBuffers(h, unixStream); err != nil {
		return err
	}
	for int(h.Slot) >= len(d.records) {
		d.records = append(d.records, &record{})
	}
	*d.records[h.Slot] = record{socket: s, handle: h, slot: h.Slot, gen: h.Gen, fd: int32(h.Conn), kind: h.Kind, class: h.Class,
		family: family, unix: unixStream, head: none, tail: none, newest: none}
	d.addConnection(d.records[h.Slot])
	return nil
}

// of is the record of a socket that is attached.
func (d *Driver) of(s *ring.Socket) (*record, error) {
	h := ring.HandleOf(s)
	if int(h.Slot) < len(d.records) {
		if r := d.records[h.Slot]; r.socket == s && !r.detaching {
			return r, nil
		}
	}
	return nil, fmt.Errorf("uring: socket %d is not attached: %w", h.Conn, unix.EBADF)
}

// SetReceiving starts or stops reading or accepting. Stopping is a cancellation: what the kernel took off the socket before is still
// reported, in order; after SetReceiving it takes nothing more.
func (d *Driver) SetReceiving(s *ring.Socket, on bool) error {
	r, err := d.of(s)
	if err != nil {
		return err
	}
	if on {
		// The class may have changed since Attach.
		if err := d.ensureBuffers(r.handle, r.unix); err != nil {
			return err
		}
	}
	r.wantsReceive = on
	if on {
		r.starved, r.endSeen = false, false
		r.unread = r.readsByPoll // the poll may be armed: arm looks again, and at the class, which may have changed
		if r.kind == ring.KindDatagram && r.ops&opReceive == 0 && !r.direct {
			d.promote(r)
		}
		d.scheduleReceive(r)
		return nil
	}
	d.watchReset(r)
	if !d.cancel(r, opReceive) || d.reaping || !d.bound {
		return nil // inside Reap, submission comes before the kernel receives anything more
	}
	return d.enter(0)
}

// isReadByPoll reports whether a socket is received by poll and read, not by multishot: see readPolled.
func isReadByPoll(h *ring.Handle, isUnix bool) bool {
	return isUnix || h.Kind == ring.KindStream && h.Class == buffers.Large
}

// ensureBuffers registers the group of buffers that the multishot of a socket receives into, if this is the group's first socket.
func (d *Driver) ensureBuffers(h *ring.Handle, isUnix bool) error {
	if h.Kind == ring.KindListener || isReadByPoll(h, isUnix) {
		return nil
	}
	return d.openGroup(h.Class)
}

// scheduleReceive lists a socket that is to receive and has no receive operation: the next enter arms it.
func (d *Driver) scheduleReceive(r *record) {
	if !r.arming && r.needsArming() {
		r.arming = true
		d.arming = append(d.arming, r)
	}
}

// needsArming reports whether the socket is to receive and has no operation that does, or one that must look again.
func (r *record) needsArming() bool {
	return r.wantsReceive && !r.failed && !r.detaching && !r.direct && (r.ops&r.receiveOperation() == 0 || r.readsByPoll && r.unread)
}

// receiveOperation is the operation by which the socket receives.
func (r *record) receiveOperation() operation {
	if r.readsByPoll {
		return opReadable
	}
	return opReceive
}

// arm prepares the operation by which the socket receives: multishot accept, recvmsg or recv, or a poll after which it is read.
func (d *Driver) arm(r *record) {
	if !r.needsArming() {
		return
	}
	unread := r.unread
	r.unread = false
	// The class may have changed since the last time.
	if r.readsByPoll = isReadByPoll(r.handle, r.unix); r.readsByPoll {
		if r.ops&opReadable == 0 { // else one is still armed: readPolled's, or pollHot's from before the ring slept
			d.pollReadable(r, sys.UringPollMultishot)
		} else if unread {
			d.repollReadable(r)
		}
		return
	}
	d.cancel(r, opReadable)
	d.watchReset(r)
	r.class = r.handle.Class
	e := sys.SQE{FD: r.fd, UserData: r.userData(r.receiveCode())}
	switch r.kind {
	case ring.KindListener:
		// No address is asked for: all connections of a multishot would share the memory for it.
		e.Opcode, e.IOPrio, e.OpFlags = sys.UringOpAccept, sys.UringAcceptMultishot, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC
	case ring.KindDatagram:
		e.Opcode, e.IOPrio, e.Addr, e.Len = sys.UringOpRecvmsg, sys.UringRecvMultishot, d.receiveHeader, 1
		e.Flags, e.BufGroup = sys.UringSQEBufferSelect, uint16(r.class)
	default:
		e.Opcode, e.IOPrio = sys.UringOpRecv, sys.UringRecvMultishot
		e.Flags, e.BufGroup = sys.UringSQEBufferSelect, uint16(r.class)
	}
	r.ops |= opReceive
	d.queueOperation(e)
}

// receiveCode is the code of the socket's multishot operation.
func (r *record) receiveCode() code {
	switch r.kind {
	case ring.KindListener:
		return codeAccept
	case ring.KindDatagram:
		return codeDatagram
	}
	return codeStream
}

// watchReset polls for the end of a stream that is not read, which would go unnoticed, or that is read by multishot, which can miss a reset (see
// onEndPoll). It asks for no events: the kernel reports errors and hang-ups unasked. Multishot, because a one-shot poll fires at once when the
// peer is half closed; once armed it stays.
func (d *Driver) watchReset(r *record) {
	if r.kind != ring.KindStream || r.failed || r.detaching || r.ops&opReset != 0 {
		return
	}
	r.ops |= opReset
	d.queueOperation(sys.SQE{Opcode: sys.UringOpPollAdd, FD: r.fd, Len: sys.UringPollMultishot, UserData: r.userData(codeReset)})
}

// NotifyWritable asks for one Writable fact.
func (d *Driver) NotifyWritable(s *ring.Socket) error {
	r, err := d.of(s)
	if err != nil {
		return err
	}
	r.notify = true
	d.pollWritable(r)
	return nil
}

// pollWritable arms the poll that both the core's request and held back sends wait for.
func (d *Driver) pollWritable(r *record) {
	if !r.notify && !r.blocked || r.detaching || r.ops&opWritable != 0 {
		return
	}
	e := sys.SQE{Opcode: sys.UringOpPollAdd, FD: r.fd, OpFlags: sys.PollEvents(unix.POLLOUT), UserData: r.userData(codeWritable)}
	if r.peerDone || r.handle.Ended {
		e.Len = sys.UringPollMultishot // see poll.go
	}
	r.ops |= opWritable
	d.queueOperation(e)
}

// cancel asks the kernel to end operations of a socket, and reports whether there are any to end. Each ends with its own last
// completion.
func (d *Driver) cancel(r *record, which operation) bool {
	which &= r.ops &^ r.cancelled
	for c, op := range operations {
		if op == opReceive && code(c) != r.receiveCode() || which&op == 0 {
			continue
		}
		r.cancelled |= op
		d.cancelOnce(r, code(c))
	}
	return which != 0
}

// cancelOnce prepares one request to cancel an operation.
func (d *Driver) cancelOnce(r *record, c code) {
	d.queueOperation(sys.SQE{Opcode: sys.UringOpAsyncCancel, FD: -1, Addr: r.userData(c), UserData: r.userData(c | codeCancel)})
}

// Detach cancels all operations of the socket. The kernel is entered at once, so that as a rule the core can
// close the descriptor in the same call, and FIN or reset leave without another Poll. Memory that zero-copy sends still use is
// returned later.
func (d *Driver) Detach(s *ring.Socket) (done bool) {
	r, err := d.of(s)
	if err != nil {
		return true
	}
	r.detaching = true
	r.wantsReceive, r.notify, r.promoting = false, false, false
	d.demote(r)
	d.cancel(r, ^operation(0))
	d.dropHeld(r)
	if r.ops != 0 && d.bound {
		if err := d.enter(sys.UringEnterGetEvents); err != nil && d.failure == nil {
			d.failure = err
		}
		d.checkAllEnded(r)
	}
	if r.ops != 0 || r.busy != 0 {
		return false
	}
	d.removeRecord(r)
	return true
}

// lookBackLimit bounds how many completions checkAllEnded looks at: those of a cancellation are among the last.
const lookBackLimit = 64

// checkAllEnded looks whether the last completion of each of the socket's operations is in the completion queue. Then the kernel has none of
// them any more, and the socket can be closed before they are handled; handling them later only returns their buffers.
func (d *Driver) checkAllEnded(r *record) {
	left := r.ops
	for n, i := d.u.CQ.Ready(), uint32(1); i <= min(n, lookBackLimit); i++ {
		c := d.u.CQ.Peek(n - i)
		if what := codeOf(&c); what <= codeReadable && c.Flags&sys.UringCQEMore == 0 && d.record(&c) == r {
			left &^= operations[what]
		}
	}
	if left == 0 {
		r.ops, r.cancelled = 0, 0
	}
}

// rearmOrDetach is called after an operation of a socket has ended: it schedules the next receive, or, after the last operation of a socket
// that is being detached, reports Detached.
func (d *Driver) rearmOrDetach(k *ring.Sink, r *record) {
	switch {
	case r.socket == nil:
	case !r.detaching:
		d.scheduleReceive(r)
	case r.ops == 0 && r.busy == 0:
		s := r.socket
		d.removeRecord(r)
		if k != nil {
			k.Detached(s)
		}
	}
}
