package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

func noSACK(s *Settings, _ *Config)     { s.SACK = false }
func timestamps(s *Settings, _ *Config) { s.Timestamps = true }

// RFC 9293 SHLD-7, MUST-17: Nagle's algorithm and its switch.
func TestNagle(t *testing.T) {
	s := connected(t, func(s *Settings, _ *Config) { s.NoDelay = false })
	s.send(100)
	s.out("P. 1:101 ack 1")
	s.send(100)
	s.out() // something is in flight
	s.in(". 1:1 ack 101")
	s.out("P. 101:201 ack 1")
	s.send(1000) // a full segment goes
	s.out("P. 201:1201 ack 1")
	s.send(50)
	s.out()
	settings := s.table.Settings(s.id)
	settings.NoDelay = true
	require.NoError(t, s.table.Configure(s.now, s.id, settings))
	s.out("P. 1201:1251 ack 1")
	s.send(10)
	s.out("P. 1251:1261 ack 1")
}

// Cork holds what is not full, for 200 ms at most; so does a Send that says that more follows.
func TestCork(t *testing.T) {
	s := connected(t, func(s *Settings, _ *Config) { s.Cork = true })
	s.send(1100)
	s.out(". 1:1001 ack 1")
	s.in(". 1:1 ack 1001")
	s.out()
	s.wait(199 * ms)
	s.out()
	s.wait(3 * ms)
	s.out("P. 1001:1101 ack 1")

	s = connected(t)
	s.buffers++
	require.NoError(t, s.table.Send(s.now, s.id, Payload{Buffer: s.buffers, Length: 10}, true))
	s.out()
	s.table.Push(s.now, s.id)
	s.out("P. 1:11 ack 1")
	s.in(". 1:1 ack 11")
	require.NoError(t, s.table.Send(s.now, s.id, Payload{Buffer: s.buffers, Length: 10}, true))
	p, ok := s.table.Tail(s.id)
	require.True(t, ok)
	require.EqualValues(t, 10, p.Length)
	require.NoError(t, s.table.Extend(s.now, s.id, 5, false))
	s.out("P. 11:26 ack 1")
	_, ok = s.table.Tail(s.id)
	require.False(t, ok, "it was sent")
}

// RFC 9293 MUST-38: silly windows are avoided by the sender.
func TestSillyWindow(t *testing.T) {
	s := connected(t)
	s.in(". 1:1 ack 1 win 300")
	s.send(2000)
	s.out() // neither a segment nor half of the largest window
	s.in(". 1:1 ack 1 win 1000")
	s.out(". 1:1001 ack 1")
	s.in(". 1:1 ack 1001 win 300")
	s.out()
	s.wait(clock.Second) // the override time-out
	require.Equal(t, ". 1001:1301 ack 1", s.pending[0])
}

// RFC 9293 section 3.8.6.2.1: the part of a segment that a window leaves over goes where the window is not small, one at a time.
func TestRestOfAWindow(t *testing.T) {
	s := connected(t)
	s.in(". 1:1 ack 1 win 2500")
	s.table.conn(s.id).maxWnd = 2500
	s.send(20000)
	s.out(". 1:1001 ack 1", ". 1001:2001 ack 1", ". 2001:2501 ack 1")
	s.in(". 1:1 ack 1001 win 2500")
	s.out(". 2501:3501 ack 1")
	s.in(". 1:1 ack 2001 win 2200")
	s.out() // 700 bytes: one of 500 is under way
	s.in(". 1:1 ack 2501 win 2500")
	s.out(". 3501:4501 ack 1", ". 4501:5001 ack 1")
	s.in(". 1:1 ack 5001 win 2500")
	s.out(". 5001:6001 ack 1", ". 6001:7001 ack 1", ". 7001:7501 ack 1")
	s.in(". 1:1 ack 7501 win 2000")
	s.out(". 7501:8501 ack 1", ". 8501:9501 ack 1")
	s.in(". 1:1 ack 8501 win 1200")
	s.out() // a small window: silly
}

