package memory_test

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/linktest"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
)

// world is two ends with their pools; at the end of the test both are closed and every buffer is back in the pool.
type world struct {
	*require.Assertions
	pools [2]*buffers.DriverPool
	ends  [2]*memory.End
	dst   [64]link.Frame
}

func newWorld(t *testing.T, c memory.Config) *world {
	t.Helper()
	w := &world{Assertions: require.New(t)}
	for i := range w.pools {
		l := buffers.Layout{SmallSize: 256, SmallCount: 64, Headroom: 64}
		r, err := sys.NewRegion(sys.RegionConfig{Bytes: l.Bytes()})
		w.NoError(err)
		w.pools[i], err = buffers.New(r.Bytes(), l)
		w.NoError(err)
		t.Cleanup(func() { require.NoError(t, r.Close()) })
	}
	var err error
	w.ends[0], w.ends[1], err = memory.Pair(w.pools[0], w.pools[1], c)
	w.NoError(err)
	t.Cleanup(func() {
		for i, e := range w.ends {
			if err := e.Close(); err != nil {
				require.ErrorIs(t, err, link.ErrClosed)
			}
			l := w.pools[i].Ledger()
			require.Equal(t, l.Total, l.Free, "end %d: %v", i, l)
			require.NoError(t, w.pools[i].Verify())
		}
	})
	return w
}

// out is a frame ready to be sent by end i.
func (w *world) out(i int, frame []byte, token uint64) link.Out {
	p, err := w.pools[i].Alloc(min(len(frame), 256))
	w.NoError(err)
	copy(p.Bytes(), frame)
	for rest := frame[p.Len():]; len(rest) > 0; {
		q, err := w.pools[i].Alloc(min(len(rest), 256))
		w.NoError(err)
		copy(q.Bytes(), rest)
		rest = rest[q.Len():]
		p = w.pools[i].Append(p, q)
	}
	p, err = w.pools[i].Transmit(p)
	w.NoError(err)
	return link.Out{Packet: p, Token: token}
}

func (w *world) send(i int, frames ...[]byte) {
	for _, f := range frames {
		w.Equal(1, w.ends[i].Send([]link.Out{w.out(i, f, 0)}))
	}
	w.NoError(w.ends[i].Flush())
	w.ends[i].Complete(nil)
}

func (w *world) receive(i int) (all [][]byte) {
	for {
		n := w.ends[i].Receive(w.dst[:])
		if n == 0 {
			return all
		}
		for _, f := range w.dst[:n] {
			b := make([]byte, f.Packet.Len())
			f.Packet.CopyTo(b)
			all = append(all, b)
			w.NoError(f.Packet.Release())
		}
	}
}

func frame(i, n int) []byte {
	b := bytes.Repeat([]byte{byte(i)}, n)
	copy(b, fmt.Sprint(i))
	return b
}

// Frames of every length up to the longest arrive whole and in order, both ways.
func TestBothWays(t *testing.T) {
	w := newWorld(t, memory.Config{MTU: 1000, Slots: 64})
	for from := range 2 {
		for n := 14; n <= 1022; n += 7 {
			w.send(from, frame(1, n), frame(2, n))
			w.Equal([][]byte{frame(1, n), frame(2, n)}, w.receive(1-from), "%d bytes", n)
		}
		w.Empty(w.receive(from))
		s := w.ends[1-from].Stats()
		w.Equal(w.ends[from].Stats().TxFrames, s.RxFrames)
		w.Equal(w.ends[from].Stats().TxBytes, s.RxBytes)
	}
	w.Panics(func() { w.ends[0].Send([]link.Out{{}}) })
	w.send(0, frame(1, 1023), frame(2, 60)) // one that is too long is lost, and counted
	w.Equal([][]byte{frame(2, 60)}, w.receive(1))
	w.EqualValues(1, w.ends[0].Stats().TxLost)
	w.Zero(w.ends[0].Unsent())
	w.Zero(w.pools[0].Ledger().Transmitting)
}

