package xtreme_test

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// What configurations set in the kernel, read back from it.
func TestOptionsReachTheKernel(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		type value struct{ level, option, want int }
		type values []value
		const ip, ip6, sol, tcpLevel = unix.IPPROTO_IP, unix.IPPROTO_IPV6, unix.SOL_SOCKET, unix.IPPROTO_TCP
		for _, c := range []struct {
			name   string
			on     string // which sockets: t TCP, u UDP, 4, 6
			want   values
			socket xtreme.SocketConfig
			ip     xtreme.IPConfig
			tcp    xtreme.ListenConfig
			udp    xtreme.UDPConfig
		}{
			{name: "NoDelay on", on: "t4", tcp: xtreme.ListenConfig{NoDelay: xtreme.On}, want: values{{tcpLevel, unix.TCP_NODELAY, 1}}},
			{name: "NoDelay off", on: "t4", tcp: xtreme.ListenConfig{NoDelay: xtreme.Off}, want: values{{tcpLevel, unix.TCP_NODELAY, 0}}},
			{name: "KeepAlive", on: "t46", tcp: xtreme.ListenConfig{KeepAlive: xtreme.KeepAlive{Idle: 30 * time.Second, Interval: 5 * time.Second,
				Count: 4}},
				want: values{{sol, unix.SO_KEEPALIVE, 1}, {tcpLevel, unix.TCP_KEEPIDLE, 30}, {tcpLevel, unix.TCP_KEEPINTVL, 5}, {tcpLevel,
					unix.TCP_KEEPCNT, 4}}},
			{name: "KeepAlive off", on: "t4", tcp: xtreme.ListenConfig{KeepAlive: xtreme.KeepAlive{Idle: -1}}, want: values{{sol, unix.SO_KEEPALIVE, 0}}},
			{name: "UserTimeout", on: "t4", tcp: xtreme.ListenConfig{UserTimeout: 7 * time.Second}, want: values{{tcpLevel, unix.TCP_USER_TIMEOUT,
				7000}}},
			{name: "ReceiveBuffer", on: "tu46", ip: xtreme.IPConfig{ReceiveBuffer: 50_000}, want: values{{sol, unix.SO_RCVBUF,
				100_000}}}, // the kernel doubles it
			{name: "SendBuffer", on: "tu46", socket: xtreme.SocketConfig{SendBuffer: 40_000}, want: values{{sol, unix.SO_SNDBUF, 80_000}}},
			{name: "ReuseAddr", on: "tu46", ip: xtreme.IPConfig{ReuseAddr: true}, want: values{{sol, unix.SO_REUSEADDR, 1}}},
			{name: "ReusePort", on: "tu46", ip: xtreme.IPConfig{ReusePort: true}, want: values{{sol, unix.SO_REUSEPORT, 1}}},
			{name: "V6Only", on: "tu6", ip: xtreme.IPConfig{V6Only: true}, want: values{{ip6, unix.IPV6_V6ONLY, 1}}},
			{name: "TTL", on: "tu4", ip: xtreme.IPConfig{TTL: 9}, want: values{{ip, unix.IP_TTL, 9}}},
			{name: "TTL, IPv6", on: "tu6", ip: xtreme.IPConfig{TTL: 9}, want: values{{ip6, unix.IPV6_UNICAST_HOPS, 9}}},
			{name: "TOS", on: "tu4", ip: xtreme.IPConfig{TOS: 46 << 2}, want: values{{ip, unix.IP_TOS, 46 << 2}}},
			{name: "TOS, IPv6", on: "tu6", ip: xtreme.IPConfig{TOS: 46 << 2}, want: values{{ip6, unix.IPV6_TCLASS, 46 << 2}}},
			{name: "Broadcast", on: "u4", udp: xtreme.UDPConfig{Broadcast: true}, want: values{{sol, unix.SO_BROADCAST, 1}}},
			{name: "Timestamps", on: "u46", udp: xtreme.UDPConfig{Timestamps: true}, want: values{{sol, unix.SO_TIMESTAMPNS, 1}}},
			{name: "PacketInfo", on: "u4", udp: xtreme.UDPConfig{PacketInfo: true}, want: values{{ip, unix.IP_PKTINFO, 1}}},
			{name: "PacketInfo, IPv6", on: "u6", udp: xtreme.UDPConfig{PacketInfo: true}, want: values{{ip6, unix.IPV6_RECVPKTINFO, 1}}},
			{name: "MulticastInterface, IPv6", on: "u6", udp: xtreme.UDPConfig{MulticastInterface: "lo"},
				want: values{{ip6, unix.IPV6_MULTICAST_IF, w.loIndex()}}},
			{name: "MulticastLoop, IPv6", on: "u6", udp: xtreme.UDPConfig{MulticastLoop: xtreme.Off}, want: values{{ip6, unix.IPV6_MULTICAST_LOOP, 0}}},
			{name: "MulticastTTL", on: "u4", udp: xtreme.UDPConfig{MulticastTTL: 5}, want: values{{ip, unix.IP_MULTICAST_TTL, 5}}},
			{name: "MulticastTTL, this host", on: "u4", udp: xtreme.UDPConfig{MulticastTTL: -1}, want: values{{ip, unix.IP_MULTICAST_TTL, 0}}},
			{name: "MulticastTTL, IPv6", on: "u6", udp: xtreme.UDPConfig{MulticastTTL: 5}, want: values{{ip6, unix.IPV6_MULTICAST_HOPS, 5}}},
		} {
			c.tcp.SocketConfig, c.tcp.IPConfig, c.udp.SocketConfig, c.udp.IPConfig = c.socket, c.ip, c.socket, c.ip
			dial := xtreme.DialConfig{SocketConfig: c.socket, IPConfig: c.ip, NoDelay: c.tcp.NoDelay, KeepAlive: c.tcp.KeepAlive,
				UserTimeout: c.tcp.UserTimeout}
			for _, family := range []netip.AddrPort{loopback, loopback6} {
				if family.Addr().Is4() && !strings.Contains(c.on, "4") || family.Addr().Is6() && !strings.Contains(c.on, "6") {
					continue
				}
				var made []*xtreme.Socket
				add := func(s *xtreme.Socket, err error) {
					w.NoError(err, c.name)
					made = append(made, s)
				}
				if strings.Contains(c.on, "t") {
					add(w.poller.ListenTCP(family, c.tcp))
					add(w.poller.DialTCP(made[0].LocalAddr(), dial))
				}
				if strings.Contains(c.on, "u") {
					add(w.poller.OpenUDP(family, c.udp))
				}
				for _, s := range made {
					for _, v := range c.want {
						w.Equal(v.want, w.sockopt(s, v.level, v.option), "%s on %v %v", c.name, s.Kind(), family)
					}
					w.NoError(s.Abort())
				}
			}
		}
		w.until("all are gone", func() bool { return w.poller.Rings()[0].Sockets() == 0 })
		for i := range w.kept { // connections that were accepted before their listener went
			w.True(w.kept[i].Events.Any(xtreme.EventClosed|xtreme.EventNewConnection|xtreme.EventOut), w.kept[i].Events)
		}
		w.kept = nil
	})
}

