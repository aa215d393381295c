package xtreme

import (
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
)

// Option changes what New, Poller, ListenTCP, DialTCP, OpenUDP, NewTCP, NewUDP, ListenUnix, DialUnix or Adopt make. An option given to
// a call it does not fit is an error that names both. NewTCP and NewUDP take those that hold for the socket itself; what concerns
// a step that is yet to come (Backlog, Local, ConnectTimeout, Remote, the joins) is given to that step. Adopt takes those that fit
// the kind of socket it finds, but for what belongs to steps that are done: Backlog, ReuseAddr, ReusePort, V6Only, BindToDevice,
// the joins.
type Option struct {
	name  string
	scope scope
	set   func(*options) error
}

// scope is the calls an option fits.
type scope uint32

const (
	forEngine scope = 1 << iota
	forPoller
	forListener
	forDialer
	forBareTCP // NewTCP: neither yet
	forDatagram
	forBareUDP // NewUDP: not bound yet
	forUnixListener
	forUnixDialer
	forAdoptedListener
	forAdoptedStream
	forAdoptedDatagram
	forAdoptedUnixListener
	forAdoptedUnix

	forNewTCP = forListener | forDialer | forBareTCP
	forNewUDP = forDatagram | forBareUDP
	forNew    = forNewTCP | forNewUDP // IP sockets that are not bound yet
	forTCP    = forNewTCP | forAdoptedListener | forAdoptedStream
	forUDP    = forNewUDP | forAdoptedDatagram
	forIP     = forTCP | forUDP
	forUnix   = forUnixListener | forUnixDialer | forAdoptedUnixListener | forAdoptedUnix
	forStream = forTCP | forUnix
	forSocket = forIP | forUnix
	forAccept = forListener | forUnixListener | forAdoptedListener | forAdoptedUnixListener
)

// options is what the options of one call come to.
type options struct {
	// of New
	logger *slog.Logger

	// of Poller
	kind         conf.RingKind
	logic        *ring.Logic
	small, large int
	huge         bool
	auxiliary    bool
	numa         string
	memory       []byte
	interfaces   []conf.Interface
	checksum     conf.Checksum
	time         conf.TimeSource

	// of sockets
	socket             ring.Config
	before             []func(*Socket) error // in order, before bind
	backlog            int
	connectTimeout     time.Duration
	local, remote      netip.AddrPort
	joins              []membership
	multicastAll       *bool
	hardwareTimestamps bool // HardwareTimestamps was given: the settings do not matter
	keepFile           bool
	offload            bool
}

type membership struct {
	group  netip.Addr // zero: the address the socket is bound to
	iface  string
	source netip.Addr
}

func collect(call string, where scope, opt []Option) (*options, error) {
	c := &options{}
	for _, o := range opt {
		if o.set == nil {
			return nil, fmt.Errorf("xtreme: %s: empty Option", call)
		}
		if o.scope&where == 0 {
			return nil, fmt.Errorf("xtreme: %s: option %s does not apply to it", call, o.name)
		}
		if err := o.set(c); err != nil {
			return nil, fmt.Errorf("xtreme: %s: option %s: %w", call, o.name, err)
		}
	}
	return c, nil
}

func (c *options) apply(s *Socket) error {
	for _, f := range c.before {
		if err := f(s); err != nil {
			return err
		}
	}
	return nil
}

// joinGroups joins what was asked for; a socket bound to a group joins it in any case.
func (c *options) joinGroups(s *Socket, bound netip.Addr) error {
	joins := c.joins
	if len(joins) == 0 && bound.IsMulticast() {
		joins = []membership{{}}
	}
	for _, m := range joins {
		if !m.group.IsValid() {
			m.group = bound
		}
		if err := s.JoinGroup(m.group, m.iface, m.source); err != nil {
			return err
		}
	}
	return nil
}

func option(name string, scope scope, set func(*options)) Option {
	return Option{name, scope, func(c *options) error { set(c); return nil }}
}

