package ring

import (
	"net/netip"
	"os"
	"syscall"
	"time"
)

// Conn is a transport's own number for a socket: the kernel's is the descriptor. The core keeps it for the transport and compares it with
// nothing. It holds no pointer, so a socket that waits idle costs the garbage collector nothing.
type Conn int32

// Family is the kind of addresses that a socket has.
type Family uint8

// The families.
const (
	IPv4       Family = 1 + iota
	IPv6              // may carry IPv4 addresses too
	UnixDomain        // names instead of addresses; streams only
)

// FamilyOfAddr is the family that a socket needs for the address. An IPv4 address in IPv6's form is one of IPv4.
func FamilyOfAddr(ip netip.Addr) Family {
	if ip.Is6() && !ip.Is4In6() {
		return IPv6
	}
	return IPv4
}

// Option is an option of a socket that its transport keeps. The list is closed: a transport refuses what it does not know with ENOPROTOOPT.
type Option uint8

// The options. Values that are switches are 0 or 1.
const (
	OptionNoDelay Option = iota
	OptionQuickAck
	OptionKeepAlive         // switch
	OptionKeepAliveIdle     // seconds
	OptionKeepAliveInterval // seconds
	OptionKeepAliveCount
	OptionUserTimeout // milliseconds
	OptionReceiveBuffer
	OptionSendBuffer
	OptionReuseAddr
	OptionReusePort
	OptionBroadcast
	OptionTTL
	OptionTOS
	OptionIPv6Only
	OptionMulticastInterface // index
	OptionMulticastLoop
	OptionMulticastTTL
	OptionMulticastAll
	OptionPacingRate // of streams: bytes a second, 0 for no limit
)

// MaxVector is how many pieces SendVector takes.
const MaxVector = 64

