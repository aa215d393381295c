package sys

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Uring is an io_uring instance (io_uring_setup(2)): a descriptor, two queues in memory shared with the kernel, and scratch memory
// for what submissions point to. One goroutine at a time; after EnableRings of a single-issuer ring only the thread that made it.
type Uring struct {
	SQ      SubmissionQueue
	CQ      CompletionQueue
	Scratch *UringScratch
	Params  UringParams

	fd    int
	rings mapping
	sqes  mapping
}

// NewUring makes an instance with the sizes and flags of p. The bare errno of io_uring_setup is in the error.
func NewUring(entries int, p UringParams) (*Uring, error) {
	fd, _, e := syscall.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(&p)), 0)
	if e != 0 {
		return nil, os.NewSyscallError("io_uring_setup", e)
	}
	u := &Uring{fd: int(fd), Params: p}
	if err := u.init(); err != nil {
		_ = u.Close()
		return nil, err
	}
	return u, nil
}

// init checks that the kernel has the features that rings here rely on, and maps the queues of a new instance.
func (u *Uring) init() error {
	p := &u.Params
	const need = UringFeatSingleMmap | UringFeatNoDrop | UringFeatSubmitStable | UringFeatExtArg
	if p.Features&need != need {
		return fmt.Errorf("io_uring: features %#x, need %#x: %w", p.Features, need, unix.ENOSYS)
	}
	size := max(int(p.sqOff.Array+p.SQEntries*4), int(p.cqOff.CQEs+p.CQEntries*uint32(unsafe.Sizeof(CQE{}))))
	var err error
	if u.rings, err = u.mmap(uringOffSQRing, size); err != nil {
		return err
	}
	if u.sqes, err = u.mmap(uringOffSQEs, int(p.SQEntries)*int(unsafe.Sizeof(SQE{}))); err != nil {
		return err
	}
	if u.Scratch, err = newUringScratch(int(p.SQEntries)); err != nil {
		return err
	}
	u.SQ = SubmissionQueue{
		kernelHead: u.word(p.sqOff.Head), kernelTail: u.word(p.sqOff.Tail), flags: u.word(p.sqOff.Flags),
		entries: unsafe.Slice((*SQE)(u.sqes.start), p.SQEntries), mask: p.SQEntries - 1,
	}
	u.CQ = CompletionQueue{
		kernelHead: u.word(p.cqOff.Head), kernelTail: u.word(p.cqOff.Tail), flags: u.word(p.cqOff.Flags),
		entries: unsafe.Slice((*CQE)(unsafe.Add(u.rings.start, p.cqOff.CQEs)), p.CQEntries), mask: p.CQEntries - 1,
	}
	if p.Flags&UringSetupNoSQArray == 0 {
		// The array gives the order in which entries are submitted: here always the order in which they were prepared.
		array := unsafe.Slice((*uint32)(unsafe.Add(u.rings.start, p.sqOff.Array)), p.SQEntries)
		for i := range array {
			array[i] = uint32(i)
		}
	}
	return nil
}

// word returns the 32-bit word at an offset of the memory that the queues share with the kernel.
func (u *Uring) word(off uint32) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Add(u.rings.start, off))
}

// mmap maps n bytes of the instance, from the offset off: uringOffSQRing or uringOffSQEs.
func (u *Uring) mmap(off int64, n int) (mapping, error) {
	start, err := unix.MmapPtr(u.fd, off, nil, uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return mapping{}, os.NewSyscallError("mmap", err)
	}
	return mapping{start, uintptr(n)}, nil
}

// FD is the instance's descriptor.
func (u *Uring) FD() int { return u.fd }

// shortSubmission is how many operations Enter submits at most by RawSyscall.
const shortSubmission = 8

// Enter submits all prepared operations and, with UringEnterGetEvents in flags, runs the kernel's pending work for this thread. It does not
// wait.
//
// The call may nevertheless take long: the kernel executes operations in it, and with UringEnterGetEvents it completes those of all sockets of
// the ring, perhaps thousands. A garbage collection, which must stop all goroutines, waits for a call that the Go scheduler does not know of
// (RawSyscall). So Enter uses it, which saves 50 ns, only to submit a few operations.
func (u *Uring) Enter(flags uint32) syscall.Errno {
	u.SQ.publish()
	n := u.SQ.Pending()
	var e syscall.Errno
	if n <= shortSubmission && flags&UringEnterGetEvents == 0 {
		_, _, e = syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(u.fd), uintptr(n), 0, uintptr(flags), 0, 0)
	} else {
		_, _, e = syscall.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(u.fd), uintptr(n), 0, uintptr(flags), 0, 0)
	}
	u.SQ.consumed()
	return e
}