// checked is an option whose argument is no argument unless ok.
func checked(name string, scope scope, ok bool, argument any, set func(*options)) Option {
	return Option{name, scope, func(c *options) error {
		if !ok {
			return fmt.Errorf("%v: %w", argument, unix.EINVAL)
		}
		set(c)
		return nil
	}}
}

// step is an option that is a call on the socket before it is bound.
func step(name string, scope scope, f func(*Socket) error) Option {
	return option(name, scope, func(c *options) { c.before = append(c.before, f) })
}

// RingKind overrides the engine's kind of ring for a poller.
func RingKind(k conf.RingKind) Option {
	return Option{"RingKind", forPoller, func(c *options) error {
		_, err := conf.ParseRingKind(string(k))
		c.kind = k
		return err
	}}
}

// RingLogic overrides the ring allocation logic, of a poller or of one socket. (VMA: SO_VMA_RING_ALLOC_LOGIC.)
func RingLogic(l ring.Logic) Option {
	return Option{"RingLogic", forPoller | forSocket, func(c *options) error {
		c.logic, c.socket.Alloc = &l, &l
		return l.Validate()
	}}
}

// Buffers overrides how many small (2 KiB) and large (64 KiB) buffers a poller has. An eighth of each class is kept for sending, whatever
// VMA_TX_BUFS says.
func Buffers(small, large int) Option {
	return Option{"Buffers", forPoller, func(c *options) error {
		if small < 64 || large < 8 {
			return fmt.Errorf("%d small and %d large: want at least 64 and 8", small, large)
		}
		c.small, c.large = small, large
		return nil
	}}
}

// Auxiliary marks a poller that a package makes for its own work beside the program's pollers, such as accepting connections. The log does not
// warn of settings that only this poller does not use.
func Auxiliary() Option {
	return option("Auxiliary", forPoller, func(c *options) { c.auxiliary = true })
}

// HugePages asks for huge pages under a poller's buffers; without any free the path says so and ordinary pages are used.
func HugePages() Option { return option("HugePages", forPoller, func(c *options) { c.huge = true }) }

// NearInterface places a poller's buffers on the NUMA node of an interface.
func NearInterface(name string) Option {
	return checked("NearInterface", forPoller, name != "", name, func(c *options) { c.numa = name })
}

// Memory makes a poller use the caller's memory for its buffers; it must be outside the Go heap or never move, stay mapped until
// Close, and be large enough. (VMA: the user allocator of vma_ioctl, VMA_IOCTL_USER_ALLOC.)
func Memory(mem []byte) Option {
	return checked("Memory", forPoller, mem != nil, mem, func(c *options) { c.memory = mem })
}

// UserID is the socket's key under ring allocation logic 11.
func UserID(id uint64) Option {
	return option("UserID", forSocket, func(c *options) { c.socket.UserID = id })
}

// UserData sets what the socket's completions carry; the default is its ID.
func UserData(v uint64) Option {
	return step("UserData", forSocket, func(s *Socket) error { return s.SetUserData(v) })
}

// ReceiveMode sets the delivery mode and the receive callback; see Socket.SetReceiveMode.
func ReceiveMode(m ring.Mode, h ring.ReceiveCallback) Option {
	return step("ReceiveMode", forSocket, func(s *Socket) error { return s.SetReceiveMode(m, h) })
}

// Budget limits the buffer memory a socket may hold, in bytes; accepted sockets have the same each.
func Budget(bytes int) Option {
	return option("Budget", forSocket, func(c *options) { c.socket.Budget = bytes })
}

// SendQueue limits the packets under way through SendPacket, and on sockets that are offloaded or paced what Send and SendTo have queued
// too; 256 by default.
func SendQueue(packets int) Option {
	return option("SendQueue", forSocket, func(c *options) { c.socket.SendQueue = packets })
}

// CloseTimeout bounds how long Close waits for sends under way.
func CloseTimeout(d time.Duration) Option {
	return option("CloseTimeout", forSocket, func(c *options) { c.socket.CloseTimeout = d })
}

// NoDelay turns Nagle's algorithm off (TCP_NODELAY).
func NoDelay(on bool) Option {
	return step("NoDelay", forTCP, func(s *Socket) error { return s.SetNoDelay(on) })
}

