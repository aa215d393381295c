package xtreme

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/ring"
)

// The types of the contract, under the names a program that imports only this package uses.
type (
	Socket             = ring.Socket
	Ring               = ring.Ring
	Completion         = ring.Completion
	Event              = ring.Event
	Path               = ring.Path
	Reason             = ring.Reason
	SocketKind         = ring.SocketKind
	Mode               = ring.Mode
	ReceiveCallback    = ring.ReceiveCallback
	Verdict            = ring.Verdict
	HardwareTimestamps = ring.HardwareTimestamps
	Stamp              = ring.Stamp
	StampSource        = ring.StampSource
	Caps               = ring.Caps
	Logic              = ring.Logic
	RingKey            = ring.Key
	Family             = ring.Family
	SocketStats        = ring.SocketStats
	RingStats          = ring.RingStats
	RingCounts         = ring.RingCounts
	Counter            = ring.Counter
	Work               = ring.Work
	Packet             = buffers.Packet
	Buffer             = buffers.Buffer
	Lent               = buffers.Lent
	Pool               = buffers.Pool
	BufferLayout       = buffers.Layout
	BufferClass        = buffers.Class
	Ledger             = buffers.Ledger
	BufferStats        = buffers.Stats
	Settings           = conf.Settings
	FeedStats          = feed.Stats
	FeedLineStats      = feed.LineStats
	FeedState          = feed.State
)

// The states of a feed.
const (
	FeedInit       = feed.Init
	FeedSync       = feed.Sync
	FeedGapWait    = feed.GapWait
	FeedRecovering = feed.Recovering
	FeedStale      = feed.Stale
	FeedEnded      = feed.Ended
)

// The tiers of a path.
const (
	TierKernel = ring.TierKernel
	TierBypass = ring.TierBypass
)

// The size classes of a pool's buffers, as Pool.Free and Pool.Available take them.
const (
	SmallBuffers = buffers.Small
	LargeBuffers = buffers.Large
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

// How packets are delivered; see Socket.SetReceiveMode.
const (
	ModeCompletions = ring.Completions
	ModeCallback    = ring.Callback
	ModeQueue       = ring.Queue
)

// What a receive callback says of a packet.
const (
	Keep = ring.Keep
	Drop = ring.Drop
	Hold = ring.Hold
)

// The ring allocation logics: which sockets of a poller share a ring.
const (
	PerInterface  = ring.PerInterface
	PerIP         = ring.PerIP
	PerSocket     = ring.PerSocket
	PerUserID     = ring.PerUserID
	PerThread     = ring.PerThread
	PerCore       = ring.PerCore
	PerCoreAttach = ring.PerCoreAttach
)

// What is made of the time stamps of a network card.
const (
	HardwareTimestampsOff  = ring.HardwareTimestampsOff
	HardwareTimestampsRaw  = ring.HardwareTimestampsRaw
	HardwareTimestampsBest = ring.HardwareTimestampsBest
	HardwareTimestampsSync = ring.HardwareTimestampsSync
	HardwareTimestampsPTP  = ring.HardwareTimestampsPTP
)

// Where a time stamp is from.
const (
	StampNone        = ring.StampNone
	StampPoll        = ring.StampPoll
	StampLink        = ring.StampLink
	StampSoftware    = ring.StampSoftware
	StampHardware    = ring.StampHardware
	StampRawHardware = ring.StampRawHardware
)

// What a ring can do beyond the common contract; see Ring.Caps and Ring.Why.
const (
	CapThreadBound        = ring.CapThreadBound
	CapZeroCopySend       = ring.CapZeroCopySend
	CapWindowAtRelease    = ring.CapWindowAtRelease
	CapOutPerAck          = ring.CapOutPerAck
	CapSharedMulticast    = ring.CapSharedMulticast
	CapBackgroundProgress = ring.CapBackgroundProgress
	CapTxTimestamps       = ring.CapTxTimestamps
	CapLaunchTime         = ring.CapLaunchTime
	CapPathChanges        = ring.CapPathChanges
)

// What a polling goroutine does between two polls; see Poller.MarkWork.
const (
	WorkUnknown = ring.WorkUnknown
	WorkHandler = ring.WorkHandler
	WorkTimers  = ring.WorkTimers
	WorkPosted  = ring.WorkPosted
)

// The families of addresses.
const (
	IPv4       = ring.IPv4
	IPv6       = ring.IPv6
	UnixDomain = ring.UnixDomain
)

// The errors of the contract, for errors.Is; see package ring.
var (
	ErrWouldBlock   = ring.ErrWouldBlock
	ErrNothing      = ring.ErrNothing
	ErrClosed       = ring.ErrClosed
	ErrOwner        = ring.ErrOwner
	ErrNoSlice      = ring.ErrNoSlice
	ErrMode         = ring.ErrMode
	ErrTruncated    = ring.ErrTruncated
	ErrDeadline     = ring.ErrDeadline
	ErrNotSupported = ring.ErrNotSupported
	ErrState        = ring.ErrState
)

// The errors that carry more than a text, for errors.As; see package ring.
type (
	OpError       = ring.OpError       // what was being done, and the errno
	FeatureError  = ring.FeatureError  // an ErrNotSupported, with the reason's code
	CallbackPanic = ring.CallbackPanic // a panic of a callback, with its stack
	SpaceError    = ring.SpaceError    // how much room a packet needs
	FileError     = ring.FileError     // how much of a file was sent
)
