package ring

import (
	"net/netip"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// Config are the properties that a socket is made with; accepted sockets take over their listener's.
type Config struct {
	// LargestDatagram is the longest datagram a UDP socket can receive whole, in bytes; a longer one is delivered cut, with
	// ErrTruncated. It chooses the buffers: up to 2,048 the small class, above that the large one. 0 means 65,535.
	LargestDatagram int
	// LargeStream makes a TCP connection receive into large buffers, for bulk transfers.
	LargeStream bool
	// Budget limits the buffer memory the socket may hold, in bytes; beyond it reading stops until the application released
	// some. 0 leaves the pool's dynamic rule alone: a socket may hold at most as much as is still free. Either is checked at each
	// packet; what an io_uring ring's kernel had received before reading was stopped still comes, at most the buffers offered
	// to it (a quarter of the class, 1,024 small or 64 large ones at the most).
	Budget int
	// SendQueue limits the packets under way through SendPacket, and on sockets that are offloaded or paced what Send and SendTo have
	// queued too. 0 means 256.
	SendQueue int
	// CloseTimeout bounds how long Close waits for sends under way before it aborts. 0 means 30 s.
	CloseTimeout time.Duration
	// PacketInfo asks for destination and interface of each datagram also where the local address is definite.
	PacketInfo bool
	// Timestamps asks for the kernel's receive timestamp on each datagram.
	Timestamps bool
	// HardwareTimestamps asks for the network card's stamps beside it and says what is made of them; with TxTimestamps, for those of sent
	// datagrams too. Where a card does not stamp, the kernel's stay, and the path says why.
	HardwareTimestamps HardwareTimestamps
	// TAIOffset is how far TAI is ahead of the Unix clock, in whole seconds, for HardwareTimestampsPTP; 0 is what the kernel knows
	// (adjtimex(2)).
	TAIOffset time.Duration
	// TxTimestamps asks for an EventTxTimestamp for each datagram that was sent, where CapTxTimestamps says so.
	TxTimestamps bool
	// AcceptTo, on a listener, is asked about each connection before a socket is made of it; true means that the connection is AcceptTo's
	// from then on, to be given to another owner or closed, and this ring raises no event for it. fd is the transport's number for it: the
	// kernel's descriptor. See AcceptTo in package xtreme.
	AcceptTo func(fd int, peer netip.AddrPort) (taken bool)
	// RequireOffload makes SetConfig.Place fail where it could not give the socket an offloaded ring. Sets without a Place do not
	// look at it.
	RequireOffload bool
	// KernelOnly is for SetConfig.Place as well: the socket is not to be offloaded.
	KernelOnly bool
	// ReceiveMin is the least receive buffer in bytes: SetReceiveBuffer of less asks for this (VMA_RX_BYTES_MIN).
	ReceiveMin int
	// ReportDrops makes a datagram that the kernel drops while it sends it a send without room: ErrWouldBlock, and EventOut follows; a packet
	// of SendPacket ends with ENOBUFS. A connected socket then gets an error event for temporary errors of the network too. Without, nobody
	// learns of it, as with any socket of the system. A socket of the library's own stack has nothing of it. (VMA_TX_NONBLOCKED_EAGAINS)
	ReportDrops bool
	// UserID is the key of ring allocation logic 11.
	UserID uint64
	// Alloc overrides the owner's ring allocation logic for this socket; nil takes the owner's. (VMA: SO_VMA_RING_ALLOC_LOGIC.)
	Alloc *Logic
}

const (
	defaultSendQueue    = 256
	defaultCloseTimeout = 30 * time.Second
	largestUDP          = 65535
)

// complete checks the fields and replaces zero by the default where the field's comment names one.
func (c *Config) complete() error {
	switch {
	case c.LargestDatagram < 0 || c.LargestDatagram > largestUDP:
		return badArgument("socket", "largest datagram", c.LargestDatagram)
	case c.Budget < 0:
		return badArgument("socket", "budget", c.Budget)
	case c.SendQueue < 0:
		return badArgument("socket", "send queue", c.SendQueue)
	case c.ReceiveMin < 0:
		return badArgument("socket", "least receive buffer", c.ReceiveMin)
	case c.CloseTimeout < 0:
		return badArgument("socket", "close timeout", c.CloseTimeout)
	}
	if err := c.checkTime(); err != nil {
		return err
	}
	if c.LargestDatagram == 0 {
		c.LargestDatagram = largestUDP
	}
	if c.SendQueue == 0 {
		c.SendQueue = defaultSendQueue
	}
	if c.CloseTimeout == 0 {
		c.CloseTimeout = defaultCloseTimeout
	}
	if c.Alloc != nil {
		return c.Alloc.Validate()
	}
	return nil
}

// streamClass is the size class of the buffers that a stream receives into.
func (c *Config) streamClass() buffers.Class {
	if c.LargeStream {
		return buffers.Large
	}
	return buffers.Small
}

// datagramClass is the smallest size class that holds LargestDatagram.
func (c *Config) datagramClass(pool *buffers.DriverPool) buffers.Class {
	if c.LargestDatagram <= pool.Layout().SmallSize {
		return buffers.Small
	}
	return buffers.Large
}