// KeepAlive probes idle peers; see Socket.SetKeepAlive.
func KeepAlive(idle, interval time.Duration, count int) Option {
	return step("KeepAlive", forTCP, func(s *Socket) error { return s.SetKeepAlive(idle, interval, count) })
}

// UserTimeout ends a connection whose sent data stays unacknowledged for d (TCP_USER_TIMEOUT).
func UserTimeout(d time.Duration) Option {
	return step("UserTimeout", forTCP, func(s *Socket) error { return s.SetUserTimeout(d) })
}

// Linger says what Close does; see Socket.SetLinger.
func Linger(d time.Duration) Option {
	return step("Linger", forTCP, func(s *Socket) error { return s.SetLinger(d) })
}

// LargeStream receives a connection's data into 64 KiB buffers, for bulk transfers.
func LargeStream() Option {
	return option("LargeStream", forStream, func(c *options) { c.socket.LargeStream = true })
}

// Backlog is the length of a listener's accept queue, 1 or more; the default is the kernel's maximum (net.core.somaxconn).
func Backlog(n int) Option {
	return checked("Backlog", forListener|forUnixListener, n > 0, n, func(c *options) { c.backlog = n })
}

// AcceptTo makes f, called on the poller inside Poll (or Resume), the first to be notified of each connection that the listener accepts.
// False: it goes on as usual. True: the descriptor is f's; it is open, non-blocking and close-on-exec, nothing was read from it, and
// no completion will speak of it. Typically it goes to another poller, by Post and Adopt there, or is closed because there
// are connections enough. A poller that is closed does not run what was posted to it: a program that closes pollers while others
// accept for them keeps count of the descriptors under way. peer is the zero AddrPort on unix-domain listeners.
//
// f must not block. A panic in it is contained as a callback's is: that connection is reset, the Poll it happened in (or the next)
// returns it as an error. What f took is counted in ring.RingStats.AcceptedAway, not in Accepted.
func AcceptTo(f func(fd int, peer netip.AddrPort) (taken bool)) Option {
	return checked("AcceptTo", forAccept, f != nil, "nil", func(c *options) { c.socket.AcceptTo = f })
}

// KeepSocketFile leaves the file of a unix-domain listener behind when the listener is closed; without, it is removed, as
// net.UnixListener does.
func KeepSocketFile() Option {
	return option("KeepSocketFile", forUnixListener, func(c *options) { c.keepFile = true })
}

// ConnectTimeout gives up connecting after d, which is more than 0; the default is the kernel's, about two minutes.
func ConnectTimeout(d time.Duration) Option {
	return checked("ConnectTimeout", forDialer, d > 0, d, func(c *options) { c.connectTimeout = d })
}

// Local binds a dialled connection to a local address first.
func Local(a netip.AddrPort) Option {
	return checked("Local", forDialer, a.IsValid(), a, func(c *options) { c.local = a })
}

// Remote connects a UDP socket.
func Remote(a netip.AddrPort) Option {
	return checked("Remote", forDatagram, a.IsValid(), a, func(c *options) { c.remote = a })
}

// ReceiveBuffer and SendBuffer size the kernel's queues (SO_RCVBUF, SO_SNDBUF). What a unix-domain socket receives waits in its
// peer's send buffer: it has no ReceiveBuffer.
func ReceiveBuffer(bytes int) Option {
	return step("ReceiveBuffer", forIP, func(s *Socket) error { return s.SetReceiveBuffer(bytes) })
}

// SendBuffer sizes the kernel's send queue, in bytes.
func SendBuffer(bytes int) Option {
	return step("SendBuffer", forSocket, func(s *Socket) error { return s.SetSendBuffer(bytes) })
}

// ReuseAddr sets SO_REUSEADDR: a listener can be restarted while connections of the last one linger in TIME_WAIT.
func ReuseAddr() Option {
	return step("ReuseAddr", forNew, func(s *Socket) error { return s.SetReuseAddr(true) })
}

