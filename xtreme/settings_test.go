package xtreme_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// What the kernel answers of sockets shows that the settings reached them, listeners, their connections and dialled ones.
func TestSettingsReachTCPSockets(t *testing.T) {
	onEach(t, func(t *testing.T, _ conf.RingKind) {
		algorithm := func(s *xtreme.Socket) string {
			name, err := unix.GetsockoptString(s.ID(), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
			require.NoError(t, err)
			return strings.TrimRight(name, "\x00")
		}
		number := func(option int) func(*world, *xtreme.Socket) any {
			return func(w *world, s *xtreme.Socket) any { return w.sockopt(s, unix.IPPROTO_TCP, option) }
		}
		for _, c := range []struct {
			name   string
			change func(*conf.Settings)
			read   func(*world, *xtreme.Socket) any
			want   any
		}{
			{"NoDelay", func(s *conf.Settings) { s.NoDelay = true }, number(unix.TCP_NODELAY), 1},
			{"no NoDelay", func(*conf.Settings) {}, number(unix.TCP_NODELAY), 0},
			{"Congestion", func(s *conf.Settings) { s.Congestion = "reno" },
				func(_ *world, s *xtreme.Socket) any { return algorithm(s) }, "reno"},
		} {
			t.Run(c.name, func(t *testing.T) {
				w := worldWith(t, c.change)
				l := w.listen()
				w.Equal(c.want, c.read(w, l), "listener")
				s, peer := w.pair(l)
				w.Equal(c.want, c.read(w, s), "accepted")
				dialled, err := w.poller.DialTCP(l.LocalAddr(), xtreme.DialConfig{})
				w.NoError(err)
				w.Equal(c.want, c.read(w, dialled), "dialled")
				w.NoError(peer.Close())
				w.event(dialled, xtreme.EventOut)
				other := w.accept(l)
				for _, s := range []*xtreme.Socket{dialled, other, s, l} {
					w.close(s)
				}
			})
		}

		t.Run("the configuration has the last word", func(t *testing.T) {
			w := worldWith(t, func(s *conf.Settings) { s.NoDelay = true })
			l := w.listen(xtreme.ListenConfig{NoDelay: xtreme.Off})
			w.Zero(w.sockopt(l, unix.IPPROTO_TCP, unix.TCP_NODELAY))
			w.close(l)
		})
	})
}

// The peer is told the segment size in the handshake, and sends no larger ones.
func TestSegmentsAreNoLargerThanTheSettings(t *testing.T) {
	onEach(t, func(t *testing.T, _ conf.RingKind) {
		for _, c := range []struct {
			at             netip.AddrPort
			mss, mtu, most int
		}{
			{loopback, 1000, 0, 1000}, {loopback, 0, 1240, 1200}, {loopback, 800, 1240, 800}, {loopback, 88, 0, 88}, {loopback, 0, 32807, 32767},
			{loopback, 32767, 0, 32767}, {loopback, 0, 148, 108}, {loopback6, 0, 1280, 1220}, {loopback6, 0, 148, 88}, {loopback6, 1000, 0, 1000},
		} {
			w := worldWith(t, func(s *conf.Settings) { s.MSS, s.MTU, s.ExceptionHandling = c.mss, c.mtu, 2 })
			l, err := w.poller.ListenTCP(c.at, xtreme.ListenConfig{})
			w.NoError(err)
			s, peer := w.pair(l)
			raw, err := peer.SyscallConn()
			w.NoError(err)
			var info *unix.TCPInfo
			w.NoError(raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }))
			w.NoError(err)
			w.LessOrEqual(int(info.Snd_mss), c.most, "what the peer sends: %v", c)
			w.Greater(int(info.Snd_mss), c.most-40, "less only its options: %v", c)
			w.LessOrEqual(w.sockopt(s, unix.IPPROTO_TCP, unix.TCP_MAXSEG), c.most, "what is sent: %v", c)
			w.NoError(peer.Close())
			for _, s := range []*xtreme.Socket{s, l} {
				w.close(s)
			}
		}
	})
}

