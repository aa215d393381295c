package gnet

import (
	"fmt"
	"math"
	"net"
	"time"

	"github.com/panjf2000/gnet/v2/pkg/logging"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor"
)

// Option changes Options.
type Option func(opts *Options)

// Options is every option of gnet, by the same names and types, and ours after them. The zero value of each is the
// default. The package documentation has the table of what each does here.
type Options struct {
	LB                      LoadBalancing  // which loop gets a connection; servers only, clients take LeastConnections
	ReuseAddr               bool           // SO_REUSEADDR
	ReusePort               bool           // SO_REUSEPORT: a listener per loop. Forced on by a UDP address, off by a unix one
	MulticastInterfaceIndex int            // where multicast groups are joined; 0 lets the kernel choose
	BindToDevice            string         // SO_BINDTODEVICE of IP listeners
	Multicore               bool           // as many loops as processors
	NumEventLoop            int            // this many loops, at most 256; more than Multicore says
	ReadBufferCap           int            // bytes one OnTraffic is given, rounded up to whole buffers: of 2,048, or above that of 65,536
	WriteBufferCap          int            // bytes of one block of the outbound buffer, at least 1 KiB, a power of two
	LockOSThread            bool           // bind each loop to its thread (an io_uring loop is in any case)
	Ticker                  bool           // call OnTick
	TCPKeepAlive            time.Duration  // idle time before the first probe; 0: none
	TCPKeepInterval         time.Duration  // between probes; 0: a fifth of TCPKeepAlive
	TCPKeepCount            int            // probes before giving up; 0: 5
	TCPNoDelay              TCPSocketOpt   // TCPNoDelay, the default, or TCPDelay
	SocketRecvBuffer        int            // SO_RCVBUF
	SocketSendBuffer        int            // SO_SNDBUF
	LogPath                 string         // log to this file
	LogLevel                logging.Level  // of LogPath
	Logger                  logging.Logger // log to this; wins over LogPath
	EdgeTriggeredIO         bool           // accepted: rings have no trigger, a handler sees no difference
	EdgeTriggeredIOChunk    int            // accepted, as EdgeTriggeredIO

	Ring           conf.RingKind       // kind of ring; empty: the environment's (SX_RING), or the best that works
	Rest           reactor.Rest        // what an idle loop does
	RxPoll         int                 // as reactor.Config's, but 100 where nobody has given the setting
	SelectPoll     time.Duration       // as reactor.Config's
	OnPanic        reactor.PanicPolicy // what a panic of the handler costs; ExactGnet: the process
	MaxConnections int                 // accepted connections beyond it are closed unseen; 0: no limit
	OutboundHigh   int                 // bytes waiting to be sent that stop the reading of a connection; 0: 1 MiB, -1: none
	OutboundHard   int                 // a write that finds more waiting resets it; 0: 64 MiB, -1: none
	InboundCap     int                 // bytes of buffers whose unread data stays in place; 0: 256 KiB, -1: copy at once
	IdleTimeout    time.Duration       // close connections without traffic for so long; 0: never
	SmallBuffers   int                 // buffers of each loop, 2 KiB, at least 64; 0: the settings' default
	LargeBuffers   int                 // and 64 KiB, at least 8; 0: the settings' default
	ExactGnet      bool                // gnet's behaviour also where it is a defect
}

// optionDefaults is applied before the options. Nothing in the package sets it: scripts/gnet-suite.sh, which runs gnet's
// own tests here, adds a file that makes it WithExactGnet.
var optionDefaults Option = func(*Options) {}

// WithOptions sets all options at once. ExactGnet stays set if it was.
func WithOptions(options Options) Option {
	return func(opts *Options) {
		exact := opts.ExactGnet || options.ExactGnet
		*opts = options
		opts.ExactGnet = exact
	}
}

// WithMulticore runs as many loops as there are processors.
func WithMulticore(multicore bool) Option { return func(o *Options) { o.Multicore = multicore } }

// WithLockOSThread binds each loop to its thread.
func WithLockOSThread(lock bool) Option { return func(o *Options) { o.LockOSThread = lock } }

// WithReadBufferCap sets Options.ReadBufferCap.
func WithReadBufferCap(bytes int) Option { return func(o *Options) { o.ReadBufferCap = bytes } }

