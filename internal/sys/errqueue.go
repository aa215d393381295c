package sys

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrorQueue reads a datagram socket's error queue without allocation. It must not be copied after the first Next: its pointers lead
// into itself.
type ErrorQueue struct {
	hdr     unix.Msghdr
	control [errorControlLen]byte
}

// errorControlLen is room for SCM_TIMESTAMPING, IP_RECVERR or IPV6_RECVERR with an address, and packet info.
const errorControlLen = 256

// TransmitStamp is when a datagram left.
type TransmitStamp struct {
	ID       uint32 // which one: they are counted from 0 on since SOF_TIMESTAMPING_OPT_ID was set
	Software int64  // nanoseconds of CLOCK_REALTIME; 0: none
	Hardware int64  // nanoseconds of the card's clock; 0: none
}

// Next takes one message off the error queue; EAGAIN when it is empty. ok is false for a message that is no transmit stamp.
func (q *ErrorQueue) Next(fd int) (s TransmitStamp, ok bool, e syscall.Errno) {
	q.hdr = unix.Msghdr{Control: &q.control[0]}
	q.hdr.SetControllen(len(q.control))
	_, _, e = syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&q.hdr)), unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if e != 0 {
		return s, false, e
	}
	s, ok = ParseTransmitStamp(q.control[:min(int(q.hdr.Controllen), len(q.control))])
	return s, ok, 0
}

// ParseTransmitStamp reads the control messages of an error queue's message. It never reads past b.
func ParseTransmitStamp(b []byte) (s TransmitStamp, ok bool) {
	const (
		extendedErr    = 16 // struct sock_extended_err of linux/errqueue.h
		originStamping = 4  // SO_EE_ORIGIN_TIMESTAMPING
		stampSend      = 0  // SCM_TSTAMP_SND
	)
	var stamped, numbered bool
	for {
		h, data, rest, more := nextControl(b)
		if !more {
			return s, stamped && numbered
		}
		b = rest
		switch {
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPING && len(data) >= timestampingLen:
			s.Software, s.Hardware = timestamping(data)
			stamped = s.Software != 0 || s.Hardware != 0
		case (h.Level == unix.IPPROTO_IP && h.Type == unix.IP_RECVERR || h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_RECVERR) &&
			len(data) >= extendedErr:
			numbered = data[4] == originStamping && binary.NativeEndian.Uint32(data[8:]) == stampSend
			s.ID = binary.NativeEndian.Uint32(data[12:])
		}
	}
}
