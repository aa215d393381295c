package offload

import (
	"net/netip"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Reap is one turn of the driver: it sends what is queued, reports sends that are done, then delivers what the shadows have, because that is
// older, and then the links' frames. Its work is bounded by the sink's room and one burst of each link.
func (d *driver) Reap(k *ring.Sink) error {
	d.turn.number++
	d.turn.isRunning = true
	if d.tcp.streams != nil {
		d.tcp.streams.ForgetAnswers()
	}
	d.ip.Refresh()
	if len(d.udp.Deliveries()) > 0 { // Pull took them between two turns: they are older than all else
		d.deliver(k)
	}
	if d.turn.needsGap() {
		d.turn.isLong = d.turn.gap.Long()
	}
	if d.turn.isLong || d.turn.hasClockTurn() {
		d.advance()
	}
	if len(d.flights.ended) > 0 { // found before a sleep: older than what complete finds
		d.reportResults(k)
	}
	var err error
	if d.hasOutput() && !d.keepsCoalescing() {
		err = d.flush()
	}
	if e := d.complete(k); err == nil {
		err = e
	}
	if len(d.flights.ended) > 0 {
		d.reportResults(k)
	}
	if len(d.sending.waiters) > 0 { // after complete, which frees buffers
		d.reportWritable(k)
	}
	if len(d.resumed) > 0 { // before the shadows and the links: a backlog is older
		d.deliverBacklogs(k)
	}
	if d.tcp.streams != nil && d.tcp.streams.HasFacts() { // of timers, of Pull, and those for which the last turn had no room
		d.tcp.streams.Report(k)
	}
	read := d.shadows.IsDue(d.turn.number, d.turn.idle, d.turn.isLong, d.turn.now) && !d.shadows.tookAll
	if read {
		if e := d.readShadows(k); err == nil {
			err = e
		}
	}
	if d.udp.Looping() {
		d.udp.Loop()
		d.deliver(k)
	}
	if d.below.memoryHost == nil { // else no other ring is on the exchange
		d.pollHandoff(k)
	}
	// Shadows that left no room for frames are not read in the next turn, so that they cannot keep the links from being read. The links wait
	// while the kernel may have older datagrams of flows that were just claimed.
	if d.shadows.tookAll = read && k.Room() == 0; !d.shadows.LinksWait() && !d.shadows.tookAll {
		d.receive(k)
	}
	if d.tcp.streams != nil { // after all that takes buffers in a turn
		d.tcp.streams.MakeRoom()
	}
	d.reportChanges(k)
	if !d.tcp.moves.isIdle() {
		d.moveConnections(k)
	}
	// Answers of the stack, and of callbacks. Only frames leave: what sockets of UDP have queued beside them leaves with the next turn. TCP
	// makes frames where a callback has answered; else its acknowledgements wait for what the program answers after the Poll.
	if d.tcp.streams != nil && d.tcp.streams.HasAnswer() && !d.coalescing.on {
		d.tcp.streams.Output()
	}
	if d.ip.Queued() > 0 && !d.coalescing.on {
		d.transport.BeginFlush() // frames of sockets may be among them
		if e := d.flushLinks(); err == nil {
			err = e
		}
	}
	d.turn.isRunning = false
	return err
}

// receive takes one burst of each link; the one that comes first changes from turn to turn.
func (d *driver) receive(k *ring.Sink) {
	d.turn.idle++
	for i := range d.links {
		if len(d.links) > 1 {
			i = int((uint64(i) + d.turn.number) % uint64(len(d.links)))
		}
		room := min(k.Room(), ip.MaxBurst)
		if room == 0 {
			return // the links that were not reached are the first ones of a later turn
		}
		n := d.links[i].Link.Receive(d.burst.frames[:room])
		if n == 0 {
			continue
		}
		d.turn.idle = 0
		d.coalescing.received += n
		if d.sleep.linksArmed {
			d.sleep.countFrames(n, d.links)
		}
		recording := d.record(i, n, room)
		fast := d.receiveFast(k, i, d.burst.frames[:n])
		if fast < n {
			d.ip.Input(d.turn.now, i, d.burst.frames[fast:n])
		}
		if recording {
			d.recordDrops(i, fast, n)
		}
		if fast < n {
			d.deliver(k)
			if d.tcp.streams != nil && d.tcp.streams.HasFacts() {
				d.tcp.streams.Report(k)
			}
		}
	}
}

// deliver passes UDP's deliveries to the sink, and those for other rings to their handoff queues. Callbacks of the application run inside, so a
// socket may be closed by a delivery before its own. A packet leaves the list before it is passed on: when a callback ends its goroutine,
// dropUndelivered finds those that were not.
func (d *driver) deliver(k *ring.Sink) {
	var polled int64
	handedOff := false // something is for another ring
	deliveries := d.udp.Deliveries()
	for i := range deliveries {
		x := &deliveries[i]
		if x.To != 0 {
			d.handoff.Send(x)
			handedOff = true
			x.Packet = buffers.Packet{}
			continue
		}
		e := d.table.find(uint32(x.Owner), uint32(x.Owner>>32))
		if e == nil {
			if !x.Packet.IsZero() {
				k.DropClosed(x.Packet) // a callback closed the socket in this very burst
				x.Packet = buffers.Packet{}
			}
			continue
		}
		if x.Packet.IsZero() { // no buffer was free for a copy: the datagram is in the socket's backlog
			k.Starved(e.s)
			continue
		}
		m := &d.burst.meta
		m.Source = netip.AddrPortFrom(netip.AddrFrom4(x.Flow.Source), x.Flow.SourcePort)
		m.Destination = netip.AddrFrom4(x.Flow.Target)
		m.IfIndex = x.Flow.Interface
		m.Time, m.RawHardware = ring.Stamp{}, 0
		if e.stamped {
			if x.Clock == link.ClockHardware {
				m.RawHardware = x.Nanos // the core converts it; where it cannot, the stamp of this poll stays
			}
			if m.Time = d.turn.stampOf(x); m.Time.IsZero() {
				if polled == 0 {
					polled = d.config.Wall()
				}
				m.Time = ring.Stamp{Nanos: polled, Source: ring.StampPoll}
			}
		}
		p := x.Packet
		x.Packet = buffers.Packet{}
		k.Datagram(e.s, p, m)
	}
	d.udp.ClearDeliveries()
	if handedOff { // once for the burst: it may wake other rings
		d.handoff.Publish()
	}
}

// dropUndelivered releases the deliveries that a callback which ended its goroutine has left, when the ring is closed.
func (d *driver) dropUndelivered() {
	deliveries := d.udp.Deliveries()
	for i := range deliveries {
		if x := &deliveries[i]; !x.Packet.IsZero() {
			_ = x.Packet.Release() // a reference of its own
		}
	}
	d.udp.ClearDeliveries()
}

// advance reads the clock and does what is due by time: the stack's timers, what the watcher has found, and twice a second the check of the
// links.
func (d *driver) advance() {
	d.turn.read()
	d.turn.startGap()
	if at := d.ip.Deadline(); at != clock.Never && d.turn.now >= at {
		d.ip.Advance(d.turn.now)
	}
	if d.tcp.streams != nil {
		d.tcp.streams.Expire(d.turn.now)
	}
	if d.others.hasNews() {
		d.reviewOtherSockets()
	}
	if d.turn.needsCheck() || d.nics.NeedsCheck(d.turn.now, d.ip.Generation()) {
		d.turn.checkedAt = d.turn.now
		d.turn.readTAI()
		d.check()
		d.endEmptyCoalescing() // it may have been lost with its link
	}
}

// check notices links that were lost or came back. While a link is lost its sockets receive through their shadows: the steering program is
// gone with it, so the kernel gets every packet.
func (d *driver) check() {
	d.ties.collect()
	d.nics.Check(d.turn.now)
}

// reportChanges reports what the stack found out about sockets and sends.
func (d *driver) reportChanges(k *ring.Sink) {
	if list := d.udp.Errors(); len(list) > 0 {
		for _, v := range list {
			if e := d.table.find(uint32(v.Owner), uint32(v.Owner>>32)); e != nil {
				k.Failed(e.s, v.Errno)
			}
		}
		d.udp.ClearErrors()
	}
	if list := d.ip.Failures(); len(list) > 0 {
		for _, v := range list {
			if !d.streamFrame(v.Token) {
				if r, ok := d.flights.endFrame(v.Token, v.Packet, v.Errno, false); ok {
					d.reportSent(k, &r)
				}
			}
		}
		d.ip.ClearFailures()
	}
	if d.paths.notify {
		d.paths.notify = false
		d.table.each(func(e *entry) {
			if e.inStack && (e.notifyPath || d.pathChanged(e)) {
				k.PathChanged(e.s)
			}
			e.notifyPath = false
		})
		d.notifyStreamPaths(k)
		d.paths.changed = d.paths.changed[:0]
	}
}

// reportSent reports a send, and takes the headers off its packet again if it was a frame.
func (d *driver) reportSent(k *ring.Sink, r *result) {
	if n := r.t.Packet.Len() - r.n; n > 0 {
		_ = r.t.Packet.Pull(n) // alone since it was taken for sending
	}
	k.Sent(r.s, r.t, r.e)
}

// reportResults reports the sends in flights.ended: those that failed before they were frames, and those that were found done outside complete.
// The list may grow meanwhile: a report can close a socket, whose other sends then end too.
func (d *driver) reportResults(k *ring.Sink) {
	for i := 0; i < len(d.flights.ended); i++ {
		r := d.flights.ended[i]
		d.flights.ended[i] = result{}
		d.reportSent(k, &r)
	}
	d.flights.ended = d.flights.ended[:0]
}

// reportWritable reports Writable to those that waited for a buffer, when there is one.
func (d *driver) reportWritable(k *ring.Sink) {
	if !d.hasFreeBuffer() {
		return
	}
	for _, e := range d.sending.takeWaiters() {
		e.waiting = false
		if e.s != nil {
			k.Writable(e.s)
		}
	}
}

// hasFreeBuffer reports whether a buffer to send with is free.
func (d *driver) hasFreeBuffer() bool {
	return d.pool.Free(buffers.Small) > 0 || d.pool.Free(buffers.Large) > 0 // not those that lie ready for the card
}

// deliverBacklogs delivers the datagrams that were kept for sockets while they did not read, to those that read again.
func (d *driver) deliverBacklogs(k *ring.Sink) {
	kept := d.resumed[:0]
	for _, e := range d.resumed {
		if d.deliverBacklog(k, e) {
			kept = append(kept, e)
		} else {
			e.resumed = false
		}
	}
	clear(d.resumed[len(kept):])
	d.resumed = kept
}

// deliverBacklog delivers the datagrams that were kept for one socket. more: the sink has no room for the rest, which the next turn delivers.
func (d *driver) deliverBacklog(k *ring.Sink, e *entry) (more bool) {
	for e.s != nil && e.watch.On && e.inStack {
		if d.udp.StartDelivery(e.id) { // the backlog is empty
			return false
		}
		if k.Room() == 0 {
			return true
		}
		if !d.udp.NextBacklogged(e.id) {
			k.Starved(e.s) // the core starts it again when there is a buffer
			return false
		}
		d.deliver(k)
	}
	return false
}
