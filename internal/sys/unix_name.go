package sys

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// UnixSockName is the name a unix-domain socket is bound to: a path, or "@" and the rest of an abstract name; "" when it has none.
func UnixSockName(fd int) (string, syscall.Errno) { return unixName(unix.SYS_GETSOCKNAME, fd) }

// UnixPeerName is the name of a unix-domain socket's peer, as UnixSockName has it; ENOTCONN when it has no peer.
func UnixPeerName(fd int) (string, syscall.Errno) { return unixName(unix.SYS_GETPEERNAME, fd) }

// unixName makes the system call getsockname or getpeername of a unix-domain socket.
func unixName(call uintptr, fd int) (string, syscall.Errno) {
	var a unix.RawSockaddrUnix
	n := uint32(unsafe.Sizeof(a))
	_, _, e := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&a)), uintptr(unsafe.Pointer(&n)))
	if e != 0 {
		return "", e
	}
	return ParseUnixName((*[unsafe.Sizeof(a)]byte)(unsafe.Pointer(&a))[:min(uintptr(n), unsafe.Sizeof(a))]), 0
}

// ParseUnixName decodes a struct sockaddr_un as the kernel filled it in; b is as long as the kernel says (unix(7): that length, and
// not a NUL, ends an abstract name).
func ParseUnixName(b []byte) string {
	const family = 2 // bytes of sun_family
	if len(b) <= family {
		return "" // unnamed
	}
	path := b[family:]
	if path[0] == 0 {
		return "@" + string(path[1:])
	}
	for i, c := range path {
		if c == 0 {
			return string(path[:i])
		}
	}
	return string(path)
}

// Peer returns the address of a socket's peer, or the errno of getpeername(2) if it has none.
func Peer(fd int) (netip.AddrPort, syscall.Errno) {
	var a Sockaddr
	a.n = SockaddrLen
	_, _, e := syscall.RawSyscall(unix.SYS_GETPEERNAME, uintptr(fd), uintptr(unsafe.Pointer(&a.raw)), uintptr(unsafe.Pointer(&a.n)))
	if e != 0 {
		return netip.AddrPort{}, e
	}
	return ParseSockaddr(a.raw[:min(a.n, SockaddrLen)]), 0
}

// DiscardUnix discards what is in the receive queue of a unix-domain stream, at most about max bytes, and returns how many. Discard cannot do
// that, because MSG_TRUNC has no effect on these sockets: the data is copied out.
func DiscardUnix(fd, max int) (n int, e syscall.Errno) {
	var b [4096]byte
	for n < max {
		k, e := Recv(fd, b[:], 0)
		if k <= 0 || e != 0 {
			return n, e
		}
		n += k
	}
	return n, 0
}