// What the kernel refuses is an exception: it is told, or it fails, as VMA_EXCEPTION_HANDLING says.
func TestASettingTheKernelRefuses(t *testing.T) {
	onEach(t, func(t *testing.T, _ conf.RingKind) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		w := worldWith(t, func(s *conf.Settings) {
			s.Congestion, s.ExceptionHandling, s.Logger = conf.NoCongestionControl, 1, logger
		})
		w.close(w.listen())
		w.Contains(log.String(), "VMA_TCP_CC_ALGO=none")
		w = worldWith(t, func(s *conf.Settings) {
			s.Congestion, s.ExceptionHandling, s.Logger = conf.NoCongestionControl, 2, logger
		})
		before := descriptors(t)
		_, err := w.poller.ListenTCP(loopback, xtreme.ListenConfig{})
		w.ErrorContains(err, "xtreme: ListenTCP: setting VMA_TCP_CC_ALGO=none")
		w.ErrorIs(err, unix.ENOENT)
		w.Equal(before, descriptors(t), "nothing is left open")

		// At the default handling too there is a word of it, once, when the engine starts.
		for name, want := range map[string]int{"2": 1, "nosuch": 1, "reno": 0, "0": 0, "": 0} {
			log.Reset()
			if name != "" {
				t.Setenv("VMA_TCP_CC_ALGO", name)
			}
			settings := conf.FromEnvironment()
			settings.Ring, settings.Logger = conf.RingEpoll, logger
			before := descriptors(t)
			e, err := xtreme.New(settings)
			w.NoError(err)
			w.NoError(e.Close())
			w.Equal(want, strings.Count(log.String(), "level=WARN"), "%s: %s", name, log.String())
			w.Equal(want, strings.Count(log.String(), "VMA_TCP_CC_ALGO="+settings.Congestion+": the kernel refuses it"), log.String())
			w.Equal(before, descriptors(t))
			w.NoError(os.Unsetenv("VMA_TCP_CC_ALGO"))
		}
	})
}

// Loopback interfaces bring back whatever is sent; the kernel reports what it would do on another one.
func TestMulticastLoopFollowsTheSetting(t *testing.T) {
	onEach(t, func(t *testing.T, _ conf.RingKind) {
		for _, off := range []bool{false, true} {
			w := worldWith(t, func(s *conf.Settings) { s.NoMulticastLoop = off })
			four, six := w.udp(loopback), w.udp(loopback6)
			forced := w.udp(loopback, xtreme.UDPConfig{MulticastLoop: xtreme.On})
			want := 1
			if off {
				want = 0
			}
			w.Equal(want, w.sockopt(four, unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP))
			w.Equal(want, w.sockopt(six, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP))
			w.Equal(1, w.sockopt(forced, unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP), "the configuration has the last word")
			for _, s := range []*xtreme.Socket{four, six, forced} {
				w.close(s)
			}
		}
	})
}

func TestReceiveBuffersHaveALeast(t *testing.T) {
	onEach(t, func(t *testing.T, _ conf.RingKind) {
		w := worldWith(t, func(s *conf.Settings) { s.RxBytesMin = 65536 })
		small, large := w.udp(loopback, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReceiveBuffer: 5000}}), w.udp(loopback,
			xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReceiveBuffer: 100_000}})
		w.Equal(2*65536, w.sockopt(small, unix.SOL_SOCKET, unix.SO_RCVBUF), "the kernel doubles it")
		w.Equal(2*100_000, w.sockopt(large, unix.SOL_SOCKET, unix.SO_RCVBUF))
		w.NoError(large.SetReceiveBuffer(4096))
		w.Equal(2*65536, w.sockopt(large, unix.SOL_SOCKET, unix.SO_RCVBUF), "also when it is set later")
		_, err := w.poller.OpenUDP(loopback, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReceiveBuffer: -1}})
		w.ErrorIs(err, unix.EINVAL, "a mistake stays one")
		w.ErrorIs(large.SetReceiveBuffer(0), unix.EINVAL)
		for _, s := range []*xtreme.Socket{small, large} {
			w.close(s)
		}
	})
}

// A card that does not stamp, such as loopback has none, is a reason of the path: which shows that it was asked.
func TestCardsAreAskedByTheSetting(t *testing.T) {
	for _, on := range []int{0, 3} {
		w := worldWith(t, func(s *conf.Settings) { s.CardTime = on })
		plain, stamped := w.udp(loopback), w.udp(loopback, xtreme.UDPConfig{Timestamps: true})
		w.Equal(codes(plain.Path()), codes(w.udp(loopback).Path()))
		w.Equal(on != 0, len(codes(stamped.Path())) > len(codes(plain.Path())), stamped.Path())
		off := w.udp(loopback, xtreme.UDPConfig{Timestamps: true, HardwareTimestamps: xtreme.Ptr(ring.HardwareTimestampsOff)})
		w.Equal(codes(plain.Path()), codes(off.Path()), "the configuration has the last word")
	}
}

// VMA_TX_BUFS is added to the small buffers, and receiving leaves so many free, or an eighth of all where that is more.
func TestBuffersByTheSettings(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		for _, c := range []struct{ small, send, left int }{{100, 28, 28}, {128, 0, 16}, {120, 8, 16}} {
			net := newCabled(t)
			net.engine = net.newEngine(func(s *conf.Settings) {
				s.Ring, s.SmallBuffers, s.SendBuffers, s.LargeBuffers = kind, c.small, c.send, 9
			})
			w := net.other(net.newPoller("few"))
			w.Equal(c.small+c.send+9, w.poller.Ledger().Total)
			s := w.udp(net.at(0), xtreme.UDPConfig{LargestDatagram: 1500})
			peer := net.net.Dial(s.LocalAddr())
			held := func() int { return len(w.kept) }
			for before := -1; held() > before; { // until it receives no more
				before = held()
				for range c.small {
					w.write(peer, "kept")
					w.poll()
				}
			}
			w.until("it receives", func() bool { return held() > 0 })
			w.GreaterOrEqual(w.poller.Pool().Free(buffers.Small), c.left)
			w.Equal(c.left, w.poller.Pool().Reserve(buffers.Small))
		}
	})
}