// RFC 9293 MUST-34: a window that shrinks below what was sent.
func TestWindowShrinks(t *testing.T) {
	s := connected(t)
	s.send(5000)
	s.collect()
	s.pending = nil
	s.in(". 1:1 ack 1001 win 1000")
	s.send(1000)
	s.out()
	s.in(". 1:1 ack 5001 win 3000")
	s.out("P. 5001:6001 ack 1")
	require.Equal(t, 3000, s.info().SendWindow)
}

// RFC 9293 section 3.8.6.1, MUST-35 to MUST-37: probes with back-off for as long as they are answered.
func TestZeroWindowProbes(t *testing.T) {
	s := connected(t)
	s.in(". 1:1 ack 1 win 0")
	s.send(100)
	s.out()
	for n := range 5 {
		s.wait(200*ms<<n + ms)
		s.out(". 0:0 ack 1")
		s.in(". 1:1 ack 1 win 0")
	}
	for range 300 { // ten hours
		s.wait(120*clock.Second + ms)
		if len(s.pending) > 0 {
			s.pending = nil
			s.in(". 1:1 ack 1 win 0")
		}
	}
	s.state(Established)
	s.in(". 1:1 ack 1 win 5000")
	s.out("P. 1:101 ack 1")
	s.in(". 1:1 ack 101")
	s.silent(clock.Second)
}

// Probes that nobody answers end the connection, as data would.
func TestZeroWindowProbesUnanswered(t *testing.T) {
	s := connected(t, func(s *Settings, _ *Config) { s.Retries = 4 })
	s.in(". 1:1 ack 1 win 0")
	s.send(100)
	s.wait(60 * clock.Second)
	require.Equal(t, ReasonTimeout, s.event(EventFailed).Reason)
}

// RFC 6298: 200 ms at least, doubled each time; the connection fails after Retries; R1 is reported (RFC 9293 MUST-20, MUST-21).
func TestRetransmissionTimeout(t *testing.T) {
	s := connected(t, noSACK, func(s *Settings, _ *Config) { s.Retries = 5 })
	s.send(100)
	s.out("P. 1:101 ack 1")
	for n := range 5 {
		s.wait(200*ms<<n - 5*ms)
		s.out()
		s.wait(10 * ms)
		s.out("P. 1:101 ack 1")
		s.now -= clock.Time(5 * ms)
		if n == 2 {
			require.Equal(t, ReasonNextHop, s.event(EventWarning).Reason)
		}
	}
	s.wait(10 * clock.Second)
	s.out("R. 101:101 ack 1")
	require.Equal(t, ReasonTimeout, s.event(EventFailed).Reason)
}

// RFC 6298 (2.2), (2.3), (5.3): samples, and the timer starts anew with each new acknowledgement.
func TestRoundTripTime(t *testing.T) {
	s := newScript(t, noSACK)
	s.dial()
	s.out("S 0:0")
	s.wait(100 * ms)
	s.in("S. 0:0 ack 1 mss 1000")
	s.out(". 1:1 ack 1")
	i := s.info()
	require.Equal(t, []clock.Duration{100 * ms, 50 * ms, 300 * ms}, []clock.Duration{i.RTT, i.RTTVar, i.RTO})
	s.send(2000)
	s.out(". 1:1001 ack 1", "P. 1001:2001 ack 1")
	s.wait(200 * ms)
	s.in(". 1:1 ack 1001")
	i = s.info()
	require.InDelta(t, 112.5, float64(i.RTT)/float64(ms), 0.1)
	require.InDelta(t, 62.5, float64(i.RTTVar)/float64(ms), 0.1)
	s.wait(i.RTO - 10*ms)
	s.out()
	s.wait(12 * ms)
	s.out("P. 1001:2001 ack 1")
	rtt := s.info().RTT
	s.wait(5 * ms)
	s.in(". 1:1 ack 2001") // MUST-18: of a segment that was sent twice no sample is taken
	require.Equal(t, rtt, s.info().RTT)
	require.Zero(t, s.info().TimeOuts)
}