// What is not flushed does not arrive; what was sent is transmitting until Complete, and tokens come back once, in order.
func TestCompletion(t *testing.T) {
	w := newWorld(t, memory.Config{Slots: 8})
	outs := make([]link.Out, 10)
	for i := range outs {
		outs[i] = w.out(0, frame(i, 60), uint64(i%3))
	}
	w.Equal(8, w.ends[0].Send(outs), "as many as there are slots")
	w.Equal(8, w.ends[0].Unsent())
	w.Equal(10, w.pools[0].Ledger().Transmitting)
	w.Empty(w.receive(1))
	w.NoError(w.ends[0].Flush())
	w.Len(w.receive(1), 8)
	var done [3]link.Done
	var tokens []uint64
	for {
		n := w.ends[0].Complete(done[:])
		if n == 0 {
			break
		}
		for _, d := range done[:n] {
			tokens = append(tokens, d.Token)
			w.pools[0].Deliver(d.Packet)
			w.NoError(d.Packet.Release())
		}
	}
	w.Equal([]uint64{1, 2, 1, 2, 1}, tokens)
	w.Equal(2, w.ends[0].Send(outs[8:]))
	w.NoError(w.ends[0].Flush())
	w.NoError(w.ends[0].Close())
	w.ErrorIs(w.ends[0].Close(), link.ErrClosed)
	w.ErrorIs(w.ends[0].Flush(), link.ErrClosed)
	w.ErrorIs(w.ends[0].Check(), link.ErrClosed)
	w.ErrorIs(w.ends[1].Check(), link.ErrDetached)
	w.Len(w.receive(1), 2, "flushed before the other end closed")
	w.send(1, frame(1, 60))
	w.EqualValues(1, w.ends[1].Stats().TxLost)
}

// An end that is retired has given back the buffers of frames without a token; the others are reported by Complete, or freed by Close.
func TestRetire(t *testing.T) {
	w := newWorld(t, memory.Config{})
	var outs []link.Out
	for _, token := range []uint64{0, 7, 0, 8, 9} {
		outs = append(outs, w.out(0, frame(1, 60), token))
	}
	w.Equal(5, w.ends[0].Send(outs))
	w.NoError(w.ends[0].Flush())
	w.ends[0].Stop()
	w.Zero(w.ends[0].Send([]link.Out{{}}))
	w.NoError(w.ends[0].Shut())
	w.NoError(w.ends[0].Retire())
	w.ErrorIs(w.ends[0].Retire(), link.ErrClosed)
	w.Equal(3, w.ends[0].Unsent())
	var done [2]link.Done
	w.Equal(2, w.ends[0].Complete(done[:]))
	for i, d := range done {
		w.Equal(uint64(7+i), d.Token)
		w.pools[0].Deliver(d.Packet)
		w.NoError(d.Packet.Release())
	}
	w.Equal(1, w.ends[0].Unsent())
	w.Len(w.receive(1), 5, "what was flushed arrives")
	w.ErrorIs(w.ends[1].Check(), link.ErrDetached)
}

func TestLossesAreCounted(t *testing.T) {
	seen := 0
	w := newWorld(t, memory.Config{Slots: 16, Faults: [2]memory.Fault{func(f []byte) ([]byte, int) {
		seen++
		switch f[0] {
		case 'l':
			return f, 0
		case 'd':
			return f, 2
		case 'c':
			f[1] ^= 0xff
		case 's':
			return f[:20], 1
		case 'g':
			return f[:cap(f)], 1
		}
		return f, 1
	}}})
	for _, k := range []string{"l", "d", "c", "s", "g", "-"} {
		w.send(0, append([]byte(k), make([]byte, 40)...))
	}
	got := w.receive(1)
	w.Equal(6, seen)
	w.Len(got, 6)
	w.Equal(got[0], got[1])
	w.Equal(byte(0xff), got[2][1])
	w.Len(got[3], 20)
	w.Len(got[4], w.ends[1].Info().MaxFrame)
	w.EqualValues(1, w.ends[0].Stats().TxLost)

	for range 20 {
		w.send(0, []byte("- twenty frames, sixteen slots"))
	}
	w.EqualValues(4, w.ends[1].Stats().RxLost)
	w.Contains(w.ends[1].Counters(nil), link.Counter{Name: "memory.rx_ring_full", Value: 4})
	w.Len(w.receive(1), 16)

	// Without buffers the frames wait.
	var held []buffers.Packet
	for {
		p, err := w.pools[1].Alloc(10)
		if err != nil {
			break
		}
		held = append(held, p)
	}
	w.NoError(held[0].Release())
	w.send(0, frame(1, 600), frame(2, 60))
	w.Empty(w.receive(1), "three buffers are needed, one is free")
	w.Contains(w.ends[1].Counters(nil), link.Counter{Name: "memory.rx_no_buffer", Value: 1})
	w.Equal(1, w.pools[1].Ledger().Free)
	for _, p := range held[1:] {
		w.NoError(p.Release())
	}
	w.Equal([][]byte{frame(1, 600), frame(2, 60)}, w.receive(1))
}

