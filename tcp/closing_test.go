package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// The table of moves is RFC 9293 figure 5; an illegal one panics.
func TestMovesOfTheStateTable(t *testing.T) {
	for from := range numStates {
		for to := range numStates {
			c := conn{state: from}
			if moves[from].has(to) {
				c.become(to)
				require.Equal(t, to, c.state)
			} else {
				require.Panics(t, func() { c.become(to) }, "%v to %v", from, to)
			}
		}
	}
	require.Equal(t, "state 77", State(77).String())
}

// RFC 9293 figure 12: we close first.
func TestCloseFirst(t *testing.T) {
	s := connected(t)
	require.NoError(t, s.table.CloseWrite(s.now, s.id))
	s.state(FinWait1)
	s.out("F. 1:1 ack 1")
	s.in(". 1:1 ack 2")
	s.state(FinWait2)
	s.in("P. 1:101 ack 2") // half closed: data still comes
	require.EqualValues(t, 100, s.event(EventData).Payload.Length)
	s.out(". 2:2 ack 101")
	s.in("F. 101:101 ack 2")
	s.event(EventEnd)
	s.state(TimeWait)
	s.out(". 2:2 ack 102")
	s.table.Credit(s.now, s.id, 100)
	s.table.Close(s.now, s.id)
	s.event(EventGone)
	require.Equal(t, 1, s.table.TimeWaits())
	s.wait(61 * clock.Second)
	require.Zero(t, s.table.TimeWaits())
}

// The peer closes first.
func TestPeerClosesFirst(t *testing.T) {
	s := accepted(t)
	s.in("F. 1:1 ack 1")
	s.event(EventEnd)
	s.out(". 1:1 ack 2")
	s.state(CloseWait)
	s.send(100) // half closed: we still send
	s.out("P. 1:101 ack 2")
	s.table.Close(s.now, s.id)
	s.state(LastAck)
	s.out("F. 101:101 ack 2")
	s.in(". 2:2 ack 102")
	s.event(EventGone)
	require.Zero(t, s.table.Len())
	require.Zero(t, s.table.TimeWaits())
}

// RFC 9293 figure 13.
func TestSimultaneousClose(t *testing.T) {
	s := connected(t)
	s.table.Close(s.now, s.id)
	s.out("F. 1:1 ack 1")
	s.in("F. 1:1 ack 1")
	s.state(Closing)
	s.out(". 2:2 ack 2")
	s.in(". 2:2 ack 2")
	s.event(EventGone)
	require.Equal(t, 1, s.table.TimeWaits())
}

// FIN that acknowledges ours: FIN-WAIT-1 to TIME-WAIT.
func TestFinAndAckOfFinTogether(t *testing.T) {
	s := connected(t)
	s.table.Close(s.now, s.id)
	s.out("F. 1:1 ack 1")
	s.in("F. 1:1 ack 2")
	s.out(". 2:2 ack 2")
	s.event(EventGone)
	require.Equal(t, 1, s.table.TimeWaits())
}

// FIN goes with the last data.
func TestFinOnLastData(t *testing.T) {
	s := connected(t)
	s.send(1500)
	require.NoError(t, s.table.CloseWrite(s.now, s.id))
	s.out(". 1:1001 ack 1", "FP. 1001:1501 ack 1")
	s.in(". 1:1 ack 1502")
	s.state(FinWait2)
	require.ErrorIs(t, s.table.Send(s.now, s.id, Payload{Length: 1}, false), ErrClosed)
	require.ErrorIs(t, s.table.CloseWrite(s.now, s.id), ErrClosed)
}

// FIN waits for data that the window holds back.
func TestFinBehindAFullWindow(t *testing.T) {
	s := connected(t)
	s.in(". 1:1 ack 1 win 1000")
	s.send(2000)
	s.table.Close(s.now, s.id)
	s.out(". 1:1001 ack 1")
	s.in(". 1:1 ack 1001 win 1000")
	s.out("P. 1001:2001 ack 1")
	s.in(". 1:1 ack 2001 win 1000")
	s.out("F. 2001:2001 ack 1")
	s.in(". 1:1 ack 2002")
	s.state(FinWait2)
}

// A FIN that is lost is sent again with back-off.
func TestFinIsRetransmitted(t *testing.T) {
	s := connected(t, func(s *Settings, _ *Config) { s.SACK = false })
	s.table.Close(s.now, s.id)
	s.out("F. 1:1 ack 1")
	s.wait(250 * ms)
	s.out("F. 1:1 ack 1")
	s.wait(450 * ms)
	s.out("F. 1:1 ack 1")
	s.in(". 1:1 ack 2")
	s.state(FinWait2)
}

