package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// settled is a connection that is beyond the quick acknowledgements of its start.
func settled(t *testing.T, changes ...change) *script {
	s := connected(t, changes...)
	s.table.conn(s.id).quick = 0
	return s
}

// RFC 9293 SHLD-18, SHLD-19, MUST-40: every second full segment at once, a single one after 40 ms.
func TestDelayedAck(t *testing.T) {
	s := settled(t)
	s.in(". 1:1001 ack 1")
	s.silent(39 * ms)
	s.wait(3 * ms)
	s.out(". 1:1 ack 1001")
	s.in(". 1001:2001 ack 1")
	s.out()
	s.in(". 2001:3001 ack 1")
	s.out(". 1:1 ack 3001")
	s.silent(clock.Second)
}

// What was pushed is acknowledged when the application has read all of it, unless it is one that answers.
func TestAckWhenAllIsRead(t *testing.T) {
	s := settled(t)
	s.in("P. 1:11 ack 1")
	s.out()
	s.table.Credit(s.now, s.id, 4)
	s.out()
	s.table.Credit(s.now, s.id, 6)
	s.out(". 1:1 ack 11")
	s.in(". 11:21 ack 1") // not pushed: more is to come
	s.table.Credit(s.now, s.id, 10)
	s.out()
	s.wait(41 * ms)
	s.out(". 1:1 ack 21")

	s.in("P. 21:31 ack 1")
	s.send(20)
	s.out("P. 1:21 ack 31")
	s.table.Credit(s.now, s.id, 10)
	s.in("P. 31:41 ack 21")
	s.table.Credit(s.now, s.id, 10)
	s.out() // the answer brings it
	s.wait(41 * ms)
	s.out(". 21:21 ack 41") // there was none
	s.in("P. 41:51 ack 21")
	s.table.Credit(s.now, s.id, 10)
	s.out(". 21:21 ack 51")
}

// An acknowledgement goes with data that leaves in time.
func TestAckGoesWithData(t *testing.T) {
	s := settled(t)
	s.in("P. 1:11 ack 1")
	s.send(20)
	s.out("P. 1:21 ack 11")
	s.in(". 11:11 ack 21")
	s.silent(clock.Second)
}

// RFC 9293 MUST-58, MUST-59: a burst is acknowledged once.
func TestBurstIsAcknowledgedOnce(t *testing.T) {
	s := settled(t)
	s.burst(". 1:1001 ack 1", ". 1001:2001 ack 1", ". 2001:3001 ack 1", ". 3001:4001 ack 1", ". 4001:5001 ack 1")
	s.out(". 1:1 ack 5001")
}

// The byte threshold, quick acknowledgements, and those at the start.
func TestAckPolicies(t *testing.T) {
	s := settled(t, func(s *Settings, _ *Config) { s.AckBytes = 100 })
	s.in("P. 1:51 ack 1")
	s.out()
	s.in("P. 51:101 ack 1")
	s.out(". 1:1 ack 101")

	s = settled(t, func(s *Settings, _ *Config) { s.QuickAck = true })
	s.in("P. 1:2 ack 1")
	s.out(". 1:1 ack 2")

	// Up to a size alone: longer ones wait for a second full segment, or for the delay.
	s = settled(t, func(s *Settings, _ *Config) { s.QuickAck, s.QuickAckMost = true, 100 })
	s.in("P. 1:101 ack 1")
	s.out(". 1:1 ack 101")
	s.in("P. 101:202 ack 1")
	s.silent(39 * ms)
	s.wait(3 * ms)
	s.out(". 1:1 ack 202")
	s.in("P. 202:303 ack 1")
	s.out()
	s.in("P. 303:304 ack 1")
	s.out(". 1:1 ack 304")

	s = connected(t)
	for n := range quickSegments {
		s.in(s.piece(n, 1))
		require.Len(t, s.pending, n+1)
	}
	s.in(s.piece(quickSegments, 1))
	require.Len(t, s.pending, quickSegments)
}

// piece is the peer's n-th segment of a size.
func (s *script) piece(n, size int) string {
	return "P. " + itoa(1+n*size) + ":" + itoa(1+(n+1)*size) + " ack 1"
}

