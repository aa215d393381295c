package sys

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below cannot block, because every descriptor here is non-blocking. They use RawSyscall, which saves about 50 ns a call against
// unix.Sendto and the like, because the Go scheduler does not learn of the call. A call that may sleep must not be made this way. Nor may one
// that takes long, because a garbage collection, which must stop all goroutines, waits for it: sends of more than rawSendBytes use Syscall.
// Receives copy one buffer at most, 64 KiB.

// rawSendBytes is how much a send by RawSyscall copies at most: some ten microseconds.
const rawSendBytes = 64 << 10

// Send copies b into the socket's send queue; flags as for send(2), MSG_DONTWAIT and MSG_NOSIGNAL are added.
func Send(fd int, b []byte, flags int) (int, syscall.Errno) {
	if len(b) > rawSendBytes {
		n, _, e := syscall.Syscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(bytesPointer(b)), uintptr(len(b)),
			uintptr(flags|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL), 0, 0)
		if e != 0 {
			return 0, e
		}
		return int(n), 0
	}
	n, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(bytesPointer(b)), uintptr(len(b)),
		uintptr(flags|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL), 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// SendTo is Send to an address.
func SendTo(fd int, b []byte, to *Sockaddr) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(bytesPointer(b)), uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, uintptr(unsafe.Pointer(&to.raw)), uintptr(to.n))
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// Recv reads into b; MSG_DONTWAIT is added.
func Recv(fd int, b []byte, flags int) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(bytesPointer(b)), uintptr(len(b)),
		uintptr(flags|unix.MSG_DONTWAIT), 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// Discard throws away what the stream socket's receive queue holds, at most max bytes (MSG_TRUNC copies nothing on TCP).
func Discard(fd, max int) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), 0, uintptr(max), unix.MSG_DONTWAIT|unix.MSG_TRUNC, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// Accept takes one connection off the listener's queue, non-blocking and close-on-exec.
func Accept(fd int) (int, netip.AddrPort, syscall.Errno) {
	var peer Sockaddr
	peer.n = SockaddrLen
	n, _, e := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(&peer.raw)),
		uintptr(unsafe.Pointer(&peer.n)), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	if e != 0 {
		return -1, netip.AddrPort{}, e
	}
	return int(n), ParseSockaddr(peer.raw[:min(peer.n, SockaddrLen)]), 0
}

// Connect starts a connection (EINPROGRESS is the usual answer of a TCP socket).
func Connect(fd int, to *Sockaddr) syscall.Errno {
	_, _, e := syscall.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&to.raw)), uintptr(to.n))
	return e
}

// Bind binds the socket to a local address.
func Bind(fd int, to *Sockaddr) syscall.Errno {
	_, _, e := syscall.RawSyscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&to.raw)), uintptr(to.n))
	return e
}

// PeerName returns the address of a socket's peer; the zero AddrPort if it has none. For a stream that was reset getpeername(2) fails with
// ENOTCONN, and SO_PEERNAME still returns the peer.
func PeerName(fd int) netip.AddrPort {
	if a := name(unix.SYS_GETPEERNAME, fd); a.IsValid() {
		return a
	}
	var a Sockaddr
	for _, size := range [...]uint32{unix.SizeofSockaddrInet6, unix.SizeofSockaddrInet4} { // a size larger than the address is EINVAL
		a.n = size
		_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERNAME,
			uintptr(unsafe.Pointer(&a.raw)), uintptr(unsafe.Pointer(&a.n)), 0)
		if e == 0 {
			return ParseSockaddr(a.raw[:min(a.n, size)])
		}
	}
	return netip.AddrPort{}
}

// SockName is the local address of the socket.
func SockName(fd int) netip.AddrPort { return name(unix.SYS_GETSOCKNAME, fd) }

// name makes the system call getsockname or getpeername; the zero AddrPort if it fails.
func name(call uintptr, fd int) netip.AddrPort {
	var a Sockaddr
	a.n = SockaddrLen
	_, _, e := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&a.raw)), uintptr(unsafe.Pointer(&a.n)))
	if e != 0 {
		return netip.AddrPort{}
	}
	return ParseSockaddr(a.raw[:min(a.n, SockaddrLen)])
}

// SocketError reads and clears SO_ERROR.
func SocketError(fd int) syscall.Errno {
	v, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		if e, ok := err.(syscall.Errno); ok {
			return e
		}
		return unix.EIO
	}
	return syscall.Errno(v)
}

// Drops returns how many datagrams the kernel dropped at this socket (SO_MEMINFO, SK_MEMINFO_DROPS): read on demand, so that the
// receive path need not carry SO_RXQ_OVFL control messages.
func Drops(fd int) (uint32, error) {
	var mem [9]uint32
	n := uint32(unsafe.Sizeof(mem))
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&mem)), uintptr(unsafe.Pointer(&n)), 0)
	if e != 0 {
		return 0, e
	}
	const skMeminfoDrops = 8 // linux/sock_diag.h
	return mem[skMeminfoDrops], nil
}

// Retransmits is how many segments the kernel has sent again on a TCP socket. Unlike unix.GetsockoptTCPInfo it does not allocate.
func Retransmits(fd int) (uint32, error) {
	var info unix.TCPInfo
	n := uint32(unsafe.Offsetof(info.Total_retrans) + unsafe.Sizeof(info.Total_retrans)) // what is behind it the kernel leaves out
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_INFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&n)), 0)
	if e != 0 {
		return 0, e
	}
	return info.Total_retrans, nil
}

// bytesPointer returns the address of b's memory for a system call.
func bytesPointer(b []byte) unsafe.Pointer {
	// A nil pointer with length 0 is a legal empty message; &b[0] would panic.
	return unsafe.Pointer(unsafe.SliceData(b))
}

// SetReset makes the coming close(2) of a TCP socket send a reset instead of FIN (SO_LINGER with time 0).
func SetReset(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// Reset closes a TCP socket with a reset.
func Reset(fd int) {
	SetReset(fd)
	_ = unix.Close(fd)
}