// WithWriteBufferCap sets Options.WriteBufferCap.
func WithWriteBufferCap(bytes int) Option { return func(o *Options) { o.WriteBufferCap = bytes } }

// WithLoadBalancing chooses the balancing policy.
func WithLoadBalancing(lb LoadBalancing) Option { return func(o *Options) { o.LB = lb } }

// WithNumEventLoop sets the number of loops.
func WithNumEventLoop(n int) Option { return func(o *Options) { o.NumEventLoop = n } }

// WithReusePort gives each loop a listener of its own.
func WithReusePort(on bool) Option { return func(o *Options) { o.ReusePort = on } }

// WithReuseAddr lets a server bind an address that connections of an earlier server still have in TIME_WAIT.
func WithReuseAddr(on bool) Option { return func(o *Options) { o.ReuseAddr = on } }

// WithTCPKeepAlive probes idle peers after d.
func WithTCPKeepAlive(d time.Duration) Option { return func(o *Options) { o.TCPKeepAlive = d } }

// WithTCPKeepInterval sets the time between probes.
func WithTCPKeepInterval(d time.Duration) Option { return func(o *Options) { o.TCPKeepInterval = d } }

// WithTCPKeepCount sets the number of probes.
func WithTCPKeepCount(n int) Option { return func(o *Options) { o.TCPKeepCount = n } }

// WithTCPNoDelay chooses between TCPNoDelay and TCPDelay.
func WithTCPNoDelay(v TCPSocketOpt) Option { return func(o *Options) { o.TCPNoDelay = v } }

// WithSocketRecvBuffer sets SO_RCVBUF.
func WithSocketRecvBuffer(bytes int) Option { return func(o *Options) { o.SocketRecvBuffer = bytes } }

// WithSocketSendBuffer sets SO_SNDBUF.
func WithSocketSendBuffer(bytes int) Option { return func(o *Options) { o.SocketSendBuffer = bytes } }

// WithTicker turns OnTick on.
func WithTicker(on bool) Option { return func(o *Options) { o.Ticker = on } }

// WithLogPath logs to a file.
func WithLogPath(name string) Option { return func(o *Options) { o.LogPath = name } }

// WithLogLevel sets the level of WithLogPath.
func WithLogLevel(l logging.Level) Option { return func(o *Options) { o.LogLevel = l } }

// WithLogger logs to a logger.
func WithLogger(l logging.Logger) Option { return func(o *Options) { o.Logger = l } }

// WithMulticastInterfaceIndex sets the interface on which multicast groups are joined, by its index.
func WithMulticastInterfaceIndex(index int) Option {
	return func(o *Options) { o.MulticastInterfaceIndex = index }
}

// WithBindToDevice restricts listeners to an interface, by its name.
func WithBindToDevice(name string) Option { return func(o *Options) { o.BindToDevice = name } }

// WithEdgeTriggeredIO is accepted and changes nothing.
func WithEdgeTriggeredIO(on bool) Option { return func(o *Options) { o.EdgeTriggeredIO = on } }

// WithEdgeTriggeredIOChunk is accepted and changes nothing.
func WithEdgeTriggeredIOChunk(bytes int) Option {
	return func(o *Options) { o.EdgeTriggeredIOChunk = bytes }
}

// WithRing chooses the kind of ring: conf.RingUring, conf.RingEpoll, conf.RingAuto, or conf.RingOffload for UDP on our own stack.
func WithRing(k conf.RingKind) Option { return func(o *Options) { o.Ring = k } }

// WithRest says what a loop does when it has nothing to do: reactor.Adaptive, the default, spins for a while and then sleeps; Spin never
// sleeps; Wait sleeps at once.
func WithRest(r reactor.Rest) Option { return func(o *Options) { o.Rest = r } }

// WithRxPoll says after how many empty turns, and after how long at most, an Adaptive loop sleeps; -1 in either means that it never sleeps. 0
// takes the settings, as in reactor.Config; where nobody has given VMA_RX_POLL it is 100 turns.
func WithRxPoll(turns int, limit time.Duration) Option {
	return func(o *Options) { o.RxPoll, o.SelectPoll = turns, limit }
}

