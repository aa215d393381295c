package tcp

import (
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wheel"
	"github.com/socketxtreme/socketxtreme/tcp/congestion"
)

// conn is the record of a connection: 256 bytes without a pointer, so that the garbage collector passes over a table of them. What only a busy
// connection needs is in side records: what it sends (sender), and what it received beyond a gap (reassembly).
//
//	 acknowledged   in flight        may be sent       waits for window
//	─────────────┬───────────────┬──────────────────┬──────────────────┬──
//	            una             nxt             una + wnd             end      FIN follows end
//
//	 received and in order       may come
//	─────────────────────────┬─────────────────────┬──
//	                     rcvNxt                  rcvAdv                          held: in order and not credited
type conn struct {
	local, remote      Endpoint
	state              State
	phase              phase // of loss recovery
	sndScale, rcvScale uint8
	user               uint64
	flags              connFlags
	listener           ListenerID // of a child that was not taken, else 0

	settings uint32 // in Table.settings
	mss      uint16 // most payload of a segment without options
	peerMSS  uint16
	pathMTU  uint16
	fullMTU  uint16 // what pathMTU was before it was lowered

	probeMTU, failedMTU uint16 // of a probe that is out; of the least one that was lost; 0: none
	raiseAt             uint32 // seconds, when a larger size is tried; 0: never

	una, nxt, end Seq    // nxt equals una when nothing is in flight; end when nothing waits
	wnd, maxWnd   uint32 // what the peer takes beyond una; the most that it ever took
	wl1, wl2      Seq    // the segment that the window came with

	rcvNxt, rcvAdv, lastAck Seq // lastAck: the last acknowledgement that was sent
	held                    uint32
	fin                     Seq // where the peer's FIN is, with flagFinReceived

	unacked uint32 // bytes that were received since the last acknowledgement was sent
	full    uint8  // and full segments among them
	tries   uint8  // time-outs in a row
	dupAcks uint8
	quick   uint8  // segments that are acknowledged at once, at the start
	probes  uint8  // keepalive probes that were not answered; halves of quietTime that are over
	advMSS  uint16 // Path.AdvMSS

	sender, reassembly uint32 // places of the side records, from 1 on; 0: none

	tsRecent, tsOffset uint32
	tsRecentAt         uint32 // seconds

	srtt, rttvar, minRTT uint32 // microseconds; srtt 0: not measured yet

	rtxAt  clock.Time // retransmission or another one of rtxKind
	ackAt  clock.Time // a delayed acknowledgement
	lifeAt clock.Time // keepalive, FIN-WAIT-2, linger
	timer  wheel.Timer

	received   clock.Time // the last segment
	sent       clock.Time // the last data
	stuck      clock.Time // the oldest data in flight, or the window, waits since
	challenged clock.Time // the last answer to a segment that is not acceptable

	rtxKind rtxKind

	cc congestion.State
}

// connFlags are facts about a connection.
type connFlags uint32

const (
	flagLive        connFlags = 1 << iota // the record is in use
	flagInFlows                           // segments find it
	flagReady                             // it is in Table.ready
	flagSyn                               // a SYN, or SYN and ACK, is to be sent
	flagAckNow                            // an acknowledgement leaves with the next Output
	flagWindowHeld                        // Credit opened the window enough to tell the peer
	flagFin                               // FIN follows end
	flagFinSent                           // and was sent
	flagFinReceived                       // the peer's FIN was received, perhaps beyond a gap
	flagAppClosed                         // Close was called
	flagFailed                            // EventFailed was reported
	flagMore                              // the last Send said that more follows
	flagPush                              // what is queued goes, however small
	flagProbe                             // a segment that the peer must answer is to be sent: keepalive, zero window
	flagLossProbe                         // a tail loss probe is to be sent
	flagScaled                            // window scaling was agreed on
	flagTS                                // timestamps were
	flagSACK                              // selective acknowledgements were
	flagECN                               // explicit congestion notification was
	flagEcho                              // CE was received: ECE is set until CWR comes
	flagCWR                               // the next new data carries CWR
	flagLimited                           // the congestion window was what held data back
	flagReordering                        // the network reorders (RFC 8985)
	flagPassive                           // came from LISTEN
	flagSYNLost                           // a SYN was sent again
	flagBlackHole                         // the segment size was lowered because large ones were lost
	flagSuspected                         // it was before, and nothing of the larger size was acknowledged since
	flagPushed                            // data with PSH was received since the last acknowledgement was sent
	flagAnswers                           // the application answers what it receives: its answers carry the acknowledgements
	flagMoving                            // Export has stopped it
)

