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
	Packet     = buffers.Packet
	Settings   = conf.Settings
)

// The tiers of a path.
const (
	TierKernel = ring.TierKernel
	TierBypass = ring.TierBypass
)

// The kinds of socket.
const (
	KindStream   = ring.KindStream
	KindListener = ring.KindListener
	KindDatagram = ring.KindDatagram
)

// The event bits; see package ring for what they mean.
const (
	EventIn            = ring.EventIn
	EventOut           = ring.EventOut
	EventErr           = ring.EventErr
	EventHup           = ring.EventHup
	EventRdHup         = ring.EventRdHup
	EventPacket        = ring.EventPacket
	EventNewConnection = ring.EventNewConnection
	EventSent          = ring.EventSent
	EventClosed        = ring.EventClosed
	EventPath          = ring.EventPath        // see Socket.Path
	EventTxTimestamp   = ring.EventTxTimestamp // of UDPConfig.TxTimestamps
)

// The errors a program meets most; see package ring for the others.
var (
	ErrWouldBlock   = ring.ErrWouldBlock
	ErrClosed       = ring.ErrClosed
	ErrDeadline     = ring.ErrDeadline
	ErrTruncated    = ring.ErrTruncated
	ErrNotSupported = ring.ErrNotSupported
)
