package xtreme_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// info is what the peer's kernel knows of a connection.
func (w *world) info(peer *net.TCPConn) *unix.TCPInfo {
	w.t.Helper()
	raw, err := peer.SyscallConn()
	w.NoError(err)
	var info *unix.TCPInfo
	var failed error
	w.NoError(raw.Control(func(fd uintptr) { info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }))
	w.NoError(failed)
	return info
}

// connected is a world of our own TCP with one accepted connection.
func connected(t *testing.T, change func(*conf.Settings)) (w *cabled, c *xtreme.Socket, peer *net.TCPConn) {
	w = newTCPCabled(t, change)
	l := w.listenTCP(w.world, w.at(0))
	peer = w.dialFromPeer(w.world, l.LocalAddr())
	return w, w.accept(l), peer
}

// cutOff makes the peer's kernel drop what is sent to it: its address is another one from now on.
func (w *cabled) cutOff() {
	w.net.InPeer(func() {
		p0, err := netlink.LinkByName("p0")
		w.NoError(err)
		w.NoError(netlink.LinkSetARPOff(p0))
		w.NoError(netlink.LinkSetHardwareAddr(p0, net.HardwareAddr{2, 0, 0, 0, 9, 9}))
	})
}

// VMA_TCP_NODELAY: small sends leave although the one before is not acknowledged, without it they wait for that.
func TestNoDelayOfOwnTCP(t *testing.T) {
	for _, on := range []bool{false, true} {
		w, c, _ := connected(t, func(s *conf.Settings) { s.NoDelay = on })
		dialled, err := w.poller.DialTCP(addr(w.listenInPeer().Addr()), xtreme.DialConfig{})
		w.NoError(err)
		w.event(dialled, xtreme.EventOut)
		w.cutOff()
		for _, s := range []*xtreme.Socket{c, dialled} {
			before := counter(s.Ring(), "tcp.segments_out")
			const sends = 5
			for range sends {
				_, err := s.Send([]byte("x"))
				w.NoError(err)
				w.NoError(w.poller.Flush())
			}
			left := counter(s.Ring(), "tcp.segments_out") - before
			w.Equal(on, left >= sends, "%d segments of %s, VMA_TCP_NODELAY=%v", left, s.LocalAddr(), on) // an acknowledgement may be among them
		}
	}
}

// VMA_MSS, and VMA_MTU without it, bound the segments in both directions.
func TestMSSOfOwnTCP(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*conf.Settings)
		want uint32
	}{
		"VMA_MSS": {func(s *conf.Settings) { s.MSS = 500 }, 500}, "VMA_MTU": {func(s *conf.Settings) { s.MTU = 740 }, 700},
		"by the interface": {unchanged, 1460},
	} {
		t.Run(name, func(t *testing.T) {
			w, c2, peer := connected(t, c.set)
			const timestamps = 12
			w.Equal(c.want-timestamps, w.info(peer).Snd_mss, "what the peer sends")
			_, err := c2.Send(make([]byte, 4000))
			w.NoError(err)
			w.beside(func() error { _, err := peer.Read(make([]byte, 4000)); return err })
			w.LessOrEqual(w.info(peer).Rcv_mss, c.want-timestamps, "what comes")
		})
	}
}

