package protocol

import (
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/stretchr/testify/require"
)

// Each state can be left, only to where the RFC says, and CLOSED is never far.
func TestMoves(t *testing.T) {
	for from := range numStates {
		require.NotZero(t, moves[from], "%v is for ever", from)
		require.True(t, from == Closed || moves[from].has(Closed), "%v cannot be aborted", from)
		require.False(t, moves[from].has(from))
		for to := range numStates {
			c := Conn{state: from}
			if moves[from].has(to) {
				c.become(to)
				require.Equal(t, to, c.state)
			} else {
				require.Panics(t, func() { c.become(to) }, "%v to %v", from, to)
			}
		}
	}
	require.Equal(t, "TIME-WAIT", TimeWait.String())
	require.Equal(t, "state 200", State(200).String())
}

func TestHandshakeAndEcho(t *testing.T) {
	w := newWorld(t, 1)
	client, server := w.connect()
	require.Equal(t, []string{"a SYN ", "b SYN ", "a 0"}, w.log)
	client.send([]byte("hello"))
	w.run(20 * time.Millisecond)
	w.Equal("hello", string(server.got))
	w.Equal(5, client.acked)
	server.send([]byte("world"))
	w.run(20 * time.Millisecond)
	w.Equal("world", string(client.got))
	w.Equal([]EventKind{EventConnected}, client.events)
}

// What is lost of a handshake is sent again, and later each time.
func TestLostHandshake(t *testing.T) {
	for lost := range 3 {
		w := newWorld(t, 2)
		w.listen(4)
		n := 0
		w.lose = func(*frame) bool { n++; return n == lost+1 }
		client := w.begin()
		begin := w.now
		w.run(400 * time.Millisecond)
		w.Equal([]EventKind{EventConnected}, client.events, "lost: segment %d", lost)
		if lost < 2 {
			w.Len(w.sides[1].next, 1)
			w.GreaterOrEqual(w.now.Sub(begin), 100*time.Millisecond)
		}
		client.send([]byte("x")) // the lost acknowledgement of a SYN comes with data, or is asked for
		w.run(400 * time.Millisecond)
		w.Equal("x", string(w.take().got))
	}
}

func TestRefused(t *testing.T) {
	w := newWorld(t, 3)
	client := w.begin()
	w.run(time.Second)
	w.Equal([]EventKind{EventRefused}, client.events)
	w.Equal([]string{"a SYN ", "b RST "}, w.log)
	client.side.table.Close(w.now, client.id, false)
	w.empty()
}

func TestConnectTimesOut(t *testing.T) {
	w := newWorld(t, 4, func(_ int, c *Config) { c.ConnectTries = 3 })
	w.lose = func(*frame) bool { return true }
	client := w.begin()
	w.run(1400 * time.Millisecond)
	w.Empty(client.events)
	w.run(200 * time.Millisecond) // 100 + 200 + 400 + 800 ms
	w.Equal([]EventKind{EventTimedOut}, client.events)
	w.Len(w.log, 4)
	client.side.table.Close(w.now, client.id, false)
	w.empty()
}

// Both send a SYN: one connection comes of it.
func TestSimultaneousOpen(t *testing.T) {
	w := newWorld(t, 5)
	one, two := Endpoint{w.sides[0].addr, 1000}, Endpoint{w.sides[1].addr, 2000}
	id, err := w.sides[0].table.Connect(w.now, one, two)
	w.NoError(err)
	a := w.sides[0].meet(id)
	id, err = w.sides[1].table.Connect(w.now, two, one)
	w.NoError(err)
	b := w.sides[1].meet(id)
	w.run(50 * time.Millisecond)
	w.Equal([]EventKind{EventConnected}, a.events)
	w.Equal([]EventKind{EventConnected}, b.events)
	a.send([]byte("x"))
	b.send([]byte("y"))
	w.run(50 * time.Millisecond)
	w.Equal("y", string(a.got))
	w.Equal("x", string(b.got))
}