// A FIN beyond a gap waits for the data before it.
func TestFinBeyondAGap(t *testing.T) {
	s := connected(t)
	s.in("FP. 101:201 ack 1")
	s.out(". 1:1 ack 1 sack 101-201")
	s.state(Established)
	s.in("P. 1:101 ack 1")
	s.out(". 1:1 ack 202")
	require.EqualValues(t, 100, s.event(EventData).Payload.Length)
	require.EqualValues(t, 100, s.event(EventData).Payload.Length)
	s.event(EventEnd)
	s.state(CloseWait)
}

// RFC 9293 SHLD-3, RFC 2525 section 2.17: close with unread data resets; the setting turns it off.
func TestCloseWithUnreadData(t *testing.T) {
	s := connected(t)
	s.in("P. 1:101 ack 1")
	s.out(". 1:1 ack 101")
	s.table.Close(s.now, s.id)
	s.out("R. 1:1 ack 101")
	s.event(EventGone)

	s = connected(t, func(s *Settings, _ *Config) { s.ResetUnread = false })
	s.in("P. 1:101 ack 1")
	s.out(". 1:1 ack 101")
	s.table.Close(s.now, s.id)
	s.out("F. 1:1 ack 101")
}

// Data for a connection that nobody has is answered with a reset.
func TestDataAfterClose(t *testing.T) {
	s := connected(t)
	s.table.Close(s.now, s.id)
	s.out("F. 1:1 ack 1")
	s.in(". 1:1 ack 2")
	s.in("P. 1:101 ack 2")
	s.out("R. 2:2 ack 1")
	s.event(EventGone)
	require.Zero(t, s.table.TimeWaits())
}

func TestAbort(t *testing.T) {
	s := connected(t)
	s.send(100)
	s.out("P. 1:101 ack 1")
	s.table.Abort(s.now, s.id)
	s.out("R. 101:101 ack 1")
	s.event(EventSent)
	s.event(EventGone)
	require.Zero(t, s.table.flows.count)
	s.table.Abort(s.now, s.id) // an ID that is not good
	s.out()
}

// In SYN-SENT close says nothing to the peer.
func TestCloseWhileConnecting(t *testing.T) {
	s := newScript(t)
	s.dial()
	s.out("S 0:0")
	s.send(100)
	s.table.Close(s.now, s.id)
	s.event(EventSent)
	s.event(EventGone)
	s.silent(200 * clock.Second)
}

// FIN-WAIT-2 of a connection that nobody has ends by itself; with an application it does not.
func TestFinWait2Ends(t *testing.T) {
	s := connected(t)
	require.NoError(t, s.table.CloseWrite(s.now, s.id))
	s.out("F. 1:1 ack 1")
	s.in(". 1:1 ack 2")
	s.silent(600 * clock.Second)
	s.state(FinWait2)
	s.table.Close(s.now, s.id)
	s.silent(61 * clock.Second)
	s.event(EventGone)
}

// Linger bounds how long a closed connection sends what is queued.
func TestLinger(t *testing.T) {
	s := connected(t, func(s *Settings, _ *Config) { s.Linger, s.SACK = 2*clock.Second, false })
	s.in(". 1:1 ack 1 win 0")
	s.send(100)
	s.table.Close(s.now, s.id)
	s.wait(2100 * ms)
	require.Equal(t, "R. 1:1 ack 1", s.pending[len(s.pending)-1])
	s.event(EventGone)
}

// RFC 9293 section 3.10.7.4 and MAY-2, RFC 1337, RFC 6191: arrivals in TIME-WAIT.
func TestArrivalsInTimeWait(t *testing.T) {
	s := connected(t)
	s.table.Close(s.now, s.id)
	s.out("F. 1:1 ack 1")
	s.in("F. 1:1 ack 2")
	s.out(". 2:2 ack 2")
	s.in("R 2:2 ack 2") // RFC 1337
	require.Equal(t, 1, s.table.TimeWaits())
	s.wait(30 * clock.Second)
	s.in("F. 1:1 ack 2") // the FIN again: acknowledged, and the time begins anew
	s.out(". 2:2 ack 2")
	s.wait(45 * clock.Second)
	require.Equal(t, 1, s.table.TimeWaits())
	s.in("P. 2:50 ack 2")
	s.out(". 2:2 ack 2")
	s.in("S 1:1 mss 1000") // an old SYN
	s.out()                // within the limit of such answers
	s.wait(clock.Second)
	s.in("S 100:100 mss 1000") // nobody listens
	s.out(". 2:2 ack 2")
	s.listen()
	s.in("S 100:100 mss 1000") // a larger number: a new connection
	require.Len(t, s.pending, 1)
	require.Equal(t, wire.TCPSyn|wire.TCPAck, s.last().Flags)
	require.Zero(t, s.table.TimeWaits())
}