// rtxKind is what rtxAt is for.
type rtxKind uint8

const (
	rtxNone      rtxKind = iota
	rtxTimeout           // RFC 6298
	rtxLossProbe         // RFC 8985 section 7
	rtxReorder           // RFC 8985 section 6.2 step 5
	rtxPersist           // RFC 9293 section 3.8.6.1
	rtxHeld              // what Nagle's rule, Cork or a small window hold goes at last: RFC 9293 section 3.8.6.2.1
)

// phase is where loss recovery is.
type phase uint8

const (
	phaseOpen     phase = iota
	phaseRecovery       // RFC 6675 section 5, RFC 6582
	phaseLoss           // after a time-out
)

func (c *conn) has(f connFlags) bool { return c.flags&f != 0 }

// flight is how many sequence numbers were sent and not acknowledged.
func (c *conn) flight() int { return c.nxt.Minus(c.una) }

// unsent is how many bytes wait to be sent for the first time.
func (c *conn) unsent() int { return max(c.end.Minus(c.nxt), 0) }

// finAcked reports whether the peer has acknowledged the FIN.
func (c *conn) finAcked() bool { return c.has(flagFinSent) && c.una == c.end+1 }

// payloadLimit is the most payload of a segment with the usual options.
func (c *conn) payloadLimit() int {
	if c.has(flagTS) {
		return int(c.mss) - 12
	}
	return int(c.mss)
}

// fullSegment is the least payload of a received segment that counts as a full one: what our SYN announced, or less where we send no more.
func (c *conn) fullSegment() int {
	if less := int(c.mss) - int(c.advMSS); c.advMSS != 0 && less > 0 {
		return c.payloadLimit() - less
	}
	return c.payloadLimit()
}

// connChunk is how many records are made at a time: 64 KiB, so that a table that grows never pauses.
const connChunk = 256

func (t *Table) conn(id ID) *conn { return &t.conns[id/connChunk][id%connChunk] }

// get is nil for an ID that is not good.
func (t *Table) get(id ID) *conn {
	if int(id/connChunk) >= len(t.conns) {
		return nil
	}
	if c := t.conn(id); c.has(flagLive) {
		return c
	}
	return nil
}

// newConn takes a free record.
func (t *Table) newConn() (ID, *conn) {
	if len(t.free) == 0 {
		first := ID(len(t.conns) * connChunk)
		t.conns = append(t.conns, new([connChunk]conn))
		for i := ID(connChunk); i > 0; i-- {
			t.free = append(t.free, first+i-1)
		}
	}
	id := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	t.count++
	return id, t.conn(id)
}

// open takes a free record for a connection between the two endpoints, and enters it into the flow table. settings is a place that intern has
// returned. The caller has entered the flow into the directory, and sets state and sequence numbers.
func (t *Table) open(local, remote Endpoint, settings uint32) (ID, *conn) {
	id, c := t.newConn()
	*c = conn{local: local, remote: remote, settings: settings, flags: flagLive | flagInFlows, quick: quickSegments,
		rtxAt: clock.Never, ackAt: clock.Never, lifeAt: clock.Never}
	t.flows.add(local, remote, refOf(refConn, uint32(id)))
	return id, c
}

