package xtreme_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

func TestBuffers(t *testing.T) {
	w := newWorld(t, conf.RingEpoll, xtreme.PollerConfig{SmallBuffers: 64, LargeBuffers: 8})
	l := w.poller.Pool().Layout()
	w.Equal(64, l.SmallCount)
	w.Equal(8, l.LargeCount)
	w.Equal(72, w.poller.Ledger().Total)
}

// The caller's memory holds the packets, and is left alone when the poller is gone.
func TestMemoryOfTheCaller(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		mem, err := unix.Mmap(-1, 0, 8<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		require.NoError(t, err)
		defer func() { require.NoError(t, unix.Munmap(mem)) }()
		e := newEngine(t, kind)
		p, err := e.NewPoller("mine", xtreme.PollerConfig{Memory: mem, SmallBuffers: 512, LargeBuffers: 16})
		require.NoError(t, err)
		s, err := p.OpenUDP(loopback, xtreme.UDPConfig{LargestDatagram: 1500})
		require.NoError(t, err)
		require.Equal(t, []string{"offload.not_asked"}, codes(s.Path())[:1])
		_, err = s.SendTo([]byte("a text that is nowhere else"), s.LocalAddr())
		require.NoError(t, err)
		var done [4]xtreme.Completion
		for n := 0; n == 0; {
			n, err = p.Poll(done[:])
			require.NoError(t, err)
		}
		require.Contains(t, string(mem), "a text that is nowhere else")
		require.NoError(t, done[0].Packet.Release())
		require.NoError(t, p.Close())
		mem[0] = 1 // still mapped
	})
}

// Memory that an open poller of this process uses, of whichever engine, is refused before anything is made, and the error names both pollers.
// Memory beside it is not.
func TestMemoryOfAnOpenPollerIsRefused(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		layout := buffers.DefaultLayout()
		layout.SmallCount, layout.LargeCount = 64, 8
		page := os.Getpagesize()
		size := (layout.Bytes() + page - 1) / page * page
		mem, err := unix.Mmap(-1, 0, 3*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		require.NoError(t, err)
		defer func() { require.NoError(t, unix.Munmap(mem)) }()
		e, other := newEngine(t, kind), newEngine(t, kind)
		open := func(e *xtreme.Engine, name string, memory []byte) (*xtreme.Poller, error) {
			return e.NewPoller(name, xtreme.PollerConfig{Memory: memory, SmallBuffers: 64, LargeBuffers: 8})
		}
		first, err := open(e, "first", mem[size:])
		require.NoError(t, err)
		require.NoError(t, other.Start())
		before := descriptors(t)
		for _, from := range []int{size, size + page, 2*size - page, page} {
			for _, e := range []*xtreme.Engine{e, other} {
				p, err := open(e, "second", mem[from:])
				if err == nil {
					require.NoError(t, p.Close())
				}
				require.ErrorIs(t, err, unix.EBUSY, "from %d", from)
				require.ErrorContains(t, err, `poller "second": PollerConfig.Memory: `)
				require.ErrorContains(t, err, `poller "first"`)
			}
		}
		require.Equal(t, before, descriptors(t))
		require.Equal(t, []*xtreme.Poller{first}, e.Pollers())
		require.Empty(t, other.Pollers())
		for _, from := range []int{0, 2 * size} { // in front of it, and behind what its buffers need
			beside, err := open(other, "beside", mem[from:])
			require.NoError(t, err)
			require.NoError(t, beside.Close())
		}
		require.NoError(t, first.Close())
		again, err := open(other, "again", mem[size:])
		require.NoError(t, err)
		require.NoError(t, again.Close())
	})
}

// A poller that could not be made does not keep its memory from the next one.
func TestMemoryOfAPollerThatCannotBeMadeIsFree(t *testing.T) {
	e := newEngine(t, conf.RingEpoll)
	require.NoError(t, e.Start())
	c := xtreme.PollerConfig{Memory: make([]byte, 8<<20), SmallBuffers: 64, LargeBuffers: 8}
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: limit.Max}))
	_, err := e.NewPoller("no", c)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	require.ErrorIs(t, err, unix.EMFILE)
	p, err := e.NewPoller("yes", c)
	require.NoError(t, err)
	require.NoError(t, p.Close())
}

// Packets that the application still holds when the poller is closed stay valid: their memory is given to no other poller.
func TestMemoryOfHeldPacketsIsRefused(t *testing.T) {
	e := newEngine(t, conf.RingEpoll)
	c := xtreme.PollerConfig{Memory: make([]byte, 8<<20), SmallBuffers: 64, LargeBuffers: 8}
	p, err := e.NewPoller("holds", c)
	require.NoError(t, err)
	held, err := p.Pool().Alloc(10)
	require.NoError(t, err)
	copy(held.Bytes(), "still here")
	var h *xtreme.HeldError
	require.ErrorAs(t, p.Close(), &h)
	next, err := e.NewPoller("next", c)
	if err == nil {
		require.NoError(t, next.Close())
	}
	require.ErrorIs(t, err, unix.EBUSY)
	require.ErrorContains(t, err, `poller "next": PollerConfig.Memory: `)
	require.ErrorContains(t, err, `poller "holds", which was closed with packets still held`)
	require.Equal(t, "still here", string(held.Bytes()))
}