// The MSS that our own TCP announces is that of the route, or its MTU without headers, within the settings. It is the same on accepted and on
// dialled connections, and, as far as it is by the route, what the kernel's TCP announces. What it sends fits the path as well.
func TestAnnouncedMSS(t *testing.T) {
	for name, c := range map[string]struct {
		mtu, advMSS     int // of the route to the peer
		set             func(*conf.Settings)
		announced, sent uint32
	}{
		"VMA_MSS beside VMA_MTU": {set: func(s *conf.Settings) { s.MSS, s.MTU = 1000, 500 }, announced: 460, sent: 460},
		"VMA_MSS beside mtu":     {mtu: 900, set: func(s *conf.Settings) { s.MSS = 1000 }, announced: 860, sent: 860},
		"VMA_MSS beside advmss":  {advMSS: 700, set: func(s *conf.Settings) { s.MSS = 600 }, announced: 600, sent: 600},
		"mtu":                    {mtu: 900, announced: 860, sent: 860},
		"advmss":                 {advMSS: 700, announced: 700, sent: 1460},
		"advmss beyond mtu":      {mtu: 900, advMSS: 1200, announced: 1200, sent: 860},
		"neither":                {announced: 1460, sent: 1460},
	} {
		t.Run(name, func(t *testing.T) {
			for _, own := range []bool{true, false} {
				if !own && c.set != nil {
					continue
				}
				w := &cabled{net: testnet.New(t, testnet.Pair{}), world: &world{Assertions: require.New(t), t: t, room: 64}}
				w.setRoute(c.mtu, c.advMSS)
				w.engine = w.newEngine(func(s *conf.Settings) {
					if s.Offload.TCP = own; c.set != nil {
						c.set(s)
					}
				})
				w.poller = w.newPoller("announced")

				l, err := w.poller.ListenTCP(w.at(0), xtreme.ListenConfig{})
				w.NoError(err)
				peer := w.dialFromPeer(w.world, l.LocalAddr())
				accepted := w.accept(l)
				listener := w.listenInPeer()
				dialled, err := w.poller.DialTCP(addr(listener.Addr()), xtreme.DialConfig{})
				w.NoError(err)
				w.event(dialled, xtreme.EventOut)
				w.poll()
				caller, err := listener.AcceptTCP()
				w.NoError(err)
				t.Cleanup(func() { _ = caller.Close() })
				const timestamps = 12
				w.Equal(c.announced-timestamps, w.info(peer).Snd_mss, "announced when a connection was accepted, own=%v", own)
				w.Equal(c.announced-timestamps, w.info(caller).Snd_mss, "announced by a dial, own=%v", own)
				if !own {
					continue
				}
				for _, s := range []*xtreme.Socket{accepted, dialled} {
					w.NoError(s.SetNoDelay(true)) // the last segment leaves too
					before := counter(s.Ring(), "tcp.segments_out")
					const bytes = 4000
					_, err = s.Send(make([]byte, bytes))
					w.NoError(err)
					w.NoError(w.poller.Flush())
					full := uint64(c.sent - timestamps)
					w.Equal((bytes+full-1)/full, counter(s.Ring(), "tcp.segments_out")-before, "segments of %s", s.LocalAddr())
				}
			}
		})
	}
}

// setRoute gives the route to the peer's network an MTU and an MSS to announce; 0: none.
func (w *cabled) setRoute(mtu, advMSS int) {
	w.t.Helper()
	l, err := netlink.LinkByName(w.net.Device(0))
	w.NoError(err)
	to := netip.PrefixFrom(w.net.Local(0), 24).Masked()
	w.NoError(netlink.RouteReplace(&netlink.Route{Dst: &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), 32)},
		LinkIndex: l.Attrs().Index, Scope: netlink.SCOPE_LINK, Src: w.net.Local(0).AsSlice(), Protocol: unix.RTPROT_KERNEL, MTU: mtu, AdvMSS: advMSS}))
}

// tied is a listener that is tied to an interface, and a peer to which the routing table prefers another one.
type tied struct {
	*cabled
	listener *xtreme.Socket
	before   uint64 // frames that had left by the preferred one
}

// tiedAdvMSS is that of the route by the listener's interface.
const tiedAdvMSS = 700

var farAddr = netip.MustParseAddr("198.51.100.1")

