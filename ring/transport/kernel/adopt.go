package kernel

import (
	"fmt"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// found is a descriptor that is being inspected.
type found struct {
	ring.Adopted
	fd       int
	domain   int
	protocol int
}

// Inspect finds out what kind of socket a descriptor is and whether ring.Set.Adopt can take it over; it changes nothing. Errors name the
// descriptor and what it is: not open (EBADF), not a socket (ENOTSOCK), a stream that is not connected or still connecting
// (ENOTCONN), and what no ring carries (ErrNotSupported): seqpacket and raw sockets, unix datagrams, other families and protocols,
// UDP sockets with UDP_GRO on. A connection that has failed already is a connection: its error is delivered. Any goroutine.
func Inspect(fd int) (ring.Adopted, error) {
	f := found{fd: fd}
	f.Conn = ring.Conn(fd)
	if err := f.inspect(); err != nil {
		return ring.Adopted{}, &ring.OpError{Op: "adopt", Err: fmt.Errorf("descriptor %d: %w", fd, err)}
	}
	// Zero-copy sends are TCP's and UDP's (SOCK_SUPPORT_ZC).
	f.Copies = f.domain == unix.AF_UNIX || f.protocol == unix.IPPROTO_MPTCP
	if f.domain != unix.AF_UNIX {
		f.Device, _ = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX) // before Linux 5.1: by its address
	}
	return f.Adopted, nil
}

// inspect fills in kind, family and addresses; an error if no ring carries such a socket.
func (f *found) inspect() error {
	var typ, listening int
	for _, o := range []struct {
		option int
		value  *int
	}{{unix.SO_TYPE, &typ}, {unix.SO_DOMAIN, &f.domain}, {unix.SO_PROTOCOL, &f.protocol}, {unix.SO_ACCEPTCONN, &listening}} {
		v, err := unix.GetsockoptInt(f.fd, unix.SOL_SOCKET, o.option)
		if err != nil {
			return err
		}
		*o.value = v
	}
	local := f.domain == unix.AF_UNIX
	switch f.domain {
	case unix.AF_INET:
		f.Family = ring.IPv4
	case unix.AF_INET6:
		f.Family = ring.IPv6
	case unix.AF_UNIX:
		f.Family = ring.UnixDomain
	default:
		return fmt.Errorf("address family %d: %w", f.domain, ring.ErrNotSupported)
	}
	f.Kind = ring.KindStream
	switch {
	case typ == unix.SOCK_STREAM && (local || f.protocol == unix.IPPROTO_TCP || f.protocol == unix.IPPROTO_MPTCP):
		if listening != 0 {
			f.Kind = ring.KindListener
		}
	case typ == unix.SOCK_DGRAM && !local && f.protocol == unix.IPPROTO_UDP:
		f.Kind = ring.KindDatagram
	default:
		return fmt.Errorf("%s socket of address family %d, protocol %d: %w", typeName(typ), f.domain, f.protocol, ring.ErrNotSupported)
	}
	if err := f.findAddresses(); err != nil {
		return err
	}
	return f.checkState()
}

// findAddresses fills in the addresses or names; ENOTCONN for a stream that is not and was not connected.
func (f *found) findAddresses() error {
	var e syscall.Errno
	if f.Family == ring.UnixDomain {
		f.LocalName, _ = sys.UnixSockName(f.fd)
		if f.Kind == ring.KindListener {
			return nil
		}
		f.RemoteName, e = sys.UnixPeerName(f.fd)
	} else {
		f.Local = sys.SockName(f.fd)
		if f.Kind == ring.KindListener {
			return nil
		}
		f.Remote, e = sys.Peer(f.fd)
	}
	switch {
	case e == 0 || f.Kind == ring.KindDatagram:
		return nil
	case e == unix.ENOTCONN && f.hadPeer():
		if f.Family != ring.UnixDomain {
			f.Remote = sys.PeerName(f.fd) // by SO_PEERNAME, which still tells the peer of a connection that has ended
		}
		return nil
	}
	return fmt.Errorf("%v stream: %w", f.Adopted, e)
}

// hadPeer reports whether a stream without a peer was connected before: it has an error or the end of the stream to report.
func (f *found) hadPeer() bool {
	p := []unix.PollFd{{Fd: int32(f.fd), Events: unix.POLLRDHUP}}
	if _, err := unix.Poll(p, 0); err != nil {
		return false
	}
	return p[0].Revents&(unix.POLLERR|unix.POLLRDHUP) != 0
}

// checkState refuses a socket whose options change what it delivers, and notes whether a connection's write side was shut down.
func (f *found) checkState() error {
	switch {
	case f.Kind == ring.KindDatagram:
		if on, err := unix.GetsockoptInt(f.fd, unix.IPPROTO_UDP, unix.UDP_GRO); err == nil && on != 0 {
			return fmt.Errorf("UDP_GRO is on, which runs datagrams together: %w", ring.ErrNotSupported)
		}
	case f.Kind == ring.KindStream && f.Family != ring.UnixDomain:
		info, err := unix.GetsockoptTCPInfo(f.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		switch {
		case err != nil && f.protocol == unix.IPPROTO_MPTCP:
			return nil // before Linux 5.16 they do not tell: sending then finds out
		case err != nil:
			return fmt.Errorf("TCP_INFO: %w", err)
		}
		const finWait1, finWait2, lastAck, closing = 4, 5, 9, 11 // include/net/tcp_states.h
		switch info.State {
		case finWait1, finWait2, lastAck, closing:
			f.WriteClosed = true
		}
	}
	return nil
}

// typeName is a socket type in words, for errors.
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
	return "type " + strconv.Itoa(typ)
}

// TakeOver makes the descriptor non-blocking and close-on-exec. SO_LINGER, for which close(2) would wait, becomes the socket's linger. A
// descriptor that a socket has already is an error that wraps EEXIST.
func (t *Transport) TakeOver(s *ring.Socket) (linger time.Duration, undo func(), err error) {
	fd, undo := FD(s), func() {}
	if !socketDescriptors.add(fd) {
		return -1, undo, fmt.Errorf("a socket of this process has it already: %w", unix.EEXIST)
	}
	undo = func() { socketDescriptors.remove(fd) }
	status, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return -1, undo, err
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil {
		return -1, undo, err
	}
	was := &unix.Linger{}
	if ring.HandleOf(s).Kind != ring.KindDatagram && !s.Unix() {
		if was, err = unix.GetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER); err != nil {
			return -1, undo, err
		}
	}
	undo = func() {
		socketDescriptors.remove(fd)
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, status)
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, flags)
		if was.Onoff != 0 {
			_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, was)
		}
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, status|unix.O_NONBLOCK); err != nil {
		return -1, undo, err
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, flags|unix.FD_CLOEXEC); err != nil {
		return -1, undo, err
	}
	if was.Onoff == 0 {
		return -1, undo, nil
	}
	return time.Duration(was.Linger) * time.Second, undo, unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
}

// Ready asks for what the socket's Config wants to know of each datagram.
func (t *Transport) Ready(s *ring.Socket) error {
	if ring.HandleOf(s).Kind != ring.KindDatagram {
		return nil
	}
	return t.askControl(s, s.LocalAddr().Addr())
}
