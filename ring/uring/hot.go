package uring

import (
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/internal/direct"
)

// Sockets can be read in two ways. Directly: one recvmsg or recv on each Reap, 180 ns when there is nothing, which is the fastest
// way to a message that is waited for by spinning (UDP round trip 3.47 µs). By multishot: costs nothing while nothing comes, and
// 4.33 µs when it does.
//
// The policy. A datagram socket that begins to receive is read directly while fewer than maxHot are. A connection begins with the
// multishot, and is read directly only while the ring has at most maxHot connections: with more, one enter serves them all. After
// demoteAfter turns without a datagram it changes to the multishot, and at once when the pool has no buffer but the kernel holds some. One
// that is received by multishot changes back after promoteAfter turns with datagrams, none of them demoteAfter turns behind the one before,
// if there is a place. The order holds across a change: towards the multishot because the direct reading has stopped when it is armed, back
// because the direct reading begins only after the multishot's last completion.
//
// When the ring sleeps, each directly read socket gets a one-shot poll, unless it still has one.
const (
	maxHot       = 4
	hotBurst     = 16     // datagrams of one socket in one turn
	streamBurst  = 4      // buffers of one connection in one turn
	polledBurst  = 16     // small buffers of one connection after its poll
	demoteAfter  = 20_000 // turns; about 4 ms of spinning when read directly, 0.2 ms when not
	promoteAfter = 64
)

// promote makes a socket one that is read directly on each turn, if there is a place.
func (d *Driver) promote(r *record) {
	r.promoting = false
	if d.numHot == maxHot || r.detaching || r.kind == ring.KindStream && d.streams > maxHot {
		return
	}
	r.direct, r.idle, r.hits = true, 0, 0
	d.hot[d.numHot] = r
	d.numHot++
}

// demote ends the direct reading of a socket.
func (d *Driver) demote(r *record) {
	if !r.direct {
		return
	}
	r.direct, r.last, r.hits = false, d.turn, 0
	for i, h := range d.hot[:d.numHot] {
		if h == r {
			d.numHot--
			d.hot[i], d.hot[d.numHot] = d.hot[d.numHot], nil
			return
		}
	}
}

// noteActivity counts the turns in which a socket that is received by multishot had data. A busy one is to be read directly: its multishot is
// cancelled, and its last completion promotes it.
func (d *Driver) noteActivity(r *record) {
	gap := d.turn - r.last
	r.last = d.turn
	switch {
	case gap == 0: // this turn is counted
	case gap >= demoteAfter:
		r.hits = 0
	default:
		r.hits++
		if r.hits >= promoteAfter && d.numHot < maxHot && (r.kind == ring.KindDatagram || d.streams <= maxHot) && r.ops&^r.cancelled&opReceive != 0 && !r.detaching {
			r.hits, r.promoting = 0, true
			d.cancel(r, opReceive)
		}
	}
}

// readHot reads the sockets that are read directly. Reading may close or stop any of them: the list is a copy.
func (d *Driver) readHot(k *ring.Sink) {
	list, n := d.hot, d.numHot
	for j := range n {
		if k.Room() == 0 {
			return
		}
		// Each turn begins with another one, for the sake of short slices. The lowest bit does not count: Reap alternates by it between sockets
		// and queue, so half of the sockets would never be first.
		if r := list[(j+int(d.turn>>1))%n]; r.direct && r.wantsReceive {
			d.readDirect(k, r)
		}
	}
}

// addConnection counts a connection, unless it is a unix-domain one. With one more than maxHot none is read directly any more.
func (d *Driver) addConnection(r *record) {
	if r.kind != ring.KindStream || r.unix {
		return
	}
	if d.streams++; d.streams != maxHot+1 {
		return
	}
	list, n := d.hot, d.numHot
	for _, h := range list[:n] {
		if h.kind == ring.KindStream {
			d.demote(h)
			d.scheduleReceive(h)
		}
	}
}

// removeRecord empties the record of a socket that is detached.
func (d *Driver) removeRecord(r *record) {
	if r.kind == ring.KindStream && !r.unix {
		d.streams--
	}
	r.socket, r.handle = nil, nil
}

