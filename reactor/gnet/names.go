package gnet

import (
	"context"
	"net"
	"time"

	upstream "github.com/panjf2000/gnet/v2"
	errorx "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/panjf2000/gnet/v2/pkg/logging"
)

// What a program names besides Engine, EventHandler, Client and the options is gnet's own: the same types, so that
// code which takes or returns them needs no change, and the same error values, so that errors.Is holds.
type (
	// Conn is gnet's connection; what is beside its surface is in ConnX and DatagramX.
	Conn = upstream.Conn
	// Reader, Writer and Socket are the parts of Conn.
	Reader = upstream.Reader
	// Writer is the sending half of a Conn.
	Writer = upstream.Writer
	// Socket is the part of a Conn that sets options of its socket.
	Socket = upstream.Socket
	// EventLoop is what Conn.EventLoop gives. Schedule works here.
	EventLoop = upstream.EventLoop
	// Runnable and RunnableFunc are what EventLoop.Execute runs.
	Runnable = upstream.Runnable
	// RunnableFunc is a function as a Runnable.
	RunnableFunc = upstream.RunnableFunc
	// AsyncCallback is called on the loop when an asynchronous call is done.
	AsyncCallback = upstream.AsyncCallback
	// RegisteredResult is what Register and Enroll answer.
	RegisteredResult = upstream.RegisteredResult
	// Action is what a handler wants done.
	Action = upstream.Action
	// LoadBalancing says which loop gets a connection.
	LoadBalancing = upstream.LoadBalancing
	// TCPSocketOpt is the type of TCPNoDelay and TCPDelay.
	TCPSocketOpt = upstream.TCPSocketOpt
)

// Actions, balancing policies and the two values of WithTCPNoDelay.
const (
	None     = upstream.None
	Close    = upstream.Close
	Shutdown = upstream.Shutdown

	RoundRobin       = upstream.RoundRobin
	LeastConnections = upstream.LeastConnections
	SourceAddrHash   = upstream.SourceAddrHash

	TCPNoDelay = upstream.TCPNoDelay
	TCPDelay   = upstream.TCPDelay
)

// MaxStreamBufferCap is the default of ReadBufferCap and WriteBufferCap in bytes. It is a variable because gnet's is;
// set it before Run.
var MaxStreamBufferCap = 64 * 1024

// NewContext, FromContext and their kin carry values to Register and Enroll, as in gnet.
func NewContext(ctx context.Context, v any) context.Context { return upstream.NewContext(ctx, v) }

// FromContext returns the value that NewContext put into a context.
func FromContext(ctx context.Context) any { return upstream.FromContext(ctx) }

// NewNetConnContext puts a connection into a context, for Register to take over.
func NewNetConnContext(ctx context.Context, c net.Conn) context.Context {
	return upstream.NewNetConnContext(ctx, c)
}

// FromNetConnContext returns the connection that NewNetConnContext put into a context.
func FromNetConnContext(ctx context.Context) (net.Conn, bool) {
	return upstream.FromNetConnContext(ctx)
}

// NewNetAddrContext puts an address into a context, for Register to dial.
func NewNetAddrContext(ctx context.Context, a net.Addr) context.Context {
	return upstream.NewNetAddrContext(ctx, a)
}

// FromNetAddrContext returns the address that NewNetAddrContext put into a context.
func FromNetAddrContext(ctx context.Context) (net.Addr, bool) {
	return upstream.FromNetAddrContext(ctx)
}

// EventHandler is what a server or client does; each method is called as in gnet. OnBoot is called on Run's goroutine
// before any loop starts, OnTick on a goroutine of its own, OnShutdown on Run's goroutine, the others on the loop of
// their connection. The methods differ from gnet's EventHandler in the type Engine only.
type EventHandler interface {
	// OnBoot is called when the listeners are bound; Shutdown makes Run return at once.
	OnBoot(eng Engine) (action Action)
	// OnShutdown is called when all connections are closed (exact gnet: before that) and the listeners still are open.
	OnShutdown(eng Engine)
	// OnOpen is called for each new connection; out is sent.
	OnOpen(c Conn) (out []byte, action Action)
	// OnClose is called once for each connection that was opened, with the reason or nil when this side closed it.
	OnClose(c Conn, err error) (action Action)
	// OnTraffic is called when data came and for Wake.
	OnTraffic(c Conn) (action Action)
	// OnTick is called at once and then after each delay it returned, with WithTicker.
	OnTick() (delay time.Duration, action Action)
}

// Drainer is an optional part of a handler: OnDrained is called on the connection's loop when what waited to be sent
// had exceeded the high-water mark of WithOutboundLimits and has fallen below half of it.
type Drainer interface {
	OnDrained(c Conn) (action Action)
}

// BuiltinEventEngine has every method of EventHandler and does nothing: embed it, by value or as a pointer, nil too.
type BuiltinEventEngine struct{}

// OnBoot does nothing.
func (*BuiltinEventEngine) OnBoot(Engine) (action Action) { return }

// OnShutdown does nothing.
func (*BuiltinEventEngine) OnShutdown(Engine) {}

// OnOpen sends nothing and keeps the connection.
func (*BuiltinEventEngine) OnOpen(Conn) (out []byte, action Action) { return }

// OnClose does nothing.
func (*BuiltinEventEngine) OnClose(Conn, error) (action Action) { return }

// OnTraffic reads nothing and keeps the connection.
func (*BuiltinEventEngine) OnTraffic(Conn) (action Action) { return }

// OnTick does nothing, and asks to be called again at once.
func (*BuiltinEventEngine) OnTick() (delay time.Duration, action Action) { return }

// Logger and Level are gnet's logging types, for WithLogger and WithLogLevel.
type (
	Logger = logging.Logger
	// Level is how much a Logger logs.
	Level = logging.Level
)

// The errors of gnet's pkg/errors that calls here return, by the same values.
var (
	ErrEmptyEngine             = errorx.ErrEmptyEngine
	ErrEngineShutdown          = errorx.ErrEngineShutdown
	ErrEngineInShutdown        = errorx.ErrEngineInShutdown
	ErrTooManyEventLoopThreads = errorx.ErrTooManyEventLoopThreads
	ErrUnsupportedProtocol     = errorx.ErrUnsupportedProtocol
	ErrUnsupportedOp           = errorx.ErrUnsupportedOp
	ErrInvalidNetworkAddress   = errorx.ErrInvalidNetworkAddress
	ErrInvalidNetConn          = errorx.ErrInvalidNetConn
	ErrNilRunnable             = errorx.ErrNilRunnable
)