// Transport carries the bytes of sockets: it opens, binds, connects, sends and closes. One value serves all sockets of a Set; a driver with a
// protocol stack of its own may give a socket another transport (SetTransport, in Driver.Attach). Receiving is the Driver's, which
// reports facts to the Sink.
//
// The core keeps what is neutral to the protocol: identity, events and their order, user data, modes, callbacks, budgets, deadlines, pacing,
// and the queue of packets given to SendPacket.
//
// The calls for one socket come in this order. "on ring" is the moment at which the socket gets its ring: Driver.Attach.
//
//	bound datagrams     Open  SetOption…  Bind  on ring  Driver.SetReceiving(on)  Send…                    Driver.Detach  Close
//	connected ones      Open  SetOption…  Connect  on ring  Driver.SetReceiving(on)  Send…                 Driver.Detach  Close
//	listener            Open  SetOption…  Bind  on ring  Listen  Driver.SetReceiving(on)                   Driver.Detach  Close
//	child of a listener Sink.Accepted  Accept  on ring  Driver.SetReceiving(on)  Send…  CloseWrite         Driver.Detach  Close
//	child not wanted    Sink.Accepted  Refuse
//	outgoing stream     Open  SetOption…  Bind?  Connect  on ring  Driver.NotifyWritable
//	                    Sink.Connected  Driver.SetReceiving(on)  Send…  CloseWrite                         Driver.Detach  Close
//	                    or Sink.Failed                                                                Driver.Detach  Close
//
// The facts of a stream are told in this order: Connected; then Data, Acknowledged and Writable as they come; EndOfStream behind the last
// Data; Failed at any time, once, behind the Data that is still to be delivered. After Failed nothing more follows. Sent ends each
// transmission: on a transport that keeps what it sends until the peer has confirmed it, when it is confirmed (Pool.Unacknowledge).
// EventClosed comes after the last Sent.
//
// A socket that never got a ring is closed without Detach. Driver.Detach may take its time (Sink.Detached); Close comes after it. What a
// transport remembers of a connection (a TIME-WAIT, data that is not acknowledged) may outlive the Socket: after Close it must not call the
// Socket or the Sink for it any more.
//
// All methods belong to the owner's goroutine; before the ring's first Poll they may be called by any one goroutine. None blocks. Errors are
// errnos, or typed errors that say more (*FeatureError); the core wraps each once with what was being done.
type Transport interface {
	// Open makes a socket: kind Stream or Datagram. What the transport does not carry it refuses with a *FeatureError.
	Open(kind SocketKind, family Family, c *Config) (Conn, error)
	// Bind gives the socket its local address; with port 0 the transport chooses one. The address is of the socket's family.
	Bind(s *Socket, local netip.AddrPort) (bound netip.AddrPort, err error)
	// Listen begins to answer connections. The socket is on its ring already, so that no connection comes before the driver knows the
	// listener. Where it was not bound the transport chooses the address.
	Listen(s *Socket, backlog int) (local netip.AddrPort, err error)
	// Connect sets the peer of a datagram socket, again and again if need be, and begins to connect a stream: the fact Sink.Connected follows,
	// or Sink.Failed. A stream has no ring yet, unless it was bound to a device: a transport that must not begin before waits for
	// Driver.Attach. The time limit for connecting is the core's: it closes the socket. local is the address from here on, where it is
	// known already.
	Connect(s *Socket, remote netip.AddrPort) (local netip.AddrPort, err error)
	// Accept makes a connection that Sink.Accepted has reported the one of s, a child of the listener: s has the listener's configuration and
	// the peer's address and is not on its ring yet. local is its address.
	Accept(s, listener *Socket) (local netip.AddrPort)
	// Refuse resets a connection that Sink.Accepted has reported and that no Socket was made of. The kernel does the same with the connections
	// that wait at a listener when it is closed.
	Refuse(c Conn)

	// SetOption sets an option. The core has checked the value's range where the option's method says so.
	SetOption(s *Socket, o Option, value int) error
	// SetDevice ties a socket without a ring to an interface.
	SetDevice(s *Socket, name string, index int) error
	// SetMembership joins or leaves a group. On an error nothing has changed.
	SetMembership(s *Socket, m Membership, join bool) error
	// Interface finds an interface by name, InterfaceOf the one that has an address, RoutedInterface the one that a group is joined on when
	// none is given; 0 for none.
	Interface(name string) (index int, err error)
	InterfaceOf(a netip.Addr) (index int)
	RoutedInterface(group netip.Addr) (index int)
	// Drops is how many datagrams were lost at the socket for want of room.
	Drops(s *Socket) (uint32, error)

	// Send copies b into the transport's queue. A datagram goes whole or not at all, to the address, or to the connected peer when to is
	// invalid. Of a stream it may take a part: n < len(b), with errno 0. EAGAIN: nothing was taken; the core then calls
	// Driver.NotifyWritable, and Sink.Writable follows when there is room. It does not allocate, and keeps no pointer into b, which may lie on
	// the caller's stack. SendVector is the same for pieces, at most MaxVector of them.
	Send(s *Socket, b []byte, to netip.AddrPort) (n int, e syscall.Errno)
	SendVector(s *Socket, bufs [][]byte, to netip.AddrPort) (n int, e syscall.Errno)

	// CloseWrite sends FIN after all that was taken for sending; reading goes on. Streams only, once.
	CloseWrite(s *Socket) error
	// Close ends the socket: with FIN after what was taken for sending, or with a reset. Data that nobody has read must not turn the FIN into
	// a reset. Handle.Ended reports that the peer's FIN was reported.
	Close(s *Socket, reset bool) error
}

// What one transport alone can do is an optional interface.

// UnixTransport is a Transport with unix-domain streams (Open with UnixDomain).
type UnixTransport interface {
	// BindUnix binds the socket to a name; bound is the name as the transport has it, file what was made for it in the file system.
	BindUnix(s *Socket, name string) (bound string, file UnixFile, err error)
	// ConnectUnix connects the socket: at once, or not at all.
	ConnectUnix(s *Socket, name string) (peer string, err error)
	// AcceptedUnix is the name of a child's peer.
	AcceptedUnix(s *Socket) (peer string)
	// RemoveUnix removes the file of a name, if it is still the one that BindUnix made.
	RemoveUnix(name string, file UnixFile) error
}

// UnixFile identifies the file of a unix-domain socket's name; zero: there is none.
type UnixFile struct{ Device, Inode uint64 }

