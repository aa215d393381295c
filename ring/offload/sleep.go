package offload

import (
	"errors"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// openDescriptors makes the descriptors that FD, Arm and Wait use; on an error none is left open.
func (d *driver) openDescriptors() error {
	err := d.sleep.open()
	if err != nil {
		return err
	}
	if d.below.memoryHost == nil {
		if err = d.openShadows(); err == nil {
			err = d.sleep.add(d.shadows.FD(), shadowKey)
		}
	}
	if err == nil {
		err = d.sleep.armLinks(d.links) // now, so that a list that is too long is refused here
	}
	if err != nil {
		d.shadows.Close()
		_ = d.sleep.close()
	}
	return err
}

// FD is the list's descriptor. Any goroutine.
func (d *driver) FD() int { return d.sleep.list.FD() }

// Arm makes FD readable on frames, on packets of the kernel's side, on Wake, and at the earlier of the deadline and the stack's own.
func (d *driver) Arm(deadline, now clock.Time) (pending bool, err error) {
	if pending, err = d.flushBeforeSleep(); pending || err != nil {
		return pending, err
	}
	d.turn.read()
	next := d.nextWake()
	if deadline != clock.Never { // now is the core's clock, which may be another: what counts is how long it is
		next = min(next, d.turn.now.Add(deadline.Sub(now)))
	}
	if d.config.Sleep != nil {
		d.config.Sleep(next)
		return d.prepareSleep()
	}
	if next == clock.Never {
		d.sleep.stopTimer()
	} else if err := d.sleep.startTimer(next.Sub(d.turn.now)); err != nil {
		return false, err
	}
	return d.prepareSleep()
}

// ReturnSpare returns the buffers of reading the shadows.
func (d *driver) ReturnSpare() {
	d.shadows.ReturnSpare()
	if d.tcp.viaKernel.Driver != nil {
		d.tcp.viaKernel.ReturnSpare()
	}
}

// Disarm ends what Arm began. Links signal no more; the next turn reads the clock and the shadows.
func (d *driver) Disarm() { d.cancelSleep() }

// Wait sleeps in epoll itself, at most until the stack's next deadline or the limit. The deadline is epoll's time limit, so the timer descriptor
// that Arm may have started is stopped first.
func (d *driver) Wait(limit time.Duration) error {
	pending, err := d.flushBeforeSleep()
	if pending || err != nil {
		return err
	}
	d.turn.read()
	if next := d.nextWake(); next != clock.Never {
		if left := max(next.Sub(d.turn.now), 0); limit < 0 || left < limit {
			limit = left
		}
	}
	d.sleep.stopTimer()
	defer d.cancelSleep()
	if pending, err = d.prepareSleep(); pending || err != nil {
		return err
	}
	return d.sleep.wait(limit)
}

// flushBeforeSleep sends what is queued and reports whether there is something to do before a sleep.
func (d *driver) flushBeforeSleep() (pending bool, err error) {
	d.ip.Refresh()
	if d.hasOutput() {
		if err := d.flush(); err != nil {
			return false, err
		}
	}
	if d.handoff != nil { // the buffers are not to stay away from the pool during a sleep
		d.handoff.Reclaim()
	}
	if d.paths.notify || len(d.flights.ended) > 0 || d.udp.Looping() || len(d.resumed) > 0 || len(d.udp.Deliveries()) > 0 ||
		len(d.udp.Errors()) > 0 || len(d.ip.Failures()) > 0 || len(d.sending.waiters) > 0 && d.hasFreeBuffer() || d.tcp.streams != nil && d.tcp.streams.HasFacts() {
		return true, nil
	}
	for i := range d.links {
		if l := d.links[i].Link; l.Unsent() > 0 && d.collectSent(i) {
			return true, nil
		}
	}
	return false, nil
}

// collectSent collects the frames that link i has sent, and reports whether the ends of some are to be reported.
func (d *driver) collectSent(i int) bool {
	n := d.links[i].Link.Complete(d.burst.dones[:])
	for j := range d.burst.dones[:n] {
		if d.streamFrame(d.burst.dones[j].Token) {
			continue
		}
		d.flights.endLater(d.burst.dones[j].Token, d.burst.dones[j].Packet, d.burst.dones[j].Errno)
	}
	return len(d.flights.ended) > 0 || d.tcp.streams != nil && d.tcp.streams.HasFacts()
}

// pendingSleepMax is the longest sleep while a card has frames to send, or had no room for them: no event reports that it has sent them.
const pendingSleepMax = time.Millisecond

// downSleepMax is the longest sleep while frames wait for an interface that is down, where no host reports when it is up.
const downSleepMax = clock.Time(time.Second)

// nextWake is when the ring must wake by itself: for the stack's timers, jobs, frames that a link holds, and sends whose ends are to be
// reported.
func (d *driver) nextWake() clock.Time {
	next := min(d.ip.Deadline(), d.nics.Due())
	if d.tcp.streams != nil {
		next = min(next, d.tcp.streams.Deadline(), d.tcp.moves.next(d.turn.now))
	}
	if d.sending.awaitsBuffers {
		next = min(next, d.turn.now.Add(pendingSleepMax))
	}
	for i := range d.links {
		switch {
		case !d.links[i].Link.Pending() && len(d.ip.Output(i)) == 0:
		case d.links[i].flushFailed: // the host reports when the interface is up; without a host it is tried now and then
			next = min(next, d.turn.now+downSleepMax)
		default:
			return min(next, d.turn.now.Add(pendingSleepMax))
		}
	}
	// Somebody waits for the end of a send: the link that has the frame is asked now and then.
	if !d.flights.isEmpty() || d.tcp.streams != nil && d.tcp.streams.AwaitsLinks() {
		for i := range d.links {
			if d.links[i].Link.Unsent() > 0 {
				return min(next, d.turn.now.Add(pendingSleepMax))
			}
		}
	}
	return next
}

// prepareSleep announces the sleep, makes the links signal the next frame, and reports whether something is there already. The announcement
// (sleeper.announced) comes before the checks: a goroutine that adds work later sees it and wakes the ring.
func (d *driver) prepareSleep() (pending bool, err error) {
	if err = errors.Join(d.sleep.armLinks(d.links), d.shadows.SyncPending()); err != nil {
		return false, err
	}
	if d.tcp.viaKernel.Driver != nil {
		if pending, err = d.tcp.viaKernel.Arm(clock.Never, d.turn.now); err != nil {
			return false, err
		}
	}
	if d.below.mirror != nil {
		d.sleep.awaitNeighbours(d.ip.AwaitedNeighbours(nil))
	}
	d.sleep.announced.Store(true)
	for i := range d.links {
		if d.links[i].Link.Arm() {
			pending = true
		}
	}
	if d.tcp.streams != nil && d.tcp.streams.HasRequests() { // a goroutine that refused a connection may have looked before the announcement
		pending = true
	}
	pending = pending || d.nics.HasEvents() || d.below.mirror != nil && d.nics.HasUncheckedTables(d.below.mirror.Snapshot().Generation())
	if d.below.memoryHost == nil { // else no other ring is on the exchange, and no other socket on the host
		pending = pending || d.handoff.HasIncoming() || d.others.hasNews()
	}
	if d.below.mirror != nil && d.hasUnseenTables() {
		pending = true // it came after the tables were looked at, and nobody was told to wake us
	}
	return pending, nil
}

// hasUnseenTables reports whether the mirror has newer tables than the stack has seen, or a neighbour that datagrams wait for. The mirror
// publishes a snapshot before it looks which rings sleep, and this ring has announced its sleep before it looks here: one of the two notices
// the other.
func (d *driver) hasUnseenTables() bool {
	now, seen := d.below.mirror.Snapshot(), d.ip.Snapshot()
	if now.Generation() != seen.Generation() {
		return true
	}
	changed, ok := now.ChangedNeighbours(seen.NeighbourChanges())
	return d.sleep.awaitsNeighbours() && (!ok || d.sleep.awaits(changed))
}

// cancelSleep ends what prepareSleep began: the next turn reads the clock and the shadows.
func (d *driver) cancelSleep() {
	d.sleep.cancel()
	for i := range d.links {
		d.links[i].Link.Disarm()
	}
	d.turn.readSoon()
	d.turn.idle = 0 // turns before the sleep say nothing of those that follow
	d.shadows.LookSoon()
}

// Wake ends a Wait or makes FD readable. Any goroutine.
func (d *driver) Wake() { d.sleep.wake() }

// WakeOwner wakes the driver if it sleeps: the transport of TCP has something for it. Any goroutine.
func (d *driver) WakeOwner() { d.sleep.wakeOwner() }
