package sys

import (
	"encoding/binary"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestUringStructuresHaveTheKernelsSizes(t *testing.T) {
	require.EqualValues(t, 64, unsafe.Sizeof(SQE{}))
	require.EqualValues(t, 16, unsafe.Sizeof(CQE{}))
	require.EqualValues(t, 120, unsafe.Sizeof(UringParams{}))
	require.EqualValues(t, 16, unsafe.Sizeof(uringBuf{}))
	require.EqualValues(t, 40, unsafe.Sizeof(uringBufReg{}))
	require.EqualValues(t, 24, unsafe.Sizeof(uringGetEventsArg{}))
	require.EqualValues(t, 8, unsafe.Sizeof(uringProbeOp{}))
	require.EqualValues(t, 16+256*8, unsafe.Sizeof(uringProbe{}))
	require.Equal(t, unsafe.Sizeof(unix.Msghdr{}), unsafe.Sizeof(uringMsghdr{}))
	require.Equal(t, unsafe.Offsetof(unix.Msghdr{}.Flags), unsafe.Offsetof(uringMsghdr{}.flags))
	require.Equal(t, unsafe.Sizeof(unix.Iovec{}), unsafe.Sizeof(uringIovec{}))
	require.EqualValues(t, 32, unsafe.Offsetof(SQE{}.UserData))
	require.EqualValues(t, 40, unsafe.Offsetof(SQE{}.BufGroup))
}

// starts are index values on both sides of every edge a wrap can have.
var starts = []uint32{0, 1, 7, 1<<31 - 3, 1 << 31, 1<<32 - 9, 1<<32 - 1}

func TestSubmissionQueueWraps(t *testing.T) {
	for _, start := range starts {
		var head, tail, flags atomic.Uint32 // the kernel's side, played here
		head.Store(start)
		tail.Store(start)
		q := SubmissionQueue{kernelHead: &head, kernelTail: &tail, flags: &flags, entries: make([]SQE, 8), mask: 7,
			head: start, tail: start}
		require.Equal(t, 8, q.Len())
		next, read := uint64(0), uint64(0)
		for round := range 40 {
			for range round%9 + 1 {
				e, i := q.Next()
				if e == nil {
					require.EqualValues(t, 8, q.Pending())
					break
				}
				require.Zero(t, *e, "entries come zeroed")
				require.Same(t, &q.entries[i], e)
				e.UserData = next
				next++
			}
			before := tail.Load()
			require.EqualValues(t, read, next-uint64(q.Pending()))
			q.publish()
			require.EqualValues(t, q.Pending(), tail.Load()-head.Load())
			require.LessOrEqual(t, tail.Load()-before, uint32(8))
			for n := min(q.Pending(), uint32(round%5+1)); n > 0; n-- { // the kernel takes some
				require.Equal(t, read, q.entries[head.Load()&7].UserData)
				read++
				head.Add(1)
			}
			q.consumed()
		}
		require.Greater(t, next, uint64(40))
	}
}

func TestCompletionQueueWraps(t *testing.T) {
	for _, start := range starts {
		var head, tail, flags atomic.Uint32
		head.Store(start)
		tail.Store(start)
		q := CompletionQueue{kernelHead: &head, kernelTail: &tail, flags: &flags, entries: make([]CQE, 16), mask: 15, head: start}
		made, read := uint64(0), uint64(0)
		for round := range 60 {
			for n := min(uint32(round%17), 16-(tail.Load()-head.Load())); n > 0; n-- { // the kernel posts
				q.entries[tail.Load()&15] = CQE{UserData: made, Res: int32(made)}
				made++
				tail.Add(1)
			}
			require.EqualValues(t, made-read, q.Ready())
			for i := range q.Ready() {
				require.Equal(t, read+uint64(i), q.Peek(i).UserData)
			}
			for n := min(q.Ready(), uint32(round%7)); n > 0; n-- {
				require.Equal(t, read, q.Take().UserData)
				read++
			}
			q.Publish()
			require.Equal(t, q.head, head.Load())
		}
		require.Greater(t, read, uint64(60))
		q.SetFlags(UringCQEventFDDisabled)
		require.EqualValues(t, UringCQEventFDDisabled, flags.Load())
	}
}

func TestBufferRingWraps(t *testing.T) {
	const n = 8
	mem := make([]uint64, n*2) // aligned as the ring needs it
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&mem[0])), n*16)
	r := newBufferRing(bytes, n)
	require.Equal(t, n, r.Len())
	tail := func() uint16 { return binary.NativeEndian.Uint16(bytes[14:]) }
	payload := make([]byte, n*100)
	var head uint16          // the kernel's
	for i := range 1 << 17 { // the 16-bit tail wraps twice
		id := uint16(i * 31 % 32768)
		r.Add(payload[i%n*100:][:i%100+1], id)
		require.Equal(t, head, tail(), "not seen before Commit")
		r.Commit()
		require.Equal(t, head+1, tail())
		e := bytes[int(head)%n*16:]
		require.Equal(t, uint64(uintptr(unsafe.Pointer(&payload[i%n*100]))), binary.NativeEndian.Uint64(e))
		require.Equal(t, uint32(i%100+1), binary.NativeEndian.Uint32(e[8:]))
		require.Equal(t, id, binary.NativeEndian.Uint16(e[12:]))
		head++
	}
	for _, bad := range []int{0, 3, 1 << 16, 16} {
		require.Panics(t, func() { newBufferRing(bytes, bad) })
	}
}