func itoa(n int) string { return string(appendInt(nil, n)) }

func appendInt(b []byte, n int) []byte {
	if n >= 10 {
		b = appendInt(b, n/10)
	}
	return append(b, byte('0'+n%10))
}

// RFC 9293 section 3.4: four cases, both edges.
func TestAcceptable(t *testing.T) {
	const wrap = Seq(0xfffffff0)
	for _, c := range []struct {
		seq      Seq
		span     int
		from, to Seq
		want     bool
	}{
		{10, 0, 10, 10, true}, {11, 0, 10, 10, false}, {9, 0, 10, 10, false},
		{10, 0, 10, 20, true}, {19, 0, 10, 20, true}, {20, 0, 10, 20, false}, {9, 0, 10, 20, false},
		{10, 5, 10, 10, true}, {11, 5, 10, 10, false},
		{10, 1, 10, 20, true}, {19, 1, 10, 20, true}, {20, 1, 10, 20, false}, {9, 1, 10, 20, false}, {9, 2, 10, 20, true},
		{5, 5, 10, 20, false}, {5, 6, 10, 20, true}, {5, 100, 10, 20, true}, {19, 100, 10, 20, true},
		{wrap, 0, wrap, 10, true}, {5, 1, wrap, 10, true}, {10, 1, wrap, 10, false}, {wrap - 1, 1, wrap, 10, false},
	} {
		require.Equal(t, c.want, acceptable(c.seq, c.span, c.from, c.to), "%+v", c)
	}
}

// What is outside the window is answered; what is not data within a limit of 500 ms (RFC 5961 section 7).
func TestOutsideTheWindow(t *testing.T) {
	s := settled(t, func(s *Settings, _ *Config) { s.ReceiveBuffer = 10000 })
	s.in("P. 10001:10011 ack 1")
	s.out(". 1:1 ack 1")
	s.in(". 10001:10001 ack 1")
	s.out(". 1:1 ack 1")
	s.in(". 20000:20000 ack 1")
	s.in("F. 20000:20000 ack 1")
	s.out()
	s.wait(501 * ms)
	s.in(". 20000:20000 ack 1")
	s.out(". 1:1 ack 1")
	s.in("R 10001:10001")
	s.state(Established)
	// The part within is taken, FIN beyond is not (smoltcp's bytes beyond the window).
	s.in("FP. 1:10011 ack 1")
	require.EqualValues(t, 10000, s.event(EventData).Payload.Length)
	s.state(Established)
}

// FIN behind data that does not fit into the window is not taken, and does not end the stream where the data was cut. FIN at the edge is taken,
// as Linux takes it: it needs no memory, and some stacks send it while the window is shut.
func TestFinBeyondTheWindow(t *testing.T) {
	s := settled(t, func(s *Settings, _ *Config) { s.ReceiveBuffer = 1000 })
	s.in("FP. 1:1011 ack 1")
	require.EqualValues(t, 1000, s.event(EventData).Payload.Length)
	require.Zero(t, s.count(EventEnd))
	s.state(Established)
	s.table.Credit(s.now, s.id, 1000)
	s.in("FP. 1001:1011 ack 1")
	require.EqualValues(t, 10, s.event(EventData).Payload.Length)
	s.event(EventEnd)
	s.state(CloseWait)

	s = settled(t, func(s *Settings, _ *Config) { s.ReceiveBuffer = 1000 })
	s.in("P. 1:1001 ack 1")
	s.in("F. 1001:1001 ack 1")
	s.state(CloseWait)
}

// A window that was shut and opens is announced without being asked for.
func TestWindowIsAnnounced(t *testing.T) {
	s := settled(t, func(s *Settings, _ *Config) { s.ReceiveBuffer = 2000 })
	s.burst(". 1:1001 ack 1", "P. 1001:2001 ack 1")
	s.out(". 1:1 ack 2001")
	require.Zero(t, s.last().Window)
	s.table.Credit(s.now, s.id, 2000)
	s.out(". 1:1 ack 2001")
	require.EqualValues(t, 2000, s.last().Window)
}

