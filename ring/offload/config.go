package offload

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/record"
	"github.com/socketxtreme/socketxtreme/ring/offload/flowrecord"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/stack"
	"github.com/socketxtreme/socketxtreme/ring/transport/stream"
)

// Config is what a driver is made from.
type Config struct {
	// Exchange has the interfaces of a host, which the driver shares with those of other goroutines; Interfaces are those that it attaches to.
	Exchange   *Exchange
	Interfaces []nic.Interface
	// ShadowEvery says on which of the turns that frames come in the kernel's side of the sockets is read too; 0 means 100
	// (VMA_RX_UDP_POLL_OS_RATIO).
	ShadowEvery int
	// ThreeTuple claims for a connected socket all datagrams to its own address: one claim for all sockets there. Those that are not of
	// its peer come too, and are dropped and counted; otherwise they stay the kernel's (VMA_UDP_3T_RULES).
	ThreeTuple bool
	// Fragment sends datagrams longer than the MTU in fragments: the kernel makes them, or, with a MemoryHost, the stack.
	// Otherwise they are refused with EMSGSIZE.
	Fragment bool
	// MTU, unless 0, bounds the IP packets that are sent over links, 68 at the least, whatever the interfaces allow; what is longer is cut by
	// the stack, or refused without Fragment (VMA_MTU). What the kernel sends follows its interfaces.
	MTU int
	// TTL is the time to live of the unicast datagrams of sockets without SetTTL (net.ipv4.ip_default_ttl); 0 means 64.
	TTL uint8
	// Sender, unless nil, is asked once for each destination of a socket, when its route is found: with a reason the kernel sends to that
	// destination. It is asked again when a route, an address or a socket has changed.
	Sender func(s *ring.Socket, to netip.AddrPort) (ring.Reason, bool)
	// Drops is the memory that the reasons for which frames are dropped are counted in; nil: the driver's own.
	Drops *[wire.NumDrops]uint64
	// LinkChanged, unless nil, is told what happened to an interface of an exchange: its frames come by a link, or no longer, and why. It is
	// called inside Poll, and seldom.
	LinkChanged func(LinkChange)
	// Gather is how many answers Poll lets wait for each other while requests come one after the other, where each flush of a link is a system
	// call: until so many wait, nothing came for a microsecond, or 20 microseconds have passed. For loops that poll on: others would leave what
	// waits where it is. A request that comes alone is answered at once, and Flush waits for nothing. 0: what was sent leaves with the next
	// Poll.
	Gather int
	// Record, unless nil, is where the frames of the links are recorded, while its recorder is on.
	Record *record.Scope
	// TCP, unless nil, has the stack carry TCP over IPv4: with a MemoryHost, or beside a kernel, where the set's Transport is a
	// KernelPorts. Beside a kernel the driver carries it from OpenTCP on, or from its first TCP socket; with a MemoryHost from the start.
	TCP *stream.Options
	// ConnectionThreeTuple claims of a TCP connection that is opened here all segments to its local address and port (VMA_TCP_3T_RULES).
	ConnectionThreeTuple bool

	// FlowRecord, unless nil, has the connections of the stack's TCP written down in files there, so that their peers can be reset when the
	// process is killed: by the next start, which does so before it carries TCP, or by the command xtreset. Not with a MemoryHost.
	FlowRecord *flowrecord.Config

	Clock  clock.Source  // nil: clock.Now
	Random func() uint64 // nil: the runtime's
	// Sleep, when not nil, takes the place of the timer descriptor, for worlds whose time no kernel knows: Arm tells it when the ring is to
	// be polled at the latest (clock.Never: nothing is due). Wall is the time of packets that have no stamp of their link, in nanoseconds
	// since the Unix epoch; nil: the system's.
	Sleep func(until clock.Time)
	Wall  func() int64
	// Woken is called by Wake, in such worlds; any goroutine.
	Woken func()
}

// OneRing is the reason that a set of this driver gives as its ring.SetConfig.OneRing: the frames of a queue come to one ring.
var OneRing = ring.Reason{Code: "ring.no_steering",
	Text: "the links of this owner feed one ring: its sockets share it whatever their ring allocation logic"}

const defaultShadowEvery = 100

const defaultTTL = 64 // RFC 1700

// complete checks the fields and fills in defaults.
func (c *Config) complete() error {
	bad := func(name string, value any) error {
		return fmt.Errorf("offload: %s %v: %w", name, value, unix.EINVAL)
	}
	switch {
	case c.Exchange == nil:
		return bad("Exchange", nil)
	case len(c.Interfaces) == 0:
		return bad("Interfaces of length", 0)
	case c.MTU != 0 && c.MTU < 68: // RFC 791
		return bad("MTU", c.MTU)
	case c.Sender != nil && c.Exchange.config.MemoryHost != nil:
		return bad("Sender, and a MemoryHost:", "no kernel")
	case c.ShadowEvery < 0:
		return bad("ShadowEvery", c.ShadowEvery)
	case c.Gather < 0 || c.Gather > stack.QueueLimit:
		return bad("Gather", c.Gather)
	}
	if c.TTL == 0 {
		c.TTL = defaultTTL
	}
	if c.ShadowEvery == 0 {
		c.ShadowEvery = defaultShadowEvery
	}
	if c.Clock == nil {
		c.Clock = clock.Now
	}
	if c.Wall == nil {
		c.Wall = func() int64 { return time.Now().UnixNano() }
	}
	return nil
}

// LinkChange is what an interface is to a ring from now on.
type LinkChange struct {
	Interface string // its name, with its VLAN
	Code      string // why none of its frames come by a link: a link.Reason's; empty if they do
	Text      string
}