// PollerConfig.SmallBuffers comes before VMA_TX_BUFS, also in what is kept for sending: a socket receives with buffers that the setting
// would keep.
func TestBuffersOfAPollerBoundTheSendReserve(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		s := conf.Default()
		s.Ring, s.SendBuffers, s.Logger = kind, 5000, slog.New(slog.DiscardHandler)
		e, err := xtreme.New(s)
		require.NoError(t, err)
		p, err := e.NewPoller("test", xtreme.PollerConfig{SmallBuffers: 512, LargeBuffers: 16})
		require.NoError(t, err)
		require.Equal(t, 512/8, p.Pool().Reserve(buffers.Small))
		require.Equal(t, 16/8, p.Pool().Reserve(buffers.Large))
		require.NoError(t, p.Close())
		require.NoError(t, e.Close())
	})
}

// VMA_WAIT_AFTER_JOIN_MSEC is about the first datagram that is sent to a group of an InfiniBand network. It holds up no goroutine here, and no
// datagram.
func TestOpenDoesNotWaitAfterJoining(t *testing.T) {
	const wait = 60 * time.Second // the most that the setting takes, and more than the busiest machine takes for this
	t.Setenv("VMA_WAIT_AFTER_JOIN_MSEC", fmt.Sprint(wait.Milliseconds()))
	w := byEnvironment(t, conf.RingEpoll)
	began := time.Now()
	group := netip.MustParseAddr("239.7.7.8")
	member := w.udp(netip.AddrPortFrom(netip.IPv4Unspecified(), 0),
		xtreme.UDPConfig{Groups: []xtreme.Group{{Address: group, Interface: "lo"}}})
	w.sendTo(w.sender(loopback), "first", netip.AddrPortFrom(group, member.LocalAddr().Port()))
	w.Equal("first", w.text(member))
	w.Less(time.Since(began), wait)
	w.close(member)
}

// The kernel tells the size of a ring's submission queue.
func TestRingEntriesByTheSettings(t *testing.T) {
	needKind(t, conf.RingUring)
	t.Attr("ring", string(conf.RingUring))
	masks := map[int]bool{}
	for _, entries := range []int{0, 1024, 4096} {
		s := conf.Default()
		s.Ring, s.SmallBuffers, s.LargeBuffers, s.RingEntries = conf.RingUring, 512, 16, entries
		e, err := xtreme.New(s)
		require.NoError(t, err)
		p, err := e.NewPoller("test", xtreme.PollerConfig{})
		require.NoError(t, err)
		masks[entries] = submissionMask(t, max(entries, 256)-1)
		require.NoError(t, p.Close())
		require.NoError(t, e.Close())
	}
	require.Equal(t, map[int]bool{0: true, 1024: true, 4096: true}, masks)
}

// submissionMask reports whether any io_uring of the process has this mask.
func submissionMask(t *testing.T, mask int) bool {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range list {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err != nil || !strings.Contains(target, "io_uring") {
			continue
		}
		text, err := os.ReadFile("/proc/self/fdinfo/" + fd.Name())
		if err == nil && strings.Contains(string(text), fmt.Sprintf("SqMask:\t0x%x\n", mask)) {
			return true
		}
	}
	return false
}

// An engine says at its start what VMA does, and what of the environment it could not use.
func TestEngineSpeaksAtItsStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for name, value := range map[string]string{"VMA_TRACELEVEL": "info", "VMA_LOG_FILE": path, "VMA_RX_POLL": "-1",
		"VMA_RX_BUFS": "few", "VMA_NO_SUCH": "1",
		"SX_RING": "epoll"} {
		t.Setenv(name, value)
	}
	e, err := xtreme.New(conf.FromEnvironment())
	require.NoError(t, err)
	require.NoError(t, e.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, want := range []string{" SX INFO: SX_VERSION: ", " SX INFO: Cmd Line: " + os.Args[0] + " -test.",
		" SX INFO: Rx Poll Loops                  -1                         [VMA_RX_POLL]\n",
		" SX WARN: VMA_RX_BUFS=\"few\": want a number from 64 to 1917161; the default is used\n",
		" SX WARN: VMA_NO_SUCH: there is no such setting\n"} {
		require.Contains(t, string(text), want)
	}
	require.NotContains(t, string(text), "[VMA_SELECT_POLL]", "only what is changed")

	s := conf.Default()
	s.LogFile = filepath.Join(path, "not a folder")
	_, err = xtreme.New(s)
	require.ErrorContains(t, err, "xtreme: conf: log file")
	s = conf.Default()
	s.MSS = -1
	_, err = xtreme.New(s)
	require.ErrorContains(t, err, "MSS -1: want 0, or a number from 88 to 32767 (VMA_MSS)")
}
