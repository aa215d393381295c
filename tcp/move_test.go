package tcp

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// move takes a connection out of its table and into another one, or back into the same, with a pause between. It returns what was moved.
func (w *world) move(s *stream, pause clock.Duration, same bool) (Snapshot, Queues) {
	w.t.Helper()
	x := s.side
	snapshot, queues, err := x.table.Export(w.now, s.id)
	w.NoError(err)
	_, _, err = x.table.Export(w.now, s.id)
	w.ErrorIs(err, ErrMoving)
	copied := Queues{Sent: x.copies(queues.Sent), Unsent: x.copies(queues.Unsent)}
	up := s.up
	s.up = false
	sent := x.table.stats.Out
	w.run(pause)
	w.Equal(sent, x.table.stats.Out, "it is stopped")
	s.up = up
	former := x.table
	w.NoError(former.Discard(w.now, s.id))
	delete(x.streams, s.id)
	if x.moved == nil {
		x.moved = map[ID]bool{}
	}
	x.moved[s.id] = true
	for _, e := range former.Events() {
		x.event(e)
	}
	if !same {
		config := former.config
		x.table, err = New(config, w.now)
		w.NoError(err)
		clear(x.moved)
	}
	s.id, err = x.table.Import(w.now, &snapshot, &copied, 0)
	w.NoError(err)
	x.streams[s.id] = s
	return snapshot, queues
}

// copies are the same bytes in buffers of their own.
func (x *side) copies(list []Payload) (copied []Payload) {
	for _, p := range list {
		x.next++
		x.buffers[x.next], x.sent[x.next] = append([]byte(nil), x.buffers[p.Buffer][p.Offset:p.Offset+p.Length]...), true
		copied = append(copied, Payload{x.next, 0, p.Length})
	}
	return copied
}

// tenMoves moves the connection of two streams ten times, from either side in turn. It returns what all tables counted.
func (w *world) tenMoves(a *stream, same bool) (all Stats, withBoth int) {
	w.t.Helper()
	count := func(t *Table) {
		all.Retransmitted += t.stats.Retransmitted
		all.Duplicate += t.stats.Duplicate
		all.TimeOuts += t.stats.TimeOuts
		all.ResetsTaken += t.stats.ResetsTaken
	}
	for moves := 0; moves < 10; {
		w.run(clock.Duration(20+w.random.IntN(60)) * ms)
		s := w.sides[1].all
		if len(s) == 0 || !a.up {
			continue
		}
		mover := a
		if moves%2 == 1 {
			mover = s[0]
		}
		former := mover.side.table
		w.Equal("ESTABLISHED", former.State(mover.id).String(), "the streams are too short")
		_, q := w.move(mover, clock.Duration(w.random.IntN(30))*ms, same)
		if !same {
			count(former)
		}
		if len(q.Sent) > 0 && len(q.Unsent) > 0 {
			withBoth++
		}
		moves++
	}
	w.finish(3000 * clock.Second)
	w.delivered()
	for _, x := range w.sides {
		count(x.table)
	}
	return all, withBoth
}

func (w *world) droppedByMoves() uint64 {
	return uint64(w.sides[0].dropped[wire.TCPMoving] + w.sides[1].dropped[wire.TCPMoving])
}

// A connection moves ten times in mid-stream, over links that lose: each byte arrives, in both directions, once.
func TestMovesUnderLoss(t *testing.T) {
	for _, same := range []bool{false, true} {
		for _, lose := range []int{0, 30, 100} {
			t.Run(fmt.Sprintf("lose %d of 1000, same table %v", lose, same), func(t *testing.T) {
				for seed := range uint64(3) {
					w := newWorld(t, seed+1)
					w.link.lose, w.link.jitter = lose, 2*ms
					w.link.rate, w.link.buffer = 2000, 100*ms
					a, _ := w.pair(3_000_000, 1_500_000)
					all, withBoth := w.tenMoves(a, same)
					require.GreaterOrEqual(t, withBoth, 5, "moves in mid-stream")
					require.Zero(t, all.ResetsTaken)
				}
			})
		}
	}
}

