package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// flying has ten segments in flight, and a round trip of 100 ms.
func flying(t *testing.T, changes ...change) *script {
	s := newScript(t, changes...)
	s.dial()
	s.out("S 0:0")
	s.wait(100 * ms)
	s.in("S. 0:0 ack 1" + s.peerOptions())
	s.send(100000)
	s.collect()
	s.Len(s.pending, 11)
	s.pending = nil
	s.wait(100 * ms)
	s.out()
	return s
}

// RFC 5681 section 3.2, RFC 6582: three duplicate acknowledgements, a fast retransmission, and partial acknowledgements.
func TestFastRetransmitWithoutSACK(t *testing.T) {
	s := flying(t, noSACK)
	s.in(". 1:1 ack 1")
	s.in(". 1:1 ack 1")
	require.Len(t, s.pending, 2, "RFC 3042: limited transmit")
	require.Equal(t, ". 10001:11001 ack 1", s.pending[0])
	s.pending = nil
	s.in(". 1:1 ack 1")
	require.Equal(t, ". 1:1001 ack 1", s.pending[0])
	require.True(t, s.info().Recovering)
	require.Equal(t, 6000, s.info().SlowStartThreshold)
	s.pending = nil
	s.in(". 1:1 ack 3001") // the third segment was lost, too
	require.Equal(t, ". 3001:4001 ack 1", s.pending[0])
	s.in(". 1:1 ack 12001")
	require.False(t, s.info().Recovering)
	require.Equal(t, 6000, s.info().CongestionWindow)
	require.Zero(t, s.table.Stats().TimeOuts)
}

// RFC 5681 section 2: what brings data or another window is no duplicate acknowledgement.
func TestWhatIsNoDuplicate(t *testing.T) {
	s := flying(t, noSACK)
	s.in(". 1:1 ack 1 win 49000")
	s.in(". 1:1 ack 1 win 48000")
	s.in(". 1:1 ack 1 win 47000")
	s.in("P. 1:11 ack 1 win 47000")
	s.in("P. 11:21 ack 1 win 47000")
	s.in("P. 21:31 ack 1 win 47000")
	require.False(t, s.info().Recovering)
}

// RFC 6675, RFC 8985: three SACKed segments, and what is missing before them goes again.
func TestFastRetransmitWithSACK(t *testing.T) {
	s := flying(t)
	s.in(". 1:1 ack 1 sack 1001-2001")
	s.in(". 1:1 ack 1 sack 1001-3001")
	s.pending = nil
	s.in(". 1:1 ack 1 sack 1001-4001")
	require.Equal(t, ". 1:1001 ack 1", s.pending[0])
	require.True(t, s.last().Again)
	s.pending = nil
	s.in(". 1:1 ack 1 sack 6001-7001,1001-4001") // two more holes
	s.in(". 1:1 ack 1 sack 6001-9001,1001-4001")
	require.Contains(t, s.pending, ". 4001:5001 ack 1")
	s.wait(30 * ms)
	s.in(". 1:1 ack 6001 sack 6001-9001")
	s.in(". 1:1 ack 10001")
	require.Zero(t, s.table.Stats().TimeOuts)
}

// RFC 9937: while a window's worth of data arrives, as much leaves as the threshold is of the flight.
func TestProportionalRateReduction(t *testing.T) {
	s := flying(t)
	sent := 0
	for n := range 9 {
		s.in(". 1:1 ack 1 sack 1001-" + itoa(2001+1000*n))
		sent += len(s.pending)
		s.pending = nil
	}
	// Two by limited transmit, then half of what arrives.
	require.InDelta(t, 6, sent, 1)
	require.LessOrEqual(t, s.info().InNetwork, s.info().SlowStartThreshold+1000)
}

// RFC 8985 section 6.2: a segment that was sent again and lost again is found without a time-out.
func TestLostRetransmission(t *testing.T) {
	s := flying(t)
	s.in(". 1:1 ack 1 sack 1001-5001")
	require.Equal(t, ". 1:1001 ack 1", s.pending[0])
	s.pending = nil
	s.wait(100 * ms)
	s.in(". 1:1 ack 1 sack 1001-10001") // sent before the retransmission: says nothing about it
	require.NotContains(t, s.pending, ". 1:1001 ack 1")
	s.wait(100 * ms)
	s.in(". 1:1 ack 1 sack 1001-12001") // sent after it
	s.wait(30 * ms)
	require.Contains(t, s.pending, ". 1:1001 ack 1")
	require.Zero(t, s.table.Stats().TimeOuts)
}

