package xtreme

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
)

// The types of the contract, under the names a program that imports only this package uses.
type (
	Socket     = ring.Socket
	Completion = ring.Completion
	Event      = ring.Event
	Path       = ring.Path
	Reason     = ring.Reason
	Buffer     = buffers.Packet
	Settings   = conf.Settings
)

// The kinds of socket.
const (
	Stream   = ring.Stream
	Listener = ring.Listener
	Datagram = ring.Datagram
)

// The event bits; see package ring for what they mean.
const (
	In            = ring.EventIn
	Out           = ring.EventOut
	Err           = ring.EventErr
	Hup           = ring.EventHup
	RdHup         = ring.EventRdHup
	Packet        = ring.EventPacket
	NewConnection = ring.EventNewConnection
	Sent          = ring.EventSent
	Closed        = ring.EventClosed
	PathChanged   = ring.EventPath // see Socket.Path
)

// The errors a program meets most; see package ring for the others.
var (
	ErrWouldBlock   = ring.ErrWouldBlock
	ErrClosed       = ring.ErrClosed
	ErrDeadline     = ring.ErrDeadline
	ErrTruncated    = ring.ErrTruncated
	ErrNotSupported = ring.ErrNotSupported
)
