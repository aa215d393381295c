package xtreme

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
)

// The configurations of sockets are structs, one for each call that makes a socket. Their zero values are good. A field that is given comes
// before the engine's settings. A field that is zero leaves its matter to the settings, then to the poller, then to the kernel. Where zero is
// also a value that one may want to give, the field is a pointer (see Ptr) or a Switch.

// SocketConfig says how a ring treats a socket. It is part of the configuration of every kind of socket.
type SocketConfig struct {
	// RingLogic decides which ring the socket gets; nil takes the poller's. (VMA: SO_VMA_RING_ALLOC_LOGIC.)
	RingLogic *Logic
	// UserID groups sockets whose RingLogic is PerUserID: those with the same UserID share a ring. (VMA: user_id of
	// struct vma_ring_alloc_logic_attr.)
	UserID uint64
	// UserData is a number that each completion of the socket carries (Completion.UserData); nil means the socket's ID. Accepted connections
	// have their own ID. (VMA: SO_VMA_USER_DATA.)
	UserData *uint64
	// ReceiveMode says how packets are delivered: by Poll's completions, to ReceiveCallback, or into a queue of the socket. Accepted connections
	// have both fields of their listener. See Socket.SetReceiveMode. (VMA: register_recv_callback.)
	ReceiveMode     Mode
	ReceiveCallback ReceiveCallback
	// Budget limits the buffer memory that the socket may hold, in bytes; accepted connections have the same each. 0: as much as the pool
	// has free.
	Budget int
	// SendQueue limits how many packets of SendPacket wait to be sent or acknowledged. On offloaded and on paced sockets it also limits the
	// datagrams that Send and SendTo have queued. 0 means 256.
	SendQueue int
	// SendBuffer is the size of the kernel's send queue, in bytes; 0 leaves it to the kernel. (SO_SNDBUF)
	SendBuffer int
	// CloseTimeout bounds how long Close waits for sends under way. 0 means 30 s.
	CloseTimeout time.Duration
	// RequireOffload makes it an error, with the reasons, if the socket cannot be offloaded. The call that makes the socket fails, or, for
	// NewUDP, the call that gives it its ring. A socket on a wildcard address needs one interface that can be offloaded; any other one needs
	// all interfaces that its address, its device and its groups name.
	RequireOffload bool
	// KernelOnly leaves the socket to the kernel's stack, on a poller of kind offload too; its path says so. KernelOnly together with
	// RequireOffload is an error.
	KernelOnly bool
}

// IPConfig has the socket options that TCP and UDP sockets have in common. It is part of ListenConfig, DialConfig and UDPConfig. Each field
// sets the option of the sockets API that stands in brackets, before the socket is bound.
type IPConfig struct {
	// ReceiveBuffer is the size of the kernel's receive queue, in bytes; 0 leaves it to the kernel. A value below the setting VMA_RX_BYTES_MIN
	// is raised to it. (SO_RCVBUF)
	ReceiveBuffer int
	// ReuseAddr lets a listener bind an address that connections of an earlier listener still have in TIME_WAIT, and lets UDP sockets share an
	// address. (SO_REUSEADDR)
	ReuseAddr bool
	// ReusePort lets several sockets bind one address; the kernel spreads connections or datagrams over them. (SO_REUSEPORT)
	ReusePort bool
	// V6Only restricts a socket that is bound to [::] to IPv6. (IPV6_V6ONLY)
	V6Only bool
	// BindToDevice is the name of the one interface that the socket receives and sends by. (SO_BINDTODEVICE)
	BindToDevice string
	// TTL is the time to live (IPv6: hop limit) of unicast packets, 1 to 255; 0 leaves it to the kernel. (IP_TTL)
	TTL int
	// TOS is the type of service byte, 0 to 255. The differentiated services code point (RFC 2474) is its upper six bits: 46 << 2 for expedited
	// forwarding. (IP_TOS)
	TOS int
	// Pacing limits how fast the socket sends. The ring paces UDP sockets, the kernel TCP connections (with SX_OFFLOAD_TCP too: such a socket is
	// the kernel's); those that a listener accepts have its rate each. Socket.SetPacing changes it later. (SO_MAX_PACING_RATE)
	Pacing PacingRate
}

// PacingRate is how fast a socket may send; see ring.Pacing.
type PacingRate = ring.Pacing

// KeepAlive says how idle TCP peers are probed. The zero value leaves it to the kernel, which does not probe. See Socket.SetKeepAlive.
type KeepAlive struct {
	Idle     time.Duration // before the first probe, 1 s to 32,767 s; negative: no probes; 0 only if the other fields are 0 too
	Interval time.Duration // between probes; 0 leaves it to the kernel
	Count    int           // of probes without an answer that end the connection, at most 127; 0 leaves it to the kernel
}

// Switch turns something on or off. The zero value leaves it as the settings or the kernel have it.
type Switch uint8

// The values of a Switch beside the zero value.
const (
	On  Switch = 1
	Off Switch = 2
)

// Ptr returns a pointer to v, for fields of configurations that are pointers: RingLogic: xtreme.Ptr(xtreme.PerSocket).
func Ptr[T any](v T) *T { return &v }

