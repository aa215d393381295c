// Package gnet runs servers and clients written for gnet v2 on SocketXtreme rings. A program changes its import path
// and nothing else:
//
//	import "github.com/socketxtreme/socketxtreme/reactor/gnet" // was github.com/panjf2000/gnet/v2
//
//	type server struct{ gnet.BuiltinEventEngine }
//
//	func (s *server) OnTraffic(c gnet.Conn) gnet.Action {
//		b, _ := c.Next(-1)
//		c.Write(b)
//		return gnet.None
//	}
//
//	err := gnet.Run(&server{}, "tcp://:9000", gnet.WithMulticore(true))
//
// Conn, EventLoop, Action, the contexts, the loggers and the errors are gnet's own types and values, so that the packages
// around a program (codecs, pools, gnet's pkg/errors) fit as before. Engine, EventHandler, Client and the options are
// this package's. A program that must keep gnet's import uses package gnetrun instead.
//
// # Loops
//
// Each event loop is a reactor.Loop over a poller of its own: a ring and its buffers. With one loop its ring accepts. With
// several, a loop without a handler accepts and the balancing policy says which loop a connection goes to, so that a handler that
// blocks keeps only its own loop's connections waiting; with ReusePort and round robin every loop has a listener, and the kernel
// chooses. Handlers of a connection run on its loop and need no locks. From other goroutines: AsyncWrite,
// AsyncWritev, Wake, Close, CloseWithCallback, the setters, the addresses, SafeContext, EventLoop and its methods but Close.
//
// # Reading
//
// What a handler reads is the buffer that the ring received into. Next, Peek and Discard work on it without copying as long
// as the bytes asked for are in one buffer; a message that lies in several is copied together once. The bytes of Next and
// Peek stay good until the handler returns. What a handler leaves unread stays where it is, up to InboundCap bytes of
// buffers for a connection and as long as a quarter of the loop's buffers are free; beyond that it is copied to the heap,
// so that any number of connections may wait for long messages. OnTraffic is not called again before new data comes or
// Wake is called.
//
// # Writing
//
// Write sends at once what the kernel takes and keeps the rest. Above OutboundHigh bytes that wait, the connection is not
// read from until half of that has gone (a Drainer's OnDrained is called then). A connection that is written what another one sends, as in a
// proxy, says so with ConnX.SetProducers: then that one is not read from. A producer that is no connection of the loop looks at
// OutboundBuffered and continues in OnDrained.
//
// A write that finds more than OutboundHard bytes waiting ends the connection with ErrOutboundLimit. What waits is dropped, and the
// peer sees a reset (a unix peer the end of the stream); so does the peer of a connection that a deadline ends with bytes unsent.
// The size of one write is not limited. ConnX.CloseWhenSent closes a connection after everything was sent; Close, as in gnet, sends
// what the kernel takes without waiting.
//
// # UDP
//
// A server's OnTraffic is given a Conn for each datagram, which speaks for its peer for ever: a goroutine that keeps it
// still writes to that peer. Conns of known peers are used again for the same peer, so that echoing allocates nothing.
// The context is nil for each datagram, and what is not read when the handler returns is dropped, as in gnet. Type
// assertion to DatagramX gives the destination, the interface, the time and the packet itself.
//
// The Conn of a connected UDP socket (Client.Dial, Register, Enroll) has OnOpen and OnClose, keeps its context, is a ConnX
// as well and honours WithIdleTimeout. What ICMP reports it, such as that nobody listens, is the error of its next Write,
// once, as with package net; ICMP errors of a server's socket, which are some peer's, are not reported.
//
// # Panics
//
// A panic in OnOpen, OnTraffic, OnDrained or a callback resets its TCP or unix connection: OnClose is called with ErrHandlerPanic.
// One in a datagram's OnTraffic costs the datagram; its socket stays open. One in OnClose costs nothing else: the connection
// is closed all the same. One in the OnOpen of a connection that is dialled or enrolled is that call's ErrHandlerPanic. One in
// OnTick costs that tick: the next comes after the delay that OnTick returned last, or a second. Each is logged. With
// WithPanicPolicy(reactor.StopLoop) the engine ends and Run returns the panic, a client's Stop; OnClose is called with ErrHandlerPanic
// for every connection of the loop that ended. OnBoot and OnShutdown run on the goroutine that called Run (OnShutdown of a
// client: Stop, or one of its own after a loop failed), and their panics are not contained: they reach that caller, and an
// engine left in this way does not give back what it holds.
//
// # Beside gnet's surface
//
//	ConnX        SuspendRead, ResumeRead, SetProducers, CloseWhenSent, SetIdleTimeout, Path, Socket: by assertion on a Conn but a UDP server's
//	DatagramX    Destination, IfIndex, Time, Hold, Path, Socket: the same for a UDP Conn
//	Conn         SetDeadline, SetReadDeadline, SetWriteDeadline close the connection with os.ErrDeadlineExceeded
//	EventLoop    Schedule works
//	Engine       Addrs: with port 0 the port that the kernel chose; Register at any time with every policy
//	Drainer      OnDrained: an optional method of a handler
//	options      WithRing, WithRest, WithRxPoll, WithPanicPolicy, WithMaxConnections, WithOutboundLimits, WithInboundCap,
//	             WithIdleTimeout, WithBuffers, WithExactGnet
//
// # Where the default differs from gnet
//
// WithExactGnet brings back what is in the third column.
//
//	                            default                                 exact gnet
//	OnShutdown                  after every OnClose                     before them
//	Engine.Stop                 returns when all is over                looks every 500 ms
//	Stop called by a handler    begins the end and returns              waits for itself until ctx is done
//	out of descriptors          accepting pauses and goes on            the engine ends, Run returns nil
//	outbound buffer             bounded, see Writing                    unbounded
//	OnClose                     never inside another call of the        inside the Write that failed, inside the OnClose
//	                            handler                                 that closed the other one
//	ReusePort and a policy      the policy is honoured                  the kernel chooses
//	deadlines, Schedule         work                                    ErrUnsupportedOp
//	ReadFrom                    sent when the handler returns           sent with Flush only
//	a panic of the handler      costs its connection (ErrHandlerPanic), ends the process
//	                            datagram or tick, see Panics
//	an error that ends a loop   is Run's                                Run returns nil
//	a file at a unix address    is an error unless it is a socket       is removed, whatever it is
//	UDP                         one Conn for each peer                  one Conn for each datagram
//	ICMP error of a connected   the next Write's error, once            OnClose with io.EOF
//	UDP socket
//
// In both modes: RemoteAddr and LocalAddr stay valid after the connection was closed; Fd is -1 then; SetLinger never makes
// closing block the loop; Writev does not change its argument; a unix address is listened on once and its connections
// are balanced, also beside UDP addresses, where gnet binds it again for every loop; with port 0 every loop has the same
// port; tasks of other goroutines are done in the order in which they were asked for, where gnet has two queues.
//
// # Options of gnet
//
//	LB                       honoured, also with ReusePort, but for exact gnet, where the kernel chooses then
//	ReuseAddr, ReusePort     honoured; a UDP address turns ReusePort on, otherwise a unix one turns it off
//	MulticastInterfaceIndex  honoured: a UDP address that is a group is joined there. Without one a warning is logged
//	BindToDevice             honoured for IP addresses
//	Multicore, NumEventLoop  honoured, at most 256 loops: more is logged as a warning
//	ReadBufferCap            what one OnTraffic is given beside what was left: so much, and a buffer beyond it at the most. Up to
//	                         2,048 these are small ones (2,048 bytes, on io_uring 2,240), above that 64 KiB; also the
//	                         longest datagram. gnet rounds it up to a power of two of at least 1,024
//	WriteBufferCap           the largest block of the outbound buffer
//	LockOSThread             honoured; a loop on io_uring holds its thread in any case
//	Ticker                   honoured
//	TCPKeepAlive and kin     honoured, in whole seconds up to 32,767, at most 127 probes; the interval's default is a
//	                         fifth and a second at least
//	TCPNoDelay               honoured by a server; a client's connections have TCP_NODELAY with TCPDelay too, as gnet's
//	SocketRecvBuffer, SocketSendBuffer  honoured for IP sockets
//	LogPath, LogLevel, Logger           honoured; the reactors' messages go there too
//	EdgeTriggeredIO, EdgeTriggeredIOChunk  accepted without effect: rings have no trigger, and hand over all there is
//
// With WithRing(conf.RingOffload) UDP over IPv4 is on our own stack where the interface allows it (see DatagramX.Path), all else on a
// kernel ring. Such a socket's datagrams do not pass a descriptor: Fd is -1, and Dup, the Engine's too, is ErrUnsupportedOp. What other
// goroutines write is copied, up to 1 MiB, and sent by the loop. SetReadBuffer sizes the queue of the kernel's socket beside it, which
// reserves the port and gets what the stack does not carry; the stack's is sized by SocketRecvBuffer.
//
// A value that cannot be meant (a negative limit, an unknown policy, an interface that does not exist, a log that cannot
// be opened) is an error of Run and NewClient that names the option. Exact gnet takes those of gnet's options that gnet
// takes.
//
// A Client's Stop returns in a handler as Engine.Stop does, in both modes; its Dial and Enroll are ErrUnsupportedOp on a
// loop, where gnet's wait for themselves.
package gnet