// RFC 8985 section 6.2 step 4: reordering within a quarter of the round trip is no loss once the network was seen to reorder.
func TestReorderingIsNoLoss(t *testing.T) {
	s := flying(t)
	s.in(". 1:1 ack 1 sack 1001-2001")
	s.in(". 1:1 ack 2001") // the first came late
	s.in(". 1:1 ack 2001 sack 3001-7001")
	require.False(t, s.info().Recovering)
	s.wait(20 * ms)
	s.in(". 1:1 ack 7001")
	require.Zero(t, s.table.Stats().Retransmitted)
	s.in(". 1:1 ack 7001 sack 8001-10001")
	s.wait(30 * ms) // but after it, it is
	require.Contains(t, s.pending, ". 7001:8001 ack 1")
}

// RFC 8985 section 7: the loss of the last segment is found by a probe after two round trips.
func TestTailLossProbe(t *testing.T) {
	s := connected(t)
	s.table.conn(s.id).srtt, s.table.conn(s.id).rttvar, s.table.conn(s.id).minRTT = 20_000, 1000, 20_000
	s.send(3000)
	s.out(". 1:1001 ack 1", ". 1001:2001 ack 1", "P. 2001:3001 ack 1")
	s.wait(30 * ms)
	s.out()
	s.wait(12 * ms)
	s.out("P. 2001:3001 ack 1")
	require.True(t, s.last().Again)
	s.in(". 1:1 ack 2001 sack 2001-3001 ") // the second probe's answer would repair more
	s.in(". 1:1 ack 3001 sack 2001-3001")  // a D-SACK: both arrived
	require.EqualValues(t, 1, s.table.Stats().LossProbes)
	require.Equal(t, 10000, s.info().CongestionWindow, "no congestion")
	require.Zero(t, s.table.Stats().TimeOuts)

	s = connected(t) // new data serves as the probe
	s.table.conn(s.id).srtt, s.table.conn(s.id).rttvar, s.table.conn(s.id).minRTT = 20_000, 1000, 20_000
	s.send(20000)
	s.collect()
	s.pending = nil
	s.wait(45 * ms)
	s.out(". 10001:11001 ack 1")
	require.False(t, s.last().Again)
	s.wait(140 * ms)
	s.out() // one probe
}

// A single segment may wait for a delayed acknowledgement: the probe does, too.
func TestTailLossProbeOfOneSegment(t *testing.T) {
	s := connected(t)
	s.table.conn(s.id).srtt, s.table.conn(s.id).rttvar, s.table.conn(s.id).minRTT = 1000, 100, 1000
	s.send(100)
	s.out("P. 1:101 ack 1")
	s.wait(45 * ms)
	s.out()
	s.wait(10 * ms)
	s.out("P. 1:101 ack 1")
}

// RFC 5681 section 3.1, RFC 6298: after a time-out one segment, then slow start to half of the flight.
func TestTimeoutRecovers(t *testing.T) {
	s := flying(t, noSACK)
	s.wait(400 * ms)
	s.out(". 1:1001 ack 1")
	require.Equal(t, 5000, s.info().SlowStartThreshold)
	require.Equal(t, 1000, s.info().CongestionWindow)
	s.in(". 1:1 ack 1001") // F-RTO: new data first
	s.out(". 10001:11001 ack 1", ". 11001:12001 ack 1")
	s.in(". 1:1 ack 1001") // a duplicate: the loss was real
	require.NotEmpty(t, s.pending)
	require.Equal(t, ". 1001:2001 ack 1", s.pending[0])
}

// RFC 5682: the second acknowledgement moves on without a retransmission, so the time-out was spurious.
func TestSpuriousTimeoutIsUndone(t *testing.T) {
	s := flying(t, noSACK)
	s.wait(400 * ms)
	s.out(". 1:1001 ack 1")
	s.in(". 1:1 ack 2001")
	s.out(". 10001:11001 ack 1", ". 11001:12001 ack 1")
	s.in(". 1:1 ack 4001")
	require.EqualValues(t, 1, s.table.Stats().Undone)
	require.False(t, s.info().Recovering)
	require.GreaterOrEqual(t, s.info().CongestionWindow, 10000)
	require.GreaterOrEqual(t, s.info().RTT, 500*ms, "RFC 4015 section 3.3")
	require.GreaterOrEqual(t, s.info().RTO, 1500*ms)
	s.in(". 1:1 ack 10001")
	for _, p := range s.raw[len(s.raw)-len(s.pending):] {
		require.False(t, p.Again)
	}
}