func newTied(t *testing.T) *tied {
	w := &tied{cabled: newTCPCabled(t, unchanged, testnet.Pair{}, testnet.Pair{})}
	w.net.InPeer(func() {
		lo, err := netlink.LinkByName("lo")
		w.NoError(err)
		w.NoError(netlink.AddrAdd(lo, &netlink.Addr{IPNet: &net.IPNet{IP: farAddr.AsSlice(), Mask: net.CIDRMask(32, 32)}}))
	})
	for pair, r := range []netlink.Route{{Priority: 1}, {Priority: 2, AdvMSS: tiedAdvMSS}} {
		l, err := netlink.LinkByName(w.net.Device(pair))
		w.NoError(err)
		r.LinkIndex, r.Gw = l.Attrs().Index, w.net.Peer(pair).AsSlice()
		r.Dst = &net.IPNet{IP: farAddr.AsSlice(), Mask: net.CIDRMask(32, 32)}
		w.NoError(netlink.RouteAdd(&r))
	}
	w.udp(w.at(0)) // the preferred interface is a link of the ring too
	w.listen()
	w.before = w.byTheOther()
	return w
}

func (w *tied) listen() {
	c := xtreme.ListenConfig{IPConfig: xtreme.IPConfig{BindToDevice: w.net.Device(1)}}
	var err error
	w.listener, err = w.poller.ListenTCP(w.at(1), c)
	w.NoError(err)
}

// byTheOther is how many frames have left by the interface that the routing table prefers.
func (w *tied) byTheOther() uint64 { return counter(w.listener.Ring(), w.net.Device(0)+"/0.tx_frames") }

func (w *tied) dial() *net.TCPConn {
	w.t.Helper()
	var peer net.Conn
	w.beside(func() (err error) {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err = w.net.EnterPeer(); err == nil {
			from := net.Dialer{Timeout: patience, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(farAddr, 0))}
			peer, err = from.Dial("tcp4", w.listener.LocalAddr().String())
		}
		return err
	})
	w.t.Cleanup(func() { _ = peer.Close() })
	w.NoError(peer.SetDeadline(time.Now().Add(3 * patience)))
	return peer.(*net.TCPConn)
}

// A listener that is tied to an interface answers by it, though the routing table prefers another one, and announces the MSS of the route there.
func TestListenerAnswersByItsDevice(t *testing.T) {
	w := newTied(t)
	peer := w.dial()
	child := w.accept(w.listener)
	w.Equal("bypass", child.Path().Tier, child.Path().Explain())
	const timestamps = 12
	w.EqualValues(tiedAdvMSS-timestamps, w.info(peer).Snd_mss)
	w.echo(child, peer, 3)
	w.Equal(w.before, w.byTheOther())
}

// What leaves for a connection that is tied to an interface when its record is gone, or there is none: resets and the acknowledgement of
// TIME-WAIT leave by that interface too.
func TestConnectionEndsByItsDevice(t *testing.T) {
	w := newTied(t)
	isReset := func(peer *net.TCPConn) {
		t.Helper()
		w.beside(func() error {
			if _, err := peer.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
				return fmt.Errorf("no reset: %w", err)
			}
			return nil
		})
		w.Equal(w.before, w.byTheOther())
	}
	peer := w.dial()
	w.NoError(w.accept(w.listener).Abort())
	isReset(peer)

	peer = w.dial()
	w.NoError(w.accept(w.listener).Close())
	w.beside(func() error {
		_, err := peer.Read(make([]byte, 1))
		if !errors.Is(err, io.EOF) {
			return fmt.Errorf("no end: %w", err)
		}
		return peer.Close()
	})
	w.until("TIME-WAIT", func() bool { return counter(w.listener.Ring(), "tcp.time_wait") > 0 })
	w.poll()
	w.Equal(w.before, w.byTheOther())

	w.NoError(w.listener.Suspend()) // a child that nobody has accepted
	peer = w.dial()
	w.poll()
	w.NoError(w.listener.Close())
	isReset(peer)
}