// An end that was armed is woken by the flush, and only then; one that finds frames while arming does not sleep.
func TestSleeping(t *testing.T) {
	w := newWorld(t, memory.Config{})
	readable := func(ms int) bool {
		p := []unix.PollFd{{Fd: int32(w.ends[1].FD()), Events: unix.POLLIN}}
		n, err := unix.Poll(p, ms)
		w.NoError(err)
		return n == 1
	}
	w.send(0, frame(1, 60))
	w.False(readable(0), "nobody asked")
	w.True(w.ends[1].Arm())
	w.ends[1].Disarm()
	w.Len(w.receive(1), 1)
	w.False(w.ends[1].Arm())
	w.False(readable(0))
	w.send(0, frame(2, 60))
	w.True(readable(1000))
	w.ends[1].Disarm()
	w.False(readable(0))
	w.Len(w.receive(1), 1)
}

// Two goroutines, one at each end: every frame arrives once, in order, and no wake-up is lost.
func TestTwoGoroutines(t *testing.T) {
	w := newWorld(t, memory.Config{Slots: 64})
	const frames = 20_000
	failed := make(chan error, 1)
	acked := make(chan int, frames)
	go func() {
		defer close(failed)
		var dst [16]link.Frame
		next, last := 0, time.Now()
		for next < frames {
			n := w.ends[1].Receive(dst[:])
			for _, f := range dst[:n] {
				if got := string(bytes.TrimRight(f.Packet.Bytes(), "\x00")); got != fmt.Sprintf("frame number %08d", next) {
					failed <- fmt.Errorf("frame %d is %q", next, got)
					return
				}
				_ = f.Packet.Release()
				next++
				acked <- next
				last = time.Now()
			}
			if n == 0 && !w.ends[1].Arm() {
				p := []unix.PollFd{{Fd: int32(w.ends[1].FD()), Events: unix.POLLIN}}
				if _, err := unix.Poll(p, 5000); err != nil && err != unix.EINTR {
					failed <- err
					return
				}
			}
			w.ends[1].Disarm()
			if time.Since(last) > 4*time.Second {
				failed <- fmt.Errorf("asleep at frame %d", next)
				return
			}
		}
	}()
	for i, done := 0, 0; i < frames; i++ {
		for i-done >= 60 {
			select {
			case done = <-acked:
			case err := <-failed:
				w.NoError(err)
				t.FailNow()
			}
		}
		w.send(0, []byte(fmt.Sprintf("frame number %08d", i)))
		if i%64 == 0 {
			runtime.Gosched()
		}
	}
	w.NoError(<-failed)
}