// Adopter is a Transport that can take over sockets which others have made.
type Adopter interface {
	// TakeOver makes what Adopted describes like a socket of the transport's own. undo makes it what it was, also after an error. linger is
	// what SetLinger is to be; negative: nothing.
	TakeOver(s *Socket) (linger time.Duration, undo func(), err error)
	// Ready switches on what the socket's Config asks the transport for, after the application has set its options.
	Ready(s *Socket) error
}

// Offerer is a Transport whose connections have no descriptor: it gives one that AcceptTo may take a number, by which Adopt finds it.
type Offerer interface {
	// Offer takes a connection that Sink.Accepted has reported away from its ring. Any owner may adopt the number from then on; Refuse resets
	// it.
	Offer(c Conn) (number Conn, err error)
	// TakeBack undoes Offer, unless the connection was adopted meanwhile: then ok is false.
	TakeBack(number Conn) (c Conn, ok bool)
}

// FileSender is a Transport that sends files into streams without copying them through user space.
type FileSender interface {
	// OpenFile takes a regular file that is open for reading: the caller may close its own. size is its length.
	OpenFile(f *os.File) (ref FileRef, size int64, err error)
	// SendFile sends at most n bytes from the offset on and moves it. 0 bytes: the file ends there. EAGAIN as for Send.
	SendFile(s *Socket, ref FileRef, off *int64, n int) (sent int, e syscall.Errno)
	CloseFile(ref FileRef)
}

// FileRef is a FileSender's number for a file.
type FileRef int

// SendReporter is a Transport that keeps a queue of reports on each datagram socket: when datagrams left (Config.TxTimestamps), and errors
// of the network.
type SendReporter interface {
	// NextReport takes one report off the queue; EAGAIN when there is none. ok is false for an error of the network.
	NextReport(s *Socket) (r SendReport, ok bool, e syscall.Errno)
	// CountsFailures reports whether a send that fails uses up one of the numbers of SendReport.
	CountsFailures() bool
	// IsEarlierError reports whether a send that fails with e can fail for what the network has answered to an earlier datagram.
	IsEarlierError(e syscall.Errno) bool
}

// DropReporter is a Transport that reports datagrams which it dropped while it sent them (Config.ReportDrops).
type DropReporter interface {
	// StopDropReports ends these reports of a socket, and with them those of the network's errors that only they bring. A driver calls it in
	// Attach where another transport gets the socket (SetTransport) and this one sends a part of its datagrams.
	StopDropReports(s *Socket) error
}

// Retransmitter is a Transport that counts what its connections have sent again.
type Retransmitter interface {
	// Retransmits is how many segments the connection has sent again since the transport has it (TCP_INFO: tcpi_total_retrans).
	Retransmits(s *Socket) (uint32, error)
}

// SendReport is when a datagram left.
type SendReport struct {
	ID       uint32 // which one, counted from 0 on since the socket asked for reports
	Software int64  // nanoseconds of CLOCK_REALTIME; 0: none
	Hardware int64  // nanoseconds of the network card's clock; 0: none
}

// Prober is a Transport that can walk the path of a send without sending.
type Prober interface {
	// Probe goes as far as it can; see Socket.WarmSend.
	Probe(s *Socket, b []byte, to netip.AddrPort) syscall.Errno
}

// SetTransport gives the socket another transport. Only a driver calls it, in Attach, and when a connection moves
// between stacks: from there on that transport has the socket, and Close is called there.
func SetTransport(s *Socket, t Transport, c Conn) {
	if s.readable() {
		s.setTransport(t, c)
	}
}

// SetLocal gives the socket its local address, which its transport chooses when the socket is on its ring. For drivers, in Attach.
func SetLocal(s *Socket, local netip.AddrPort) {
	if s.readable() {
		s.setLocal(local)
	}
}

func (s *Socket) setTransport(t Transport, c Conn) {
	s.via, s.handle.Conn = s.makerSet().addTransport(t), c
}

// TransportOf is what carries the socket's bytes. For drivers. Owner only.
func TransportOf(s *Socket) Transport {
	if !s.readable() || int(s.via) >= len(s.makerSet().transports) {
		return nil
	}
	return s.transport()
}

// Family is the kind of the socket's addresses. Any goroutine.
func (s *Socket) Family() Family { return s.family }