// WithPanicPolicy says what happens after a panic in the handler: reactor.ResetConnection, the default, resets the connection;
// reactor.StopLoop ends the server, and Run returns the panic.
func WithPanicPolicy(p reactor.PanicPolicy) Option { return func(o *Options) { o.OnPanic = p } }

// WithMaxConnections limits how many accepted connections are open at once. One beyond n is closed as soon as it is accepted; the handler
// never learns of it. 0 is no limit.
func WithMaxConnections(n int) Option { return func(o *Options) { o.MaxConnections = n } }

// WithOutboundLimits bounds how many bytes may wait to be sent on a connection. Above high the connection is not read from until half of that
// is left (see Drainer, and ConnX.SetProducers for connections that other ones write to). A write that finds more than hard bytes waiting
// resets the connection, with ErrOutboundLimit. 0 leaves a default, -1 means no limit.
func WithOutboundLimits(high, hard int) Option {
	return func(o *Options) { o.OutboundHigh, o.OutboundHard = high, hard }
}

// WithInboundCap bounds the buffer memory, in bytes, that a connection's unread data may occupy. Beyond it, and when the loop has few buffers
// left, unread data is copied to the heap. 0 leaves the default, -1 always copies.
func WithInboundCap(bytes int) Option { return func(o *Options) { o.InboundCap = bytes } }

// WithIdleTimeout closes connections that neither received nor were written to for d, with os.ErrDeadlineExceeded.
func WithIdleTimeout(d time.Duration) Option { return func(o *Options) { o.IdleTimeout = d } }

// WithBuffers says how many small (2 KiB, at least 64) and large (64 KiB, at least 8) receive buffers each loop has. 0 leaves the
// default of that kind.
func WithBuffers(small, large int) Option {
	return func(o *Options) { o.SmallBuffers, o.LargeBuffers = small, large }
}

// WithExactGnet asks for gnet's behaviour exactly, also where it is a defect; see the package documentation.
func WithExactGnet() Option { return func(o *Options) { o.ExactGnet = true } }

const (
	mostLoops         = 256
	mostLockedThreads = 10000 // the runtime's limit on threads
	leastWriteBlock   = 1024
	mostWriteBlock    = math.MaxInt/2 + 1   // the largest power of two
	mostKeepAlive     = 32767 * time.Second // TCP_KEEPIDLE and TCP_KEEPINTVL, tcp(7)
	mostKeepCount     = 127                 // TCP_KEEPCNT
	smallBuffer       = 2048

	defaultHigh       = 1 << 20
	defaultHard       = 64 << 20
	defaultInboundCap = 256 << 10
	defaultRxPoll     = 100
)

// applyOptions makes Options from the defaults and the list of options.
func applyOptions(options []Option) *Options {
	o := new(Options)
	optionDefaults(o)
	for _, option := range options {
		option(o)
	}
	return o
}

// complete checks the values and fills in the defaults.
func (o *Options) complete() error {
	if o.LockOSThread && o.NumEventLoop > mostLockedThreads {
		return ErrTooManyEventLoopThreads
	}
	switch {
	case o.LB < RoundRobin || o.LB > SourceAddrHash:
		return badOption("LB", o.LB)
	case o.RxPoll < -1:
		return badOption("RxPoll", o.RxPoll)
	case o.SelectPoll < 0 && o.SelectPoll != -1:
		return badOption("SelectPoll", o.SelectPoll)
	case o.MaxConnections < 0:
		return badOption("MaxConnections", o.MaxConnections)
	case o.OutboundHigh < -1:
		return badOption("OutboundHigh", o.OutboundHigh)
	case o.OutboundHard < -1:
		return badOption("OutboundHard", o.OutboundHard)
	case o.OutboundHigh > 0 && o.OutboundHard > 0 && o.OutboundHard < o.OutboundHigh:
		return badOption("OutboundHard", fmt.Sprintf("%d, below OutboundHigh %d", o.OutboundHard, o.OutboundHigh))
	case o.InboundCap < -1:
		return badOption("InboundCap", o.InboundCap)
	case o.IdleTimeout < 0:
		return badOption("IdleTimeout", o.IdleTimeout)
	case o.SmallBuffers < 0:
		return badOption("SmallBuffers", o.SmallBuffers)
	case o.LargeBuffers < 0:
		return badOption("LargeBuffers", o.LargeBuffers)
	case o.WriteBufferCap > mostWriteBlock:
		return badOption("WriteBufferCap", o.WriteBufferCap)
	}
	if !o.ExactGnet {
		if err := o.strict(); err != nil {
			return err
		}
	}
	if o.ReadBufferCap <= 0 {
		o.ReadBufferCap = MaxStreamBufferCap
	}
	if o.WriteBufferCap <= 0 {
		o.WriteBufferCap = MaxStreamBufferCap
	}
	o.WriteBufferCap = powerOfTwo(max(o.WriteBufferCap, leastWriteBlock))
	orElse(&o.OutboundHigh, defaultHigh)
	orElse(&o.OutboundHard, max(defaultHard, o.OutboundHigh))
	orElse(&o.InboundCap, defaultInboundCap)
	if o.ExactGnet {
		o.OutboundHigh, o.OutboundHard = -1, -1
		o.OnPanic = reactor.StopLoop
	}
	return nil
}

