package ring

import (
	"syscall"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// transmitStamps finds the datagram that a transmit stamp is for (Config.TxTimestamps). The transport reports each stamp with the number of its
// datagram, which it counts per socket (SendReporter). The core makes each of those sends itself, in order, and counts too: see shaper.
type transmitStamps struct {
	reports SendReporter
	next    uint64              // number of the datagram sent next
	unsure  bool                // the transport's numbers may be ahead of next, by failed sends: no later stamp has a known datagram
	waiting int                 // stamps to come
	tokens  [stampWindow]uint64 // by number, modulo stampWindow: the token that the datagram's completion has
	renewed clock.Time          // when the last sleep found that something had been sent
	seen    uint64              // next, as it was then
	pause   time.Duration       // of the next sleep
}

const (
	// stampWindow is how many datagrams may be sent before the first one's stamp comes; of those beyond it the token is not known any more.
	stampWindow = 1024
	// stampBatch bounds what one Poll takes off one socket's error queue, stampQueue what may wait for the application. The rest stays with
	// the kernel, which counts it to the socket's receive buffer.
	stampBatch = 64
	stampQueue = 4096
	// stampRelief is how many datagrams are sent between two reads of the error queue outside Poll (collectStampsBeforeSend).
	stampRelief = 32
	// Not every driver of a network card stamps, and not every path through the kernel tells a sleeping ring that a stamp came: while one
	// is to come the ring sleeps shortly, longer from time to time, and gives up after stampPatience.
	stampPause    = 500 * time.Microsecond
	stampPauseMax = 64 * time.Millisecond
	stampPatience = time.Second
)

// sent notes that a datagram of SendPacket was sent, with its token, or failed with e. A failed send makes all later numbers unsure where
// CountsFailures says so: the transport does not report which failures it counted (Linux before 6.9 counts those that fail after the number was
// drawn). s is nil on a socket without transmit stamps.
func (s *transmitStamps) sent(e syscall.Errno, token uint64) {
	switch {
	case s == nil:
	case e == 0:
		s.tokens[s.next%stampWindow] = token
		s.next++
		s.waiting++
	case s.reports.CountsFailures():
		s.unsure = true
	}
}

// sentWithoutToken is sent for a datagram of Send: its number is its token.
func (s *transmitStamps) sentWithoutToken(e syscall.Errno) {
	if s != nil {
		s.sent(e, s.next)
	}
}

// mayStamp is nil unless the socket's Config asks for transmit stamps that it cannot have on r; then it is the reason.
func (r *Ring) mayStamp(s *Socket) error {
	switch {
	case !s.config().TxTimestamps:
		return nil
	case s.handle.Kind != KindDatagram:
		return &OpError{Op: "transmit time", Err: &FeatureError{
			Feature: "transmit stamps are of datagrams: a stream is cut into segments as the kernel likes", Code: "stamp.no_stream"}}
	case !r.drv.Caps().Has(CapTxTimestamps):
		return r.refuse("transmit time", CapTxTimestamps)
	}
	if _, ok := s.transport().(SendReporter); !ok {
		return r.refuse("transmit time", CapTxTimestamps)
	}
	return nil
}

// openStamps begins the numbering, when the socket has its ring.
func (s *Socket) openStamps() {
	if !s.config().TxTimestamps {
		return
	}
	if s.active().shaper == nil {
		s.openShaper()
	}
	sh, r := s.active().shaper, s.ring()
	sh.timestamps = &transmitStamps{reports: s.transport().(SendReporter), pause: stampPause} // mayStamp has checked the type
	r.timestamping = append(r.timestamping, sh)
}

// closeShaper ends pacing and numbering with the socket.
func (s *Socket) closeShaper() {
	sh := s.active().shaper
	if sh == nil {
		return
	}
	r := s.ring()
	r.paced.remove(sh)
	for i, x := range r.timestamping {
		if x == sh {
			last := len(r.timestamping) - 1
			r.timestamping[i], r.timestamping[last] = r.timestamping[last], nil
			r.timestamping = r.timestamping[:last]
			break
		}
	}
}

// collectStamps reads the sockets' queues of reports. Each Poll reads those of the sockets that wait for stamps. The first Poll after a sleep,
// and every 16th (timerMask), reads all of them: a report that was given up and comes late would keep the descriptor readable.
func (r *Ring) collectStamps() {
	all := r.turn&timerMask == 0
	for _, sh := range r.timestamping {
		if t := sh.timestamps; t.waiting > 0 || all {
			r.takeStamps(sh.socket, t)
		}
	}
}

// collectStampsBeforeSend takes stamps before a send, when many wait: an application that sends a lot between two Polls would lose those
// for which the socket's receive buffer has no room, and what the socket receives with them.
func (r *Ring) collectStampsBeforeSend(s *Socket) {
	if t := s.active().shaper.timestamps; t != nil && t.waiting >= stampRelief && t.next%stampRelief == 0 {
		r.takeStamps(s, t)
	}
}

// takeStamps takes reports off the transport's queue and queues an EventTxTimestamp for each, at most stampBatch of them. It reports whether
// more may wait that it could take.
func (r *Ring) takeStamps(s *Socket, t *transmitStamps) (more bool) {
	for range stampBatch {
		if s.active().done.n >= stampQueue {
			return false
		}
		x, ok, e := t.reports.NextReport(s)
		if e != 0 {
			return false
		}
		if !ok {
			continue // an error of the network: the driver reports it by SO_ERROR
		}
		t.waiting = max(t.waiting-1, 0)
		t.pause = stampPause
		if s.state != stateOpen {
			continue // closed: no event reports it
		}
		r.stats.Stamped++
		rec := record{sent: true, time: r.transmitStamp(s, &x)}
		rec.token, rec.err = t.token(x.ID)
		s.activate().done.push(&r.slab, rec)
		s.makeReady()
	}
	return true
}

// token is the token of the datagram to which the kernel gave the number id. The kernel counts in 32 bits; an error where the datagram is too
// long ago, or a failed send has made the numbers unsure.
func (s *transmitStamps) token(id uint32) (uint64, error) {
	back := uint64(uint32(s.next) - id)
	if back == 0 || back > min(stampWindow, s.next) || s.unsure {
		return 0, errStampUnknown
	}
	return s.tokens[(s.next-back)%stampWindow], nil
}

// transmitStamp is the time that a report tells: the network card's, converted, if the socket asked for it, else the kernel's.
func (r *Ring) transmitStamp(s *Socket, x *SendReport) Stamp {
	if x.Hardware != 0 && s.config().HardwareTimestamps != HardwareTimestampsOff {
		if c := r.card(uint32(r.interfaceOf(s))); c != nil {
			if at := c.convert(r, s.config().HardwareTimestamps, x.Hardware, s.config().TAIOffset); !at.IsZero() {
				return at
			}
		}
	}
	if x.Software == 0 {
		// The card's time, which cannot be converted, is all there is: it is reported as what it is.
		return Stamp{Nanos: x.Hardware, Source: StampRawHardware}
	}
	return Stamp{Nanos: x.Software, Source: StampSoftware}
}

// stampDeadline is when a sleeping ring must look for stamps again; clock.Never when none is to come. Stamps that did not come within
// stampPatience are counted as missing.
func (r *Ring) stampDeadline(now clock.Time) clock.Time {
	at := clock.Never
	for _, sh := range r.timestamping {
		t := sh.timestamps
		if t.waiting == 0 {
			continue
		}
		if t.seen != t.next || t.renewed == 0 {
			t.seen, t.renewed, t.pause = t.next, now, stampPause
		}
		if now.Sub(t.renewed) > stampPatience {
			r.stats.StampsMissing += uint64(t.waiting)
			t.waiting = 0
			continue
		}
		at = min(at, now.Add(t.pause))
		t.pause = min(2*t.pause, stampPauseMax)
	}
	return at
}