// A poller has all its memory from the start, or each page when it is used first.
func TestMemoryOnDemand(t *testing.T) {
	for _, onDemand := range []bool{false, true} {
		mem, err := unix.Mmap(-1, 0, 8<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		require.NoError(t, err)
		defer func() { require.NoError(t, unix.Munmap(mem)) }()
		require.NoError(t, unix.Madvise(mem, unix.MADV_NOHUGEPAGE))
		resident := func() (pages int) {
			there := make([]byte, len(mem)/os.Getpagesize())
			_, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mem[0])), uintptr(len(mem)), uintptr(unsafe.Pointer(&there[0])))
			require.Zero(t, e)
			for _, x := range there {
				pages += int(x & 1)
			}
			return pages
		}
		e := newEngine(t, conf.RingEpoll)
		p, err := e.NewPoller("memory", xtreme.PollerConfig{Memory: mem, SmallBuffers: 512, LargeBuffers: 16, MemoryOnDemand: onDemand})
		require.NoError(t, err)
		if l := p.Pool().Layout(); onDemand {
			require.Less(t, resident(), 16)
		} else {
			require.GreaterOrEqual(t, resident(), l.Bytes()/os.Getpagesize())
		}
		require.NoError(t, p.Close())
	}
}

func TestMemoryTooShort(t *testing.T) {
	e := newEngine(t, conf.RingEpoll)
	layout := buffers.DefaultLayout()
	layout.SmallCount, layout.LargeCount = 64, 8
	before := descriptors(t)
	_, err := e.NewPoller("short", xtreme.PollerConfig{Memory: make([]byte, layout.Bytes()-1), SmallBuffers: 64, LargeBuffers: 8})
	require.ErrorContains(t, err, `poller "short"`)
	require.ErrorContains(t, err, fmt.Sprintf("Memory of %d bytes is shorter than Bytes %d", layout.Bytes()-1, layout.Bytes()))
	require.Equal(t, before, descriptors(t))
	require.Empty(t, e.Pollers())
	p, err := e.NewPoller("enough", xtreme.PollerConfig{Memory: make([]byte, layout.Bytes()), SmallBuffers: 64, LargeBuffers: 8})
	require.NoError(t, err)
	require.NoError(t, p.Close())
}

// The kernel takes memory for frames at a page boundary only: a poller that may have an offloaded ring refuses other memory at once. Kernel
// rings take it.
func TestMemoryOffAPage(t *testing.T) {
	mem, err := unix.Mmap(-1, 0, 8<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(mem)) }()
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		for _, off := range []int{0, 1, 8, 2048} {
			p, err := newEngine(t, kind).NewPoller("mine", xtreme.PollerConfig{Memory: mem[off:], SmallBuffers: 512, LargeBuffers: 16})
			if kind == conf.RingOffload && off > 0 {
				require.ErrorIs(t, err, unix.EINVAL, "%d", off)
				require.ErrorContains(t, err, "Memory begins 0x")
				continue
			}
			require.NoError(t, err, "%d", off)
			require.NoError(t, p.Close())
		}
	})
}

// Huge pages are had, or the path says why not; by setting and by configuration alike.
func TestHugePages(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		if raceEnabled {
			t.Skip("under the race detector buffers lie in the Go heap; the build without it asserts this")
		}
		want := codes(newWorld(t, kind).udp(loopback).Path())
		if !hugePagesFor(t, 4<<20) {
			want = append(want, "region.no_hugepages")
		}
		w := newWorld(t, kind, xtreme.PollerConfig{HugePages: true})
		w.Equal(want, codes(w.udp(loopback).Path()))

		s := conf.Default()
		s.Ring, s.HugePages, s.SmallBuffers, s.LargeBuffers = kind, true, 512, 16
		e, err := xtreme.New(s)
		w.NoError(err)
		p, err := e.NewPoller("by setting", xtreme.PollerConfig{})
		w.NoError(err)
		u, err := p.OpenUDP(loopback, xtreme.UDPConfig{})
		w.NoError(err)
		w.Equal(want, codes(u.Path()))
		few, err := e.NewPoller("in one page", xtreme.PollerConfig{SmallBuffers: 256, LargeBuffers: 8})
		w.NoError(err)
		w.Equal(hugePagesFor(t, few.Pool().Layout().Bytes()), few.Pool().Contiguous())
		w.NoError(few.Close())
		w.NoError(p.Close())
		w.NoError(e.Close())

		plain := newWorld(t, kind)
		w.NotContains(codes(plain.udp(loopback).Path()), "region.no_hugepages", "nobody asked there")
		w.False(plain.poller.Pool().Contiguous())
	})
}

// hugePagesFor reports whether the smallest huge pages that are free hold n bytes.
func hugePagesFor(t *testing.T, n int) bool {
	dirs, err := filepath.Glob("/sys/kernel/mm/hugepages/hugepages-*kB")
	require.NoError(t, err)
	for _, dir := range dirs {
		var kib int
		_, err := fmt.Sscanf(filepath.Base(dir), "hugepages-%dkB", &kib)
		require.NoError(t, err)
		text, err := os.ReadFile(filepath.Join(dir, "free_hugepages"))
		require.NoError(t, err)
		free, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		if free*kib<<10 >= n {
			return true
		}
	}
	return false
}

// The loopback interface is no device and has no node; the caller's memory stays where it is.
func TestNearInterface(t *testing.T) {
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		if raceEnabled {
			t.Skip("under the race detector buffers lie in the Go heap; the build without it asserts this")
		}
		w := newWorld(t, kind, xtreme.PollerConfig{NearInterface: "lo"})
		w.Contains(codes(w.udp(loopback).Path()), "region.numa")
		w = newWorld(t, kind, xtreme.PollerConfig{NearInterface: "lo", Memory: make([]byte, 8<<20)})
		w.Contains(codes(w.udp(loopback).Path()), "region.caller_memory")
	})
}