// strict returns an error for options that gnet accepts and does not honour, or that fail only with the first socket. Exact gnet skips it.
func (o *Options) strict() error {
	switch {
	case o.NumEventLoop < 0:
		return badOption("NumEventLoop", o.NumEventLoop)
	case o.ReadBufferCap < 0:
		return badOption("ReadBufferCap", o.ReadBufferCap)
	case o.WriteBufferCap < 0:
		return badOption("WriteBufferCap", o.WriteBufferCap)
	case o.SocketRecvBuffer < 0:
		return badOption("SocketRecvBuffer", o.SocketRecvBuffer)
	case o.SocketSendBuffer < 0:
		return badOption("SocketSendBuffer", o.SocketSendBuffer)
	case o.TCPNoDelay != TCPNoDelay && o.TCPNoDelay != TCPDelay:
		return badOption("TCPNoDelay", o.TCPNoDelay)
	case o.TCPKeepAlive != 0 && (o.TCPKeepAlive < time.Second || o.TCPKeepAlive > mostKeepAlive):
		return badOption("TCPKeepAlive", o.TCPKeepAlive)
	case o.TCPKeepInterval != 0 && (o.TCPKeepInterval < time.Second || o.TCPKeepInterval > mostKeepAlive):
		return badOption("TCPKeepInterval", o.TCPKeepInterval)
	case o.TCPKeepCount < 0 || o.TCPKeepCount > mostKeepCount:
		return badOption("TCPKeepCount", o.TCPKeepCount)
	case o.MulticastInterfaceIndex < 0:
		return badOption("MulticastInterfaceIndex", o.MulticastInterfaceIndex)
	case o.MulticastInterfaceIndex > 0:
		if _, err := net.InterfaceByIndex(o.MulticastInterfaceIndex); err != nil {
			return badOption("MulticastInterfaceIndex", fmt.Sprintf("%d, %v", o.MulticastInterfaceIndex, err))
		}
	}
	return nil
}

// settings returns the settings for the loops' engine: those of the environment, overridden by the options. It also completes options that
// are not given from the environment.
func (o *Options) settings() conf.Settings {
	s := conf.FromEnvironment()
	if o.Ring != "" {
		s.Ring = o.Ring
	}
	if o.RxPoll == 0 && o.Rest == reactor.Adaptive && s.RxPoll == conf.RxPollAuto {
		// A server has other goroutines to leave processors to: it looks for some microseconds, then it sleeps. It is no setting that the
		// program has given, of which a loop that does not use it would warn.
		o.RxPoll = defaultRxPoll
	}
	if o.SmallBuffers != 0 {
		s.SmallBuffers = o.SmallBuffers
	}
	if o.LargeBuffers != 0 {
		s.LargeBuffers = o.LargeBuffers
	}
	return s
}

func orElse(v *int, otherwise int) {
	if *v == 0 {
		*v = otherwise
	}
}

// powerOfTwo returns n rounded up to a power of two.
func powerOfTwo(n int) int {
	p := 1
	for p < n {
		p <<= 1
	}
	return p
}

func badOption(name string, value any) error {
	return fmt.Errorf("gnet: option %s %v: %w", name, value, unix.EINVAL)
}