func TestBacklog(t *testing.T) {
	for _, policy := range []Overflow{DropSYN, RefuseSYN} {
		w := newWorld(t, 6, func(_ int, c *Config) { c.Overflow = policy })
		w.listen(2)
		all := []*stream{w.begin(), w.begin(), w.begin()}
		w.run(50 * time.Millisecond)
		w.Len(w.sides[1].next, 2)
		w.Equal(uint64(1), w.sides[1].table.Stats().Overflows)
		if policy == RefuseSYN {
			w.Equal([]EventKind{EventRefused}, all[2].events)
			continue
		}
		w.Empty(all[2].events)
		w.take()
		w.run(400 * time.Millisecond) // the SYN comes again
		w.Equal([]EventKind{EventConnected}, all[2].events)
	}
}

// A peer that credits nothing: the window shuts, probes ask, and credit opens it again.
func TestWindow(t *testing.T) {
	w := newWorld(t, 7, func(i int, c *Config) { c.Window = 10_000 })
	client, server := w.connect()
	want := pattern(100_000)
	client.send(want)
	w.run(5 * time.Second)
	w.Equal(want[:10_000], server.got)
	w.Equal(10_000, client.acked)
	w.NotZero(client.side.table.Stats().Probes)
	w.Empty(client.events[1:], "an application that takes its time is no reason to give up")
	for len(server.got) < len(want) {
		server.credit()
		w.run(20 * time.Millisecond)
	}
	w.Equal(want, server.got)
	w.Zero(client.side.table.Stats().Retransmitted)
}

// A window update that is lost is found by a probe.
func TestLostWindowUpdate(t *testing.T) {
	w := newWorld(t, 8, func(i int, c *Config) { c.Window = 5000 })
	client, server := w.connect()
	client.send(pattern(8000))
	w.run(100 * time.Millisecond)
	w.Len(server.got, 5000)
	w.lose = func(f *frame) bool { return f.to == client.side }
	server.credit()
	w.run(10 * time.Millisecond)
	w.lose = nil
	w.run(3 * time.Second)
	w.Len(server.got, 8000)
}

// Acknowledgements come late, for many at once, or never.
func TestAcknowledgements(t *testing.T) {
	t.Run("late", func(t *testing.T) {
		w := newWorld(t, 9, func(_ int, c *Config) { c.DelayedAck = 40 * time.Millisecond })
		client, _ := w.connect()
		client.side.table.conns[client.id].srtt = 200_000
		client.send([]byte("x"))
		w.run(30 * time.Millisecond)
		w.Zero(client.acked)
		w.run(20 * time.Millisecond)
		w.Equal(1, client.acked)
	})
	t.Run("one for many, carried by data", func(t *testing.T) {
		w := newWorld(t, 10, func(_ int, c *Config) { c.AckEvery, c.DelayedAck = 100, time.Second })
		client, server := w.connect()
		client.side.table.conns[client.id].srtt = 400_000
		client.send(pattern(20_000))
		w.run(50 * time.Millisecond)
		w.Zero(client.acked)
		server.send([]byte("answer"))
		w.run(50 * time.Millisecond)
		w.Equal(20_000, client.acked)
	})
	t.Run("partial", func(t *testing.T) {
		w := newWorld(t, 11)
		client, server := w.connect()
		w.lose = func(f *frame) bool { return f.to == server.side && f.s.Seq.Minus(client.first) >= 2920 }
		client.send(pattern(6000))
		w.run(20 * time.Millisecond)
		w.Equal(2920, client.acked, "the first two segments")
		w.lose = nil
		w.run(time.Second)
		w.Equal(6000, client.acked)
		w.Equal(pattern(6000), server.got)
	})
	t.Run("never", func(t *testing.T) {
		w := newWorld(t, 12, func(_ int, c *Config) { c.Tries = 4 })
		client, server := w.connect()
		w.lose = func(f *frame) bool { return true }
		client.send([]byte("x"))
		w.run(time.Minute)
		w.Equal([]EventKind{EventConnected, EventTimedOut}, client.events)
		w.Equal(Established, server.state(), "it has not heard of it")
	})
	t.Run("user time-out", func(t *testing.T) {
		w := newWorld(t, 13)
		client, _ := w.connect()
		client.side.table.SetUserTimeout(client.id, 300)
		w.lose = func(f *frame) bool { return true }
		begin := w.now
		client.send([]byte("x"))
		for len(client.events) == 1 {
			w.step(clock.Never)
		}
		w.Equal(EventTimedOut, client.events[1])
		w.InDelta(300, w.now.Sub(begin).Milliseconds(), 20)
	})
}