// A small RTOMin does not send again what a peer acknowledges late by its rules.
func TestSmallTimeoutWaitsForDelayedAck(t *testing.T) {
	s := connected(t, func(s *Settings, _ *Config) { s.RTOMin, s.RTOInitial = ms, 100*ms })
	for n := range 10 {
		s.send(100)
		s.wait(40 * ms)
		require.Len(t, s.pending, 1, "the %d-th", n)
		s.pending = nil
		s.in(". 1:1 ack " + itoa(101+100*n))
	}
	require.Zero(t, s.table.Stats().Retransmitted)
	for n := range 60 { // it is as small as it may be where the acknowledgement cannot be late
		s.send(3000)
		s.wait(20 * clock.Microsecond)
		s.in(". 1:1 ack " + itoa(4001+3000*n))
	}
	s.send(5000)
	require.Less(t, s.info().RTO, 60*ms)
}

// The user timeout: RFC 9293 section 3.9.1.1, RFC 5482.
func TestUserTimeout(t *testing.T) {
	for _, window := range []string{"5000", "0"} {
		s := connected(t, func(s *Settings, _ *Config) { s.UserTimeout = 3 * clock.Second })
		s.in(". 1:1 ack 1 win " + window)
		s.send(100)
		for range 28 {
			s.wait(100 * ms)
			if window == "0" {
				s.in(". 1:1 ack 1 win 0")
			}
		}
		s.state(Established)
		s.wait(300 * ms)
		s.state(Closed)
		require.Equal(t, ReasonTimeout, s.event(EventFailed).Reason)
	}
}

// RFC 9293 MUST-24 to MUST-29, SHLD-12: off unless asked for; probes have no data and the number before the next.
func TestKeepAlive(t *testing.T) {
	s := connected(t)
	s.silent(100 * clock.Hour)

	s = connected(t, func(s *Settings, _ *Config) {
		s.KeepAlive, s.KeepIdle, s.KeepInterval, s.KeepCount = true, 10*clock.Second, clock.Second, 3
	})
	s.silent(9 * clock.Second)
	s.wait(1010 * ms)
	s.out(". 0:0 ack 1")
	s.in(". 1:1 ack 1")
	s.wait(5 * clock.Second)
	s.in("P. 1:11 ack 1")
	s.pending = nil
	s.wait(9 * clock.Second)
	s.out()
	s.wait(1100 * ms)
	s.out(". 0:0 ack 11")
	s.wait(1100 * ms)
	s.out(". 0:0 ack 11")
	s.wait(1100 * ms)
	s.out(". 0:0 ack 11")
	s.wait(1100 * ms)
	s.out("R. 1:1 ack 11")
	require.Equal(t, ReasonKeepAlive, s.event(EventFailed).Reason)
}

// RFC 5681 section 3.1, RFC 6928: ten segments, then two for each acknowledged one.
func TestSlowStartOnTheWire(t *testing.T) {
	s := connected(t)
	s.send(40000)
	s.collect()
	require.Len(t, s.pending, 10)
	s.pending = nil
	s.in(". 1:1 ack 2001")
	require.Len(t, s.pending, 4)
}

// RFC 5681 section 3.1: after a lost SYN the window is one segment.
func TestWindowAfterALostSyn(t *testing.T) {
	s := newScript(t)
	s.dial()
	s.wait(1100 * ms)
	s.in("S. 0:0 ack 1 mss 1000")
	s.pending = nil
	s.send(5000)
	s.out(". 1:1001 ack 1")
}

// RFC 9293 section 3.8.3: a window that did not limit does not grow.
func TestApplicationLimitedWindow(t *testing.T) {
	s := connected(t)
	for n := range 50 {
		s.send(1000)
		s.in(". 1:1 ack " + itoa(1001+1000*n))
	}
	require.Equal(t, 10000, s.info().CongestionWindow)
}