// RFC 4015: after a time-out that was spurious the estimate is of what the path takes now, and what leaves is no more than what has arrived, or
// an initial window.
func TestEifelResponse(t *testing.T) {
	s := flying(t, timestamps)
	echo := s.last().Options.TSValue
	for s.table.Stats().TimeOuts == 0 {
		s.wait(10 * ms)
	}
	s.wait(50 * ms)
	took := s.now.Sub(s.start) - 100*ms // since the flight left
	s.pending = nil
	s.in(". 1:1 ack 1977 ts 1101/" + itoa(int(echo)))
	require.EqualValues(t, 1, s.table.Stats().Undone)
	require.InDelta(t, float64(took/ms), float64(s.info().RTT/ms), 2)
	require.InDelta(t, float64(3*took/ms), float64(s.info().RTO/ms), 10)
	require.LessOrEqual(t, len(s.pending), 4)
	require.GreaterOrEqual(t, s.info().SlowStartThreshold, 9880)

	s.in(". 1:1 ack 9881 ts 1102/" + itoa(int(echo)-1<<30)) // an echo of nothing
	require.Less(t, s.info().RTT, clock.Second)
}

// Where acknowledgements were lost, the answer to a retransmission may have the timestamp of the original: gVisor's has. Its age is that of the
// time-out, and would make the next one longer still.
func TestLostAcknowledgementsAreNoLongRoundTrip(t *testing.T) {
	s := flying(t, timestamps, noSACK)
	echo := s.last().Options.TSValue
	for s.table.Stats().TimeOuts == 0 {
		s.wait(10 * ms)
	}
	s.wait(100 * ms)
	s.in(". 1:1 ack 9881 ts 1101/" + itoa(int(echo)))
	require.LessOrEqual(t, s.info().RTT, 200*ms)
}

// RFC 3522: the timestamp of the acknowledgement is older than the retransmission.
func TestEifelUndo(t *testing.T) {
	s := flying(t, timestamps)
	echo := s.raw[2].Options.TSValue // of the first flight
	for n := range 4 {
		s.in(". 1:1 ack 1 ts 1100/" + itoa(int(echo)) + " sack 1001-" + itoa(2001+1000*n))
	}
	require.True(t, s.info().Recovering)
	s.wait(10 * ms)
	s.in(". 1:1 ack 6001 ts 1101/" + itoa(int(echo)))
	require.EqualValues(t, 1, s.table.Stats().Undone)
	require.GreaterOrEqual(t, s.info().CongestionWindow, 9880)
}

// RFC 3708, RFC 2883: each retransmission was reported as a duplicate.
func TestDSACKUndo(t *testing.T) {
	s := flying(t)
	s.in(". 1:1 ack 1 sack 1001-5001")
	require.True(t, s.info().Recovering)
	s.pending = nil
	s.in(". 1:1 ack 5001")
	s.in(". 1:1 ack 5001 sack 1-1001")
	require.EqualValues(t, 1, s.table.Stats().Undone)
	require.GreaterOrEqual(t, s.info().CongestionWindow, 10000)
}

// RFC 2018 section 8: a receiver that has dropped what it had is found out by an acknowledgement that ends at a SACKed segment.
func TestReneging(t *testing.T) {
	s := flying(t)
	s.in(". 1:1 ack 1 sack 1001-5001")
	s.pending = nil
	s.in(". 1:1 ack 1001") // the peer has discarded what lay behind it
	s.wait(clock.Second)
	require.Contains(t, s.pending, ". 1001:2001 ack 1")
	require.Zero(t, s.table.senders[s.table.conn(s.id).sender-1].sacked)
	s.pending = nil
	for at := 1001; at < 10001; at += 1000 {
		s.in(". 1:1 ack " + itoa(at+1000))
	}
	require.Contains(t, s.pending, ". 4001:5001 ack 1")
	s.state(Established)
}