// RFC 6191: timestamps let a SYN in whose number is smaller, and Connect use the addresses again.
func TestTimeWaitWithTimestamps(t *testing.T) {
	with := func(s *Settings, _ *Config) { s.Timestamps = true }
	end := func(s *script) {
		s.table.Close(s.now, s.id)
		s.in("F. 1:1 ack 1 ts 2000/0")
		s.in(". 2:2 ack 2 ts 2000/0")
		s.pending = nil
		require.Equal(t, 1, s.table.TimeWaits())
	}
	s := connected(t, with)
	end(s)
	s.listen()
	s.in("S -500:-500 mss 1000 ts 1999/0")
	require.Equal(t, 1, s.table.TimeWaits(), "an older timestamp")
	s.in("S -500:-500 mss 1000 ts 2001/0")
	require.Zero(t, s.table.TimeWaits())
	require.Equal(t, 1, s.table.HalfOpen())

	s = connected(t, with)
	end(s)
	_, err := s.table.Connect(s.now, Dial{Local: us1, Remote: them, Settings: s.settings})
	require.ErrorIs(t, err, ErrInUse, "the peer's clock has not moved")
	s.wait(2 * clock.Second)
	before := s.iss
	_, err = s.table.Connect(s.now, Dial{Local: us1, Remote: them, Settings: s.settings})
	require.NoError(t, err)
	s.collect()
	require.True(t, before.Before(s.iss))
}

// The table of TIME-WAIT is bounded: the oldest ends early.
func TestTimeWaitIsBounded(t *testing.T) {
	s := newScript(t, func(_ *Settings, c *Config) { c.MaxTimeWait = 10 })
	for n := range 50 {
		c := conn{local: us1, remote: Endpoint{them.Addr, uint16(n + 1)}, rcvNxt: 1, nxt: 1}
		s.table.timeWaits.add(s.table, timeWait{local: c.local, remote: c.remote, live: true})
		s.now++
		s.table.now = s.now
	}
	require.Equal(t, 10, s.table.TimeWaits())
	require.Equal(t, 10, s.table.flows.count)
	require.LessOrEqual(t, len(s.table.timeWaits.all), 11)
}

// another is one more connection, with the peer's next port.
func (s *script) another(port uint16) ID {
	remote := them
	remote.Port = port
	id, err := s.table.Connect(s.now, Dial{Local: us1, Remote: remote, Settings: s.settings})
	s.NoError(err)
	s.collect()
	g := s.parse("S. 0:0 ack 1 mss 1000")
	g.Remote = remote
	s.table.Input(s.now, &g)
	s.collect()
	s.pending = nil
	return id
}

// Connections that the application has closed are bounded: over the limit Close resets.
func TestAppClosedConnectionsAreLimited(t *testing.T) {
	s := connected(t, func(_ *Settings, c *Config) { c.MaxAppClosed = 2 })
	second, third := s.another(5001), s.another(5002)
	s.table.Close(s.now, s.id)
	s.out("F. 1:1 ack 1")
	s.table.Close(s.now, second)
	s.out("F. 1:1 ack 1")
	s.table.Close(s.now, third)
	s.out("R. 1:1 ack 1")
	require.Equal(t, third, s.event(EventGone).Conn)
	require.EqualValues(t, 1, s.table.Stats().AppClosedReset)
	s.in("R 1:1") // the first one ends, and there is room again
	fourth := s.another(5003)
	s.table.Close(s.now, fourth)
	s.out("F. 1:1 ack 1")
	require.Equal(t, 2, s.table.appClosed)
}

// An ID is given out again only when the application has seen EventGone: it would take the end of the former connection for that of the new one.
func TestIDIsReusedBehindEventGone(t *testing.T) {
	s := newScript(t)
	dial := func() ID {
		id, err := s.table.Connect(s.now, Dial{Local: us1, Remote: them, Settings: s.settings})
		require.NoError(t, err)
		return id
	}
	var g Segment
	for range 3 {
		first := dial()
		for s.table.Output(s.now, &g) {
		}
		s.table.Close(s.now, first)
		second := dial()
		require.NotEqual(t, first, second, "EventGone was not returned yet")
		events := s.table.Events()
		require.Equal(t, []any{EventGone, first}, []any{events[len(events)-1].Kind, events[len(events)-1].Conn})
		s.table.Close(s.now, second)
		third := dial()
		require.NotEqual(t, first, third, "the events are still being looked at")
		s.table.Events()
		s.table.Close(s.now, third)
		for s.table.Output(s.now, &g) {
		}
		s.table.Events()
		s.table.Events()
	}
	require.LessOrEqual(t, len(s.table.conns), 1)
	require.Len(t, s.table.free, connChunk, "all come back")
}