// RFC 5681 section 4.1: after an idle time the window is the initial one again.
func TestWindowAfterIdleTime(t *testing.T) {
	s := connected(t)
	s.send(40000)
	for acked := 2000; acked <= 40000; acked += 2000 {
		s.in(". 1:1 ack " + itoa(acked+1))
	}
	require.Greater(t, s.info().CongestionWindow, 20000)
	s.wait(10 * clock.Second)
	s.pending = nil
	s.send(40000)
	s.collect()
	require.Len(t, s.pending, 10)
}

// RFC 3168 section 6.1.2: ECE halves the window once in a round trip, and CWR says so.
func TestECNSender(t *testing.T) {
	s := newScript(t, func(s *Settings, _ *Config) { s.ECN = true })
	s.dial()
	s.out("SEW 0:0")
	s.in("SE. 0:0 ack 1 mss 1000 sackok")
	s.out(". 1:1 ack 1")
	require.True(t, s.info().ECN)
	s.send(40000)
	s.collect()
	require.Equal(t, ECT0, s.last().ECN)
	s.in("E. 1:1 ack 1001")
	require.Equal(t, 5000, s.info().CongestionWindow)
	s.in("E. 1:1 ack 2001")
	require.Equal(t, 5000, s.info().CongestionWindow)
	s.pending = nil
	s.in("E. 1:1 ack 7001")
	require.Contains(t, s.pending[0], "W", "the first new data")
	require.NotContains(t, s.pending[1], "W")
}

// RFC 1191, RFC 5927 section 7: only an error about a segment in flight counts, and no size below 552.
func TestPathMTU(t *testing.T) {
	s := connected(t, func(s *Settings, _ *Config) { s.MaxSegment = 0 })
	big := func(mtu int, seq Seq) {
		s.table.Error(s.now, NetworkError{Local: us1, Remote: them, Seq: s.iss + seq, Type: 3, Code: 4, MTU: mtu})
	}
	s.send(3000)
	s.out(". 1:1001 ack 1", ". 1001:2001 ack 1", "P. 2001:3001 ack 1")
	for _, mtu := range []int{0, 67} {
		big(mtu, 1)
	}
	big(600, 3001) // not in flight
	big(600, 0)
	require.Equal(t, 1500, s.info().PathMTU)
	s.out()
	big(640, 1001)
	require.Equal(t, 600, s.info().MSS)
	s.collect()
	require.Equal(t, ". 1:601 ack 1", s.pending[0])
	require.True(t, s.last().Again)
	s.pending = nil
	s.in(". 1:1 ack 601")
	big(100, 1001)
	require.Equal(t, minPathMTU, s.info().PathMTU)
	s.in(". 1:1 ack 3001")
	require.Equal(t, 1, s.count(EventSent), "a piece that was cut returns once")
	s.table.SetPathMTU(s.now, s.id, 1500)
	require.Equal(t, 1000, s.info().MSS)
}

// An ICMP error that names less than the least path MTU is believed no further than that, so packets of that size may have to be fragmented on
// the path: the don't fragment bit would have each of them dropped.
func TestPacketsOfTheLeastPathMTUMayBeFragmented(t *testing.T) {
	s := connected(t, func(s *Settings, _ *Config) { s.MaxSegment = 0 })
	s.send(1000)
	s.collect()
	require.False(t, s.last().MayFrag)
	s.table.Error(s.now, NetworkError{Local: us1, Remote: them, Seq: s.iss + 1, Type: 3, Code: 4, MTU: 296})
	s.collect()
	require.Equal(t, minPathMTU, s.info().PathMTU)
	require.True(t, s.last().Again)
	require.True(t, s.last().MayFrag)
}

// RFC 8899 section 4.3: large segments vanish without a word.
func TestBlackHole(t *testing.T) {
	w := newWorld(t, 3)
	w.link.maxPacket = 900
	w.pair(50_000, 0)
	w.finish(100 * clock.Second)
	w.delivered()
	require.NotZero(t, w.sides[0].table.Stats().BlackHoles)
}

