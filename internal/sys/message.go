package sys

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ControlLen is the room for the control messages a receiving socket here can ask for: IP_PKTINFO or IPV6_PKTINFO and one
// SCM_TIMESTAMPNS and one SCM_TIMESTAMPING.
const ControlLen = 136

// MaxVector is how many pieces one vectored message here carries.
const MaxVector = 64

// Message is a msghdr with the memory it points to, made once and used again: recvmsg and sendmsg without allocation. It must
// not be copied after Init, its pointers lead into itself.
type Message struct {
	hdr     unix.Msghdr
	iov     [MaxVector]unix.Iovec
	name    [SockaddrLen]byte
	control [ControlLen]byte
}

// Recv receives one datagram into b with its source and control messages; flags are those the kernel set (MSG_TRUNC …).
func (m *Message) Recv(fd int, b []byte) (n int, e syscall.Errno) {
	m.iov[0].Base = unsafe.SliceData(b)
	m.iov[0].SetLen(len(b))
	m.hdr.Name = &m.name[0]
	m.hdr.Namelen = SockaddrLen
	m.hdr.Iov = &m.iov[0]
	m.hdr.SetIovlen(1)
	m.hdr.Control = &m.control[0]
	m.hdr.SetControllen(ControlLen)
	m.hdr.Flags = 0
	r, _, e := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.hdr)), unix.MSG_DONTWAIT)
	if e != 0 {
		return 0, e
	}
	return int(r), 0
}

// RecvFrom receives one datagram into b, as Recv does but without control messages: a recvfrom(2), which copies no msghdr.
func (m *Message) RecvFrom(fd int, b []byte) (n int, e syscall.Errno) {
	m.hdr.Namelen = SockaddrLen
	// MSG_TRUNC makes the answer the datagram's whole length, so that one that was cut is recognised without the msghdr's flags.
	r, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_TRUNC, uintptr(unsafe.Pointer(&m.name)), uintptr(unsafe.Pointer(&m.hdr.Namelen)))
	if e != 0 {
		return 0, e
	}
	m.hdr.Flags = 0
	m.hdr.SetControllen(0)
	if n = int(r); n > len(b) {
		n, m.hdr.Flags = len(b), unix.MSG_TRUNC
	}
	return n, 0
}

// Source is the sender of the datagram last received.
func (m *Message) Source() netip.AddrPort {
	return ParseSockaddr(m.name[:min(m.hdr.Namelen, SockaddrLen)])
}

// Truncated reports that the datagram last received was longer than the memory it was given.
func (m *Message) Truncated() bool { return m.hdr.Flags&unix.MSG_TRUNC != 0 }

// Control is the control messages of the datagram last received.
func (m *Message) Control() []byte { return m.control[:min(int(m.hdr.Controllen), ControlLen)] }

// Sendv sends the pieces of bufs (at most MaxVector of them) as one message, to the address to, or to the connected peer if it is nil. It clears
// the pointers to the pieces afterwards, so that m does not keep the caller's memory from being collected.
func (m *Message) Sendv(fd int, bufs [][]byte, to *Sockaddr) (int, syscall.Errno) {
	k, total := min(len(bufs), MaxVector), 0
	for i := range k {
		total += len(bufs[i])
		m.iov[i].Base = unsafe.SliceData(bufs[i])
		m.iov[i].SetLen(len(bufs[i]))
	}
	m.hdr = unix.Msghdr{Iov: &m.iov[0]}
	m.hdr.SetIovlen(k)
	if to != nil {
		m.name = to.raw
		m.hdr.Name = &m.name[0]
		m.hdr.Namelen = to.n
	}
	var r uintptr
	var e syscall.Errno
	if total <= rawSendBytes {
		r, _, e = syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.hdr)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	} else {
		r, _, e = syscall.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.hdr)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	}
	clear(m.iov[:k])
	if e != 0 {
		return 0, e
	}
	return int(r), 0
}

// ControlInfo is what the control messages of a datagram say.
type ControlInfo struct {
	Destination netip.Addr // of IP_PKTINFO or IPV6_PKTINFO; zero when absent
	IfIndex     uint32     // interface the datagram came in on; 0 when absent
	Stamp       int64      // the kernel's stamp, nanoseconds since the epoch; 0 when absent
	Hardware    int64      // the card's stamp, nanoseconds of the card's clock; 0 when absent
}

// ParseControl reads the control messages the library's sockets ask for and ignores others. It never reads past b.
func ParseControl(b []byte) (c ControlInfo) {
	for {
		h, data, rest, ok := nextControl(b)
		if !ok {
			return c
		}
		b = rest
		switch {
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
			c.IfIndex = binary.NativeEndian.Uint32(data)
			c.Destination = netip.AddrFrom4([4]byte(data[8:12])) // ipi_addr: the header's destination
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
			c.Destination = netip.AddrFrom16([16]byte(data[:16])).Unmap()
			c.IfIndex = binary.NativeEndian.Uint32(data[16:])
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPNS && len(data) >= timespecLen:
			c.Stamp = timespec(data)
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPING && len(data) >= timestampingLen:
			software, hardware := timestamping(data)
			if c.Hardware = hardware; c.Stamp == 0 {
				c.Stamp = software
			}
		}
	}
}

// nextControl splits the first control message off b; ok is false when no whole one is left.
func nextControl(b []byte) (h *unix.Cmsghdr, data, rest []byte, ok bool) {
	const header = unix.SizeofCmsghdr
	if len(b) < header {
		return nil, nil, nil, false
	}
	h = (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(b)))
	n := int(h.Len)
	if n < header || n > len(b) {
		return nil, nil, nil, false
	}
	next := min((n+7)&^7, len(b)) // CMSG_ALIGN
	return h, b[header:n], b[next:], true
}

const (
	timespecLen     = 16
	timestampingLen = 3 * timespecLen // struct scm_timestamping: software, nothing, raw hardware
)

// timespec reads a struct timespec as nanoseconds.
func timespec(b []byte) int64 {
	return int64(binary.NativeEndian.Uint64(b))*1e9 + int64(binary.NativeEndian.Uint64(b[8:]))
}

// timestamping reads the two stamps of a struct scm_timestamping, in nanoseconds; 0 means none.
func timestamping(b []byte) (software, hardware int64) {
	return timespec(b), timespec(b[2*timespecLen:])
}
