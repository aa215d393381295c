package xtreme_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Which calls an option fits; the calls are named as in the errors.
const (
	newTCP   = "ListenTCP DialTCP NewTCP "
	newUDP   = "OpenUDP NewUDP "
	newIP    = newTCP + newUDP
	tcp      = newTCP + "Adopt/TCP Adopt/TCP/listener "
	udp      = newUDP + "Adopt/UDP "
	ip       = tcp + udp
	unixes   = "ListenUnix DialUnix Adopt/unix Adopt/unix/listener "
	anywhere = ip + unixes
)

// every option of the package, with a good argument.
var every = []struct {
	name string
	opt  xtreme.Option
	fits string
}{
	{"Logger", xtreme.Logger(slog.Default()), "New"},
	{"RingKind", xtreme.RingKind(conf.RingAuto), "NewPoller"},
	{"Interfaces", xtreme.Interfaces("eth1"), "NewPoller"},
	{"Checksum", xtreme.Checksum(conf.ChecksumStrict), "NewPoller"},
	{"OffloadTime", xtreme.OffloadTime(conf.TimeXDP), "NewPoller"},
	{"RingLogic", xtreme.RingLogic(ring.PerIP), "NewPoller " + anywhere},
	{"Buffers", xtreme.Buffers(64, 8), "NewPoller"},
	{"HugePages", xtreme.HugePages(), "NewPoller"},
	{"NearInterface", xtreme.NearInterface("lo"), "NewPoller"},
	{"Auxiliary", xtreme.Auxiliary(), "NewPoller"},
	{"Memory", xtreme.Memory(make([]byte, 8<<20)), "NewPoller"},
	{"UserID", xtreme.UserID(1), anywhere},
	{"UserData", xtreme.UserData(1), anywhere},
	{"ReceiveMode", xtreme.ReceiveMode(ring.Queue, nil), anywhere},
	{"Budget", xtreme.Budget(1 << 20), anywhere},
	{"SendQueue", xtreme.SendQueue(8), anywhere},
	{"CloseTimeout", xtreme.CloseTimeout(time.Second), anywhere},
	{"RequireOffload", xtreme.RequireOffload(), anywhere},
	{"KernelOnly", xtreme.KernelOnly(), anywhere},
	{"Pacing", xtreme.Pacing(xtreme.PacingRate{}), ip},
	{"HardwareTimestamps", xtreme.HardwareTimestamps(ring.HardwareTimestampsRaw, 0), udp},
	{"TxTimestamps", xtreme.TxTimestamps(), udp},
	{"NoDelay", xtreme.NoDelay(true), tcp},
	{"KeepAlive", xtreme.KeepAlive(time.Minute, 0, 0), tcp},
	{"UserTimeout", xtreme.UserTimeout(time.Minute), tcp},
	{"Linger", xtreme.Linger(0), tcp},
	{"LargeStream", xtreme.LargeStream(), tcp + unixes},
	{"Backlog", xtreme.Backlog(1), "ListenTCP ListenUnix"},
	{"AcceptTo", xtreme.AcceptTo(func(int, netip.AddrPort) bool { return false }),
		"ListenTCP ListenUnix Adopt/TCP/listener Adopt/unix/listener"},
	{"KeepSocketFile", xtreme.KeepSocketFile(), "ListenUnix"},
	{"ConnectTimeout", xtreme.ConnectTimeout(time.Second), "DialTCP"},
	{"Local", xtreme.Local(loopback), "DialTCP"},
	{"Remote", xtreme.Remote(netip.MustParseAddrPort("127.0.0.1:9")), "OpenUDP"},
	{"ReceiveBuffer", xtreme.ReceiveBuffer(65536), ip},
	{"SendBuffer", xtreme.SendBuffer(65536), anywhere},
	{"ReuseAddr", xtreme.ReuseAddr(), newIP},
	{"ReusePort", xtreme.ReusePort(), newIP},
	{"V6Only", xtreme.V6Only(), newIP},
	{"BindToDevice", xtreme.BindToDevice("lo"), newIP},
	{"TTL", xtreme.TTL(1), ip},
	{"TOS", xtreme.TOS(0), ip},
	{"DSCP", xtreme.DSCP(0), ip},
	{"Broadcast", xtreme.Broadcast(), udp},
	{"LargestDatagram", xtreme.LargestDatagram(1), udp},
	{"Timestamps", xtreme.Timestamps(), udp},
	{"PacketInfo", xtreme.PacketInfo(), udp},
	{"JoinGroup", xtreme.JoinGroup("lo"), "OpenUDP"},
	{"JoinSourceGroup", xtreme.JoinSourceGroup("lo", loopback.Addr()), "OpenUDP"},
	{"AddMembership", xtreme.AddMembership(group(1), "lo", netip.Addr{}), "OpenUDP"},
	{"MulticastInterface", xtreme.MulticastInterface("lo"), udp},
	{"MulticastLoop", xtreme.MulticastLoop(true), udp},
	{"MulticastTTL", xtreme.MulticastTTL(1), udp},
	{"MulticastAll", xtreme.MulticastAll(false), udp},
}

