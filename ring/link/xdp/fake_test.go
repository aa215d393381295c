package xdp

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// kernel plays the other side of the four rings, in plain memory.
type kernel struct {
	*require.Assertions
	fill consumer[uint64]
	rx   producer[unix.XDPDesc]
	tx   consumer[unix.XDPDesc]
	comp producer[uint64]
}

// offsets of a ring in its memory, as a kernel might lay them out.
var offsets = unix.XDPRingOffset{Producer: 0, Consumer: 64, Flags: 68, Desc: 128}

const fakeEntries = 16

// fake is a queue over rings whose indexes begin at start, and the kernel behind them.
func fake(t testing.TB, start uint32, l buffers.Layout) (*Queue, *kernel) {
	t.Helper()
	r, err := sys.NewRegion(sys.RegionConfig{Bytes: l.Bytes()})
	require.NoError(t, err)
	pool, err := buffers.New(r.Bytes(), l)
	require.NoError(t, err)
	var mem [4][]byte
	for i := range mem {
		page, err := sys.NewRegion(sys.RegionConfig{Bytes: 4096})
		require.NoError(t, err)
		mem[i] = page.Bytes()
		word(mem[i], offsets.Producer).Store(start)
		word(mem[i], offsets.Consumer).Store(start)
	}
	d := &Device{config: Config{Fill: fakeEntries, RxRing: fakeEntries, TxRing: fakeEntries}, open: map[int]*Queue{}}
	s := &socket{
		fd: -1,
		rx: newConsumer[unix.XDPDesc](mem[0], offsets, fakeEntries), tx: newProducer[unix.XDPDesc](mem[1], offsets, fakeEntries),
		fill: newProducer[uint64](mem[2], offsets, fakeEntries), comp: newConsumer[uint64](mem[3], offsets, fakeEntries),
	}
	k := &kernel{
		Assertions: require.New(t),
		rx:         newProducer[unix.XDPDesc](mem[0], offsets, fakeEntries), tx: newConsumer[unix.XDPDesc](mem[1], offsets, fakeEntries),
		fill: newConsumer[uint64](mem[2], offsets, fakeEntries), comp: newProducer[uint64](mem[3], offsets, fakeEntries),
	}
	q := newQueue(d, 0, pool, s, d.config.Fill)
	q.info = link.Info{MTU: 4000, MaxFrame: 4018, MaxPieces: maxPieces, PerBuffer: l.Stride(buffers.Small) - 256}
	t.Cleanup(func() {
		q.takeBack()
		ledger := pool.Ledger()
		require.Equal(t, ledger.Total, ledger.Free, "%v", ledger)
		require.NoError(t, pool.Verify())
		require.NoError(t, r.Close())
	})
	return q, k
}

// deliver writes a frame into buffers from the fill ring, as long as each has room, and shows them.
func (k *kernel) deliver(q *Queue, frame []byte) {
	for first := true; first || len(frame) > 0; first = false {
		k.Positive(k.fill.ready(), "the fill ring is empty")
		addr := k.fill.take()
		n := copy(q.pool.Region()[addr+256:addr+q.stride], frame)
		frame = frame[n:]
		d := unix.XDPDesc{Addr: addr | 256<<offsetShift, Len: uint32(n)}
		if len(frame) > 0 {
			d.Options = unix.XDP_PKT_CONTD
		}
		k.rx.put(d)
	}
	k.fill.release()
	k.rx.publish()
}

// sent takes what was published for sending, as one byte slice per frame, and completes it.
func (k *kernel) sent(q *Queue) (frames [][]byte) {
	var frame []byte
	for n := k.tx.ready(); n > 0; n-- {
		d := k.tx.take()
		frame = append(frame, q.pool.Region()[d.Addr:d.Addr+uint64(d.Len)]...)
		k.comp.put(d.Addr)
		if d.Options&unix.XDP_PKT_CONTD == 0 {
			frames = append(frames, frame)
			frame = nil
		}
	}
	k.Empty(frame, "the last frame has no end")
	k.tx.release()
	k.comp.publish()
	return frames
}