// RFC 9293 MUST-54 to MUST-56, SHLD-25, SHLD-26, RFC 5927.
func TestNetworkErrors(t *testing.T) {
	e := func(s *script, kind, code uint8, seq Seq) {
		s.table.Error(s.now, NetworkError{Local: us1, Remote: them, Seq: s.iss + seq, Type: kind, Code: code})
	}
	s := connected(t)
	s.send(100)
	s.collect()
	e(s, 3, 3, 1)
	e(s, 3, 1, 1)
	e(s, 11, 0, 1)
	e(s, 4, 0, 1) // source quench
	require.Equal(t, 3, s.count(EventWarning))
	s.state(Established)

	s = newScript(t)
	s.dial()
	s.collect()
	e(s, 3, 3, 5) // another number
	e(s, 3, 1, 0)
	s.state(SynSent)
	e(s, 3, 3, 0)
	require.Equal(t, ReasonProtocol, s.event(EventFailed).Reason)
}

// The connections of a table take turns in Output.
func TestConnectionsTakeTurns(t *testing.T) {
	s := connected(t, func(_ *Settings, c *Config) { c.Burst = 2 })
	first := s.id
	other := them
	other.Port++
	id, err := s.table.Connect(s.now, Dial{Local: us1, Remote: other, Settings: s.settings})
	require.NoError(t, err)
	s.collect()
	g := s.parse("S. 0:0 ack 1 mss 1000")
	g.Remote = other
	s.table.Input(s.now, &g)
	s.collect()
	s.raw = nil
	for _, c := range []ID{first, id} {
		require.NoError(t, s.table.Send(s.now, c, Payload{Buffer: 1, Length: 5000}, false))
	}
	s.collect()
	var order []ID
	for _, g := range s.raw {
		order = append(order, g.Conn)
	}
	require.Equal(t, []ID{first, first, id, id, first, first, id, id, first, id}, order)
}

// RFC 9293 MUST-37 with data in flight: a peer that shut its window over it and answers each time is alive (VMA's probes beside data in flight).
func TestZeroWindowOverDataInFlight(t *testing.T) {
	s := connected(t, noSACK, func(s *Settings, _ *Config) { s.Retries = 4 })
	s.send(1000)
	s.out("P. 1:1001 ack 1")
	s.in(". 1:1 ack 1 win 0")
	answered := 0
	for range 600 {
		s.wait(100 * ms)
		if len(s.pending) > 0 {
			s.pending = nil
			answered++
			s.in(". 1:1 ack 1 win 0")
		}
	}
	s.state(Established)
	require.Greater(t, answered, 10)
	s.in(". 1:1 ack 1 win 5000")
	s.wait(20 * clock.Second)
	require.Contains(t, s.pending, "P. 1:1001 ack 1")
}

// RFC 6298 (5.7): after a lost SYN the time-out of data begins with three seconds.
func TestTimeoutAfterALostSyn(t *testing.T) {
	s := newScript(t, noSACK)
	s.dial()
	s.wait(1100 * ms)
	s.in("S. 0:0 ack 1 mss 1000")
	s.pending = nil
	s.send(100)
	s.out("P. 1:101 ack 1")
	s.wait(2990 * ms)
	s.out()
	s.wait(20 * ms)
	s.out("P. 1:101 ack 1")
}

// Three time-outs in a row may be bad luck: the size is tried again once, and lowered for good only if nothing of that size arrives.
func TestBadLuckIsNoBlackHole(t *testing.T) {
	s := connected(t, noSACK, func(s *Settings, _ *Config) { s.MaxSegment = 0 })
	unlucky := func(at int) {
		s.send(1000)
		s.wait(3 * clock.Second)
		require.Equal(t, 552, s.info().PathMTU, "at %d", at)
		s.in(". 1:1 ack " + itoa(at+1000))
	}
	s.table.SetPathMTU(s.now, s.id, 1040)
	unlucky(1)
	require.Equal(t, 1000, s.info().MSS, "tried again")
	s.send(1000)
	s.in(". 1:1 ack 2001") // and it arrives
	unlucky(2001)
	require.Equal(t, 1000, s.info().MSS, "tried again")
	unlucky(3001)
	require.Equal(t, 512, s.info().MSS, "nothing of that size has arrived since")
}