func TestCompletionBuffer(t *testing.T) {
	id, ok := CQE{Flags: 0xabcd<<16 | UringCQEBuffer | UringCQEMore}.Buffer()
	require.True(t, ok)
	require.EqualValues(t, 0xabcd, id)
	_, ok = CQE{Flags: UringCQEMore}.Buffer()
	require.False(t, ok)
}

// uringWords is on the heap: a message holds addresses that nothing else keeps or moves.
var uringWords = []byte("one two")

func TestUring(t *testing.T) {
	_, err := NewUring(8, UringParams{Flags: 1 << 31})
	require.ErrorIs(t, err, unix.EINVAL)

	u, err := NewUring(8, UringParams{Flags: UringSetupCQSize | UringSetupDisabled, CQEntries: 16})
	require.NoError(t, err)
	missing, e := u.Supports(UringOpPollAdd, UringOpRecv, 255)
	require.Zero(t, e)
	require.Equal(t, []uint8{255}, missing)
	require.Equal(t, unix.EBADFD, u.Enter(0), "disabled")
	require.Zero(t, u.EnableRings())
	bell, err := NewEventFD()
	require.NoError(t, err)
	defer bell.Close()
	require.Zero(t, u.RegisterEventFD(bell.FD()))

	// A timeout, waited for twice: once too short, once long enough.
	p, _ := u.SQ.Next()
	*p = SQE{Opcode: UringOpTimeout, FD: -1, Addr: u.Scratch.Timeout(300 * time.Millisecond), Len: 1, UserData: 42}
	begin := time.Now()
	require.Zero(t, u.EnterWait(time.Millisecond)) // submitting is a success, whatever the wait came to
	require.Contains(t, []syscall.Errno{unix.ETIME, unix.EINTR}, u.EnterWait(time.Millisecond))
	require.Less(t, time.Since(begin), 300*time.Millisecond)
	for u.CQ.Ready() == 0 {
		if e := u.EnterWait(10 * time.Second); e != 0 {
			require.Equal(t, unix.EINTR, e) // the runtime's signals
		}
	}
	require.GreaterOrEqual(t, time.Since(begin), 30*time.Millisecond)
	c := u.CQ.Take()
	u.CQ.Publish()
	require.EqualValues(t, 42, c.UserData)
	require.Equal(t, -int32(unix.ETIME), c.Res)

	// Provided buffers and a vectored message, both ways through a socket pair.
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	group, err := u.RegisterBuffers(3, 4)
	require.NoError(t, err)
	buffers := make([][]byte, 4)
	for i := range buffers {
		buffers[i] = make([]byte, 64)
		group.Add(buffers[i], uint16(100+i))
	}
	group.Commit()
	p, _ = u.SQ.Next()
	*p = SQE{Opcode: UringOpRecv, FD: int32(pair[1]), IOPrio: UringRecvMultishot, Flags: UringSQEBufferSelect, BufGroup: 3,
		UserData: 1}
	p, i := u.SQ.Next()
	m := u.Scratch.Message(i)
	require.True(t, m.Add(uringWords[:4]))
	require.True(t, m.Add(uringWords[4:]))
	*p = SQE{Opcode: UringOpSendmsg, FD: int32(pair[0]), Addr: m.Addr(), Len: 1, UserData: 2}
	for u.CQ.Ready() < 2 {
		if e := u.EnterWait(10 * time.Second); e != 0 {
			require.Equal(t, unix.EINTR, e)
		}
	}
	for range 2 {
		c := u.CQ.Take()
		require.EqualValues(t, 7, c.Res)
		if c.UserData == 1 {
			id, ok := c.Buffer()
			require.True(t, ok)
			require.NotZero(t, c.Flags&UringCQEMore)
			require.Equal(t, "one two", string(buffers[id-100][:7]))
		}
	}
	for range MaxVector {
		require.True(t, m.Add(uringWords) || m.hdr.iovlen == MaxVector)
	}
	require.False(t, m.Add(uringWords), "no room for one piece more")
	require.NoError(t, u.UnregisterBuffers(group))
	require.NoError(t, u.Close())
	require.Equal(t, -1, u.FD())
}