// RFC 5961 section 3.2 and 4.2, with the limit of section 7.
func TestBlindResetAndSyn(t *testing.T) {
	s := connected(t)
	s.in("R 2:2")
	s.out(". 1:1 ack 1")
	s.in("R 300:300")
	s.in("S 1:1")
	s.out() // the limit
	s.wait(501 * ms)
	s.in("S 5000:5000")
	s.out(". 1:1 ack 1")
	s.wait(501 * ms)
	s.in("S. 0:0 ack 1") // the peer's SYN and ACK again
	s.out(". 1:1 ack 1")
	s.in("R 0:0")
	s.in("R 70000:70000")
	s.out()
	s.state(Established)
	s.in("R 1:1")
	require.Equal(t, ReasonReset, s.event(EventFailed).Reason)
	s.state(Closed)
	require.ErrorIs(t, s.table.Send(s.now, s.id, Payload{Length: 1}, false), ErrNotOpen)
}

// RFC 5961 section 5.2: an acknowledgement far behind or ahead of what was sent.
func TestBlindAck(t *testing.T) {
	s := connected(t)
	s.send(1000)
	s.out("P. 1:1001 ack 1")
	s.in("P. 1:11 ack 1002")
	s.out(". 1001:1001 ack 1")
	s.wait(501 * ms)
	s.pending = nil
	s.in("P. 1:11 ack -60000")
	s.out(". 1001:1001 ack 1")
	require.Zero(t, s.count(EventData))
}

// A segment without ACK is dropped.
func TestNoAckBit(t *testing.T) {
	s := connected(t)
	require.Equal(t, wire.TCPUnacceptable, s.in("P 1:11"))
	require.Equal(t, wire.TCPUnacceptable, s.in("F 1:1"))
	s.out()
	s.state(Established)

	s = newScript(t)
	s.listen()
	require.Equal(t, wire.TCPFlagsBad, s.in("F 1:1")) // RFC 9293 section 3.10.7.2, fourth step
	s.out()
}

// RFC 9293 MUST-31 and others: urgent data is data, and no pointer does harm.
func TestUrgentPointers(t *testing.T) {
	s := settled(t)
	s.in("PU. 1:11 ack 1 urg 0")
	s.in("PU. 11:21 ack 1 urg 1")
	s.in("PU. 21:31 ack 1 urg 65535")
	require.EqualValues(t, 10, s.event(EventData).Payload.Length)
	require.EqualValues(t, 10, s.event(EventData).Payload.Length)
	require.EqualValues(t, 10, s.event(EventData).Payload.Length)
}

// RFC 9293 MUST-39, SHLD-14: the window opens in steps and its right edge is never pulled back.
func TestReceiveWindow(t *testing.T) {
	s := settled(t, func(s *Settings, _ *Config) { s.ReceiveBuffer = 4000 })
	edge := func() int { return int(s.last().Ack-s.irs) + int(s.last().Window) }
	s.burst(". 1:1001 ack 1", ". 1001:2001 ack 1")
	s.out(". 1:1 ack 2001")
	require.Equal(t, 4001, edge())
	s.burst(". 2001:3001 ack 1", ". 3001:4001 ack 1")
	s.out(". 1:1 ack 4001")
	require.Zero(t, s.last().Window)
	s.table.Credit(s.now, s.id, 400)
	s.out() // less than a segment
	s.in(". 4000:4000 ack 1")
	s.out(". 1:1 ack 4001")
	require.Zero(t, s.last().Window, "nor does an acknowledgement say so")
	s.table.Credit(s.now, s.id, 700)
	s.out(". 1:1 ack 4001")
	require.EqualValues(t, 1100, s.last().Window)
	s.table.Credit(s.now, s.id, 1000)
	s.table.Credit(s.now, s.id, 2000)
	s.collect()
	require.Equal(t, 8001, edge())
}