// readPolled reads a connection that its poll has reported as readable. The poll stays armed (multishot) and reports what comes later, so the
// connection is read until it is empty; where reading ends before that, repollReadable asks the poll to look again. Two kinds of connections
// are received in this way.
//
// Those into large buffers: a buffer is taken for what is there, where the multishot wants a set of them lying ready, which is too
// small as soon as a hundred connections bring much at a time (16 KiB at a time each: 1.3 times the rate of the multishot into
// small ones).
//
// Unix-domain ones, of which the multishot loses the end of the stream: having read all data it believes the kernel's word that the
// queue is empty (af_unix gives it since Linux 6.17, and unlike TCP does not count the FIN), and waits for a wake-up that was there
// before it read (seen on 6.18).
//
// A poll that is armed anew for each read (one-shot) is not fair. Where data is there already, arming completes it at once, while data that
// comes later is queued as deferred work, of which one io_uring_enter does some 20 pieces (since Linux 6.14). With a fast client, connections
// that were just served were served again before those that waited (1,000 connections, 16 KiB at a time: a tenth of the answers came after 40
// others, one in a hundred after 1,950). What a multishot poll reports is always queued, in the order in which it comes.
func (d *Driver) readPolled(k *ring.Sink, r *record) {
	burst := polledBurst
	if r.handle.Class == buffers.Large {
		burst = streamBurst
	}
	r.unread = !d.readStream(k, r, burst)
}

// pollReadable prepares a poll for data on the socket: a one-shot poll, or with UringPollMultishot one that stays.
func (d *Driver) pollReadable(r *record, flags uint32) {
	r.ops |= opReadable
	d.queueOperation(sys.SQE{Opcode: sys.UringOpPollAdd, FD: r.fd, OpFlags: sys.PollEvents(unix.POLLIN), Len: flags,
		UserData: r.userData(codeReadable)})
}

// repollReadable makes the poll that is armed look whether data is there: one that stays reports only what comes. The update fails where the
// poll is about to complete; then that completion is enough.
func (d *Driver) repollReadable(r *record) {
	d.queueOperation(sys.SQE{Opcode: sys.UringOpPollRemove, FD: -1, Addr: r.userData(codeReadable), OpFlags: sys.PollEvents(unix.POLLIN),
		Len: sys.UringPollUpdate | sys.UringPollMultishot, UserData: userData(codeIgnore, 0)})
}

// readStream reads a connection directly, at most burst buffers, and reports its end. One that was found empty for long is left to the
// multishot. drained: nothing was left, so that what comes later makes a poll that stays report it; a buffer that was not filled does not show
// that, because a read also ends before urgent data and before the end of the stream.
func (d *Driver) readStream(k *ring.Sink, r *record, burst int) (drained bool) {
	for range burst {
		if r.direct && d.leaveToMultishot(r) {
			return false
		}
		o, e := d.direct.Read(k, r.socket)
		switch o {
		case direct.Empty:
			if r.idle++; r.direct && r.idle >= demoteAfter {
				d.demote(r)
				d.scheduleReceive(r)
			}
			return true
		case direct.Starved:
			r.wantsReceive, r.starved = false, true
			return false
		case direct.Ended:
			d.demote(r)
			if e != 0 {
				d.fail(k, r, e)
				return true
			}
			r.wantsReceive = false
			k.EndOfStream(r.socket)
			d.watchReset(r)
			return true
		}
		r.idle = 0
		if k.Room() == 0 || !r.direct && !r.readsByPoll || !r.wantsReceive {
			return false
		}
		// To find a polled connection empty takes a buffer, for want of which one that has nothing to read must not stop.
		if o == direct.Last && (r.direct || !d.direct.Ready(r.handle.Class)) {
			return false
		}
	}
	return false
}

// readDirect reads one hot socket: a few buffers of a connection, or a burst of datagrams. One that was found empty for long is left to the
// multishot.
func (d *Driver) readDirect(k *ring.Sink, r *record) {
	if r.kind == ring.KindStream {
		d.readStream(k, r, streamBurst)
		return
	}
	for range hotBurst {
		if d.leaveToMultishot(r) {
			return
		}
		switch d.direct.Datagram(k, r.socket) {
		case direct.Empty:
			if r.idle++; r.idle >= demoteAfter {
				d.demote(r)
				d.scheduleReceive(r)
			}
			return
		case direct.Starved:
			r.wantsReceive = false
			return
		}
		r.idle = 0
		if k.Room() == 0 || !r.direct || !r.wantsReceive {
			return
		}
	}
}

// leaveToMultishot changes a directly read socket to the multishot when the pool has no buffer for it and the kernel holds some of its class:
// those reach it that way. It reports whether it did.
func (d *Driver) leaveToMultishot(r *record) bool {
	if d.direct.Ready(r.handle.Class) {
		return false
	}
	if g := d.groups[r.handle.Class]; g == nil || g.out() == 0 {
		return false
	}
	d.demote(r)
	d.scheduleReceive(r)
	return true
}

// pollHot prepares a poll for each directly read socket, before the ring sleeps.
func (d *Driver) pollHot() {
	for _, r := range d.hot[:d.numHot] {
		if r.wantsReceive && r.ops&opReadable == 0 {
			d.pollReadable(r, 0)
		}
	}
}