// VMA_TCP_TIMESTAMP_OPTION: 0 refuses timestamps, 1 has them, 2 is what the kernel's setting was when the ring was made; on accepted connections
// and on dialled ones.
func TestTimestampsOfOwnTCP(t *testing.T) {
	const optionTimestamps = 1 // TCPI_OPT_TIMESTAMPS
	for kernel, has := range []uint8{0, optionTimestamps, optionTimestamps} {
		for value, want := range []uint8{0, optionTimestamps, has} {
			w := newCabled(t)
			setKernel := func(on int) { // in this thread's namespace
				w.NoError(os.WriteFile("/proc/sys/net/ipv4/tcp_timestamps", []byte(strconv.Itoa(on)), 0))
			}
			setKernel(kernel)
			w.engine = w.newEngine(ownTCP, func(s *conf.Settings) { s.OwnTCP.Timestamps = value })
			w.poller = w.newPoller("timestamps")
			l := w.listenTCP(w.world, w.at(0))
			setKernel(boolean(kernel == 0)) // too late
			peer := w.dialFromPeer(w.world, l.LocalAddr())
			w.accept(l)
			listener := w.listenInPeer()
			dialled, err := w.poller.DialTCP(addr(listener.Addr()), xtreme.DialConfig{})
			w.NoError(err)
			w.event(dialled, xtreme.EventOut)
			w.poll()
			caller, err := listener.AcceptTCP()
			w.NoError(err)
			for _, c := range []*net.TCPConn{peer, caller} {
				w.Equal(want, w.info(c).Options&optionTimestamps, "VMA_TCP_TIMESTAMP_OPTION=%d, tcp_timestamps=%d", value, kernel)
			}
			w.NoError(caller.Close())
		}
	}
}

// VMA_TCP_CC_ALGO: without congestion control all that the peer's window allows leaves at once, else the initial window.
func TestCongestionControlOfOwnTCP(t *testing.T) {
	left := map[string]uint64{}
	for _, name := range []string{"cubic", "reno", conf.NoCongestionControl} {
		w, c, _ := connected(t, func(s *conf.Settings) { s.Congestion = name })
		before := counter(c.Ring(), "tcp.segments_out")
		_, err := c.Send(make([]byte, 60_000))
		w.NoError(err)
		w.NoError(w.poller.Flush())
		left[name] = counter(c.Ring(), "tcp.segments_out") - before
	}
	const initial = 10 // RFC 6928
	if left["cubic"] != initial || left["reno"] != initial || left[conf.NoCongestionControl] < 2*initial {
		t.Fatalf("segments that left at once: %v", left)
	}
}

// XLIO_TCP_SEND_BUFFER_SIZE is what Send takes for sending. SendPacket is bounded by the number of packets alone.
func TestSendBufferOfOwnTCP(t *testing.T) {
	w, c, _ := connected(t, func(s *conf.Settings) { s.OwnTCP.SendBuffer = 100_000 })
	w.cutOff() // so that nothing is acknowledged
	n, err := c.Send(make([]byte, 1<<20))
	w.ErrorIs(err, xtreme.ErrWouldBlock)
	w.Equal(100_000, n)
	p, err := w.poller.Pool().Alloc(1000)
	w.NoError(err)
	w.NoError(c.SendPacket(p, netip.AddrPort{}, 1))
	_, err = c.Send([]byte("x"))
	w.ErrorIs(err, xtreme.ErrWouldBlock)
}

// VMA_TCP_QUICKACK acknowledges in the turn in which a segment came, without it after SX_TCP_DELAYED_ACK.
func TestQuickAckOfOwnTCP(t *testing.T) {
	took := func(quick bool, delay time.Duration) time.Duration {
		w, c, peer := connected(t, func(s *conf.Settings) { s.OwnTCP.QuickAck, s.OwnTCP.DelayedAck = quick, delay })
		for range 20 { // the first segments of a connection are acknowledged at once
			w.echo(c, peer, 1)
		}
		start := time.Now()
		w.write(peer, "x")
		w.until("it is acknowledged", func() bool { return w.info(peer).Unacked == 0 })
		return time.Since(start)
	}
	const wait = 150 * time.Millisecond // less than after which the peer's kernel sends again
	slow, quick, short := took(false, wait), took(true, wait), took(false, 10*time.Millisecond)
	if slow < wait*2/3 || quick > slow/2 || short > slow/2 {
		t.Fatalf("acknowledged after %v, with VMA_TCP_QUICKACK after %v, with SX_TCP_DELAYED_ACK=10 after %v", slow, quick, short)
	}
}