// Where nothing is lost, a move costs what is dropped meanwhile, and next to nothing is sent that the peer has already.
func TestMoveSendsLittleAgain(t *testing.T) {
	var dropped, vain uint64
	for seed := range uint64(6) {
		w := newWorld(t, seed+1)
		w.link.rate, w.link.buffer = 4000, clock.Second // no queue overflows: the windows are smaller
		a, _ := w.pair(4_000_000, 2_000_000)
		all, _ := w.tenMoves(a, false)
		t.Logf("seed %d: %d dropped by ten moves, %d sent again, %d of them in vain, %d time-outs", seed+1, w.droppedByMoves(),
			all.Retransmitted, all.Duplicate, all.TimeOuts)
		dropped += w.droppedByMoves()
		vain += all.Duplicate
	}
	require.Less(t, vain, dropped/20)
}

// take stops the connection of a script and returns it.
func (s *script) take() (Snapshot, Queues) {
	s.t.Helper()
	snapshot, queues, err := s.table.Export(s.now, s.id)
	s.NoError(err)
	return snapshot, queues
}

// put has the connection go on.
func (s *script) put(x Snapshot, q Queues) {
	s.t.Helper()
	var err error
	s.id, err = s.table.Import(s.now, &x, &q, 7)
	s.NoError(err)
}

func small(s *Settings, _ *Config) { s.SendBuffer, s.ReceiveBuffer = 10_000, 10_000 }

// What is exported is what the connection knows; while it is stopped nothing leaves, and a late segment is not answered with a reset.
func TestExport(t *testing.T) {
	s := connected(t, small, func(s *Settings, _ *Config) { s.Timestamps, s.WindowScale = true, 7 })
	s.send(1000)
	s.send(1000)
	s.collect()
	s.pending = nil
	s.in(". 1:1 ack 501 win 10 ts 1001/0")
	s.in("P. 101:201 ack 501 win 10 ts 1001/0") // beyond a gap
	s.in("P. 1:51 ack 501 win 10 ts 1001/0")
	s.collect()
	s.pending = nil
	s.send(700)
	s.collect()
	s.pending = nil
	x, q := s.take()
	s.Equal([]Seq{s.iss + 501, s.iss + 2001, s.irs + 51}, []Seq{x.SendUnacked, x.SendNext, x.ReceiveNext})
	s.Equal([]any{1500, 700, 100, 50, false}, []any{length(q.Sent), length(q.Unsent), x.Reneged, x.Held, x.Fin})
	s.Equal([]any{uint32(10 << 7), true, uint8(7), uint8(7), true, uint32(1001), true, uint16(1000)},
		[]any{x.SendWindow, x.Scaled, x.SendScale, x.ReceiveScale, x.Timestamps, x.TSRecent, x.SACK, x.PeerMSS})
	s.Equal(wire.TCPMoving, s.in(". 51:51 ack 2001 win 10 ts 1002/0"))
	s.ErrorIs(s.table.Send(s.now, s.id, Payload{9, 0, 1}, false), ErrMoving)
	s.ErrorIs(s.table.CloseWrite(s.now, s.id), ErrMoving)
	s.ErrorIs(s.table.Configure(s.now, s.id, s.settings), ErrMoving)
	s.Zero(s.table.Room(s.id))
	s.table.Credit(s.now, s.id, 50)
	s.silent(10 * clock.Second)
	s.NoError(s.table.Discard(s.now, s.id))
	s.ErrorIs(s.table.Discard(s.now, s.id), ErrNotOpen)
	s.ErrorIs(s.table.Resume(s.now, s.id), ErrNotOpen)
	s.table.Abort(s.now, s.id)
	s.table.Close(s.now, s.id)
	s.Equal([]int{3, 1}, []int{s.count(EventSent), s.count(EventDropped)})
	s.Equal(wire.TCPMoving, s.in(". 51:51 ack 2001 win 10 ts 1002/0"))
	s.Zero(s.count(EventGone))
	s.silent(1100 * ms)
	s.event(EventGone)
	s.Zero(s.table.Len())
	s.Zero(s.table.flows.count)
	s.Equal(clock.Never, s.table.Deadline())
}

// The owner stops for longer than segments of a moved connection are dropped, and then finds those that came before: its timers run first.
func TestSegmentsBehindAPauseAfterAMove(t *testing.T) {
	s := connected(t)
	s.take()
	s.NoError(s.table.Discard(s.now, s.id))
	s.now = s.now.Add(2 * quietTime)
	for s.table.Expire(s.now) {
	}
	s.Equal(wire.TCPMoving, s.in("P. 1:51 ack 1"))
	s.silent(2 * quietTime)
	s.event(EventGone)
	s.Equal(clock.Never, s.table.Deadline())
}

