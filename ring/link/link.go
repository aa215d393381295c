package link

import (
	"errors"
	"syscall"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// Link carries whole Ethernet frames between a stack and a wire. One goroutine at a time uses it, the owner of the pool it was made
// with; exceptions are stated. It is called per batch, never per frame, and none of the batch calls allocates, blocks or reads a clock.
type Link interface {
	// Info is what the link is; constant while it is open. Any goroutine.
	Info() Info
	// Caps are the capabilities; Why explains one that is missing. Any goroutine.
	Caps() Caps
	Why(c Caps) Reason
	// Path is how the frames travel, with every better way that was not taken. Any goroutine.
	Path() Path

	// Receive gives the card fresh buffers, then writes up to len(dst) received frames to dst and returns how many. Their packets are
	// received (see buffers), charged to no account, and the caller's: DriverPool.Trim makes datagrams of them, Release drops them.
	Receive(dst []Frame) int
	// Send queues frames in order and returns how many it took, the first ones; the rest stay the caller's, who tries again after
	// Complete. A packet must be transmitting, alone, and complete from the Ethernet header on: others are a bug of the caller and may panic.
	// One longer than Info.MaxFrame, or in more than Info.MaxPieces buffers, is taken and lost: it comes back by Complete, and is counted.
	Send(src []Out) int
	// Flush shows the wire what Send queued. Errors are of the interface, not of a frame: ENETDOWN while it is down (the frames stay queued
	// and leave when it is up again; a caller that wants them lost closes the link), ErrNoCarrier while frames are lost for want of a carrier,
	// ErrDetached when it is gone.
	Flush() error
	// Complete takes back buffers of frames that are sent. Frames without a token are released; those with one are written to dst, as
	// many as fit, in the state completing: the caller releases them or gives them back to the sender with DriverPool.Deliver. Their Errno
	// says which were lost.
	Complete(dst []Done) int
	// Unsent is how many frames Send took that have not come back by Complete.
	Unsent() int
	// Pending reports whether Flush has left frames that the wire has not read yet, where it was full or slow. FD does not become readable when
	// it has room again: a caller with such frames must not sleep without a limit. Frames that were read and have not come back are not among
	// them.
	Pending() bool

	// FD is a descriptor that epoll can wait on between Arm and Disarm; it is readable when frames wait. It does not become readable when
	// frames were sent: a caller that waits for a token must not sleep without a limit while Unsent is not 0.
	FD() int
	// Arm prepares for sleeping on FD: true means frames wait already.
	Arm() (pending bool)
	// Disarm ends what Arm began.
	Disarm()

	// Check reports whether the link still carries frames: nil, or an error that is ErrDetached for errors.Is. It waits
	// for nothing, but may cost a system call: some times a second, and when the interface is said to have changed. A loss is known within
	// half a second.
	Check() error
	// Stats are the totals; Counters appends every count by name, those of the kernel included.
	Stats() Stats
	Counters(dst []Counter) []Counter
	// Close ends the link: every buffer it holds is in the pool again, frames that were not sent are lost. Every method may be called after
	// it: Info, Caps, Why, Path, Stats and Counters return what they did before, Flush, Check and a second Close are ErrClosed, FD is -1, the
	// others do nothing and return zero values (package linktest).
	Close() error
}

// Frame is a received frame: a value that Receive writes whole.
type Frame struct {
	Packet buffers.Packet // the frame, from its Ethernet header on
	Nanos  int64          // when it arrived, in nanoseconds of the clock that Source names; 0 without a stamp
	Source Clock
}

// Out is a frame to be sent.
type Out struct {
	Packet buffers.Packet
	Token  uint64 // 0: its end is not reported
}

// Done is a frame that was sent, or lost.
type Done struct {
	Packet buffers.Packet // completing
	Token  uint64
	Errno  syscall.Errno // not 0: it was lost
}

// Clock says what took a frame's time stamp.
type Clock uint8

// The clocks.
const (
	ClockNone     Clock = iota // no stamp: the ring may take the time of its poll
	ClockKernel                // the XDP program, CLOCK_TAI as the kernel has it
	ClockHardware              // the network card
)

// String is the value in words.
func (c Clock) String() string {
	if int(c) < len(clockNames) {
		return clockNames[c]
	}
	return "unknown clock"
}

var clockNames = [...]string{"none", "kernel", "hardware"}

// Info is what a link is.
type Info struct {
	Name      string  // interface, or what a memory link was called
	Index     int     // of the interface; 0 where there is none
	Queue     int     // of the interface
	Addr      [6]byte // Ethernet address
	MTU       int     // largest IP packet that Send takes, in bytes: of the interface when the link was opened, or less
	MaxFrame  int     // largest frame that Send takes and Receive delivers, Ethernet header included
	PerBuffer int     // received bytes per buffer: a longer frame is a chain
	MaxPieces int     // most buffers that a frame for Send may lie in
	Headroom  int     // bytes before a received frame that Push can open
	TagsApart bool    // the device takes 802.1Q tags out of received frames: a steering program does not see them
}

// Stats are totals since the link was opened. Received frames that were lost before Receive are in RxLost, whatever the reason:
// Counters has it.
type Stats struct {
	RxFrames, RxBytes, RxLost uint64
	TxFrames, TxBytes, TxLost uint64
	Kicks                     uint64 // system calls made for sending and receiving
}

// Counter is one count with its stable name, such as "xdp.rx_ring_full".
type Counter struct {
	Name  string
	Value uint64
}

// The errors of links.
var (
	// ErrClosed: the link was closed.
	ErrClosed = errors.New("link: closed")
	// ErrDetached: the link carries no frames any more: its interface or its steering program went away.
	ErrDetached = errors.New("link: detached")
	// ErrNoCarrier: frames were lost because the interface has no carrier: no cable, or a peer that is down.
	ErrNoCarrier = errors.New("link: no carrier")
)
