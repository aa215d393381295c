package sys

import (
	"syscall"
	"time"
	"unsafe"
)

// uringMsghdr is struct msghdr without Go pointers: it lives outside the Go heap and points only there (or, under the race
// detector, to heap memory that its owner keeps).
type uringMsghdr struct {
	name       uintptr
	namelen    uint32
	iov        uintptr
	iovlen     uintptr
	control    uintptr
	controllen uintptr
	flags      int32
}

type uringIovec struct{ base, len uintptr }

type uringMessage struct {
	hdr  uringMsghdr
	name [SockaddrLen]byte
	iov  [MaxVector]uringIovec
}

// uringFixed is what a ring needs once.
type uringFixed struct {
	receive uringMsghdr
	timeout uringTimespec
	limit   uringTimespec
	wait    uringGetEventsArg
}

// UringScratch is memory outside the Go heap for what submissions point to: one message for each entry of the submission queue,
// because the kernel has read it when it has consumed the entry (IORING_FEAT_SUBMIT_STABLE). Owner only.
type UringScratch struct {
	m        mapping
	fixed    *uringFixed
	messages []uringMessage
}

// newUringScratch makes room for the messages of n submissions.
func newUringScratch(n int) (*UringScratch, error) {
	first := (unsafe.Sizeof(uringFixed{}) + 63) &^ 63
	m, err := mapMemory(int(first)+n*int(unsafe.Sizeof(uringMessage{})), pageSize)
	if err != nil {
		return nil, err
	}
	s := &UringScratch{m: m, fixed: (*uringFixed)(m.start)}
	s.messages = unsafe.Slice((*uringMessage)(unsafe.Add(m.start, first)), n)
	return s, nil
}

func (s *UringScratch) close() error { return s.m.unmap() }

// Message begins the message of submission entry i.
func (s *UringScratch) Message(i uint32) *UringMessage {
	m := &s.messages[i]
	m.hdr = uringMsghdr{iov: uintptr(unsafe.Pointer(&m.iov))}
	return (*UringMessage)(m)
}

// UringMessage is a message being put together.
type UringMessage uringMessage

// Add appends a piece; false when MaxVector pieces are there already. b must stay where it is until the operation is done.
func (m *UringMessage) Add(b []byte) bool {
	if m.hdr.iovlen == MaxVector {
		return false
	}
	m.iov[m.hdr.iovlen] = uringIovec{uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b))}
	m.hdr.iovlen++
	return true
}

// SetName gives the message a destination.
func (m *UringMessage) SetName(a *Sockaddr) {
	m.name = a.raw
	m.hdr.name, m.hdr.namelen = uintptr(unsafe.Pointer(&m.name)), a.n
}

// Addr is what SQE.Addr takes.
func (m *UringMessage) Addr() uint64 { return uint64(uintptr(unsafe.Pointer(&m.hdr))) }

// ReceiveHeader is the message header that all multishot receives of the ring share: it only says how much room source address
// and control messages have in each buffer. Its address is what SQE.Addr takes.
func (s *UringScratch) ReceiveHeader(nameLen, controlLen int) uint64 {
	s.fixed.receive = uringMsghdr{namelen: uint32(nameLen), controllen: uintptr(controlLen)}
	return uint64(uintptr(unsafe.Pointer(&s.fixed.receive)))
}

// Timeout sets the time of a timeout operation that is submitted before the next call; what SQE.Addr takes.
func (s *UringScratch) Timeout(d time.Duration) uint64 {
	s.fixed.timeout.set(d)
	return uint64(uintptr(unsafe.Pointer(&s.fixed.timeout)))
}

func (t *uringTimespec) set(d time.Duration) {
	d = max(d, 0)
	t.sec, t.nsec = int64(d/time.Second), int64(d%time.Second)
}

// waitArg is the last argument of a waiting io_uring_enter; negative means without limit.
func (s *UringScratch) waitArg(limit time.Duration) uintptr {
	s.fixed.wait.ts = 0
	if limit >= 0 {
		s.fixed.limit.set(limit)
		s.fixed.wait.ts = uint64(uintptr(unsafe.Pointer(&s.fixed.limit)))
	}
	return uintptr(unsafe.Pointer(&s.fixed.wait))
}

var pageSize = syscall.Getpagesize()
