package ring

import (
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// Foreign is a socket that was made elsewhere, as Inspect found it.
type Foreign struct {
	FD   int
	Kind SocketKind
	Unix bool // a unix-domain stream or listener

	family        int
	protocol      int
	local, remote netip.AddrPort
	names         *unixEnd
	shut          bool // its write side was shut down
}

// String is the kind in words: "TCP", "TCP listener", "UDP", "unix", "unix listener".
func (f Foreign) String() string { return kindOf(f.Kind, f.Unix) }

// Inspect finds out what kind of socket a descriptor is and whether Adopt can take it over; it changes nothing. Errors name the
// descriptor and what it is: not open (EBADF), not a socket (ENOTSOCK), a stream that is not connected or still connecting
// (ENOTCONN), and what no ring carries (ErrNotSupported): seqpacket and raw sockets, unix datagrams, other families and protocols,
// UDP sockets with UDP_GRO on. A connection that has failed already is a connection: its error is delivered. Any goroutine.
func Inspect(fd int) (Foreign, error) {
	f := Foreign{FD: fd}
	if err := f.inspect(); err != nil {
		return Foreign{}, f.failed(err)
	}
	return f, nil
}

func (f *Foreign) inspect() error {
	var typ, listening int
	for _, o := range []struct {
		option int
		value  *int
	}{{unix.SO_TYPE, &typ}, {unix.SO_DOMAIN, &f.family}, {unix.SO_PROTOCOL, &f.protocol}, {unix.SO_ACCEPTCONN, &listening}} {
		v, err := unix.GetsockoptInt(f.FD, unix.SOL_SOCKET, o.option)
		if err != nil {
			return err
		}
		*o.value = v
	}
	f.Unix = f.family == unix.AF_UNIX
	f.Kind = Stream
	switch {
	case f.family != unix.AF_INET && f.family != unix.AF_INET6 && !f.Unix:
		return fmt.Errorf("address family %d: %w", f.family, ErrNotSupported)
	case typ == unix.SOCK_STREAM && (f.Unix || f.protocol == unix.IPPROTO_TCP || f.protocol == unix.IPPROTO_MPTCP):
		if listening != 0 {
			f.Kind = Listener
		}
	case typ == unix.SOCK_DGRAM && !f.Unix && f.protocol == unix.IPPROTO_UDP:
		f.Kind = Datagram
	default:
		return fmt.Errorf("%s socket of address family %d, protocol %d: %w", typeName(typ), f.family, f.protocol, ErrNotSupported)
	}
	if err := f.ends(); err != nil {
		return err
	}
	return f.peculiar()
}

// ends finds the addresses, and whether a stream is connected.
func (f *Foreign) ends() error {
	var e syscall.Errno
	if f.Unix {
		f.names = &unixEnd{}
		f.names.local, _ = sys.UnixSockName(f.FD)
		if f.Kind == Listener {
			return nil
		}
		f.names.remote, e = sys.UnixPeerName(f.FD)
	} else {
		f.local = sys.SockName(f.FD)
		if f.Kind == Listener {
			return nil
		}
		f.remote, e = sys.Peer(f.FD)
	}
	switch {
	case e == 0 || f.Kind == Datagram:
		return nil
	case e == unix.ENOTCONN && f.ended():
		if !f.Unix {
			f.remote = sys.PeerName(f.FD)
		}
		return nil
	}
	return fmt.Errorf("%v stream: %w", f, e)
}

// ended tells whether a stream without a peer is one that had a peer: it has an error to tell, or the end of the stream.
func (f *Foreign) ended() bool {
	p := []unix.PollFd{{Fd: int32(f.FD), Events: unix.POLLRDHUP}}
	if _, err := unix.Poll(p, 0); err != nil {
		return false
	}
	return p[0].Revents&(unix.POLLERR|unix.POLLRDHUP) != 0
}

// peculiar looks for what was done to the socket that changes what it delivers.
func (f *Foreign) peculiar() error {
	switch {
	case f.Kind == Datagram:
		if on, err := unix.GetsockoptInt(f.FD, unix.IPPROTO_UDP, unix.UDP_GRO); err == nil && on != 0 {
			return fmt.Errorf("UDP_GRO is on, which runs datagrams together: %w", ErrNotSupported)
		}
	case f.Kind == Stream && !f.Unix:
		info, err := unix.GetsockoptTCPInfo(f.FD, unix.IPPROTO_TCP, unix.TCP_INFO)
		switch {
		case err != nil && f.protocol == unix.IPPROTO_MPTCP:
			return nil // before Linux 5.16 they do not tell: sending then finds out
		case err != nil:
			return fmt.Errorf("TCP_INFO: %w", err)
		}
		const finWait1, finWait2, lastAck, closing = 4, 5, 9, 11 // include/net/tcp_states.h
		switch info.State {
		case finWait1, finWait2, lastAck, closing:
			f.shut = true
		}
	}
	return nil
}

func typeName(typ int) string {
	switch typ {
	case unix.SOCK_STREAM:
		return "stream"
	case unix.SOCK_DGRAM:
		return "datagram"
	case unix.SOCK_RAW:
		return "raw"
	case unix.SOCK_SEQPACKET:
		return "seqpacket"
	}
	return "type " + itoa(typ)
}

// Adopt takes over a socket that was made elsewhere: by another owner (Config.AcceptTo), by package net, by the process that started
// this one. prepare, which may be nil, sets options before the socket is read.
//
// On success the descriptor is the socket's, Close closes it, and nobody else may: a program that has it from an *os.File or a
// net.Conn duplicates it first, because the finalizer of either would close it. It becomes non-blocking and close-on-exec, which
// the first of holds for its duplicates too; SO_LINGER becomes SetLinger's equivalent, because close(2) would wait for it. On an
// error the descriptor is the caller's, and as it was but for options that prepare set.
//
// No completion announces the socket. What waits in the kernel comes as any other packet does, an error that is pending and the
// peer's FIN as on sockets of the ring's own. A UDP socket that is neither bound nor connected has no ring before it is.
// Owner only, or anyone before the first Poll.
func (set *Set) Adopt(f Foreign, c Config, prepare func(*Socket) error) (*Socket, error) {
	if err := set.BeginCall(); err != nil {
		return nil, f.failed(err)
	}
	if set.config.Network != nil {
		return nil, f.failed(&FeatureError{Feature: "a descriptor of the kernel's, where the sockets are not", Code: "offload.no_kernel"})
	}
	if f.family == 0 {
		return nil, badArgument("adopt", "socket that was not inspected:", f.FD)
	}
	if err := c.complete(set.config.Pool); err != nil {
		return nil, err
	}
	// Zero-copy sends are TCP's and UDP's (SOCK_SUPPORT_ZC).
	h := Handle{FD: f.FD, Kind: f.Kind, Copies: f.Unix || f.protocol == unix.IPPROTO_MPTCP, Foreign: true}
	s := set.newSocket(h, f.family, c)
	s.local, s.remote, s.unix = f.local, f.remote, f.names
	s.publish()
	s.shutWrite, s.writeShut = f.shut, f.shut
	if !f.Unix {
		s.device, _ = unix.GetsockoptInt(f.FD, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX) // before Linux 5.1: by its address
	}
	undo, err := s.takeOver()
	back := func() {
		delete(set.bare, s) // the descriptor is the caller's again
		undo()
	}
	if err != nil {
		back()
		return nil, f.failed(err)
	}
	if prepare != nil {
		err = prepare(s)
	}
	if err == nil && f.Kind == Datagram {
		err = s.askPacketInfo(s.local.Addr())
	}
	if err != nil {
		back()
		return nil, err // they say which option it was
	}
	if err := s.goLive(); err != nil {
		back()
		return nil, f.failed(err)
	}
	return s, nil
}

func (f *Foreign) failed(err error) error {
	return &OpError{Op: "adopt", Err: fmt.Errorf("descriptor %d: %w", f.FD, err)}
}

// takeOver makes the descriptor what a ring's is; undo makes it what it was.
func (s *Socket) takeOver() (undo func(), err error) {
	fd := s.handle.FD
	status, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return func() {}, err
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil {
		return func() {}, err
	}
	linger := &unix.Linger{}
	if s.handle.Kind != Datagram && !s.Unix() {
		if linger, err = unix.GetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER); err != nil {
			return func() {}, err
		}
	}
	undo = func() {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, status)
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, flags)
		if linger.Onoff != 0 {
			_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, linger)
		}
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, status|unix.O_NONBLOCK); err != nil {
		return undo, err
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, flags|unix.FD_CLOEXEC); err != nil {
		return undo, err
	}
	if linger.Onoff != 0 {
		s.linger = seconds(linger.Linger)
		err = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
	}
	return undo, err
}

// goLive gives an adopted socket its ring and begins to read it.
func (s *Socket) goLive() error {
	if s.handle.Kind == Datagram && s.local.Port() == 0 && !s.remote.IsValid() {
		s.local = netip.AddrPort{} // neither bound nor connected: as NewSocket makes it
		s.publish()
		return nil
	}
	if err := s.join(); err != nil {
		return err
	}
	r := s.ring
	if err := r.drv.Receive(s, true); err != nil {
		r.drv.Detach(s) // nothing is armed, so it lets go at once
		r.pool.CloseAccount(s.handle.Account)
		s.closeOutlet()
		s.forget()
		s.setRing(nil)
		return err
	}
	s.stops = 0
	s.touched = true
	s.state = stateOpen
	if s.handle.Kind == Listener {
		s.state = stateListening
		r.listeners = append(r.listeners, s)
	}
	return nil
}