// RFC 6675 section 5.1, RFC 8985 section 6.3: a time-out sends again neither what the peer has nor what left less than a round trip ago.
func TestTimeoutKeepsWhatIsSACKed(t *testing.T) {
	s := flying(t)
	s.in(". 1:1 ack 1 sack 2001-10001")
	s.collect()
	require.Equal(t, []string{". 1:1001 ack 1", ". 1001:2001 ack 1"}, s.pending[:2])
	s.pending = nil
	s.wait(2 * clock.Second) // both are lost again, and what was sent behind them
	require.Equal(t, ". 1:1001 ack 1", s.pending[0])
	s.pending = nil
	s.in(". 1:1 ack 1001")
	s.in(". 1:1 ack 10001")
	s.wait(clock.Second)
	for _, p := range s.pending {
		require.NotContains(t, p, " 2001:")
		require.NotContains(t, p, " 9001:")
	}
	require.Equal(t, 0, s.table.senders[s.table.conn(s.id).sender-1].sacked)
}

// RFC 5682 section 3.1: what arrives behind a time-out and was sent again before proves nothing.
func TestTimeoutInRecoveryIsReal(t *testing.T) {
	s := flying(t)
	s.in(". 1:1 ack 1 sack 2001-5001")
	s.wait(2 * clock.Second)
	s.in(". 1:1 ack 1001 sack 2001-5001")
	s.in(". 1:1 ack 5001")
	require.Zero(t, s.table.Stats().Undone)
}

// The sums of the scoreboard count each byte once, however often it is reported (RFC 6675 section 4).
func TestSACKIsCountedOnce(t *testing.T) {
	s := flying(t)
	sacked := func() int { return s.table.senders[s.table.conn(s.id).sender-1].sacked }
	s.in(". 1:1 ack 1 sack 2001-4001")
	s.in(". 1:1 ack 1 sack 2001-4001")
	require.Equal(t, 2000, sacked())
	require.Equal(t, 2, s.table.senders[s.table.conn(s.id).sender-1].sackedCount)
	s.in(". 1:1 ack 1 sack 1001-5001")
	require.Equal(t, 4000, sacked())
	s.in(". 1:1 ack 3001 sack 3001-5001")
	require.Equal(t, 2000, sacked())
	s.in(". 1:1 ack 5001")
	require.Zero(t, sacked())
	i := s.info()
	require.Equal(t, i.Unacked, i.InNetwork)
}

// SACK blocks that say what cannot be change nothing.
func TestBadSACKBlocks(t *testing.T) {
	s := flying(t)
	for _, b := range []string{"2001-1001", "1001-1001", "20000-30000", "9001-90000", "0-5000"} {
		s.in(". 1:1 ack 1 sack " + b)
		require.Zero(t, s.table.senders[s.table.conn(s.id).sender-1].sacked, b)
	}
	require.False(t, s.info().Recovering)
}

// The scoreboard of a connection costs bounded work, whatever blocks come.
func TestHostileSACK(t *testing.T) {
	s := flying(t)
	for n := range 10_000 {
		left := n * 7919 % 9000
		s.in(". 1:1 ack 1 sack " + itoa(left) + "-" + itoa(left+1500))
	}
	s.state(Established)
	require.LessOrEqual(t, s.info().InNetwork, 100_000)
	s.wait(clock.Second)
}

// A segment that goes again has PSH if it had it the first time; cut in two, the second part has it (RFC 9293 MUST-60).
func TestPushIsOfTheSegment(t *testing.T) {
	s := connected(t, noSACK, func(s *Settings, _ *Config) { s.MaxSegment = 0 })
	s.send(2000)
	s.out(". 1:1001 ack 1", "P. 1001:2001 ack 1")
	s.wait(250 * ms)
	s.out(". 1:1001 ack 1")
	s.in(". 1:1 ack 1001")
	s.wait(10 * clock.Second)
	s.in(". 1:1 ack 1001")
	require.Contains(t, s.pending, "P. 1001:2001 ack 1")

	s = connected(t, noSACK, func(s *Settings, _ *Config) { s.MaxSegment = 0 })
	s.send(1000)
	s.out("P. 1:1001 ack 1")
	s.table.Error(s.now, NetworkError{Local: us1, Remote: them, Seq: s.iss + 1, Type: 3, Code: 4, MTU: 640})
	s.out(". 1:601 ack 1", "P. 601:1001 ack 1")
}

// A part of a segment is acknowledged; the rest goes again (XLIO's missing ACK after a partial retransmission).
func TestPartOfASegmentIsAcknowledged(t *testing.T) {
	s := connected(t, noSACK)
	s.send(1000)
	s.out("P. 1:1001 ack 1")
	s.in(". 1:1 ack 401")
	s.wait(250 * ms)
	s.out("P. 401:1001 ack 1")
	s.in(". 1:1 ack 1001")
	s.event(EventSent)
}