// RFC 9293 MUST-66, section 3.8.6: with a window of zero acknowledgements and resets count, data is answered.
func TestZeroReceiveWindow(t *testing.T) {
	s := settled(t, func(s *Settings, _ *Config) { s.ReceiveBuffer = 1000 })
	s.in(". 1:1001 ack 1")
	s.collect()
	s.wait(50 * ms)
	s.pending = nil
	require.Zero(t, s.last().Window)
	s.send(100)
	s.out("P. 1:101 ack 1001")
	s.in("P. 1001:1011 ack 101") // data beyond the window, with an acknowledgement
	require.EqualValues(t, 100, s.event(EventAcked).Payload.Length)
	s.out(". 101:101 ack 1001")
	s.in(". 1000:1000 ack 101") // a probe
	s.out(". 101:101 ack 1001")
	s.in("R 1001:1001")
	s.state(Closed)
}

// RFC 7323 section 5: an old timestamp is answered and dropped; a reset is exempt; 24 days make it void.
func TestPAWS(t *testing.T) {
	s := settled(t, func(s *Settings, _ *Config) { s.Timestamps = true })
	s.in("P. 1:11 ack 1 ts 2000/0")
	s.wait(50 * ms)
	s.pending = nil
	require.Equal(t, wire.TCPOld, s.in("P. 11:21 ack 1 ts 1999/0"))
	s.out(". 1:1 ack 11")
	require.EqualValues(t, 2000, s.last().Options.TSEcho)
	require.Equal(t, wire.Accept, s.in("P. 11:21 ack 1 ts 2000/0"))
	require.Equal(t, wire.Accept, s.in("P. 21:31 ack 1"), "some stacks omit it")
	s.wait(25 * 24 * clock.Hour)
	require.Equal(t, wire.Accept, s.in("P. 31:41 ack 1 ts 5/0"))
	s.in("R 41:41 ts 1/0")
	s.state(Closed)
}

// RFC 7323 section 4.3: the echo is of the segment that the acknowledgement is for, not of one beyond a gap, nor of one that is not acceptable.
func TestTimestampEcho(t *testing.T) {
	s := settled(t, func(s *Settings, _ *Config) { s.Timestamps = true })
	s.in(". 1:101 ack 1 ts 2000/0")
	s.in(". 101:201 ack 1 ts 2005/0") // the first not acknowledged one counts
	s.wait(50 * ms)
	s.out(". 1:1 ack 201")
	require.EqualValues(t, 2000, s.last().Options.TSEcho)
	s.in(". 301:401 ack 1 ts 2010/0")
	s.out(". 1:1 ack 201 sack 301-401")
	require.EqualValues(t, 2000, s.last().Options.TSEcho)
	s.in(". 201:301 ack 99 ts 2020/0") // acknowledges what was not sent
	s.collect()
	require.EqualValues(t, 2000, s.last().Options.TSEcho)
	s.pending = nil
	s.in(". 201:301 ack 1 ts 2020/0")
	s.out(". 1:1 ack 401")
	require.EqualValues(t, 2020, s.last().Options.TSEcho)
}

// RFC 2018: the newest block first, ranges joined, four without timestamps. RFC 2883: a duplicate once, in front.
func TestSACKBlocks(t *testing.T) {
	s := settled(t)
	s.in(". 101:201 ack 1")
	s.out(". 1:1 ack 1 sack 101-201")
	s.in(". 301:401 ack 1")
	s.out(". 1:1 ack 1 sack 301-401,101-201")
	s.in(". 501:601 ack 1")
	s.in(". 701:801 ack 1")
	s.in(". 901:1001 ack 1")
	s.pending = s.pending[2:]
	s.out(". 1:1 ack 1 sack 901-1001,701-801,501-601,301-401")
	s.in(". 201:301 ack 1")
	s.out(". 1:1 ack 1 sack 101-401,901-1001,701-801,501-601")
	s.in(". 701:801 ack 1") // again
	s.out(". 1:1 ack 1 sack 701-801,701-801,101-401,901-1001")
	s.in(". 1:101 ack 1")
	s.out(". 1:1 ack 401 sack 701-801,901-1001,501-601")
	s.in(". 1:101 ack 1") // below the acknowledgement
	s.out(". 1:1 ack 401 sack 1-101,701-801,901-1001,501-601")
}

