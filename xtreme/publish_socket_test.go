package xtreme_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// What a TCP connection has sent again is published while it is open, as the kernel or the library's stack counts it, and written into the file
// of VMA_STATS_FILE when it is closed, with the polls of its ring.
func TestRetransmissionsArePublished(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		path := filepath.Join(t.TempDir(), "closed")
		w, r := published(t, kind, ownTCP, func(s *conf.Settings) { s.StatsFile = path })
		l, err := w.poller.ListenTCP(w.at(0), xtreme.ListenConfig{})
		w.NoError(err)
		w.dialFromPeer(w.world, l.LocalAddr())
		s := w.accept(l)
		sentAgain := func() uint64 {
			if kind == conf.RingOffload {
				w.Equal("bypass", s.Path().Tier)
				return counter(s.Ring(), "tcp.retransmitted")
			}
			info, err := unix.GetsockoptTCPInfo(s.ID(), unix.IPPROTO_TCP, unix.TCP_INFO)
			w.NoError(err)
			return uint64(info.Total_retrans)
		}
		published := func() uint64 {
			v := socketOf(t, r, s)
			return v.Value("retransmits")
		}
		polledUntil(w, func() bool { return socketOf(t, r, s).Info["state"] == "open" })
		w.Zero(published())
		w.cutOff()
		_, err = s.Send([]byte("x"))
		w.NoError(err)
		polledUntil(w, func() bool { return published() >= 2 })
		w.until("both say the same", func() bool { return published() == sentAgain() })
		v, x := socketOf(t, r, s), ringOf(t, r, s)
		var text strings.Builder
		stats.WriteSocket(&text, &v, &x, "")
		w.Regexp(`\nRx poll: [1-9][0-9]* / [1-9][0-9]* \([0-9.]+%\) \[miss/hit\]\nRetransmissions: [2-9]\n`, text.String())

		before := sentAgain()
		w.NoError(s.Abort())
		w.event(s, xtreme.EventClosed)
		closed := r.Closed(stats.Sockets)
		w.GreaterOrEqual(closed.Value("retransmits"), before, "closed sockets stay in the sums")
		w.LessOrEqual(closed.Value("retransmits"), before+1)
		report, err := os.ReadFile(path)
		w.NoError(err)
		w.Regexp(`\nRx poll: [1-9][0-9]* / [1-9][0-9]* \([0-9.]+%\) \[miss/hit\]\nRetransmissions: [2-9]\n`, string(report))
	})
}

// The most bytes that waited on a socket stay published when fewer wait.
func TestTheMostBytesThatWaitedArePublished(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		w, r := published(t, kind)
		s := w.udp(w.at(0), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{ReceiveMode: xtreme.ModeQueue}})
		peer := w.net.Dial(s.LocalAddr())
		for range 3 {
			w.write(peer, strings.Repeat("x", 100))
		}
		waiting := func() [2]uint64 {
			v := socketOf(t, r, s)
			return [2]uint64{v.Value("queued_bytes"), v.Value("queued_bytes_max")}
		}
		polledUntil(w, func() bool { return waiting() == [2]uint64{300, 300} })
		for range 2 {
			_, _, err := s.Read(make([]byte, 200))
			w.NoError(err)
		}
		polledUntil(w, func() bool { return waiting() == [2]uint64{100, 300} })
		v := socketOf(t, r, s)
		var text strings.Builder
		stats.WriteSocket(&text, &v, nil, "")
		w.Contains(text.String(), "Rx byte: cur 100 / max 300 / limit pool\n")
	})
}

// Of a connection that moves into the kernel what it has sent again before stays counted, and what the kernel sends again is added.
func TestRetransmissionsOfAConnectionThatMoves(t *testing.T) {
	w, r := published(t, conf.RingOffload, ownTCP)
	l, err := w.poller.ListenTCP(w.at(0), xtreme.ListenConfig{})
	w.NoError(err)
	w.dialFromPeer(w.world, l.LocalAddr())
	s := w.accept(l)
	published := func() uint64 {
		v := socketOf(t, r, s)
		return v.Value("retransmits")
	}
	w.cutOff()
	_, err = s.Send([]byte("x"))
	w.NoError(err)
	w.until("the stack has sent it again", func() bool { return published() >= 2 })
	w.NoError(w.poller.MoveToKernel(s))
	w.event(s, xtreme.EventPath)
	w.Equal("kernel", s.Path().Tier, s.Path().Explain())
	before := published()
	stack := counter(s.Ring(), "tcp.retransmitted")
	w.until("the kernel has sent it again", func() bool {
		w.GreaterOrEqual(published(), before)
		before = published()
		return before > stack
	})
	w.Less(before, 2*stack+10, "each is counted once")
	w.NoError(s.Abort())
	w.event(s, xtreme.EventClosed)
}

// A socket's block says by what logic it has its ring: its own, or the poller's.
func TestRingLogicIsPublished(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		w, r := published(t, kind)
		for want, options := range map[string]xtreme.SocketConfig{
			xtreme.PerInterface.String(): {}, xtreme.PerSocket.String(): {RingLogic: xtreme.Ptr(xtreme.PerSocket)},
		} {
			s, err := w.poller.OpenUDP(w.at(0), xtreme.UDPConfig{SocketConfig: options})
			w.NoError(err)
			w.Equal(want, socketOf(t, r, s).Info["ring_logic"])
		}
	})
}