func (w *world) loIndex() int {
	w.t.Helper()
	lo, err := net.InterfaceByName("lo")
	w.NoError(err)
	return lo.Index
}

func TestBindToDevice(t *testing.T) {
	w := newWorld(t, conf.RingEpoll)
	u := w.udp(loopback, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{BindToDevice: "lo"}})
	name, err := unix.GetsockoptString(u.ID(), unix.SOL_SOCKET, unix.SO_BINDTODEVICE)
	w.NoError(err)
	w.Equal("lo", name)
	w.Equal(w.loIndex(), u.Ring().Key().Interface)
	s, err := w.poller.NewTCP(xtreme.IPv4, xtreme.TCPConfig{})
	w.NoError(err)
	w.NoError(s.BindToDevice("lo"))
	w.NotNil(s.Ring(), "a TCP socket has its ring from here on")
	w.close(s)
}

// The kernel tells the length of a listener's accept queue as tcpi_sacked (net/ipv4/tcp.c, tcp_get_info).
func TestBacklog(t *testing.T) {
	w := newWorld(t, conf.RingEpoll)
	backlog := func(s *xtreme.Socket) int {
		info, err := unix.GetsockoptTCPInfo(s.ID(), unix.IPPROTO_TCP, unix.TCP_INFO)
		w.NoError(err)
		return int(info.Sacked)
	}
	w.Equal(3, backlog(w.listen(xtreme.ListenConfig{Backlog: 3})))
	text, err := os.ReadFile("/proc/sys/net/core/somaxconn")
	w.NoError(err)
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	w.NoError(err)
	w.Equal(min(most, 1<<16-1), backlog(w.listen()))
}