// A full segment has no room for blocks: what they report waits for an acknowledgement without payload.
func TestSACKBesideFullSegments(t *testing.T) {
	s := settled(t)
	s.in(". 1:101 ack 1")
	s.wait(41 * ms)
	s.out(". 1:1 ack 101")
	again := s.parse(". 1:101 ack 1")
	s.table.Input(s.now, &again)
	s.send(1000)
	s.out("P. 1:1001 ack 101", ". 1001:1001 ack 101 sack 1-101")
	beyond := s.parse(". 201:301 ack 1001")
	s.table.Input(s.now, &beyond)
	s.send(988) // room for one block
	s.out("P. 1001:1989 ack 101 sack 201-301")

	// The report of what came twice and the newest range do not fit together.
	again = s.parse(". 1:101 ack 1989")
	s.table.Input(s.now, &again)
	beyond = s.parse(". 401:501 ack 1989")
	s.table.Input(s.now, &beyond)
	s.send(988)
	s.out("P. 1989:2977 ack 101 sack 1-101", ". 2977:2977 ack 101 sack 401-501,201-301")
}

func TestThreeSACKBlocksBesideTimestamps(t *testing.T) {
	s := settled(t, func(s *Settings, _ *Config) { s.Timestamps = true })
	for n := range 5 {
		s.in(". " + itoa(101+200*n) + ":" + itoa(201+200*n) + " ack 1 ts 1001/0")
	}
	require.Equal(t, ". 1:1 ack 1 sack 901-1001,701-801,501-601", s.pending[4])
}

// Data beyond gaps is bounded in bytes by the window, which is not offered again before it is used, and in pieces.
func TestOutOfOrderMemoryIsBounded(t *testing.T) {
	s := settled(t, func(s *Settings, _ *Config) { s.ReceiveBuffer = 40000 })
	for n := range 39 {
		s.in(". " + itoa(1001+1000*n) + ":" + itoa(2001+1000*n) + " ack 1")
	}
	s.in(". 40001:41001 ack 1") // beyond the window
	require.Equal(t, 39000, s.info().OutOfOrder)
	s.in("R 1:1")
	require.Equal(t, 39, s.count(EventDropped))

	s = settled(t)
	for n := range 3000 {
		s.in(". " + itoa(3+2*n) + ":" + itoa(4+2*n) + " ack 1")
	}
	require.Equal(t, maxHeldPieces, s.info().OutOfOrder)
}

// RFC 3168 section 6.1.3: CE is echoed until the sender says that it has slowed down.
func TestECNReceiver(t *testing.T) {
	s := newScript(t)
	s.listen()
	s.in("SEW 0:0 mss 1000")
	s.out("SE. 0:0 ack 1")
	s.in(". 1:1 ack 1")
	s.in(". 1:1001 ack 1 ce")
	s.out("E. 1:1 ack 1001")
	s.in(". 1001:2001 ack 1")
	s.out("E. 1:1 ack 2001")
	s.in("W. 2001:3001 ack 1")
	s.out(". 1:1 ack 3001")
}

