package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RecvFrom receives one datagram into b, as Recv does but without control messages: a recvfrom(2), which copies no msghdr.
func (m *Message) RecvFrom(fd int, b []byte) (n int, e syscall.Errno) {
	m.hdr.Namelen = SockaddrLen
	// MSG_TRUNC makes the answer the datagram's whole length, so that one that was cut can be told without the msghdr's flags.
	r, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_TRUNC, uintptr(unsafe.Pointer(&m.name)), uintptr(unsafe.Pointer(&m.hdr.Namelen)))
	if e != 0 {
		return 0, e
	}
	m.hdr.Flags = 0
	if n = int(r); n > len(b) {
		n, m.hdr.Flags = len(b), unix.MSG_TRUNC
	}
	return n, 0
}
