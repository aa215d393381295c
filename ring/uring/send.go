package uring

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// send is one transmission that the driver has taken from the core.
//
// It can end in two steps. The result says what the kernel took, or why not; when that is all of it, or an error, the stream goes
// on with the next. A zero-copy operation then has a notification to come, when the kernel has let go of the memory, and only then
// the transmission is given back. A transmission that took several operations has as many notifications.
//
// Those of a stream are given back in the order in which they were taken. Notifications may come in another one: Linux 6.1 posts those that
// fall due together with the last one first.
type send struct {
	ring.Transmission
	record   *record
	socket   *ring.Socket
	total    int
	taken    int // bytes the kernel has
	notices  int // notifications to come
	errno    syscall.Errno
	busy     bool // an operation is with the kernel, or prepared
	over     bool // all taken, or failed
	copying  bool // this one is to be copied
	zeroCopy bool // its last operation was to send without a copy
	next     int32

	// Of a stream.
	follower int32 // the transmission taken after this one, while this one is not given back
	follows  bool  // the one before is not given back yet
}

// zeroCopyFrom is the size from which a send is done without a copy. Below, pinning pages and the second completion cost more than
// copying (the kernel's msg_zerocopy.rst puts the break-even at about 10 KB, with a dearer notification than io_uring's), and each
// small packet would weigh a whole page in the receive buffer of a peer on the same host: 44 datagrams fill the default one.
const zeroCopyFrom = 8192

// Transmit takes what the socket has queued: one at a time on a stream, all on a datagram socket. Datagrams that find the kernel's
// queue full go out later in their order. A datagram of the same submission that still fits may overtake them.
func (d *Driver) Transmit(s *ring.Socket) error {
	r, err := d.of(s)
	if err != nil {
		return err
	}
	if !d.bound { // nothing is submitted before Bind: Flush and Reap try again
		d.postpone(r)
		return nil
	}
	d.submitSends(r)
	return nil
}

// submitSends prepares operations for the transmissions of a socket that may be sent now: those that were held back, then new ones.
func (d *Driver) submitSends(r *record) {
	for !r.blocked && !r.postponed && !r.detaching && (r.kind != ring.KindStream || r.busy == 0) {
		i := r.head
		if i == none {
			if i = d.newSend(r); i == none {
				return
			}
		} else {
			r.head = d.sends[i].next
		}
		d.submit(r, i)
	}
}

// newSend takes the next transmission of the socket from the core, and returns its index; none when there is none.
func (d *Driver) newSend(r *record) int32 {
	t, ok := ring.TakeTransmission(r.socket)
	if !ok {
		return none
	}
	i := d.freeSend
	if i == none {
		d.sends = append(d.sends, send{})
		i = int32(len(d.sends) - 1)
	} else {
		d.freeSend = d.sends[i].next
	}
	d.sends[i] = send{Transmission: t, record: r, socket: r.socket, total: t.Packet.Len(), next: none, follower: none}
	if r.kind == ring.KindStream {
		if r.newest != none {
			d.sends[r.newest].follower, d.sends[i].follows = i, true
		}
		r.newest = i
	}
	return i
}

// submit prepares the operation for the rest of a send. When the submission queue is full, the send goes back to the front of its socket's list.
func (d *Driver) submit(r *record, i int32) {
	t := &d.sends[i]
	if t.total == 0 && r.kind == ring.KindStream { // an empty datagram is sent, of an empty piece of a stream there is nothing to send
		d.finishSend(nil, i, 0)
		return
	}
	if t.To.IsValid() {
		if err := d.address.Set(t.To, r.family); err != nil {
			d.finishSend(nil, i, unix.EAFNOSUPPORT)
			return
		}
	}
	e, slot := d.nextEntry()
	if e == nil {
		// Back to the front, where it was taken from.
		if t.next = r.head; r.head == none {
			r.tail = i
		}
		r.head = i
		d.postpone(r)
		return
	}
	m := d.u.Scratch.Message(slot)
	if t.To.IsValid() {
		m.SetName(&d.address)
	}
	skip, whole := t.taken, true
	for b := range t.Packet.Segments() {
		if skip >= len(b) {
			skip -= len(b)
			continue
		}
		if whole = m.Add(b[skip:]); !whole {
			break // the rest of a stream goes with the next operation
		}
		skip = 0
	}
	*e = sys.SQE{Opcode: sys.UringOpSendmsg, FD: r.fd, Addr: m.Addr(), Len: 1, OpFlags: unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL,
		UserData: userData(codeSend, uint32(i))}
	if t.zeroCopy = d.copies.Code == "" && !t.copying && !r.handle.Copies && t.total-t.taken >= zeroCopyFrom; t.zeroCopy {
		e.Opcode = sys.UringOpSendmsgZC
	}
	if !whole && r.kind == ring.KindDatagram {
		// Too many pieces for one datagram. The entry cannot be given back, so it becomes a cancellation of nothing.
		*e = sys.SQE{Opcode: sys.UringOpAsyncCancel, FD: -1, Addr: userData(codeIgnore, 0), UserData: userData(codeIgnore, 0)}
		d.finishSend(nil, i, unix.EMSGSIZE)
		return
	}
	t.busy = true
	r.busy++
}

