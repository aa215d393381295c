package xtreme_test

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// foreign makes sockets that no ring knows, by the names of their calls, on IPv6.
func (w *world) foreign() map[string]func() int {
	bound := func(family, typ int, a unix.Sockaddr) int {
		fd, err := unix.Socket(family, typ|unix.SOCK_CLOEXEC, 0)
		w.NoError(err)
		w.NoError(unix.Bind(fd, a))
		return fd
	}
	any6 := &unix.SockaddrInet6{Addr: loopback6.Addr().As16()}
	listener := func(family int, a unix.Sockaddr) int {
		fd := bound(family, unix.SOCK_STREAM, a)
		w.NoError(unix.Listen(fd, 1))
		return fd
	}
	return map[string]func() int{
		"Adopt/TCP/listener":  func() int { return listener(unix.AF_INET6, any6) },
		"Adopt/unix/listener": func() int { return listener(unix.AF_UNIX, &unix.SockaddrUnix{}) },
		"Adopt/UDP":           func() int { return bound(unix.AF_INET6, unix.SOCK_DGRAM, any6) },
		"Adopt/TCP": func() int {
			l := listener(unix.AF_INET6, any6)
			defer unix.Close(l)
			to, err := unix.Getsockname(l)
			w.NoError(err)
			fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			w.NoError(err)
			w.NoError(unix.Connect(fd, to))
			return fd
		},
		"Adopt/unix": func() int {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			w.NoError(err)
			w.t.Cleanup(func() { _ = unix.Close(pair[1]) })
			return pair[0]
		},
	}
}

// kindInWords is how an error speaks of a socket of foreign.
var kindInWords = map[string]string{"Adopt/TCP": "TCP", "Adopt/TCP/listener": "TCP listener", "Adopt/UDP": "UDP", "Adopt/unix": "unix",
	"Adopt/unix/listener": "unix listener"}

// Only Adopt learns at run time what kind of socket a configuration is for: fields that do not fit it are refused by name.
func TestAdoptRefusesFieldsThatDoNotFit(t *testing.T) {
	w := newWorld(t, conf.RingEpoll)
	const (
		streams   = "Adopt/TCP Adopt/TCP/listener Adopt/unix Adopt/unix/listener"
		listeners = "Adopt/TCP/listener Adopt/unix/listener"
		udp       = "Adopt/UDP"
	)
	for name, c := range map[string]struct {
		config xtreme.AdoptConfig
		fits   string
	}{
		"LargeStream":        {xtreme.AdoptConfig{LargeStream: true}, streams},
		"AcceptTo":           {xtreme.AdoptConfig{AcceptTo: func(int, netip.AddrPort) bool { return false }}, listeners},
		"LargestDatagram":    {xtreme.AdoptConfig{LargestDatagram: 1}, udp},
		"Timestamps":         {xtreme.AdoptConfig{Timestamps: true}, udp},
		"HardwareTimestamps": {xtreme.AdoptConfig{HardwareTimestamps: xtreme.Ptr(ring.HardwareTimestampsPTP), TAIOffset: time.Second}, udp},
		"TxTimestamps":       {xtreme.AdoptConfig{TxTimestamps: true}, udp},
		"PacketInfo":         {xtreme.AdoptConfig{PacketInfo: true}, udp},
		"none":               {xtreme.AdoptConfig{}, streams + " " + udp},
	} {
		for call, make := range w.foreign() {
			fd := make()
			s, err := w.poller.Adopt(fd, c.config)
			if slices.Contains(strings.Fields(c.fits), call) {
				w.NoError(err, "%s with %s", call, name)
				w.NoError(s.Abort())
				continue
			}
			w.ErrorIs(err, unix.EINVAL)
			w.ErrorContains(err, "xtreme: Adopt: AdoptConfig."+name+" is not for a "+kindInWords[call])
			w.NoError(unix.Close(fd), "it stays the caller's")
		}
	}
	for range 20 {
		_, err := w.poller.Poll(make([]xtreme.Completion, 64)) // the sockets go
		w.NoError(err)
	}
}

func second(s *xtreme.Socket, err error) error { return err }

