package uring

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// send is one transmission the driver took.
//
// It can end in two steps. The result says what the kernel took, or why not; when that is all of it, or an error, the stream goes
// on with the next. A zero-copy operation then has a notification to come, when the kernel has let go of the memory, and only then
// the transmission is given back. A transmission that took several operations has as many notifications.
type send struct {
	ring.Transmission
	record  *record
	socket  *ring.Socket
	total   int
	taken   int // bytes the kernel has
	notices int // notifications to come
	errno   syscall.Errno
	busy    bool // an operation is with the kernel, or prepared
	over    bool // all taken, or failed
	copying bool // this one is to be copied
	next    int32
}

// zeroCopyFrom is the size from which a send is done without a copy. Below, pinning pages and the second completion cost more than
// copying (the kernel's msg_zerocopy.rst puts the break-even at about 10 KB, with a dearer notification than io_uring's), and each
// small packet would weigh a whole page in the receive buffer of a peer on the same host: 44 datagrams fill the default one.
const zeroCopyFrom = 8192

// Transmit takes what the socket has queued: one at a time on a stream, all on a datagram socket. Datagrams that find the kernel's
// queue full go out later in their order; one sent in the same breath that still fits may overtake them.
func (d *Driver) Transmit(s *ring.Socket) error {
	r, err := d.of(s)
	if err != nil {
		return err
	}
	if !d.bound {
		d.postpone(r)
		return nil
	}
	d.submitSends(r)
	return nil
}

// submitSends prepares what may be sent now.
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

// newSend takes the next transmission from the core; none when there is none.
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
	d.sends[i] = send{Transmission: t, record: r, socket: r.socket, total: t.Packet.Len(), next: none}
	return i
}

// submit prepares the operation for what is left of a send.
func (d *Driver) submit(r *record, i int32) {
	t := &d.sends[i]
	if t.total == 0 && r.kind == ring.KindStream {
		d.finish(nil, i, 0)
		return
	}
	if t.To.IsValid() {
		if err := d.address.Set(t.To, r.family); err != nil {
			d.finish(nil, i, unix.EAFNOSUPPORT)
			return
		}
	}
	e, slot := d.next()
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
	*e = sys.SQE{Opcode: sys.UringOpSendmsgZC, FD: r.fd, Addr: m.Addr(), Len: 1, OpFlags: unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL,
		UserData: userData(codeSend, uint32(i))}
	if d.copies.Code != "" || t.copying || r.handle.Copies || t.total-t.taken < zeroCopyFrom {
		e.Opcode = sys.UringOpSendmsg
	}
	if !whole && r.kind == ring.KindDatagram {
		// Too many pieces for one datagram. The entry cannot be given back, so it sends to nowhere.
		*e = sys.SQE{Opcode: sys.UringOpAsyncCancel, FD: -1, Addr: userData(codeIgnore, 0), UserData: userData(codeIgnore, 0)}
		d.finish(nil, i, unix.EMSGSIZE)
		return
	}
	t.busy = true
	r.busy++
}

// sent is a result or a notification.
func (d *Driver) sent(k *ring.Sink, c *sys.CQE) {
	i := int32(uint32(c.UserData))
	t := &d.sends[i]
	if c.Flags&sys.UringCQENotif != 0 {
		t.notices--
		d.giveBack(k, i)
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
		d.finish(k, i, 0)
	case r.detaching:
		d.finish(k, i, unix.ECANCELED)
	case e == 0 || e == unix.EINTR:
		d.hold(r, i)
	case e == unix.EAGAIN:
		d.hold(r, i)
		r.blocked = true
		d.pollWritable(r)
	case d.refused(t, e):
		d.hold(r, i)
	default:
		d.finish(k, i, e)
	}
	d.submitSends(r)
	d.rearmOrDetach(k, r)
}

// refused reports whether a failed send is to be tried again by copying: what the kernel cannot do without a copy it can often do
// with one. Where that is for a reason beyond the one packet, the driver gives zero-copy up and remembers why.
func (d *Driver) refused(t *send, e syscall.Errno) bool {
	if t.copying || d.copies.Code != "" {
		return false
	}
	switch e {
	case unix.EMSGSIZE:
		// More pieces than a socket buffer has places for references (MAX_SKB_FRAGS): a matter of this packet.
		t.copying = true
		return true
	case unix.EOPNOTSUPP, unix.ENOMEM:
		d.copies = ring.Reason{Code: CodeNoZeroCopy, Text: fmt.Sprintf(
			"sends are copied since the kernel refused a zero-copy one of %d bytes: %v (RLIMIT_MEMLOCK %s)", t.total, e, memlock())}
		return true
	}
	return false
}

// hold keeps a send at the end of its socket's list, to be tried again by pump.
func (d *Driver) hold(r *record, i int32) {
	d.sends[i].next = none
	if r.head == none {
		r.head = i
	} else {
		d.sends[r.tail].next = i
	}
	r.tail = i
}

// dropHeld gives up what is held back, for Detach.
func (d *Driver) dropHeld(r *record) {
	for i := r.head; i != none; {
		next := d.sends[i].next
		d.finish(nil, i, unix.ECANCELED)
		i = next
	}
	r.head = none
}

// finish notes how a send ended.
func (d *Driver) finish(k *ring.Sink, i int32, e syscall.Errno) {
	t := &d.sends[i]
	t.over, t.errno = true, e
	d.giveBack(k, i)
}

// giveBack returns a transmission that is over and with which the kernel is done. Facts may be reported inside Reap only: without
// a sink it waits for the next.
func (d *Driver) giveBack(k *ring.Sink, i int32) {
	t := &d.sends[i]
	if !t.over || t.busy || t.notices > 0 {
		return
	}
	if k == nil {
		d.finished = append(d.finished, i)
		return
	}
	s, transmission, e := t.socket, t.Transmission, t.errno
	*t = send{next: d.freeSend} // first: the core may transmit more from within
	d.freeSend = i
	k.Sent(s, transmission, e)
}

// postpone remembers a socket whose sends the submission queue could not take.
func (d *Driver) postpone(r *record) {
	if !r.postponed {
		r.postponed = true
		d.postponed = append(d.postponed, r)
	}
}

// pumpPostponed tries again.
func (d *Driver) pumpPostponed() {
	n := len(d.postponed)
	for _, r := range d.postponed[:n] {
		r.postponed = false
	}
	for j := range n {
		d.submitSends(d.postponed[j])
	}
	d.postponed = d.postponed[:copy(d.postponed, d.postponed[n:])]
}

// catchUp does in Reap what could not be done where it arose.
func (d *Driver) catchUp(k *ring.Sink) {
	d.pumpPostponed()
	for j := 0; j < len(d.finished); j++ { // giving one back may finish more
		d.giveBack(k, d.finished[j])
	}
	d.finished = d.finished[:0]
}
