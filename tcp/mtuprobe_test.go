package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// lowered is a connection whose path took segments of 1,000 bytes and takes 600 now; 20,000 bytes wait in one piece.
func lowered(t *testing.T) *script {
	s := connected(t, func(s *Settings, _ *Config) { s.MaxSegment = 0 })
	s.send(1000)
	s.out("P. 1:1001 ack 1")
	s.table.Error(s.now, NetworkError{Local: us1, Remote: them, Seq: s.iss + 1, Type: 3, Code: 4, MTU: 640})
	s.out(". 1:601 ack 1", "P. 601:1001 ack 1")
	s.in(". 1:1 ack 1001")
	require.Equal(t, 600, s.info().MSS)
	s.wait(599 * clock.Second)
	s.send(2000)
	s.out(". 1001:1601 ack 1", ". 1601:2201 ack 1", ". 2201:2801 ack 1", "P. 2801:3001 ack 1")
	s.in(". 1:1 ack 3001")
	s.wait(2 * clock.Second)
	s.send(20_000)
	s.wait(20 * ms)
	return s
}

// RFC 8899 section 5.3: ten minutes later a larger segment is tried, one at a time; it arrives, and the size is that of before.
func TestLargerSizeIsProbed(t *testing.T) {
	s := lowered(t)
	require.Equal(t, []string{". 3001:4001 ack 1", ". 4001:4601 ack 1", ". 4601:5201 ack 1"}, s.pending[:3])
	s.pending = nil
	s.in(". 1:1 ack 4601")
	require.Equal(t, 1000, s.info().MSS)
	require.Equal(t, 1040, s.info().PathMTU)
	require.EqualValues(t, 1, s.table.Stats().SizeProbes)
	s.in(". 1:1 ack " + itoa(5201))
	s.wait(1000 * clock.Second)
	require.EqualValues(t, 1, s.table.Stats().SizeProbes, "nothing larger is left")
}

// A probe that is lost is no congestion, and goes again in segments of the size that arrives. Then a size in between is tried.
func TestProbeIsLost(t *testing.T) {
	s := lowered(t)
	window := s.info().CongestionWindow
	s.pending = nil
	s.in(". 1:1 ack 3001 sack 4001-4601")
	s.in(". 1:1 ack 3001 sack 4001-5201")
	s.in(". 1:1 ack 3001 sack 4001-5801")
	require.Contains(t, s.pending, ". 3001:3601 ack 1")
	require.Contains(t, s.pending, ". 3601:4001 ack 1")
	require.Equal(t, 600, s.info().MSS)
	require.False(t, s.info().Recovering)
	require.GreaterOrEqual(t, s.info().CongestionWindow, window)
	require.Zero(t, s.table.Stats().FastRecovery)
	s.wait(20 * ms)
	s.pending = nil
	s.in(". 1:1 ack 10601")
	require.Equal(t, ". 10601:11401 ack 1", s.pending[0], "800 bytes")
	require.EqualValues(t, 2, s.table.Stats().SizeProbes)
	s.wait(20 * ms)
	s.in(". 1:1 ack 11401")
	require.Equal(t, 800, s.info().MSS)
}

// An ICMP error about a probe says what the path has.
func TestProbeIsRefused(t *testing.T) {
	s := lowered(t)
	s.pending = nil
	s.table.Error(s.now, NetworkError{Local: us1, Remote: them, Seq: s.iss + 3001, Type: 3, Code: 4, MTU: 640})
	s.out(". 3001:3601 ack 1") // the rest waits for the congestion window
	require.Equal(t, 600, s.info().MSS)
	s.wait(20 * ms)
	s.in(". 1:1 ack 9401")
	require.EqualValues(t, 1, s.table.Stats().SizeProbes)
}
