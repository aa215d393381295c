package sys

import "encoding/binary"

// The structures and numbers of include/uapi/linux/io_uring.h that rings here use; x/sys has the system call numbers only. Names
// are the kernel's, in Go's spelling: IORING_OP_RECV is UringOpRecv.

// The operations (SQE.Opcode).
const (
	UringOpPollAdd       = 6
	UringOpPollRemove    = 7
	UringOpSendmsg       = 9
	UringOpRecvmsg       = 10
	UringOpTimeout       = 11
	UringOpTimeoutRemove = 12
	UringOpAccept        = 13
	UringOpAsyncCancel   = 14
	UringOpRecv          = 27
	UringOpSendmsgZC     = 48 // since Linux 6.1
)

// Flags of io_uring_setup(2).
const (
	UringSetupCQSize       = 1 << 3
	UringSetupClamp        = 1 << 4
	UringSetupDisabled     = 1 << 6  // R_DISABLED: nothing runs before EnableRings
	UringSetupSubmitAll    = 1 << 7  // a bad SQE does not hold up those behind it
	UringSetupTaskrunFlag  = 1 << 9  // show pending task work as UringSQTaskrun
	UringSetupSingleIssuer = 1 << 12 // since Linux 6.0
	UringSetupDeferTaskrun = 1 << 13 // since Linux 6.1
	UringSetupNoSQArray    = 1 << 16 // since Linux 6.6
)

// What the kernel says of itself in params.features.
const (
	UringFeatSingleMmap   = 1 << 0
	UringFeatNoDrop       = 1 << 1
	UringFeatSubmitStable = 1 << 2
	UringFeatExtArg       = 1 << 8
)

// Flags of the two queues, of io_uring_enter(2), and of entries.
const (
	UringSQOverflow = 1 << 1 // completions wait in the kernel for room in the queue
	UringSQTaskrun  = 1 << 2 // the kernel has work for the issuing thread: enter with UringEnterGetEvents

	UringCQEventFDDisabled = 1 << 0

	UringEnterGetEvents = 1 << 0
	uringEnterExtArg    = 1 << 3

	UringSQEBufferSelect = 1 << 5 // SQE.Flags

	UringCQEBuffer      = 1 << 0 // CQE.Flags: a provided buffer was used, its id in the upper half
	UringCQEMore        = 1 << 1 // more completions of this operation follow
	UringCQENotif       = 1 << 3 // the kernel let go of a zero-copy send's memory
	uringCQEBufferShift = 16

	UringRecvMultishot   = 1 << 1 // SQE.IOPrio of receives
	UringAcceptMultishot = 1 << 0 // SQE.IOPrio of accept
	UringPollMultishot   = 1 << 0 // SQE.Len of poll
	UringPollUpdate      = 1 << 1 // SQE.Len of poll remove: the poll stays, and is armed again with the events of SQE.OpFlags
	UringTimeoutUpdate   = 1 << 1 // SQE.OpFlags of timeout remove
	UringCancelAll       = 1 << 0 // SQE.OpFlags of cancel
	UringCancelAny       = 1 << 2
)

// Commands of io_uring_register(2).
const (
	uringRegisterEventFD     = 4
	uringRegisterProbe       = 8
	uringRegisterEnableRings = 12
	uringRegisterPbufRing    = 22 // since Linux 5.19
	uringUnregisterPbufRing  = 23
)

// Where mmap(2) finds the queues.
const (
	uringOffSQRing = 0
	uringOffCQRing = 0x8000000
	uringOffSQEs   = 0x10000000
)

// SQE is one submission (struct io_uring_sqe).
type SQE struct {
	Opcode      uint8
	Flags       uint8
	IOPrio      uint16
	FD          int32
	Off         uint64 // or addr2
	Addr        uint64
	Len         uint32
	OpFlags     uint32 // msg_flags, poll32_events, accept_flags, cancel_flags, timeout_flags
	UserData    uint64
	BufGroup    uint16
	Personality uint16
	FileIndex   uint32
	Addr3       uint64
	_           uint64
}

// CQE is one completion (struct io_uring_cqe).
type CQE struct {
	UserData uint64
	Res      int32
	Flags    uint32
}

// Buffer is the id of the provided buffer the completion used; false when it used none.
func (c CQE) Buffer() (id uint16, ok bool) {
	return uint16(c.Flags >> uringCQEBufferShift), c.Flags&UringCQEBuffer != 0
}

// PollEvents puts poll(2) events into the form of SQE.OpFlags, which is word-reversed on big-endian machines.
func PollEvents(events uint32) uint32 {
	var b [4]byte
	binary.NativeEndian.PutUint16(b[0:], uint16(events))
	binary.NativeEndian.PutUint16(b[2:], uint16(events>>16))
	return binary.NativeEndian.Uint32(b[:])
}

// RecvmsgOutLen is the size of struct io_uring_recvmsg_out, with which a buffer filled by a multishot recvmsg begins. Source
// address and control messages follow in the room the message header gave them, then the payload.
const RecvmsgOutLen = 16

// RecvmsgOut is that structure.
type RecvmsgOut struct{ NameLen, ControlLen, PayloadLen, Flags uint32 }

// ParseRecvmsgOut reads it from the start of a buffer of at least RecvmsgOutLen bytes.
func ParseRecvmsgOut(b []byte) RecvmsgOut {
	h := (*[RecvmsgOutLen]byte)(b)
	return RecvmsgOut{
		NameLen:    binary.NativeEndian.Uint32(h[0:]),
		ControlLen: binary.NativeEndian.Uint32(h[4:]),
		PayloadLen: binary.NativeEndian.Uint32(h[8:]),
		Flags:      binary.NativeEndian.Uint32(h[12:]),
	}
}

type uringSQOffsets struct {
	Head, Tail, RingMask, RingEntries, Flags, Dropped, Array, _ uint32
	UserAddr                                                    uint64
}

type uringCQOffsets struct {
	Head, Tail, RingMask, RingEntries, Overflow, CQEs, Flags, _ uint32
	UserAddr                                                    uint64
}

// UringParams is struct io_uring_params.
type UringParams struct {
	SQEntries, CQEntries      uint32
	Flags                     uint32
	SQThreadCPU, SQThreadIdle uint32
	Features                  uint32
	WQFD                      uint32
	_                         [3]uint32
	sqOff                     uringSQOffsets
	cqOff                     uringCQOffsets
}

type uringProbeOp struct {
	op, _ uint8
	flags uint16
	_     uint32
}

const uringOpSupported = 1 << 0

type uringProbe struct {
	lastOp, opsLen uint8
	_              uint16
	_              [3]uint32
	ops            [256]uringProbeOp
}

type uringBufReg struct {
	ringAddr    uint64
	ringEntries uint32
	bgid        uint16
	flags       uint16
	_           [3]uint64
}

type uringTimespec struct{ sec, nsec int64 }

type uringGetEventsArg struct {
	sigmask   uint64
	sigmaskSz uint32
	_         uint32
	ts        uint64
}