// onSendResult handles a completion of a send: its result, or for zero-copy the notification that the kernel reads its memory no more. A send
// that was taken in part or not at all is held and sent again.
func (d *Driver) onSendResult(k *ring.Sink, c *sys.CQE) {
	i := int32(uint32(c.UserData))
	t := &d.sends[i]
	if c.Flags&sys.UringCQENotif != 0 {
		t.notices--
		d.returnSend(k, i)
		return
	}
	if c.Flags&sys.UringCQEMore != 0 {
		t.notices++
	}
	r := t.record
	t.busy = false
	r.busy--
	e := syscall.Errno(0)
	if c.Res < 0 {
		e = syscall.Errno(-c.Res)
	} else {
		t.taken += int(c.Res)
	}
	switch {
	case e == 0 && (t.taken >= t.total || r.kind == ring.KindDatagram):
		d.finishSend(k, i, 0)
	case r.detaching:
		d.finishSend(k, i, unix.ECANCELED)
	case e == 0 || e == unix.EINTR:
		d.holdSend(r, i)
	case e == unix.EAGAIN:
		d.holdSend(r, i)
		r.blocked = true
		d.pollWritable(r)
	case d.retriesByCopy(t, e):
		d.holdSend(r, i)
	default:
		d.finishSend(k, i, e)
	}
	d.submitSends(r)
	d.rearmOrDetach(k, r)
}

// retriesByCopy reports whether a send that failed is to be made again with a copy: a zero-copy one, for a reason that a copy does not meet.
// Where the reason lies beyond the one packet, all sends are copied from then on, and Why has the reason. Zero-copy sends that are under way by
// then fail for the same reason, and each of them is made again.
func (d *Driver) retriesByCopy(t *send, e syscall.Errno) bool {
	if !t.zeroCopy {
		return false
	}
	switch e {
	case unix.EMSGSIZE:
		// More pieces than a socket buffer has places for references (MAX_SKB_FRAGS): a matter of this packet.
		t.copying = true
		return true
	case unix.EOPNOTSUPP, unix.ENOMEM:
		if d.copies.Code == "" {
			d.copies = ring.Reason{Code: CodeNoZeroCopy, Text: fmt.Sprintf(
				"sends are copied since the kernel refused a zero-copy one of %d bytes: %v (RLIMIT_MEMLOCK %s)", t.total, e, memlock())}
		}
		return true
	}
	return false
}

// holdSend puts a send at the end of its socket's list; submitSends tries it again. A stream's list is empty then, because it has one send under
// way at a time. Results of datagrams come in the order of the sends, so the end keeps it.
func (d *Driver) holdSend(r *record, i int32) {
	d.sends[i].next = none
	if r.head == none {
		r.head = i
	} else {
		d.sends[r.tail].next = i
	}
	r.tail = i
}

// dropHeld fails the sends that are held back, for Detach.
func (d *Driver) dropHeld(r *record) {
	for i := r.head; i != none; {
		next := d.sends[i].next
		d.finishSend(nil, i, unix.ECANCELED)
		i = next
	}
	r.head = none
}

// finishSend notes how a send has ended, and returns it to the core if the kernel has finished with its memory.
func (d *Driver) finishSend(k *ring.Sink, i int32, e syscall.Errno) {
	t := &d.sends[i]
	t.over, t.errno = true, e
	d.returnSend(k, i)
}

// returnSend returns a transmission to the core (Sink.Sent), once it is over and the kernel reads its memory no more, and then those of its
// stream that waited for it. Without a sink, outside Reap, the next Reap does it.
func (d *Driver) returnSend(k *ring.Sink, i int32) {
	for i != none {
		t := &d.sends[i]
		if !t.over || t.busy || t.notices > 0 || t.follows {
			return
		}
		if k == nil {
			d.finished = append(d.finished, i)
			return
		}
		s, transmission, e, follower := t.socket, t.Transmission, t.errno, t.follower
		if r := t.record; r.socket == s && r.newest == i {
			r.newest = none
		}
		*t = send{next: d.freeSend} // first: the core may transmit more from within
		d.freeSend = i
		k.Sent(s, transmission, e)
		if i = follower; i != none {
			d.sends[i].follows = false // only now: what the core does from within does not return it
		}
	}
}

// postpone lists a socket whose sends found the submission queue full, or the ring not bound yet; Flush and Reap try again.
func (d *Driver) postpone(r *record) {
	if !r.postponed {
		r.postponed = true
		d.postponed = append(d.postponed, r)
	}
}

// preparePostponed prepares the sends of the sockets that postpone has listed. A socket that finds no room again is listed for the next time.
func (d *Driver) preparePostponed() {
	n := len(d.postponed)
	for j := range n {
		r := d.postponed[j]
		r.postponed = false
		d.submitSends(r)
	}
	d.postponed = d.postponed[:copy(d.postponed, d.postponed[n:])]
}

// catchUp does in Reap what was put off: sends for which the submission queue was full, and transmissions that ended outside Reap.
func (d *Driver) catchUp(k *ring.Sink) {
	d.preparePostponed()
	for j := 0; j < len(d.finished); j++ { // giving one back may finish more
		d.returnSend(k, d.finished[j])
	}
	d.finished = d.finished[:0]
}