// The third duplicate acknowledgement brings a lost segment back before its time-out.
func TestFastRetransmit(t *testing.T) {
	w := newWorld(t, 14, func(_ int, c *Config) { c.RTOMin = time.Second })
	client, server := w.connect()
	n := 0
	w.lose = func(f *frame) bool { n++; return f.s.Length > 0 && n == 1 }
	client.send(pattern(10_000))
	w.run(100 * time.Millisecond)
	w.Equal(pattern(10_000), server.got)
	w.Zero(client.side.table.Stats().TimeOuts)
}

// A frame that the link still holds is not sent again, and the connection does not hang for it.
func TestHeldFrames(t *testing.T) {
	w := newWorld(t, 15)
	client, server := w.connect()
	w.lose = func(f *frame) bool { return f.to == server.side }
	client.send([]byte("x"))
	client.side.held = true
	w.run(100 * time.Millisecond)
	w.NotZero(client.side.table.Stats().Held)
	w.Zero(client.side.table.Stats().Retransmitted)
	client.side.held, w.lose = false, nil
	w.run(3 * time.Second)
	w.Equal("x", string(server.got))
}

func TestFullLink(t *testing.T) {
	w := newWorld(t, 16)
	client, server := w.connect()
	client.side.full = 3
	client.send(pattern(10_000))
	w.True(client.side.table.Blocked())
	w.run(50 * time.Millisecond)
	w.Equal(pattern(10_000), server.got)
	w.Zero(client.side.table.Stats().Retransmitted)
}

func TestNoBuffer(t *testing.T) {
	w := newWorld(t, 17)
	client, server := w.connect()
	server.side.empty = true
	client.send(pattern(3000))
	w.run(time.Minute)
	w.Empty(server.got)
	w.Equal([]EventKind{EventConnected}, client.events, "a peer that answers is not given up")
	server.side.empty = false
	w.run(time.Second)
	w.Equal(pattern(3000), server.got)
	w.NotZero(server.side.table.Stats().NoBuffer)
}

func TestCloseInTurn(t *testing.T) {
	w := newWorld(t, 18)
	client, server := w.connect()
	client.send([]byte("bye"))
	client.side.table.Close(w.now, client.id, false)
	w.run(50 * time.Millisecond)
	w.Equal("bye", string(server.got))
	w.Equal(EventEnded, server.events[len(server.events)-1])
	w.Equal([]State{FinWait2, CloseWait}, []State{client.state(), server.state()})
	server.send([]byte("too late"))
	w.run(50 * time.Millisecond)
	w.Equal(EventReset, server.events[len(server.events)-1], "nobody is there to read it")
	w.True(client.gone)
	server.side.table.Close(w.now, server.id, false)
	w.empty()
}

func TestHalfClose(t *testing.T) {
	w := newWorld(t, 19)
	client, server := w.connect()
	client.send([]byte("all I have"))
	client.side.table.CloseWrite(w.now, client.id)
	w.False(client.side.table.Sends(client.id))
	w.run(50 * time.Millisecond)
	w.Equal(EventEnded, server.events[len(server.events)-1])
	server.send([]byte("thanks"))
	w.run(50 * time.Millisecond)
	w.Equal("thanks", string(client.got))
	server.side.table.Close(w.now, server.id, false)
	w.run(50 * time.Millisecond)
	w.True(server.gone, "LAST-ACK is over")
	w.Equal(TimeWait, client.state())
	w.Equal([]EventKind{EventConnected, EventEnded}, client.events)
	client.side.table.Close(w.now, client.id, false)
	w.False(client.gone)
	w.run(2 * time.Second)
	w.empty()
}