func TestBadValuesAreNamed(t *testing.T) {
	w := newWorld(t, conf.RingEpoll)
	closed6, unixName := netip.MustParseAddrPort("[::1]:9"), fmt.Sprintf("@xtreme listen %d", os.Getpid())
	before := descriptors(t)
	pollerError := func(_ *xtreme.Poller, err error) error { return err }
	adopt := func(c xtreme.AdoptConfig) error {
		fd := w.foreign()["Adopt/TCP"]()
		_, err := w.poller.Adopt(fd, c)
		w.NoError(unix.Close(fd), "it stays the caller's")
		return err
	}
	v4 := netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		call string
		err  error
		say  []string
	}{
		{"NewPoller", pollerError(w.engine.NewPoller("other", xtreme.PollerConfig{RingKind: "dpdk"})), []string{"RingKind", `"dpdk"`,
			"auto, uring, epoll or offload"}},
		{"NewPoller", pollerError(w.engine.NewPoller("other", xtreme.PollerConfig{Interfaces: []conf.Interface{{Name: "eth1"}}})),
			[]string{"Interfaces", "offload", "epoll"}},
		{"NewPoller", pollerError(w.engine.NewPoller("other", xtreme.PollerConfig{Checksum: "lax"})), []string{"Checksum", `"lax"`}},
		{"NewPoller", pollerError(w.engine.NewPoller("other", xtreme.PollerConfig{Checksum: conf.ChecksumOff})), []string{"Checksum", "offload",
			"epoll"}},
		{"NewPoller", pollerError(w.engine.NewPoller("other", xtreme.PollerConfig{RingLogic: xtreme.Ptr(ring.Logic(12))})), []string{"RingLogic",
			"12"}},
		{"NewPoller", pollerError(w.engine.NewPoller("other", xtreme.PollerConfig{SmallBuffers: 63, LargeBuffers: 8})),
			[]string{"SmallBuffers 63", "at least 64"}},
		{"NewPoller", pollerError(w.engine.NewPoller("other", xtreme.PollerConfig{SmallBuffers: 64, LargeBuffers: 7})), []string{"LargeBuffers 7",
			"at least 8"}},
		{"NewPoller", pollerError(w.engine.NewPoller("other", xtreme.PollerConfig{SmallBuffers: -1, LargeBuffers: -1})), []string{"SmallBuffers -1"}},
		{"NewPoller", pollerError(w.engine.NewPoller("other", xtreme.PollerConfig{SmallBuffers: 1 << 28, LargeBuffers: 8})), []string{"other",
			"268435456", "4 GiB"}},
		{"NewPoller", pollerError(w.engine.NewPoller("other", xtreme.PollerConfig{NearInterface: "nosuchif0"})), []string{"other", "nosuchif0"}},
		{"NewPoller", pollerError(w.engine.NewPoller("other", xtreme.PollerConfig{Memory: make([]byte, 100)})),
			[]string{"Memory of 100 bytes is shorter"}},
		{"OpenUDP", second(w.poller.OpenUDP(loopback6,
			xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{RingLogic: xtreme.Ptr(ring.Logic(-1))}})), []string{"ring allocation logic", "-1"}},
		{"OpenUDP", second(w.poller.OpenUDP(loopback6, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{ReceiveMode: 3}})), []string{"mode 3"}},
		{"OpenUDP", second(w.poller.OpenUDP(loopback6, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{ReceiveMode: ring.Callback}})),
			[]string{"callback"}},
		{"OpenUDP", second(w.poller.OpenUDP(loopback6, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{ReceiveMode: ring.Queue,
			ReceiveCallback: func(*xtreme.Socket, *xtreme.Completion) ring.Verdict { return ring.Keep }}})), []string{"queue"}},
		{"ListenTCP", second(w.poller.ListenTCP(loopback6, xtreme.ListenConfig{SocketConfig: xtreme.SocketConfig{Budget: -1}})),
			[]string{"budget -1"}},
		{"DialTCP", second(w.poller.DialTCP(closed6, xtreme.DialConfig{SocketConfig: xtreme.SocketConfig{SendQueue: -2}})), []string{"send queue -2"}},
		{"NewTCP", second(w.poller.NewTCP(xtreme.UnixDomain, xtreme.TCPConfig{})), []string{"family 3"}},
		{"NewUDP", second(w.poller.NewUDP(0, xtreme.UDPSocketConfig{})), []string{"family 0"}},
		{"NewTCP", second(w.poller.NewTCP(xtreme.IPv6, xtreme.TCPConfig{SocketConfig: xtreme.SocketConfig{CloseTimeout: -time.Second}})),
			[]string{"close timeout -1s"}},
		{"DialTCP", second(w.poller.DialTCP(closed6, xtreme.DialConfig{KeepAlive: xtreme.KeepAlive{Idle: time.Millisecond}})),
			[]string{"keepalive", "idle 1ms"}},
		{"DialTCP", second(w.poller.DialTCP(closed6, xtreme.DialConfig{KeepAlive: xtreme.KeepAlive{Idle: time.Second,
			Interval: time.Millisecond}})), []string{"keepalive", "interval 1ms"}},
		{"DialTCP", second(w.poller.DialTCP(closed6, xtreme.DialConfig{KeepAlive: xtreme.KeepAlive{Idle: time.Second, Count: 128}})),
			[]string{"keepalive", "count 128"}},
		{"DialTCP", second(w.poller.DialTCP(closed6, xtreme.DialConfig{UserTimeout: -time.Second})), []string{"user timeout", "-1s"}},
		{"ListenUnix", second(w.poller.ListenUnix(unixName, xtreme.UnixListenConfig{SocketConfig: xtreme.SocketConfig{SendBuffer: -1}})),
			[]string{"send buffer", "-1"}},
		{"ListenTCP", second(w.poller.ListenTCP(loopback6, xtreme.ListenConfig{Backlog: -3})), []string{"Backlog", "-3"}},
		{"DialTCP", second(w.poller.DialTCP(closed6, xtreme.DialConfig{Timeout: -time.Second})), []string{"Timeout -1s"}},
		{"DialTCP", second(w.poller.DialTCP(closed6, xtreme.DialConfig{Local: netip.AddrPortFrom(netip.MustParseAddr("2001:db8::1"), 0)})),
			[]string{"bind", "2001:db8::1"}},
		{"OpenUDP", second(w.poller.OpenUDP(loopback6, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{SendBuffer: -1}})),
			[]string{"send buffer", "-1"}},
		{"OpenUDP", second(w.poller.OpenUDP(loopback6, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{BindToDevice: "nosuchif0"}})),
			[]string{"bind to device", "nosuchif0"}},
		{"OpenUDP", second(w.poller.OpenUDP(loopback6, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{TTL: 256}})), []string{"ttl", "256"}},
		{"OpenUDP", second(w.poller.OpenUDP(loopback6, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{TOS: -1}})), []string{"tos", "-1"}},
		{"OpenUDP", second(w.poller.OpenUDP(loopback6, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{TOS: 256}})), []string{"tos", "256"}},
		{"OpenUDP", second(w.poller.OpenUDP(loopback6, xtreme.UDPConfig{LargestDatagram: 65536})), []string{"largest datagram 65536"}},
		{"OpenUDP", second(w.poller.OpenUDP(loopback6, xtreme.UDPConfig{MulticastInterface: "nosuchif0"})), []string{"multicast interface",
			"nosuchif0"}},
		{"OpenUDP", second(w.poller.OpenUDP(loopback6, xtreme.UDPConfig{MulticastTTL: 256})), []string{"multicast ttl", "256"}},
		{"OpenUDP", second(w.poller.OpenUDP(loopback6, xtreme.UDPConfig{Groups: []xtreme.Group{{Interface: "lo"}}})), []string{"join group",
			"::1"}}, // not bound to a group
		{"OpenUDP", second(w.poller.OpenUDP(loopback6, xtreme.UDPConfig{Groups: []xtreme.Group{{Interface: "nosuchif0"}}})), []string{"join group"}},
		{"OpenUDP", second(w.poller.OpenUDP(loopback6, xtreme.UDPConfig{Groups: []xtreme.Group{{Address: v4, Interface: "lo"}}})),
			[]string{"join group", "192.0.2.1"}},
		{"OpenUDP", second(w.poller.OpenUDP(loopback6, xtreme.UDPConfig{Groups: []xtreme.Group{{Address: group(1), Interface: "lo"}}})),
			[]string{"another family", group(1).String()}},
		{"OpenUDP", second(w.poller.OpenUDP(loopback6, xtreme.UDPConfig{Groups: []xtreme.Group{{Address: netip.MustParseAddr("ff15::1"),
			Interface: "nosuchif0"}}})), []string{"nosuchif0"}},
		{"OpenUDP", second(w.poller.OpenUDP(loopback6, xtreme.UDPConfig{Groups: []xtreme.Group{{Address: netip.MustParseAddr("ff15::1"),
			Interface: "lo", Source: v4}}})), []string{"source", "192.0.2.1"}},
		{"NewPoller", pollerError(w.engine.NewPoller("other", xtreme.PollerConfig{Interfaces: []conf.Interface{{Name: "eth1"}, {Name: "eth1"}}})),
			[]string{"Interfaces", `"eth1": named twice`}},
		{"NewPoller", pollerError(w.engine.NewPoller("other", xtreme.PollerConfig{OffloadTime: "noon"})), []string{"OffloadTime", `"noon"`}},
		{"OpenUDP", second(w.poller.OpenUDP(loopback6, xtreme.UDPConfig{MulticastTTL: -2})), []string{"MulticastTTL -2"}},
		{"ListenUnix", second(w.poller.ListenUnix(unixName, xtreme.UnixListenConfig{Backlog: -3})), []string{"Backlog -3"}},
		{"DialTCP", second(w.poller.DialTCP(closed6, xtreme.DialConfig{KeepAlive: xtreme.KeepAlive{Count: 3}})), []string{"KeepAlive.Idle 0s"}},
		{"Adopt", adopt(xtreme.AdoptConfig{SocketConfig: xtreme.SocketConfig{Budget: -1}}), []string{"budget -1"}},
		{"Adopt", adopt(xtreme.AdoptConfig{SocketConfig: xtreme.SocketConfig{SendBuffer: -1}}), []string{"send buffer", "-1"}},
	} {
		w.Error(c.err, "%v", c.say)
		for _, part := range append(c.say, "xtreme: ") {
			w.ErrorContains(c.err, part)
		}
		if c.call != "NewPoller" {
			w.ErrorContains(c.err, c.call)
		}
	}
	w.Equal(before, descriptors(t), "a call that fails leaves nothing open")
	w.silent(time.Millisecond)
}