// options is the common form of all socket configurations (ListenConfig, UDPConfig and so on), which make passes on. Fields that a kind of
// socket does not have are zero.
type options struct {
	SocketConfig
	IPConfig

	// of TCP
	noDelay     Switch
	keepAlive   KeepAlive
	userTimeout time.Duration
	linger      *time.Duration
	largeStream bool // of unix as well

	// of listeners
	backlog  int
	acceptTo func(fd int, peer netip.AddrPort) (taken bool)

	// of UDP
	remote             netip.AddrPort
	largestDatagram    int
	timestamps         bool
	packetInfo         bool
	hardwareTimestamps *HardwareTimestamps
	taiOffset          time.Duration
	txTimestamps       bool
	broadcast          bool
	multicastInterface string
	multicastLoop      Switch
	multicastTTL       int
	multicastAll       Switch
}

// ringConfig returns the part of the options that package ring needs when it makes the socket. The other part is calls on the socket: apply.
func (o *options) ringConfig() ring.Config {
	c := ring.Config{Alloc: o.RingLogic, UserID: o.UserID, Budget: o.Budget, SendQueue: o.SendQueue, CloseTimeout: o.CloseTimeout,
		RequireOffload: o.RequireOffload, KernelOnly: o.KernelOnly, LargeStream: o.largeStream, AcceptTo: o.acceptTo,
		LargestDatagram: o.largestDatagram, Timestamps: o.timestamps, PacketInfo: o.packetInfo, TAIOffset: o.taiOffset,
		TxTimestamps: o.txTimestamps}
	if o.hardwareTimestamps != nil {
		c.HardwareTimestamps, c.Timestamps = *o.hardwareTimestamps, true
	}
	return c
}

// apply calls the setters of a new socket for the options that were given, before it is bound.
func (o *options) apply(s *Socket) error {
	for _, step := range []func(*Socket) error{o.applyDelivery, o.applyIP, o.applyTCP, o.applyUDP} {
		if err := step(s); err != nil {
			return err
		}
	}
	return nil
}

// optionCalls runs the setters of a socket in turn and keeps the first error; setters after an error are not run.
type optionCalls struct{ err error }

// when runs call if its field was given.
func (c *optionCalls) when(given bool, call func() error) {
	if given && c.err == nil {
		c.err = call()
	}
}

// applyDelivery calls the setters for user data, receive mode and send buffer.
func (o *options) applyDelivery(s *Socket) error {
	var c optionCalls
	c.when(o.UserData != nil, func() error { return s.SetUserData(*o.UserData) })
	c.when(o.ReceiveMode != 0 || o.ReceiveCallback != nil, func() error { return s.SetReceiveMode(o.ReceiveMode, o.ReceiveCallback) })
	c.when(o.SendBuffer != 0, func() error { return s.SetSendBuffer(o.SendBuffer) })
	return c.err
}

// applyIP calls the setters for the fields of IPConfig.
func (o *options) applyIP(s *Socket) error {
	var c optionCalls
	c.when(o.ReceiveBuffer != 0, func() error { return s.SetReceiveBuffer(o.ReceiveBuffer) })
	c.when(o.ReuseAddr, func() error { return s.SetReuseAddr(true) })
	c.when(o.ReusePort, func() error { return s.SetReusePort(true) })
	c.when(o.V6Only, func() error { return s.SetV6Only(true) })
	// Before BindToDevice, which gives a TCP socket its ring: one with a rate is the kernel's.
	c.when(o.Pacing != PacingRate{}, func() error { return s.SetPacing(o.Pacing) })
	c.when(o.BindToDevice != "", func() error { return s.BindToDevice(o.BindToDevice) })
	c.when(o.TTL != 0, func() error { return s.SetTTL(o.TTL) })
	c.when(o.TOS != 0, func() error { return s.SetTOS(o.TOS) })
	return c.err
}

// applyTCP calls the setters for TCP's options.
func (o *options) applyTCP(s *Socket) error {
	var c optionCalls
	k := o.keepAlive
	c.when(o.noDelay != 0, func() error { return s.SetNoDelay(o.noDelay == On) })
	c.when(k.Idle == 0 && k != KeepAlive{}, func() error { return badField("KeepAlive.Idle", k.Idle) })
	c.when(k.Idle != 0, func() error { return s.SetKeepAlive(max(k.Idle, 0), k.Interval, k.Count) }) // below 0: off
	c.when(o.userTimeout != 0, func() error { return s.SetUserTimeout(o.userTimeout) })
	c.when(o.linger != nil, func() error { return s.SetLinger(*o.linger) })
	return c.err
}

// applyUDP calls the setters for UDP's options.
func (o *options) applyUDP(s *Socket) error {
	var c optionCalls
	c.when(o.broadcast, func() error { return s.SetBroadcast(true) })
	c.when(o.multicastInterface != "", func() error { return s.SetMulticastInterface(o.multicastInterface) })
	c.when(o.multicastLoop != 0, func() error { return s.SetMulticastLoop(o.multicastLoop == On) })
	c.when(o.multicastTTL < -1, func() error { return badField("MulticastTTL", o.multicastTTL) })
	c.when(o.multicastTTL != 0, func() error { return s.SetMulticastTTL(max(o.multicastTTL, 0)) }) // -1 asks for 0, as 0 is not given
	c.when(o.multicastAll != 0, func() error { return s.SetMulticastAll(o.multicastAll == On) })
	return c.err
}

// badField returns EINVAL for a field of a configuration, with its name and its value.
func badField(name string, value any) error { return fmt.Errorf("%s %v: %w", name, value, unix.EINVAL) }