// Reassembly against a model: a slice of bytes that have come.
func FuzzReassembly(f *testing.F) {
	f.Add([]byte{5, 5, 1, 10, 0, 5, 3, 9, 20, 4, 9, 12})
	f.Add([]byte{1, 1, 3, 1, 5, 1, 7, 1, 0, 20})
	f.Add([]byte{5, 10, 10, 20, 0, 40})      // overlaps at its left
	f.Add([]byte{20, 10, 10, 15, 0, 40})     // at its right
	f.Add([]byte{5, 5, 20, 5, 8, 15, 0, 40}) // at both
	f.Add([]byte{5, 5, 15, 5, 10, 5, 40, 5, 3, 30, 0, 60})
	f.Fuzz(func(t *testing.T, ops []byte) {
		s := settled(t, func(s *Settings, _ *Config) { s.ReceiveBuffer = 10000 })
		var came [600]bool
		kept := map[Buffer]int{}
		got := 0
		for i := 0; i+1 < len(ops) && i < 200; i += 2 {
			from, n := int(ops[i]), int(ops[i+1])%64
			g := s.parse(". " + itoa(1+from) + ":" + itoa(1+from+n) + " ack 1")
			at := int(s.info().Received - s.irs - 1)
			if k, _ := s.table.Input(s.now, &g); k {
				kept[g.Payload.Buffer]++
			}
			for j := max(from, at); j < from+n; j++ {
				came[j] = true
			}
			s.collect()
			for _, e := range s.events {
				if e.Kind == EventData || e.Kind == EventDropped {
					kept[e.Payload.Buffer]--
					require.GreaterOrEqual(t, kept[e.Payload.Buffer], 0)
				}
				if e.Kind == EventData {
					got += int(e.Payload.Length)
				}
			}
			s.events = nil
			want := 0
			for want < len(came) && came[want] {
				want++
			}
			require.Equal(t, want, got)
			held := 0
			for _, c := range came[want:] {
				if c {
					held++
				}
			}
			require.Equal(t, held, s.info().OutOfOrder)
			if c := s.table.conn(s.id); c.reassembly != 0 {
				r := s.table.reassemblies[c.reassembly-1]
				for k := 1; k < len(r.held); k++ {
					require.False(t, r.held[k].seq.Before(r.held[k-1].end()))
				}
			}
		}
		left := 0
		for _, n := range kept {
			left += n
		}
		held := 0
		if c := s.table.conn(s.id); c.reassembly != 0 {
			held = len(s.table.reassemblies[c.reassembly-1].held)
		}
		require.Equal(t, held, left)
	})
}

// A burst with more gaps than an acknowledgement has blocks: more of them leave, until each range was reported twice, as one may be lost.
// A range that was never reported would be sent again.
func TestBurstWithManyGaps(t *testing.T) {
	s := settled(t)
	s.burst(". 101:201 ack 1", ". 301:401 ack 1", ". 501:601 ack 1", ". 701:801 ack 1", ". 901:1001 ack 1", ". 1101:1201 ack 1")
	s.out(". 1:1 ack 1 sack 1101-1201,901-1001,701-801,501-601", ". 1:1 ack 1 sack 1101-1201,301-401,101-201,901-1001",
		". 1:1 ack 1 sack 1101-1201,701-801,501-601,301-401", ". 1:1 ack 1 sack 1101-1201,101-201,901-1001,701-801")
	s.in(". 1101:1201 ack 1") // nothing new: one is enough
	require.Len(t, s.pending, 1)
}

// RFC 2018 section 8: data beyond a gap may be discarded, the highest first. It is not reported any more, and taken when it comes again.
func TestRenege(t *testing.T) {
	s := settled(t)
	s.burst(". 1001:2001 ack 1", ". 2001:3001 ack 1", ". 4001:5001 ack 1")
	s.pending = nil
	require.Zero(t, s.table.Renege(0))
	require.Equal(t, 2000, s.table.Renege(1500))
	require.EqualValues(t, 1000, s.event(EventDropped).Payload.Length)
	require.EqualValues(t, 1000, s.event(EventDropped).Payload.Length)
	require.EqualValues(t, 2, s.table.Stats().Reneged)
	require.Equal(t, 1000, s.info().OutOfOrder)
	s.in(". 6001:6101 ack 1")
	s.out(". 1:1 ack 1 sack 6001-6101,1001-2001")
	s.in(". 1:1001 ack 1")
	s.out(". 1:1 ack 2001 sack 6001-6101")
	s.in(". 2001:6001 ack 1")
	s.out(". 1:1 ack 6101")
	require.Zero(t, s.table.Renege(1<<20))
	require.Zero(t, s.table.outOfOrder)
}

// What lies beyond gaps is bounded for all connections together.
func TestOutOfOrderMemoryOfAllIsBounded(t *testing.T) {
	s := settled(t, func(_ *Settings, c *Config) { c.MaxOutOfOrder = 2500 })
	s.burst(". 1001:2001 ack 1", ". 3001:4001 ack 1", ". 5001:6001 ack 1")
	require.Equal(t, 2000, s.info().OutOfOrder)
	s.burst(". 1:1001 ack 1", ". 5001:6001 ack 1")
	require.Equal(t, 2000, s.info().OutOfOrder)
	s.table.Abort(s.now, s.id)
	require.Zero(t, s.table.outOfOrder)
}