// The acknowledgement that VMA_TCP_QUICKACK asks for leaves with the next Flush, not in the Poll that delivers the data; without the setting
// Flush sends none.
func TestQuickAckLeavesWithTheNextFlush(t *testing.T) {
	for _, quick := range []bool{true, false} {
		w, c, peer := connected(t, func(s *conf.Settings) { s.OwnTCP.QuickAck = quick })
		w.echo(c, peer, 20) // the first segments of a connection are acknowledged at once
		w.write(peer, "x")
		w.Equal("x", w.text(c))
		w.EqualValues(1, w.info(peer).Unacked)
		before := counter(c.Ring(), "tcp.segments_out")
		w.NoError(w.poller.Flush())
		w.Equal(before+uint64(boolean(quick)), counter(c.Ring(), "tcp.segments_out"))
		for end := time.Now().Add(patience); quick && w.info(peer).Unacked > 0; time.Sleep(time.Millisecond) {
			w.True(time.Now().Before(end), "it is not acknowledged")
		}
	}
}

// SX_TCP_QUICKACK_THRESHOLD: a longer segment waits for its acknowledgement, a shorter one does not.
func TestQuickAckThresholdOfOwnTCP(t *testing.T) {
	const most = 100
	w, c, peer := connected(t, func(s *conf.Settings) { s.OwnTCP.QuickAck, s.OwnTCP.QuickAckThreshold = true, most })
	w.echo(c, peer, 20) // the first segments of a connection are acknowledged at once
	for _, length := range []int{most, most + 1} {
		w.write(peer, strings.Repeat("x", length))
		w.Len(w.text(c), length)
		before := counter(c.Ring(), "tcp.segments_out")
		w.NoError(w.poller.Flush())
		w.Equal(before+uint64(boolean(length <= most)), counter(c.Ring(), "tcp.segments_out"), "%d bytes", length)
		w.until("it is acknowledged", func() bool { return w.info(peer).Unacked == 0 })
	}
}

// SX_TCP_RTO_MIN: how soon something is sent again.
func TestRTOMinOfOwnTCP(t *testing.T) {
	took := func(least time.Duration) time.Duration {
		w, c, peer := connected(t, func(s *conf.Settings) { s.OwnTCP.RTOMin = least })
		w.echo(c, peer, 5)
		w.cutOff()
		start := time.Now()
		_, err := c.Send([]byte("x"))
		w.NoError(err)
		w.until("it times out", func() bool { return counter(c.Ring(), "tcp.timeouts") > 0 })
		return time.Since(start)
	}
	slow, quick := took(3*time.Second), took(time.Millisecond)
	if slow < 3*time.Second || quick > slow/2 {
		t.Fatalf("timed out after %v, with SX_TCP_RTO_MIN=1 after %v", slow, quick)
	}
}

// VMA_TCP_3T_RULES takes what others send to a connection's port too: our own stack answers it.
func TestTCPThreeTupleRules(t *testing.T) {
	for _, three := range []bool{false, true} {
		w := newTCPCabled(t, func(s *conf.Settings) { s.OwnTCP.ConnectionThreeTuple = three })
		l := w.listenInPeer()
		s, err := w.poller.DialTCP(addr(l.Addr()), xtreme.DialConfig{})
		w.NoError(err)
		w.event(s, xtreme.EventOut)
		w.poll()
		w.ErrorIs(w.tryFromPeer(w.world, s.LocalAddr()), unix.ECONNREFUSED)
		w.Equal(three, counter(s.Ring(), "tcp.no_connection") > 0)
	}
}