func TestReusePortSharesAnAddress(t *testing.T) {
	w := newWorld(t, conf.RingEpoll)
	l := w.listen(xtreme.ListenConfig{IPConfig: xtreme.IPConfig{ReusePort: true}})
	_, err := w.poller.ListenTCP(l.LocalAddr(), xtreme.ListenConfig{})
	w.ErrorIs(err, unix.EADDRINUSE)
	_, err = w.poller.ListenTCP(l.LocalAddr(), xtreme.ListenConfig{IPConfig: xtreme.IPConfig{ReusePort: true}})
	w.NoError(err)
}

func TestV6OnlyLeavesIPv4Free(t *testing.T) {
	w := newWorld(t, conf.RingEpoll)
	only := w.udp(netip.MustParseAddrPort("[::]:0"), xtreme.UDPConfig{IPConfig: xtreme.IPConfig{V6Only: true}})
	w.udp(netip.AddrPortFrom(netip.IPv4Unspecified(), only.LocalAddr().Port()))
}

func TestUserData(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		u := w.udp(loopback, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{UserData: xtreme.Ptr[uint64](77)}})
		w.write(w.peer(u.LocalAddr()), "x")
		c := w.event(u, xtreme.EventPacket)
		w.Equal(uint64(77), c.UserData)
		w.NoError(c.Packet.Release())
		d := w.udp(loopback)
		w.Equal(uint64(d.ID()), d.UserData())
		l := w.listen(xtreme.ListenConfig{SocketConfig: xtreme.SocketConfig{UserData: xtreme.Ptr[uint64](5)}})
		s, _ := w.pair(l)
		w.Equal(uint64(s.ID()), s.UserData(), "an accepted connection has its own")
	})
}

func TestRingLogicOfOneSocket(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		perUser := func(id uint64) *xtreme.Socket {
			return w.udp(loopback, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RingLogic: xtreme.Ptr(ring.PerUserID), UserID: id}})
		}
		a, b, c := perUser(1), perUser(2), perUser(1)
		plain, also := w.udp(loopback), w.udp(loopback)
		w.Equal(a.Ring(), c.Ring())
		w.NotEqual(a.Ring(), b.Ring())
		w.Equal(plain.Ring(), also.Ring())
		w.NotEqual(plain.Ring(), a.Ring())
		w.Equal(uint64(2), b.Ring().Key().Value)
		w.Equal(ring.PerUserID, b.Ring().Key().Logic)
		w.Len(w.poller.Rings(), 3)
	})
}

// Each accepted connection has the listener's budget, for itself.
func TestBudgetPerAcceptedSocket(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		const budget = 16 << 10
		w := newWorld(t, kind)
		l := w.listen(xtreme.ListenConfig{SocketConfig: xtreme.SocketConfig{Budget: budget}})
		greedy, first := w.pair(l)
		modest, second := w.pair(l)
		go func() { _, _ = first.Write(make([]byte, 1<<20)) }() // ends with the connection
		w.until("the budget is used up", func() bool { return greedy.Held() >= budget })
		for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
			w.poll()
			w.Less(greedy.Held(), 16*budget, "what the kernel had been asked for already comes on top")
		}
		w.NotZero(greedy.Ring().Stats().BudgetStops)
		w.write(second, "still served")
		w.Equal("still served", w.text(modest))
		w.Less(modest.Held(), budget)
		total := 0
		for total < 1<<20 { // released, it goes on
			c := w.next("the rest", func(c *xtreme.Completion) bool { return c.Socket == greedy && c.Events.Has(xtreme.EventPacket) })
			total += c.Packet.Len()
			w.NoError(c.Packet.Release())
		}
	})
}

