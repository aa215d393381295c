package ring

import (
	"net/netip"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// PollsForAll is after how many Polls, at the latest, a ring has asked the kernel for all of its sockets: between them it may look at its
// busiest ones only. An offloaded ring to which frames keep coming looks at the kernel's side of its sockets less often
// (VMA_RX_UDP_POLL_OS_RATIO); in a Poll that finds no frame it does.
const PollsForAll = 8

// Driver receives for a ring, sends what sockets have queued, and reports facts to its core. It knows nothing of the contract: coalescing,
// order, budgets, modes and terminal events are the core's. What sockets are opened, bound, connected and closed by is their Transport. All
// methods but Wake belong to the ring's owner; before the ring is bound they may be called from any one goroutine and must then only
// prepare, not run.
//
// A driver is called per batch, never per packet: receiving is Reap, sending is Transmit (which takes all a socket has queued).
type Driver interface {
	// Kind is the ring kind's name in paths: "uring", "epoll".
	Kind() string
	// Caps are the capabilities; Why explains one that is missing.
	Caps() Caps
	Why(c Caps) Reason
	// FD is the descriptor an application can wait on after Arm.
	FD() int

	// Bind makes the calling thread the ring's own, on the first Poll.
	Bind() error
	// Reap reports what happened, as long as the sink has room, and starts what was prepared. Bounded and non-blocking.
	Reap(k *Sink) error
	// Flush starts what was prepared (sends, receives) without reaping.
	Flush() error
	// ReturnSpare gives the pool back what was taken ahead and is not in the kernel's hands. The core calls it before it looks whether the ring
	// may sleep: a socket of this ring or of another one of the owner may wait for a buffer.
	ReturnSpare()
	// Arm makes FD readable on the next fact and at the deadline (clock.Never: none), or reports that facts are waiting now.
	Arm(deadline clock.Time, now clock.Time) (pending bool, err error)
	// Disarm ends what Arm began, after waking up.
	Disarm()
	// Wait sleeps until a fact, Wake or the time limit (negative: none), the cheapest way this driver has.
	Wait(limit time.Duration) error
	// Wake ends the Wait or makes FD readable after Arm. Any goroutine.
	Wake()

	// Attach introduces a socket; nothing is received yet.
	Attach(s *Socket) error
	// SetReceiving starts or stops reading, or accepting on a listener.
	SetReceiving(s *Socket, on bool) error
	// NotifyWritable asks for one Writable fact, and for Connected or Failed of a stream whose Transport has begun to connect. A driver whose
	// transport reports those by itself has nothing to do for them.
	NotifyWritable(s *Socket) error
	// Transmit sends what the socket has queued (TakeTransmission), keeping the order on streams; each one taken is given back
	// with Sink.Sent, in Reap.
	Transmit(s *Socket) error
	// Detach lets go of the socket. True: no operation refers to it any more. Otherwise Sink.Detached follows. The transport closes it then.
	Detach(s *Socket) (done bool)
	// Close releases what the driver holds, with every socket detached: records of connections beyond their sockets too, whose peers are sent a
	// reset, unless they have acknowledged everything (Finisher). Buffers it held are back in the pool.
	Close() error
}

// What one kind of driver alone can do is an optional interface; see ProtocolDriver, too.

// Finisher is a Driver whose connections live in the process: Ring.Close goes on polling while IsFinishing says that the peer of a closed socket
// has not acknowledged everything. What it still says finishLimit later is reset.
type Finisher interface{ IsFinishing() bool }

// PathReporter is a Driver whose sockets travel in more than one way.
type PathReporter interface {
	// Path is how the socket's packets travel. Reasons of the set are added by the core.
	Path(s *Socket) Path
}

// SocketReasoner is a Driver whose sockets can not all the same, because some are carried another way.
type SocketReasoner interface {
	// WhySocket is Why for one socket; the zero Reason when it has the capability.
	WhySocket(s *Socket, c Caps) Reason
}

// CounterSource is a Driver with counters of its own.
type CounterSource interface {
	// Counters appends every count of the driver, its stack and its links by name.
	Counters(dst []Counter) []Counter
}

// LossSource is a CounterSource whose links can lose frames.
type LossSource interface {
	// LinkLosses is how many frames the links have lost. It costs a system call for each link, and does not allocate.
	LinkLosses() uint64
}

// DriverConfig is what every driver is made from.
type DriverConfig struct {
	Pool    *buffers.DriverPool // shared by the rings of one owner
	Entries int                 // size hint: operations in flight, completions held; 0 means the driver's default
}

// SocketKind is what a driver must know of a socket's protocol.
type SocketKind uint8

// The kinds of socket.
const (
	KindStream   SocketKind = iota // TCP or unix-domain connection
	KindListener                   // TCP or unix-domain listener: Receive means accept
	KindDatagram                   // UDP
)

// String is the value in words.
func (k SocketKind) String() string { return [...]string{"TCP", "TCP listener", "UDP"}[k] }

// Handle is a driver's view of a socket. Read only.
type Handle struct {
	Conn          Conn            // the transport's number for the socket
	Slot          uint32          // index of the socket in its ring, small and dense
	Gen           uint32          // generation of the slot: a fact for an older one is stale
	Account       buffers.Account // what its buffers are charged to; 0 until a stream asks for it: see AccountOf
	Kind          SocketKind      //
	Class         buffers.Class   // which buffers it receives into
	PktInfo       bool            // asked the kernel for control messages
	HasTimestamps bool            // and for time stamps
	Copies        bool            // the protocol has no zero-copy sends: unix, MPTCP
	Ended         bool            // the peer's FIN was reported: only a reset is still of interest
	Adopted       bool            // made elsewhere: what was set on it before is not in SocketOptions
	OutPerAck     bool            // SetOutPerAck: EventOut for each acknowledgement that advances, where CapOutPerAck
}

// HandleOf gives drivers their view of s.
func HandleOf(s *Socket) *Handle { return &s.handle }

// IsClosing reports whether the ring of s is being closed: its driver is closed soon.
func IsClosing(s *Socket) bool { return s.ring().closing }

// Transmission is a packet on its way out.
type Transmission struct {
	Packet buffers.Packet
	To     netip.AddrPort // zero on streams and connected sockets
	Token  uint64
	Route  int32 // as QueueCopy was given it; else 0
	// Copied is a packet that Send, SendTo or SendVector filled: its end is not reported with Sink.Sent, it is the driver's to release.
	Copied bool
	// IsComplete is set by a driver whose link has told the pool already that the packet is sent (completing).
	IsComplete bool
}

// Meta is what a driver knows of a datagram beside its payload.
type Meta struct {
	Source      netip.AddrPort
	Destination netip.Addr // zero: the socket's own
	IfIndex     uint32
	Time        Stamp
	RawHardware int64 // the network card's stamp, as its clock counts; 0: none. The core makes it Time, if it is wanted
	Truncated   bool
	ViaKernel   bool // see Completion.ViaKernel
}
