package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// msgProbe is MSG_PROBE of linux/socket.h, which x/sys/unix does not name.
const msgProbe = 0x10

// Probe walks the first part of sending b from a datagram socket, to an address or to the connected peer (nil): system call, checks,
// route, and the route's place in the socket. MSG_PROBE makes the kernel stop before a packet is built (ip_make_skb and ip6_make_skb
// in net/ipv4/ip_output.c and net/ipv6/ip6_output.c). TCP does not know the flag and would send: datagram sockets only. MSG_CONFIRM is
// not set beside it: that would report a neighbour that has sent nothing.
func Probe(fd int, b []byte, to *Sockaddr) syscall.Errno {
	var name unsafe.Pointer
	var n uintptr
	if to != nil {
		name, n = unsafe.Pointer(&to.raw), uintptr(to.n)
	}
	_, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(bytesPointer(b)), uintptr(len(b)),
		msgProbe|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, uintptr(name), n)
	return e
}