func TestSimultaneousClose(t *testing.T) {
	w := newWorld(t, 20)
	client, server := w.connect()
	client.side.table.Close(w.now, client.id, false)
	server.side.table.Close(w.now, server.id, false)
	w.Equal([]State{FinWait1, FinWait1}, []State{client.state(), server.state()})
	w.run(1500 * time.Microsecond)
	w.Equal([]State{Closing, Closing}, []State{client.state(), server.state()})
	w.run(20 * time.Millisecond)
	w.Equal([]State{TimeWait, TimeWait}, []State{client.state(), server.state()})
	w.run(2 * time.Second)
	w.empty()
}

func TestUnreadData(t *testing.T) {
	w := newWorld(t, 21)
	client, server := w.connect()
	client.send([]byte("nobody reads this"))
	w.run(20 * time.Millisecond)
	server.side.table.Close(w.now, server.id, true)
	w.run(20 * time.Millisecond)
	w.Equal(EventReset, client.events[len(client.events)-1])
	client.side.table.Close(w.now, client.id, false)
	w.empty()
}

// FIN that was lost is sent again by a record that nobody has any more; a peer that never ends is given up.
func TestRecordsThatOutliveTheirUser(t *testing.T) {
	w := newWorld(t, 22)
	client, server := w.connect()
	lost := 0
	w.lose = func(f *frame) bool { lost++; return lost <= 2 }
	client.send(pattern(5000))
	client.side.table.Close(w.now, client.id, false)
	w.run(time.Second)
	w.Equal(pattern(5000), server.got)
	w.Equal(EventEnded, server.events[len(server.events)-1])
	w.Equal(FinWait2, client.state())
	w.run(10 * time.Second)
	w.True(client.gone, "the peer never closed")
	server.side.table.Close(w.now, server.id, false)
	w.run(time.Second)
	w.empty()
}

func TestTimeWait(t *testing.T) {
	w := newWorld(t, 23)
	client, server := w.connect()
	local := client.side.table.Local(client.id)
	client.side.table.Close(w.now, client.id, false)
	w.run(10 * time.Millisecond)
	n := 0
	w.lose = func(f *frame) bool { n++; return f.to == server.side && n < 3 } // the last acknowledgement
	server.side.table.Close(w.now, server.id, false)
	w.run(10 * time.Millisecond)
	w.Equal([]State{TimeWait, LastAck}, []State{client.state(), server.state()})
	w.lose = nil
	w.run(200 * time.Millisecond)
	w.True(server.gone, "its FIN came again and was acknowledged again")
	w.Equal(TimeWait, client.state())

	// A SYN with a later number begins a new connection in its place.
	back := w.sides[0].table.Listen(local, 1)
	id := w.sides[1].table.open(w.server(), local)
	c := &w.sides[1].table.conns[id]
	c.una = w.sides[0].table.conns[client.id].rcv + 1000
	c.nxt, c.max, c.end, c.sndEdge = c.una, c.una, c.una+1, c.una+1
	c.become(SynSent)
	st := w.sides[1].meet(id)
	w.sides[1].table.output(id)
	w.run(20 * time.Millisecond)
	w.Equal([]EventKind{EventConnected}, st.events)
	w.True(client.gone)
	w.sides[0].table.Unlisten(back)
}

// A FIN that comes again in TIME-WAIT is acknowledged, and TIME-WAIT begins anew (RFC 9293 section 3.10.7.4): else the peer's next one is
// answered with a reset.
func TestTimeWaitBeginsAnew(t *testing.T) {
	w := newWorld(t, 31)
	client, server := w.connect()
	client.side.table.Close(w.now, client.id, false)
	w.run(10 * time.Millisecond)
	until := w.now.Add(900 * time.Millisecond)
	w.lose = func(f *frame) bool { return f.to == server.side && w.now < until } // acknowledgements of the FIN
	server.side.table.Close(w.now, server.id, false)
	w.run(1200 * time.Millisecond)
	w.Equal([]State{TimeWait, LastAck}, []State{client.state(), server.state()}, "the last FIN came half a second ago")
	w.run(300 * time.Millisecond)
	w.True(server.gone)
	w.Zero(client.side.table.Stats().ResetsSent)
	w.run(2 * time.Second)
	w.empty()
}