// settingsOf are those of the connection.
func (t *Table) settingsOf(c *conn) *Settings { return &t.settings[c.settings].s }

// interned are settings that connections share.
type interned struct {
	s    Settings
	uses int
}

// intern finds the place of equal settings in Table.settings, or makes one, and counts one user more. It uses a map, so only set-up and changes
// of settings call it.
func (t *Table) intern(s Settings) uint32 {
	if at, ok := t.settingsAt[s]; ok {
		t.settings[at].uses++
		return at
	}
	at := uint32(len(t.settings))
	if n := len(t.freeSettings); n > 0 {
		at, t.freeSettings = t.freeSettings[n-1], t.freeSettings[:n-1]
		t.settings[at] = interned{s, 1}
	} else {
		t.settings = append(t.settings, interned{s, 1})
	}
	t.settingsAt[s] = at
	return at
}

// unintern counts one user of settings less. The last one frees the place.
func (t *Table) unintern(at uint32) {
	e := &t.settings[at]
	if e.uses--; e.uses == 0 {
		delete(t.settingsAt, e.s)
		t.freeSettings = append(t.freeSettings, at)
	}
}

// emit appends an event to the list that Events returns.
func (t *Table) emit(id ID, c *conn, e Event) {
	e.Conn, e.User = id, c.user
	t.events[0] = append(t.events[0], e)
}

// wake puts the connection into the ready queue, so that Output asks it for segments and sets its timer anew.
func (t *Table) wake(id ID, c *conn) {
	if c.flags&(flagLive|flagReady) == flagLive {
		c.flags |= flagReady
		t.ready.push(id)
	}
}

// fail ends a connection for a reason. It emits EventFailed, unless the application has closed the connection: then the record ends at once. A
// child that nobody has taken yet gets the event too, because its data may wait to be read.
func (t *Table) fail(id ID, c *conn, why Reason) {
	t.closeConn(id, c)
	if c.has(flagAppClosed) {
		t.forget(id, c)
		return
	}
	c.flags |= flagFailed
	t.emit(id, c, Event{Kind: EventFailed, Reason: why})
}

// closeConn sets the state CLOSED and detaches the connection. Its record stays until forget.
func (t *Table) closeConn(id ID, c *conn) {
	if c.state != Closed {
		c.become(Closed)
	}
	t.detach(id, c)
}

// detach is for a connection that is over: no segment finds it, no time is due, and its buffers go back.
func (t *Table) detach(id ID, c *conn) {
	if c.has(flagInFlows) {
		t.leave(c.local, c.remote)
		t.removeFlow(id, c)
	}
	t.dropSender(id, c)
	t.dropReassembly(id, c)
	c.rtxAt, c.ackAt, c.lifeAt = clock.Never, clock.Never, clock.Never
	if c.timer != 0 {
		t.wheel.Stop(c.timer)
		c.timer = 0
	}
	c.flags &^= flagSyn | flagAckNow | flagProbe | flagLossProbe
}

// removeFlow takes a connection out of the flow table. In the directory its flow stays.
func (t *Table) removeFlow(id ID, c *conn) {
	t.flows.remove(c.local, c.remote, refOf(refConn, uint32(id)))
	c.flags &^= flagInFlows
}

// forget ends a record and emits EventGone. Its ID is reused only after the caller has taken EventGone, and after Output has removed the ID from
// the ready queue if it is there.
func (t *Table) forget(id ID, c *conn) {
	if c.listener != 0 {
		t.listeners[c.listener-1].waiting--
		c.listener = 0
	}
	if c.has(flagAppClosed) {
		t.appClosed--
	}
	t.emit(id, c, Event{Kind: EventGone})
	t.unintern(c.settings)
	c.flags &^= flagLive
	t.count--
	if !c.has(flagReady) {
		t.gone[0] = append(t.gone[0], id)
	}
}