func TestLargeStream(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		longest := func(l *xtreme.Socket) (most int) {
			s, peer := w.pair(l)
			w.NoError(s.Suspend())
			w.write(peer, string(make([]byte, 40_000)))
			time.Sleep(20 * time.Millisecond) // it is all in the kernel's queue
			w.NoError(s.Resume())
			for n := 0; n < 40_000; {
				c := w.event(s, xtreme.EventPacket)
				n += c.Packet.Len()
				most = max(most, len(c.Packet.Bytes()))
				w.NoError(c.Packet.Release())
			}
			return most
		}
		w.LessOrEqual(longest(w.listen()), 2304, "a small buffer with its headroom")
		w.Greater(longest(w.listen(xtreme.ListenConfig{LargeStream: true})), 8192)
	})
}

func TestLinger(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		b := make([]byte, 1)
		s, peer := w.pair(w.listen(xtreme.ListenConfig{Linger: xtreme.Ptr(time.Duration(0))}))
		w.close(s)
		_, err := peer.Read(b)
		w.ErrorIs(err, unix.ECONNRESET)

		s, peer = w.pair(w.listen(xtreme.ListenConfig{Linger: xtreme.Ptr(patience)}))
		w.NoError(s.Close())
		_, err = peer.Read(b)
		w.ErrorContains(err, "EOF")
		w.silent(20 * time.Millisecond) // it waits for the peer's FIN
		w.NoError(peer.Close())
		w.event(s, xtreme.EventClosed)

		d, err := w.poller.DialTCP(addr(w.server("tcp", "127.0.0.1:0").Addr()), xtreme.DialConfig{Linger: xtreme.Ptr(30 * time.Millisecond)})
		w.NoError(err)
		w.event(d, xtreme.EventOut)
		begin := time.Now()
		w.close(d)
		w.GreaterOrEqual(time.Since(begin), 30*time.Millisecond, "the peer said nothing for the whole time")
	})
}

func TestCallback(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		var seen []string
		u := w.udp(loopback, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{ReceiveCallback: func(_ *xtreme.Socket,
			c *xtreme.Completion) ring.Verdict {
			if seen = append(seen, string(c.Packet.Bytes())); len(seen) == 1 {
				return ring.Drop
			}
			return ring.Keep
		}}})
		peer := w.peer(u.LocalAddr())
		w.write(peer, "first")
		w.write(peer, "second")
		w.Equal("second", w.text(u))
		w.Equal([]string{"first", "second"}, seen)
		w.Equal(uint64(1), u.Ring().Stats().CallbackDrops)

		l := w.listen(xtreme.ListenConfig{SocketConfig: xtreme.SocketConfig{ReceiveMode: ring.Queue}})
		s, conn := w.pair(l)
		w.write(conn, "queued")
		w.event(s, xtreme.EventIn)
		var got [2]xtreme.Completion
		n, err := s.Receive(got[:])
		w.NoError(err)
		w.Equal(1, n)
		w.Equal("queued", string(got[0].Packet.Bytes()))
		w.NoError(got[0].Packet.Release())
	})
}

