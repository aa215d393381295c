package epoll

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// fetchEvery is how often epoll is asked while hot sockets are read directly: on every 8th turn (ring.PollsForAll), which bounds what the other
// sockets wait longer. When it reports something for them it is asked on the next turn again.
const fetchEvery = ring.PollsForAll

// trouble is what epoll reports whether it was asked for or not.
const trouble = unix.EPOLLERR | unix.EPOLLHUP

// Reap reports what happened. Events that it took from epoll and could not deliver, because the sink was full, come first next
// time; unread data stays in the kernel's buffers. Its work is bounded by the sink's room, and by one batch of events where packets take no
// room: each event costs at most 16 datagrams, 4 pieces of stream, or 64 connections.
func (d *driver) Reap(k *ring.Sink) error {
	if len(d.sent) > 0 {
		d.reportSent(k)
	}
	asked := true
	switch {
	case d.next < d.count:
	case d.numHot > 0 && d.skip > 0:
		d.skip--
		asked = false
	case k.Room() > 0:
		if err := d.fetch(k); err != nil {
			return err
		}
	}
	d.handle(k)
	d.readHot(k, asked)
	if len(d.sent) > 0 {
		d.reportSent(k)
	}
	if d.failure != nil {
		err := d.failure
		d.failure = nil
		return err
	}
	return nil
}

// fetch asks epoll for the next batch, not more than the sink has room for: the kernel keeps further events, and keeps them up to date.
func (d *driver) fetch(k *ring.Sink) error {
	n, e := d.epoll.Poll(d.batch[:min(k.Room(), len(d.batch))])
	if e != 0 && e != unix.EINTR {
		return fmt.Errorf("epoll: epoll_wait: %w", e)
	}
	d.noteBatch(n)
	d.skip = fetchEvery - 1
	switch {
	case n > maxHot:
		d.pauseDirectReads()
	case d.directPause > 0:
		d.directPause--
	}
	return nil
}

// handle handles the events of the batch, as long as the sink has room.
func (d *driver) handle(k *ring.Sink) {
	for d.next < d.count && k.Room() > 0 {
		ev := &d.batch[d.next]
		d.next++
		slot, gen := ev.Key()
		switch slot {
		case eventfdSlot:
			d.eventfd.Drain()
			continue
		case timerSlot:
			d.stopTimer()
			continue
		}
		if r := d.table.find(slot, gen); r != nil {
			d.handleEvents(k, r, ev.Events)
		}
	}
}

// handleEvents handles the events of one socket: it sends, reads and reports errors as they allow. Callbacks of the application run inside:
// after each report the socket may be closed (r.s is another then) or stopped.
func (d *driver) handleEvents(k *ring.Sink, r *record, ev uint32) {
	if ev&^trouble&^r.wantedEvents() != 0 || r.failed {
		d.resync(r) // the entry had asked for more than is wanted, see deferSync
	}
	if r.failed {
		return
	}
	s := r.s
	if ev&(unix.EPOLLOUT|trouble) != 0 && (r.sending || r.notify) {
		d.onWritable(k, r, ev)
		if r.s != s || r.failed {
			return
		}
	}
	if !r.hot {
		d.skip = 0
	}
	switch {
	case ev&(r.reads|trouble) == 0:
	case r.wantsRead || r.broken:
		d.read(k, r, ev)
	case ev&trouble != 0:
		d.onTrouble(k, r, ev)
	}
}

// onWritable continues a send that waited for room, and reports Writable if NotifyWritable asked for it.
func (d *driver) onWritable(k *ring.Sink, r *record, ev uint32) {
	if r.sending {
		d.sendQueued(r)
		if !r.sending {
			d.deferSync(r)
		}
	}
	if !r.notify || ev&trouble == 0 && r.notifyAfter == d.batchNumber {
		return // the event is older than the request: the room that it reports may have been filled by the send that found none
	}
	r.notify = false
	d.deferSync(r)
	kernel.Writable(k, r.s) // of a connection that failed too: SO_ERROR tells
}

// onTrouble handles an error or hang-up of a socket that is not being read.
func (d *driver) onTrouble(k *ring.Sink, r *record, ev uint32) {
	switch {
	case r.kind == ring.KindListener: // accept finds the error, when SetReceiving has it go on
	case r.kind == ring.KindDatagram:
		if e := socketError(r); e != 0 {
			k.Failed(r.s, e)
		}
	case r.ended:
		// After the FIN only a reset or time-out matters. A hang-up without an error means that both sides have sent FIN.
		e := r.sendError
		if e == 0 {
			e = socketError(r)
		}
		if e != 0 {
			d.failStream(k, r, e)
		}
	case r.s.Unix() && ev&unix.EPOLLERR == 0:
		// A unix-domain peer that closed is a hang-up at once. It is an ordinary end: it waits for SetReceiving, as
		// does the data sent before it.
	case !r.held:
		// The connection is dead, which ends a suspension. What the peer sent before is still there and comes first.
		r.broken = true
		d.resync(r)
		d.read(k, r, ev)
	}
}
