package xtreme_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// No descriptor of an engine, its pollers, rings and sockets is inherited by a program that the process starts.
func TestDescriptorsAreClosedOnExec(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		dir := t.TempDir()
		before, _ := inherited(t)
		w := &cabled{net: testnet.New(t, testnet.Pair{}), world: &world{Assertions: require.New(t), t: t, room: 64}}
		w.engine = w.newEngine(func(s *conf.Settings) {
			s.Ring, s.StatsDirectory, s.StatsFile = kind, filepath.Join(dir, "stats"), filepath.Join(dir, "closed")
			s.Offload.Capture = filepath.Join(dir, "capture")
		}, ownTCP)
		w.poller = w.newPoller("test")
		l, err := w.poller.ListenTCP(w.at(0), xtreme.ListenConfig{})
		w.NoError(err)
		w.Equal(kind == conf.RingOffload, l.Path().Tier == "bypass", l.Path().Explain())
		peer := w.dialFromPeer(w.world, l.LocalAddr())
		w.echo(w.accept(l), peer, 1)
		s, err := w.poller.DialTCP(addr(w.listenInPeer().Addr()), xtreme.DialConfig{})
		w.NoError(err)
		w.event(s, xtreme.EventOut)
		u := w.udp(netip.AddrPortFrom(netip.IPv4Unspecified(), 0))
		for i := range byte(25) { // more groups than a descriptor may have
			if err := u.JoinGroup(group(i+1), w.net.Device(0), netip.Addr{}); kind == conf.RingOffload {
				w.NoError(err)
			}
		}
		w.udp(loopback)
		w.listen()
		_, err = w.poller.ListenUnix(filepath.Join(dir, "unix"), xtreme.UnixListenConfig{})
		w.NoError(err)
		w.Positive(w.poller.FD())

		kept, closed := inherited(t)
		w.Equal(before, kept)
		w.Greater(closed, 10)
		w.close(s)
	})
}

// A connection that our own TCP dials takes a descriptor, which it keeps for a while after its end; one that it accepts takes none.
func TestDescriptorsOfOwnTCP(t *testing.T) {
	w := newTCPCabled(t, unchanged)
	l, theirs := w.listenTCP(w.world, w.at(0)), w.listenInPeer()
	w.dialFromPeer(w.world, l.LocalAddr())
	w.accept(l)
	before := descriptors(t)
	w.dialFromPeer(w.world, l.LocalAddr())
	w.accept(l)
	w.Equal(before+1, descriptors(t), "the peer's")
	s, err := w.poller.DialTCP(addr(theirs.Addr()), xtreme.DialConfig{})
	w.NoError(err)
	w.event(s, xtreme.EventOut)
	w.Equal("bypass", s.Path().Tier, s.Path().Explain())
	w.Equal(before+2, descriptors(t))
	w.close(s)
	w.Equal(before+2, descriptors(t), "the kernel must not see what the peer still sends")
}

// inherited are the open descriptors that a program which the process starts would have, and what they are of; closed is how many others
// are open.
func inherited(t *testing.T) (kept map[int]string, closed int) {
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	kept = map[int]string{}
	for _, x := range list {
		fd, err := strconv.Atoi(x.Name())
		require.NoError(t, err)
		to, _ := os.Readlink("/proc/self/fd/" + x.Name())
		switch flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); {
		case err != nil: // it is closed by now
		case flags&unix.FD_CLOEXEC == 0:
			kept[fd] = to
		default:
			closed++
		}
	}
	return kept, closed
}