// calls are what takes options, on IPv6 because every option but the IPv4 group works there.
func (w *world) calls() map[string]func(...xtreme.Option) error {
	sockets := map[string]func(...xtreme.Option) (*xtreme.Socket, error){
		"ListenTCP": func(o ...xtreme.Option) (*xtreme.Socket, error) { return w.poller.ListenTCP(loopback6, o...) },
		"DialTCP": func(o ...xtreme.Option) (*xtreme.Socket, error) {
			return w.poller.DialTCP(netip.MustParseAddrPort("[::1]:9"), o...)
		},
		"OpenUDP": func(o ...xtreme.Option) (*xtreme.Socket, error) { return w.poller.OpenUDP(loopback6, o...) },
		"NewTCP":  func(o ...xtreme.Option) (*xtreme.Socket, error) { return w.poller.NewTCP(true, o...) },
		"NewUDP":  func(o ...xtreme.Option) (*xtreme.Socket, error) { return w.poller.NewUDP(true, o...) },
		"ListenUnix": func(o ...xtreme.Option) (*xtreme.Socket, error) {
			return w.poller.ListenUnix(fmt.Sprintf("@xtreme listen %d", os.Getpid()), o...)
		},
		"DialUnix": func(o ...xtreme.Option) (*xtreme.Socket, error) { return w.poller.DialUnix(w.unixListener(), o...) },
	}
	for name, make := range w.foreign() {
		sockets[name] = func(o ...xtreme.Option) (*xtreme.Socket, error) {
			fd := make()
			s, err := w.poller.Adopt(fd, o...)
			if err != nil {
				w.NoError(unix.Close(fd), "it stays the caller's")
			}
			return s, err
		}
	}
	all := map[string]func(...xtreme.Option) error{"NewPoller": func(opt ...xtreme.Option) error {
		p, err := w.engine.NewPoller("other", opt...)
		if err == nil {
			w.NoError(p.Close())
		}
		return err
	}}
	all["New"] = func(opt ...xtreme.Option) error {
		e, err := xtreme.New(conf.Default(), opt...)
		if err == nil {
			w.NoError(e.Close())
		}
		return err
	}
	for name, call := range sockets {
		all[name] = func(opt ...xtreme.Option) error {
			s, err := call(opt...)
			if err == nil {
				w.NoError(s.Abort())
			}
			return err
		}
	}
	return all
}

// unixListener is the name of a kernel listener that lasts as long as the test.
func (w *world) unixListener() string {
	name := fmt.Sprintf("@xtreme %s %d", w.t.Name(), os.Getpid())
	if w.unixName == name {
		return name
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	w.NoError(err)
	w.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for { // an accept queue that fills up would refuse
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	w.unixName = name
	return name
}

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

// errorName is how an error speaks of a call.
func errorName(call string) string {
	if kind, ok := strings.CutPrefix(call, "Adopt/"); ok {
		return "Adopt of a " + strings.ReplaceAll(kind, "/", " ")
	}
	return call
}

func TestOptionsThatDoNotFitAreRefusedByName(t *testing.T) {
	w := newWorld(t, conf.RingEpoll)
	fit := map[string]bool{ // what needs other addresses than those of calls has tests of its own
		"Local": true, "Remote": true, "JoinGroup": true, "JoinSourceGroup": true, "AddMembership": true, "RequireOffload": true,
		"Interfaces": true, "Checksum": true, "OffloadTime": true, "HardwareTimestamps": true, "TxTimestamps": true,
	}
	for call, open := range w.calls() {
		for _, o := range every {
			err := open(o.opt)
			switch {
			case !strings.Contains(" "+o.fits+" ", " "+call+" "):
				w.EqualError(err, "xtreme: "+errorName(call)+": option "+o.name+" does not apply to it")
			case !fit[o.name]:
				w.NoError(err, "%s with %s", call, o.name)
			}
		}
		w.EqualError(open(xtreme.Option{}), "xtreme: "+errorName(call)+": empty Option")
		if call != "New" {
			w.EqualError(open(xtreme.RingLogic(ring.PerIP), xtreme.Option{}), "xtreme: "+errorName(call)+": empty Option")
		}
	}
	for range 20 {
		_, err := w.poller.Poll(make([]xtreme.Completion, 64)) // the sockets go
		w.NoError(err)
	}
}

// The table above must not fall behind the package.
func TestEveryOptionIsInTheTable(t *testing.T) {
	known := map[string]bool{}
	for _, o := range every {
		known[o.name] = true
	}
	found := 0
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !f.Name.IsExported() || f.Type.Results == nil {
				continue
			}
			if result, ok := f.Type.Results.List[0].Type.(*ast.Ident); ok && result.Name == "Option" {
				found++
				require.True(t, known[f.Name.Name], "option %s is in no test", f.Name.Name)
			}
		}
	}
	require.Equal(t, len(every), found)
}