// A reset in TIME-WAIT ends the connection without an error: both ends were through (RFC 9293 section 3.10.7.4).
func TestResetInTimeWait(t *testing.T) {
	for _, closed := range []bool{false, true} {
		w := newWorld(t, 32)
		client, server := w.connect()
		client.side.table.CloseWrite(w.now, client.id)
		server.side.table.CloseWrite(w.now, server.id)
		w.run(50 * time.Millisecond)
		w.Equal(TimeWait, client.state())
		if closed {
			client.side.table.Close(w.now, client.id, false)
		}
		c := &client.side.table.conns[client.id]
		client.side.table.Input(w.now, &Segment{Source: c.remote, Target: c.local, Flags: RST, Seq: c.rcv})
		w.Equal(closed, client.gone)
		w.NotContains(client.events, EventReset)
		if !closed {
			w.Equal(Closed, client.state())
			client.side.table.Close(w.now, client.id, false)
		}
		server.side.table.Close(w.now, server.id, false)
		w.run(5 * time.Second)
		w.empty()
	}
}

func TestAbortAll(t *testing.T) {
	w := newWorld(t, 24)
	client, server := w.connect()
	one, other := w.connect()
	one.side.table.Close(w.now, one.id, false)
	w.run(20 * time.Millisecond)
	server.side.table.AbortAll(w.now)
	w.run(20 * time.Millisecond)
	w.Equal(EventReset, client.events[len(client.events)-1])
	w.True(one.gone)
	w.True(other.gone && server.gone)
	w.Zero(server.side.table.Len())
	client.side.table.Close(w.now, client.id, false)
	w.empty()
}

func TestBind(t *testing.T) {
	w := newWorld(t, 25)
	x := w.sides[0].table
	one := Endpoint{[4]byte{10, 0, 0, 1}, 7000}
	_, err := x.Bind(one)
	w.NoError(err)
	_, err = x.Bind(one)
	w.ErrorIs(err, ErrInUse)
	_, err = x.Bind(Endpoint{Port: 7000})
	w.ErrorIs(err, ErrInUse)
	_, err = x.Bind(Endpoint{[4]byte{10, 0, 0, 2}, 7000})
	w.NoError(err)
	x.Unbind(one)
	_, err = x.Bind(one)
	w.NoError(err)
	for range 3 {
		e, err := x.Bind(Endpoint{Addr: one.Addr})
		w.NoError(err)
		w.GreaterOrEqual(e.Port, uint16(32768))
	}
}

// Nothing of a busy connection allocates.
func TestNoAllocation(t *testing.T) {
	w := newWorld(t, 26)
	client, server := w.connect()
	msg := pattern(100)
	echo := func() {
		client.sent, server.sent, client.got, server.got = client.sent[:0], server.sent[:0], client.got[:0], server.got[:0]
		client.first, server.first = client.side.table.End(client.id), server.side.table.End(server.id)
		w.log = w.log[:0]
		client.send(msg)
		w.run(5 * time.Millisecond)
		server.send(msg)
		w.run(5 * time.Millisecond)
		client.credit()
		server.credit()
	}
	for range 100 {
		echo()
	}
	// The world itself allocates for its frames and its log: the tables are measured alone.
	c, s := client.side.table, Segment{Source: w.server(), Target: client.side.table.Local(client.id), Flags: ACK,
		Seq: client.side.table.conns[client.id].rcv, Ack: client.side.table.conns[client.id].max, Window: 65536}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		c.Input(w.now, &s)
		c.Flush(w.now)
		c.Expire(w.now)
		c.Deadline()
	}))
}