func TestSendQueueAndCloseTimeout(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		l := w.server("tcp", "127.0.0.1:0")
		s, err := w.poller.DialTCP(addr(l.Addr()), xtreme.DialConfig{SocketConfig: xtreme.SocketConfig{SendQueue: 2,
			CloseTimeout: 50 * time.Millisecond, SendBuffer: 4096}})
		w.NoError(err)
		w.event(s, xtreme.EventOut)
		// Fill what the kernel takes, so that packets stay under way.
		for err == nil {
			_, err = s.Send(make([]byte, 64<<10))
		}
		w.ErrorIs(err, xtreme.ErrWouldBlock)
		packet := func(token uint64) error {
			p, err := w.poller.Pool().Alloc(60_000)
			w.NoError(err)
			if err := s.SendPacket(p, netip.AddrPort{}, token); err != nil {
				w.NoError(p.Release())
				return err
			}
			return nil
		}
		w.NoError(packet(1))
		w.NoError(packet(2))
		w.ErrorIs(packet(3), xtreme.ErrWouldBlock, "the queue takes two")
		for range 5 {
			w.poll()
		}
		begin := time.Now()
		w.NoError(s.Close())
		c := w.next("CLOSED", func(c *xtreme.Completion) bool { return c.Events.Has(xtreme.EventClosed) })
		w.Equal(s, c.Socket)
		w.GreaterOrEqual(time.Since(begin), 50*time.Millisecond)
		w.Less(time.Since(begin), patience/2, "the default would be 30 s")
	})
}

func TestConnectTimeout(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		begin := time.Now()
		s, err := w.poller.DialTCP(w.blackHole(), xtreme.DialConfig{Timeout: 30 * time.Millisecond})
		w.NoError(err)
		c := w.event(s, xtreme.EventIn|xtreme.EventHup)
		w.ErrorIs(c.Err, unix.ETIMEDOUT)
		w.GreaterOrEqual(time.Since(begin), 30*time.Millisecond)
		w.close(s)
	})
}

// A dial waits for nobody: with a peer that answers nothing and no time-out it returns, and nothing comes.
func TestDialDoesNotWaitForThePeer(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		s, err := w.poller.DialTCP(w.blackHole(), xtreme.DialConfig{})
		w.NoError(err)
		w.silent(20 * time.Millisecond)
		_, err = s.Send([]byte("too early"))
		w.ErrorIs(err, xtreme.ErrWouldBlock)
		w.close(s)
	})
}

// blackHole is an address that answers nothing: a listener whose accept queue is full drops every further SYN.
func (w *world) blackHole() netip.AddrPort {
	w.t.Helper()
	socket := func() int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		w.NoError(err)
		w.t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	fd, here := socket(), &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	w.NoError(unix.Bind(fd, here))
	w.NoError(unix.Listen(fd, 0))
	name, err := unix.Getsockname(fd)
	w.NoError(err)
	here.Port = name.(*unix.SockaddrInet4).Port
	for range 2 { // one more than the queue of length 0 takes
		w.ErrorIs(unix.Connect(socket(), here), unix.EINPROGRESS)
	}
	time.Sleep(5 * time.Millisecond)
	return netip.AddrPortFrom(loopback.Addr(), uint16(here.Port))
}

func TestLargestDatagram(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		small := w.udp(loopback, xtreme.UDPConfig{LargestDatagram: 1500})
		large := w.udp(loopback, xtreme.UDPConfig{LargestDatagram: 9000})
		for _, c := range []struct {
			s   *xtreme.Socket
			err error
		}{{small, xtreme.ErrTruncated}, {large, nil}} {
			w.write(w.peer(c.s.LocalAddr()), string(make([]byte, 9000)))
			got := w.event(c.s, xtreme.EventPacket)
			w.Equal(c.err, got.Err)
			w.Equal(c.err == nil, got.Packet.Len() == 9000)
			w.NoError(got.Packet.Release())
		}
	})
}

func TestPacketInfoAndTimestamps(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		w := newWorld(t, kind)
		u := w.udp(loopback, xtreme.UDPConfig{PacketInfo: true, Timestamps: true})
		plain := w.udp(loopback)
		before := time.Now()
		w.write(w.peer(u.LocalAddr()), "x")
		w.write(w.peer(plain.LocalAddr()), "x")
		c := w.event(u, xtreme.EventPacket)
		w.Equal(uint32(w.loIndex()), c.IfIndex)
		w.Equal(u.LocalAddr(), c.Destination)
		w.WithinRange(c.Time.Time(), before.Add(-time.Millisecond), time.Now().Add(time.Millisecond))
		w.NoError(c.Packet.Release())
		c = w.event(plain, xtreme.EventPacket)
		w.Zero(c.IfIndex)
		w.True(c.Time.IsZero())
		w.NoError(c.Packet.Release())
	})
}