// A move that comes to nothing: the connection goes on, and asks the peer what it has.
func TestResume(t *testing.T) {
	s := connected(t)
	s.send(1000)
	s.out("P. 1:1001 ack 1")
	s.take()
	s.in(". 1:1 ack 1001")
	s.silent(5 * clock.Second)
	s.NoError(s.table.Resume(s.now, s.id))
	s.ErrorIs(s.table.Resume(s.now, s.id), ErrNotOpen)
	s.out(". 1001:1001 ack 1", ". 0:0 ack 1")
	s.in(". 1:1 ack 1001")
	s.event(EventSent)
	s.silent(5 * clock.Second)
}

// Close of a connection that moves resets it.
func TestCloseWhileMoving(t *testing.T) {
	s := connected(t)
	s.send(1000)
	s.out("P. 1:1001 ack 1")
	s.take()
	s.table.Close(s.now, s.id)
	s.out("R. 1001:1001 ack 1")
	s.event(EventGone)
}

// FIN is sent again, whether it was acknowledged or not.
func TestMoveInFinWait(t *testing.T) {
	for _, acked := range []bool{false, true} {
		s := connected(t)
		s.send(500)
		s.NoError(s.table.CloseWrite(s.now, s.id))
		s.out("FP. 1:501 ack 1")
		if acked {
			s.in(". 1:1 ack 502")
			s.state(FinWait2)
		}
		x, q := s.take()
		s.True(x.Fin)
		s.Equal(s.iss+501, x.SendNext)
		if acked {
			s.Empty(q.Sent)
			s.Equal(s.iss+501, x.SendUnacked)
		}
		s.NoError(s.table.Discard(s.now, s.id))
		s.put(x, q)
		s.state(FinWait1)
		s.out("F. 501:501 ack 1", ". "+map[bool]string{false: "0:0", true: "500:500"}[acked]+" ack 1")
		s.in(". 1:1 ack 502")
		s.state(FinWait2)
		s.in("F. 1:1 ack 502")
		s.state(TimeWait)
	}
}

// The probe's answer tells what the peer has; a time-out sends again what it has not, piece by piece.
func TestImport(t *testing.T) {
	s := connected(t, small)
	s.send(3000)
	s.out(". 1:1001 ack 1", ". 1001:2001 ack 1", "P. 2001:3001 ack 1")
	x, q := s.take()
	s.NoError(s.table.Discard(s.now, s.id))
	q.Received = []Payload{{90, 0, 40}, {91, 5, 10}}
	x.ReceiveNext += 50 // as if the peer had sent so much
	s.put(x, q)
	s.Equal(Payload{90, 0, 40}, s.event(EventData).Payload)
	s.Equal(Payload{91, 5, 10}, s.event(EventData).Payload)
	s.Equal(50, s.info().Held)
	s.out(". 3001:3001 ack 51", ". 0:0 ack 51")
	s.in(". 51:51 ack 1001 sack 2001-3001")
	s.wait(300 * ms)
	s.out(". 1001:2001 ack 51")
	s.in(". 51:51 ack 3001")
	s.event(EventSent)
	s.Zero(s.info().Unacked)
}

// A peer whose last timestamp is not known is not taken for one that sends old ones.
func TestImportWithoutTheTimestampOfThePeer(t *testing.T) {
	s := connected(t, func(s *Settings, _ *Config) { s.Timestamps = true })
	x, q := s.take()
	s.NoError(s.table.Discard(s.now, s.id))
	x.TSRecent, x.TSRecentKnown, x.Timestamp = 0, false, x.Timestamp+1000
	s.put(x, q)
	s.collect()
	s.Equal(x.Timestamp, s.last().Options.TSValue)
	s.Equal(wire.Accept, s.in("P. 1:11 ack 1 ts 3000000000/0"))
	s.event(EventData)
	s.Equal(wire.TCPOld, s.in("P. 11:21 ack 1 ts 2999999999/0"))
}