func TestBadValuesAreNamed(t *testing.T) {
	w := newWorld(t, conf.RingEpoll)
	before := descriptors(t)
	calls := w.calls()
	v4 := netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		call string
		opt  xtreme.Option
		say  []string
	}{
		{"NewPoller", xtreme.RingKind("dpdk"), []string{"RingKind", `"dpdk"`, "auto, uring, epoll or offload"}},
		{"NewPoller", xtreme.RingKind(""), []string{"RingKind", `""`}},
		{"New", xtreme.Logger(nil), []string{"Logger", "nil"}},
		{"NewPoller", xtreme.Interfaces(), []string{"Interfaces", `""`}},
		{"NewPoller", xtreme.Interfaces("eth1", "eth1"), []string{"Interfaces", `"eth1": named twice`}},
		{"NewPoller", xtreme.Interfaces("eth1"), []string{"Interfaces", "offload", "epoll"}},
		{"NewPoller", xtreme.Checksum("lax"), []string{"Checksum", `"lax"`}},
		{"NewPoller", xtreme.Checksum(conf.ChecksumOff), []string{"Checksum", "offload", "epoll"}},
		{"NewPoller", xtreme.RingLogic(12), []string{"RingLogic", "12"}},
		{"NewPoller", xtreme.Buffers(63, 8), []string{"Buffers", "63 small and 8 large", "at least 64 and 8"}},
		{"NewPoller", xtreme.Buffers(64, 7), []string{"Buffers", "7 large"}},
		{"NewPoller", xtreme.Buffers(-1, -1), []string{"Buffers", "-1"}},
		{"NewPoller", xtreme.Buffers(1<<28, 8), []string{"other", "268435456", "4 GiB"}},
		{"NewPoller", xtreme.NearInterface("nosuchif0"), []string{"other", "nosuchif0"}},
		{"NewPoller", xtreme.NearInterface(""), []string{"NearInterface"}},
		{"NewPoller", xtreme.Memory(nil), []string{"Memory"}},
		{"NewPoller", xtreme.Memory(make([]byte, 100)), []string{"Memory of 100 bytes is shorter"}},
		{"OpenUDP", xtreme.RingLogic(-1), []string{"RingLogic", "-1"}},
		{"OpenUDP", xtreme.ReceiveMode(3, nil), []string{"mode 3"}},
		{"OpenUDP", xtreme.ReceiveMode(ring.Callback, nil), []string{"callback"}},
		{"OpenUDP", xtreme.ReceiveMode(ring.Queue, func(*xtreme.Socket, *xtreme.Completion) ring.Verdict { return ring.Keep }), []string{"queue"}},
		{"ListenTCP", xtreme.Budget(-1), []string{"budget -1"}},
		{"DialTCP", xtreme.SendQueue(-2), []string{"send queue -2"}},
		{"NewTCP", xtreme.CloseTimeout(-time.Second), []string{"close timeout -1s"}},
		{"DialTCP", xtreme.KeepAlive(time.Millisecond, 0, 0), []string{"keepalive", "idle 1ms"}},
		{"DialTCP", xtreme.KeepAlive(time.Second, time.Millisecond, 0), []string{"keepalive", "interval 1ms"}},
		{"DialTCP", xtreme.KeepAlive(time.Second, 0, 128), []string{"keepalive", "count 128"}},
		{"DialTCP", xtreme.UserTimeout(-time.Second), []string{"user timeout", "-1s"}},
		{"ListenTCP", xtreme.AcceptTo(nil), []string{"AcceptTo", "nil"}},
		{"Adopt/TCP", xtreme.Budget(-1), []string{"Adopt", "budget -1"}},
		{"Adopt/TCP", xtreme.KeepAlive(time.Millisecond, 0, 0), []string{"keepalive", "idle 1ms"}},
		{"Adopt/UDP", xtreme.TTL(256), []string{"ttl", "256"}},
		{"ListenUnix", xtreme.SendBuffer(-1), []string{"send buffer", "-1"}},
		{"ListenTCP", xtreme.Backlog(0), []string{"Backlog", "0"}},
		{"ListenTCP", xtreme.Backlog(-3), []string{"Backlog", "-3"}},
		{"DialTCP", xtreme.ConnectTimeout(-time.Second), []string{"ConnectTimeout", "-1s"}},
		{"DialTCP", xtreme.ConnectTimeout(0), []string{"ConnectTimeout", "0s"}},
		{"DialTCP", xtreme.Local(netip.AddrPort{}), []string{"Local", "invalid"}},
		{"DialTCP", xtreme.Local(netip.AddrPortFrom(netip.MustParseAddr("2001:db8::1"), 0)), []string{"bind", "2001:db8::1"}},
		{"OpenUDP", xtreme.Remote(netip.AddrPort{}), []string{"Remote", "invalid"}},
		{"NewUDP", xtreme.ReceiveBuffer(0), []string{"receive buffer", "0"}},
		{"NewUDP", xtreme.SendBuffer(-1), []string{"send buffer", "-1"}},
		{"NewUDP", xtreme.BindToDevice("nosuchif0"), []string{"bind to device", "nosuchif0"}},
		{"NewUDP", xtreme.TTL(0), []string{"ttl", "0"}},
		{"NewUDP", xtreme.TTL(256), []string{"ttl", "256"}},
		{"NewUDP", xtreme.TOS(-1), []string{"tos", "-1"}},
		{"NewUDP", xtreme.TOS(256), []string{"tos", "256"}},
		{"NewUDP", xtreme.DSCP(64), []string{"DSCP", "64"}},
		{"NewUDP", xtreme.DSCP(-1), []string{"DSCP", "-1"}},
		{"NewUDP", xtreme.LargestDatagram(0), []string{"LargestDatagram", "0"}},
		{"NewUDP", xtreme.LargestDatagram(65536), []string{"LargestDatagram", "65536"}},
		{"NewUDP", xtreme.MulticastInterface("nosuchif0"), []string{"multicast interface", "nosuchif0"}},
		{"NewUDP", xtreme.MulticastTTL(256), []string{"multicast ttl", "256"}},
		{"NewUDP", xtreme.MulticastTTL(-1), []string{"multicast ttl", "-1"}},
		{"OpenUDP", xtreme.JoinGroup("lo"), []string{"join group", "::1"}}, // not bound to a group
		{"OpenUDP", xtreme.JoinGroup("nosuchif0"), []string{"join group"}},
		{"OpenUDP", xtreme.JoinSourceGroup("lo", netip.Addr{}), []string{"JoinSourceGroup", "invalid"}},
		{"OpenUDP", xtreme.AddMembership(netip.Addr{}, "lo", netip.Addr{}), []string{"AddMembership", "invalid"}},
		{"OpenUDP", xtreme.AddMembership(v4, "lo", netip.Addr{}), []string{"join group", "192.0.2.1"}},
		{"OpenUDP", xtreme.AddMembership(group(1), "lo", netip.Addr{}), []string{"another family", group(1).String()}},
		{"OpenUDP", xtreme.AddMembership(netip.MustParseAddr("ff15::1"), "nosuchif0", netip.Addr{}), []string{"nosuchif0"}},
		{"OpenUDP", xtreme.AddMembership(netip.MustParseAddr("ff15::1"), "lo", v4), []string{"source", "192.0.2.1"}},
	} {
		err := calls[c.call](c.opt)
		w.Error(err, "%v", c.say)
		for _, part := range append(c.say, "xtreme: ") {
			w.ErrorContains(err, part)
		}
		if c.call != "NewPoller" {
			w.ErrorContains(err, strings.Split(c.call, "/")[0])
		}
	}
	w.Equal(before, descriptors(t), "a call that fails leaves nothing open")
	w.silent(time.Millisecond)
}
