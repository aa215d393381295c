package ring

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// Which datagram a stamp is of: also when the kernel's 32 bits have gone round, when more are under way than are remembered, and when the
// stamp is of no datagram.
func TestStampTokens(t *testing.T) {
	for _, first := range []uint64{0, 1<<32 - 3, 5<<32 - 1} {
		s := &transmitStamps{next: first}
		for i := range uint64(6) {
			s.sent(0, 1000+i)
		}
		for i := range uint64(6) {
			token, err := s.token(uint32(first + i))
			require.NoError(t, err)
			require.Equal(t, 1000+i, token)
		}
		_, err := s.token(uint32(first + 6))
		require.ErrorIs(t, err, errStampUnknown, "not sent yet")
		require.Equal(t, 6, s.waiting)
	}
	s := &transmitStamps{}
	_, err := s.token(1<<32 - 1)
	require.ErrorIs(t, err, errStampUnknown, "before the first one")
	for range stampWindow + 1 {
		s.sentWithoutToken(0)
	}
	_, err = s.token(0)
	require.ErrorIs(t, err, errStampUnknown, "too long ago")
	token, err := s.token(1)
	require.NoError(t, err)
	require.Equal(t, uint64(1), token, "without a token it is the number")

	// A send that failed has no number, where the transport sees it so; else nothing is certain any more.
	for _, counted := range []bool{false, true} {
		s.reports = counter{counted: counted}
		s.sent(syscall.EAGAIN, 5)
		require.Equal(t, uint64(stampWindow+1), s.next)
		require.Equal(t, counted, s.unsure)
	}
	_, err = s.token(1)
	require.ErrorIs(t, err, errStampUnknown)
	(*transmitStamps)(nil).sent(0, 1) // a socket that is only paced
}

// counter is a transport that counts failed sends, or not.
type counter struct {
	SendReporter
	counted bool
}

func (c counter) CountsFailures() bool { return c.counted }

// A ring sleeps shortly while a stamp is to come, longer from time to time, and gives up after a second without one.
func TestStampsThatNeverCome(t *testing.T) {
	s := &transmitStamps{next: 1, waiting: 1}
	quiet := &transmitStamps{next: 9}
	r := &Ring{stats: &RingPage{}, timestamping: []*shaper{{timestamps: quiet}, {timestamps: s}}}
	now := clock.Time(time.Hour)
	begin, rests, nap := now, 0, time.Duration(0)
	for {
		at := r.stampDeadline(now)
		if at == clock.Never {
			break
		}
		require.GreaterOrEqual(t, at.Sub(now), nap)
		nap = at.Sub(now)
		require.LessOrEqual(t, nap, stampPauseMax)
		now = at
		rests++
		require.Less(t, rests, 100)
	}
	require.Greater(t, now.Sub(begin), stampPatience)
	require.Equal(t, uint64(1), r.stats.StampsMissing)
	require.Zero(t, s.waiting)
	// The next send begins anew.
	s.sentWithoutToken(0)
	require.Equal(t, stampPause, r.stampDeadline(now).Sub(now))
}