// EnterWait submits everything prepared and sleeps until a completion is there, or until limit is over (ETIME); negative means no
// limit. A signal ends it early (EINTR).
func (u *Uring) EnterWait(limit time.Duration) syscall.Errno {
	u.SQ.publish()
	_, _, e := syscall.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(u.fd), uintptr(u.SQ.Pending()), 1,
		UringEnterGetEvents|uringEnterExtArg, u.Scratch.waitArg(limit), unsafe.Sizeof(uringGetEventsArg{}))
	u.SQ.consumed()
	return e
}

// EnableRings starts an instance made with UringSetupDisabled; of a single issuer the calling thread becomes that issuer.
func (u *Uring) EnableRings() syscall.Errno { return u.register(uringRegisterEnableRings, nil, 0) }

// RegisterEventFD makes the kernel add to the counter on each completion, unless UringCQEventFDDisabled is set. With deferred task
// work it does so already when there is work that will complete something.
func (u *Uring) RegisterEventFD(fd int) syscall.Errno {
	n := int32(fd)
	return u.register(uringRegisterEventFD, unsafe.Pointer(&n), 1)
}

// Supports reports which operations the kernel knows (IORING_REGISTER_PROBE).
func (u *Uring) Supports(ops ...uint8) (missing []uint8, e syscall.Errno) {
	var p uringProbe
	if e := u.register(uringRegisterProbe, unsafe.Pointer(&p), len(p.ops)); e != 0 {
		return nil, e
	}
	for _, op := range ops {
		if op > p.lastOp || p.ops[op].flags&uringOpSupported == 0 {
			missing = append(missing, op)
		}
	}
	return missing, 0
}

// ProvidedBuffers is a registered buffer ring with its memory.
type ProvidedBuffers struct {
	*BufferRing
	m     mapping
	group uint16
}

// RegisterBuffers makes a ring of provided buffers for group; entries is a power of two up to 32,768.
func (u *Uring) RegisterBuffers(group uint16, entries int) (*ProvidedBuffers, error) {
	m, err := mapMemory(entries*int(unsafe.Sizeof(uringBuf{})), pageSize)
	if err != nil {
		return nil, err
	}
	reg := uringBufReg{ringAddr: uint64(uintptr(m.start)), ringEntries: uint32(entries), bgid: group}
	if e := u.register(uringRegisterPbufRing, unsafe.Pointer(&reg), 1); e != 0 {
		_ = m.unmap()
		return nil, os.NewSyscallError("io_uring_register IORING_REGISTER_PBUF_RING", e)
	}
	return &ProvidedBuffers{BufferRing: newBufferRing(m.bytes(), entries), m: m, group: group}, nil
}

// UnregisterBuffers ends and unmaps a ring of provided buffers. The kernel uses no more buffers of it, except those that an operation under way
// has chosen already.
func (u *Uring) UnregisterBuffers(p *ProvidedBuffers) error {
	reg := uringBufReg{bgid: p.group}
	if e := u.register(uringUnregisterPbufRing, unsafe.Pointer(&reg), 1); e != 0 {
		return os.NewSyscallError("io_uring_register IORING_UNREGISTER_PBUF_RING", e)
	}
	return p.m.unmap()
}

// register is io_uring_register(2).
func (u *Uring) register(command uintptr, arg unsafe.Pointer, n int) syscall.Errno {
	_, _, e := syscall.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(u.fd), command, uintptr(arg), uintptr(n), 0, 0)
	return e
}

// Close closes the descriptor and unmaps the queues. The kernel ends operations that are under way by itself, some time later. A caller whose
// memory they use must have waited for them before.
func (u *Uring) Close() error {
	err := unix.Close(u.fd)
	u.fd = -1
	for _, m := range []mapping{u.rings, u.sqes} {
		if m.start != nil {
			if e := m.unmap(); err == nil {
				err = e
			}
		}
	}
	if u.Scratch != nil {
		if e := u.Scratch.close(); err == nil {
			err = e
		}
	}
	return err
}