// ReusePort sets SO_REUSEPORT: the kernel spreads connections or datagrams over all sockets of the address.
func ReusePort() Option {
	return step("ReusePort", forNew, func(s *Socket) error { return s.SetReusePort(true) })
}

// V6Only keeps a socket bound to [::] from IPv4.
func V6Only() Option {
	return step("V6Only", forNew, func(s *Socket) error { return s.SetV6Only(true) })
}

// BindToDevice ties the socket to an interface.
func BindToDevice(name string) Option {
	return step("BindToDevice", forNew, func(s *Socket) error { return s.BindToDevice(name) })
}

// TTL sets the time to live of unicast packets.
func TTL(n int) Option { return step("TTL", forIP, func(s *Socket) error { return s.SetTTL(n) }) }

// TOS sets the type of service byte; DSCP is its upper six bits.
func TOS(n int) Option { return step("TOS", forIP, func(s *Socket) error { return s.SetTOS(n) }) }

// DSCP sets the differentiated services code point (RFC 2474), 0 to 63.
func DSCP(n int) Option {
	return Option{"DSCP", forIP, func(c *options) error {
		if n < 0 || n > 63 {
			return fmt.Errorf("%d: want 0 to 63", n)
		}
		c.before = append(c.before, func(s *Socket) error { return s.SetTOS(n << 2) })
		return nil
	}}
}

// Broadcast permits sending to broadcast addresses.
func Broadcast() Option {
	return step("Broadcast", forUDP, func(s *Socket) error { return s.SetBroadcast(true) })
}

// LargestDatagram is the longest datagram the socket must take whole; up to 2,048 bytes it uses small buffers.
func LargestDatagram(bytes int) Option {
	return Option{"LargestDatagram", forUDP, func(c *options) error {
		if bytes < 1 || bytes > 65535 {
			return fmt.Errorf("%d: want 1 to 65535", bytes)
		}
		c.socket.LargestDatagram = bytes
		return nil
	}}
}

// Timestamps asks for the kernel's receive timestamp on each datagram.
func Timestamps() Option {
	return option("Timestamps", forUDP, func(c *options) { c.socket.Timestamps = true })
}

// PacketInfo asks for destination and interface of each datagram also where the socket's address is definite.
func PacketInfo() Option {
	return option("PacketInfo", forUDP, func(c *options) { c.socket.PacketInfo = true })
}

// JoinGroup joins the group the socket is bound to on an interface.
func JoinGroup(iface string) Option {
	return option("JoinGroup", forDatagram, func(c *options) { c.joins = append(c.joins, membership{iface: iface}) })
}

// JoinSourceGroup is Join for one source (source-specific multicast).
func JoinSourceGroup(iface string, source netip.Addr) Option {
	return checked("JoinSourceGroup", forDatagram, source.IsValid(), source, func(c *options) {
		c.joins = append(c.joins, membership{iface: iface, source: source})
	})
}

// AddMembership joins a group that is not the socket's own address; source is zero for any source.
func AddMembership(group netip.Addr, iface string, source netip.Addr) Option {
	return checked("AddMembership", forDatagram, group.IsValid(), group, func(c *options) {
		c.joins = append(c.joins, membership{group, iface, source})
	})
}

// MulticastInterface chooses the interface multicast leaves by.
func MulticastInterface(name string) Option {
	return step("MulticastInterface", forUDP, func(s *Socket) error { return s.SetMulticastInterface(name) })
}

// MulticastLoop says whether members on this host get what the socket sends.
func MulticastLoop(on bool) Option {
	return step("MulticastLoop", forUDP, func(s *Socket) error { return s.SetMulticastLoop(on) })
}

// MulticastTTL sets the time to live of multicast packets.
func MulticastTTL(n int) Option {
	return step("MulticastTTL", forUDP, func(s *Socket) error { return s.SetMulticastTTL(n) })
}

// MulticastAll says whether the socket sees groups that only others joined; a socket bound to a group has it off by default.
func MulticastAll(on bool) Option {
	return option("MulticastAll", forUDP, func(c *options) {
		c.multicastAll = &on
		c.before = append(c.before, func(s *Socket) error { return s.SetMulticastAll(on) })
	})
}