// What cannot move, and snapshots that cannot be.
func TestMovesRefused(t *testing.T) {
	s := connected(t)
	_, _, err := s.table.Export(s.now, 99)
	s.ErrorIs(err, ErrNoConn)
	x, q := s.take()
	_, err = s.table.Import(s.now, &x, &q, 0)
	s.ErrorIs(err, ErrInUse)
	s.NoError(s.table.Resume(s.now, s.id))
	s.in("F. 1:1 ack 1")
	_, _, err = s.table.Export(s.now, s.id)
	s.ErrorIs(err, ErrState)
	s.ErrorContains(err, "CLOSE-WAIT")
	s.in("R. 2:2 ack 1")
	_, _, err = s.table.Export(s.now, s.id)
	s.ErrorIs(err, ErrNotOpen)
	s.table.Close(s.now, s.id)
	for want, f := range map[string]func(x *Snapshot, q *Queues){
		"not an address":                        func(x *Snapshot, _ *Queues) { x.Remote.Port = 0 },
		"SendUnacked and SendNext, and in Sent": func(x *Snapshot, _ *Queues) { x.SendNext += 5 },
		"bytes to send":                         func(_ *Snapshot, q *Queues) { q.Unsent = []Payload{{1, 0, 1<<30 + 1}} },
		"a piece of length 0":                   func(_ *Snapshot, q *Queues) { q.Unsent = []Payload{{1, 0, 0}} },
		"scales [15 0]":                         func(x *Snapshot, _ *Queues) { x.Scaled, x.SendScale, x.ReceiveScale = true, 15, 0 },
		"Scaled is false":                       func(x *Snapshot, _ *Queues) { x.Scaled, x.SendScale = false, 3 },
		"windows":                               func(x *Snapshot, _ *Queues) { x.SendWindow = 1<<30 + 1 },
		"bytes held":                            func(x *Snapshot, _ *Queues) { x.Held = -1 },
		"PeerMSS 0":                             func(x *Snapshot, _ *Queues) { x.PeerMSS = 0 },
		"MTU 10":                                func(x *Snapshot, _ *Queues) { x.MTU = 10 },
		"ReceiveBuffer 0":                       func(x *Snapshot, _ *Queues) { x.Settings.ReceiveBuffer = 0 },
	} {
		changed, queues := x, q
		f(&changed, &queues)
		_, err := s.table.Import(s.now, &changed, &queues, 0)
		s.ErrorContains(err, want)
	}
	s.put(x, q)
}

// A peer whose window was shut by a connection that moves learns from an acceptable segment that it is open. A probe is none: the peer takes
// neither its window nor its acknowledgement.
func TestImportAnnouncesTheWindow(t *testing.T) {
	s := connected(t, small)
	x, q := s.take()
	s.NoError(s.table.Discard(s.now, s.id))
	x.ReceiveWindow = 0
	s.put(x, q)
	s.out(". 1:1 ack 1", ". 0:0 ack 1")
	s.EqualValues(10_000, s.raw[len(s.raw)-2].Window)
}

// The same of a window that was shut by what the application reads later: the probe has announced nothing of it.
func TestImportWithAShutWindow(t *testing.T) {
	s := connected(t, small)
	x, q := s.take()
	s.NoError(s.table.Discard(s.now, s.id))
	x.ReceiveWindow, x.Held = 0, 10_000
	s.put(x, q)
	s.out(". 1:1 ack 1", ". 0:0 ack 1")
	s.table.Credit(s.now, s.id, 6_000)
	s.out(". 1:1 ack 1")
	s.EqualValues(6_000, s.last().Window)
}

// A probe of the peer's window announces nothing and acknowledges nothing: both remain to be done.
func TestProbesAnnounceNothing(t *testing.T) {
	s := connected(t, small, func(s *Settings, _ *Config) { s.DelayedAck = 400 * ms })
	s.table.conn(s.id).quick = 0
	s.in("P. 1:7001 ack 1 win 0")
	s.out(". 1:1 ack 7001")
	s.send(100)
	s.table.Credit(s.now, s.id, 1_500) // less than half of the window: not worth a segment
	s.in(". 7001:7101 ack 1 win 0")    // its acknowledgement is delayed
	edge := s.table.conn(s.id).rcvAdv
	s.silent(150 * ms)
	s.wait(100 * ms)
	s.out(". 0:0 ack 7101")
	s.Equal(edge, s.table.conn(s.id).rcvAdv)
	s.wait(160 * ms)
	s.out(". 1:1 ack 7101") // the delayed acknowledgement
	s.Less(edge, s.table.conn(s.id).rcvAdv)
}