func TestArguments(t *testing.T) {
	w := newWorld(t, memory.Config{Names: [2]string{"left", "right"}, Addrs: [2][6]byte{{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}})
	a, b := w.pools[0], w.pools[1]
	for want, c := range map[string]memory.Config{
		"MTU is 67, must be 68 to 65535":         {MTU: 67},
		"MTU is 65536, must be 68 to 65535":      {MTU: 65536},
		"Slots is 3, must be a power of two up":  {Slots: 3},
		"Slots is -8, must be a power of two up": {Slots: -8},
	} {
		_, _, err := memory.Pair(a, b, c)
		w.ErrorContains(err, want)
	}
	_, _, err := memory.Pair(a, nil, memory.Config{})
	w.ErrorContains(err, "a pool is nil")
	w.Equal("memory left/0 (jumbo)", w.ends[0].Path().String())
	i := w.ends[1].Info()
	w.Equal(link.Info{Name: "right", Addr: [6]byte{2, 0, 0, 0, 0, 2}, MTU: 1500, MaxFrame: 1522,
		PerBuffer: 256, Headroom: 64, MaxPieces: math.MaxInt}, i)
	for _, c := range link.AllCaps() {
		w.Equal(w.ends[0].Caps().Has(c), w.ends[0].Why(c) == link.Reason{}, "%v", c)
	}
}

func TestNoAllocations(t *testing.T) {
	w := newWorld(t, memory.Config{})
	var out [8]link.Out
	var dst [8]link.Frame
	var done [8]link.Done
	run := func() {
		for i := range out {
			p, _ := w.pools[0].Alloc(60)
			p, _ = w.pools[0].Transmit(p)
			out[i] = link.Out{Packet: p, Token: uint64(i)}
		}
		w.ends[0].Send(out[:])
		_ = w.ends[0].Flush()
		for _, d := range done[:w.ends[0].Complete(done[:])] {
			_ = d.Packet.Release()
		}
		for _, f := range dst[:w.ends[1].Receive(dst[:])] {
			w.pools[1].Trim(f.Packet, 14, 40, 0)
			_ = f.Packet.Release()
		}
	}
	require.Zero(t, testing.AllocsPerRun(100, run))
}

// No method of a closed end touches what is gone, with frames under way both ways.
func TestClosed(t *testing.T) {
	for _, other := range []string{"open", "closed"} {
		t.Run("the other end "+other, func(t *testing.T) {
			w := newWorld(t, memory.Config{})
			w.Equal(1, w.ends[1].Send([]link.Out{w.out(1, frame(1, 60), 0)}))
			w.NoError(w.ends[1].Flush())
			w.Equal(1, w.ends[0].Send([]link.Out{w.out(0, frame(1, 60), 1)}))
			bell := w.ends[0].FD()
			w.NoError(w.ends[0].Close())
			if other == "closed" {
				w.NoError(w.ends[1].Close())
				for range 16 { // the lowest number that is free is the next one's
					next, err := sys.NewEventFD()
					w.NoError(err)
					defer func() { w.NoError(next.Close()) }()
					next.Signal()
				}
				w.ends[0].Disarm()
				w.True(readable(t, bell), "another's descriptor was read")
			}
			linktest.Closed(t, w.ends[0], w.pools[0], func() buffers.Packet { return w.out(0, frame(1, 60), 0).Packet })
		})
	}
}

func readable(t *testing.T, fd int) bool {
	list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(list, 0)
	require.NoError(t, err)
	return n > 0
}

// Each way in which a frame is lost has its counter, which counts those frames and no others.
func TestLossesByName(t *testing.T) {
	counted := func(e *memory.End) map[string]uint64 {
		all := map[string]uint64{}
		for _, c := range e.Counters(nil) {
			if c.Value > 0 {
				all[c.Name] = c.Value
			}
		}
		return all
	}
	w := newWorld(t, memory.Config{MTU: 1000})
	for i := range 3 {
		w.send(0, frame(1, 1023+i))
	}
	w.Equal(map[string]uint64{"memory.tx_too_long": 3}, counted(w.ends[0]))
	w.EqualValues(3, w.ends[0].Stats().TxLost)
	w.Empty(counted(w.ends[1]))

	w = newWorld(t, memory.Config{})
	w.NoError(w.ends[1].Close())
	w.send(0, frame(1, 60), frame(2, 60))
	w.Equal(map[string]uint64{"memory.tx_peer_closed": 2}, counted(w.ends[0]))
	w.EqualValues(2, w.ends[0].Stats().TxLost)
}