// VMA_TCP_MAX_SYN_RATE: what comes beyond it is dropped, and comes again.
func TestSynRate(t *testing.T) {
	w := newTCPCabled(t, func(s *conf.Settings) { s.OwnTCP.SynRate = 1 })
	l := w.listenTCP(w.world, w.at(0))
	for range 3 {
		w.dialFromPeer(w.world, l.LocalAddr())
		w.accept(l)
	}
	w.NotZero(counter(l.Ring(), "tcp.overflows"))
}

// VMA_RX_POLL_ON_TX_TCP: a send takes what has come, without a Poll between. Without the setting one that follows a Poll at once does not.
func TestPollOnSend(t *testing.T) {
	took := map[bool]int{}
	const tries = 200
	for _, on := range []bool{true, false} {
		w, c, peer := connected(t, func(s *conf.Settings) { s.OwnTCP.PollOnSend = on })
		raw, err := peer.SyscallConn()
		w.NoError(err)
		w.NoError(raw.Control(func(fd uintptr) {
			into := make([]xtreme.Completion, 64)
			for range tries {
				w.poll() // what the peer's kernel answered to the send before this one
				before := counter(c.Ring(), "tcp.segments_in")
				for range 50 { // in one of which the ring reads its clock: the last is no pause ago
					_, err = w.poller.Poll(into)
				}
				w.NoError(err)
				_, err = unix.Write(int(fd), []byte("x")) // it is at the link when Write returns: both ends are on this host
				w.NoError(err)
				_, err = c.Send([]byte("y"))
				w.NoError(err)
				if counter(c.Ring(), "tcp.segments_in") > before {
					took[on]++
				}
				w.NoError(w.event(c, xtreme.EventPacket).Packet.Release())
			}
		}))
	}
	// With the race detector the calls between the ring's look at its clock and the send are a pause already.
	if took[true] != tries || took[false] > tries*9/10 && !raceEnabled {
		t.Fatalf("of %d sends took what had come: %v", tries, took)
	}
}

// A send takes a burst of what has come before at the most, and inside Poll nothing.
func TestPollOnSendTakesOneBurst(t *testing.T) {
	w, c, peer := connected(t, func(s *conf.Settings) { s.OwnTCP.PollOnSend = true })
	w.echo(c, peer, 1)
	took := func() uint64 {
		before := counter(c.Ring(), "v0.rx_frames")
		_, err := c.Send([]byte("y"))
		w.NoError(err)
		return counter(c.Ring(), "v0.rx_frames") - before
	}
	var inside []uint64
	s := w.udp(w.at(0), xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{ReceiveCallback: func(*xtreme.Socket, *xtreme.Completion) ring.Verdict {
		if len(inside) == 0 { // while the last burst is at the link
			inside = append(inside, took())
		}
		return ring.Keep
	}}})
	from := w.net.Dial(s.LocalAddr())
	const burst = 64
	hits := func() uint64 { return counter(c.Ring(), "v0.steer.hit") }
	before := hits()
	for range 3 * burst {
		w.write(from, "x")
	}
	for end := time.Now().Add(patience); hits() < before+3*burst; time.Sleep(time.Millisecond) { // without a Poll
		w.True(time.Now().Before(end), "they do not come to the link")
	}
	w.EqualValues(burst, took())
	w.EqualValues(burst, took())
	for range 3 * burst {
		w.Equal("x", w.text(s))
	}
	w.Equal([]uint64{0}, inside)
}

// The settings say what they do without SX_OFFLOAD_TCP: nothing.
func TestOwnTCPSettingsWithoutOwnTCP(t *testing.T) {
	w := newCabled(t)
	w.engine = w.newEngine(func(s *conf.Settings) { s.OwnTCP.QuickAck = true })
	w.Contains(w.log.String(), "VMA_TCP_QUICKACK")
	w.Contains(w.log.String(), "SX_OFFLOAD_TCP is 0")
	w.Equal(1, strings.Count(w.log.String(), "has no effect"))
}
