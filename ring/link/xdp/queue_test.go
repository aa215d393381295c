package xdp

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

var fakeLayout = buffers.Layout{SmallSize: 2048, SmallCount: 64, LargeSize: 9000, LargeCount: 2, Headroom: 192}

// message is a frame that tells its number and length.
func message(i, n int) []byte {
	b := bytes.Repeat([]byte{byte(i)}, n)
	copy(b, fmt.Sprintf("frame %d of %d bytes", i, n))
	return b
}

// outgoing is a packet for Send with these bytes, in pieces of at most size.
func outgoing(t testing.TB, pool *buffers.DriverPool, b []byte, size int) buffers.Packet {
	t.Helper()
	var p buffers.Packet
	for len(b) > 0 {
		k := min(len(b), size)
		x, err := pool.Alloc(k)
		require.NoError(t, err)
		copy(x.Bytes(), b[:k])
		p, b = pool.Append(p, x), b[k:]
	}
	p, err := pool.Transmit(p)
	require.NoError(t, err)
	return p
}

// All four rings go past 2³² with every entry used many times, in batches of every size.
func TestIndexesWrap(t *testing.T) {
	q, k := fake(t, ^uint32(0)-100, fakeLayout)
	var dst [fakeEntries]link.Frame
	var done [fakeEntries]link.Done
	number, token := 0, uint64(0)
	for round := range 400 {
		batch := round%fakeEntries + 1
		q.refill(1)
		for i := range batch {
			k.deliver(q, message(number+i, 60))
		}
		got := 0
		for got < batch {
			n := q.Receive(dst[:1+(round+got)%len(dst)])
			k.Positive(n)
			for _, f := range dst[:n] {
				k.Equal(message(number+got, 60), f.Packet.Bytes())
				k.Equal(link.ClockNone, f.Source)
				k.NoError(f.Packet.Release())
				got++
			}
		}
		k.Zero(q.Receive(dst[:]))
		var src [fakeEntries]link.Out
		for i := range batch {
			token++
			src[i] = link.Out{Packet: outgoing(t, q.pool, message(number+i, 60), 2048), Token: token}
		}
		k.Equal(batch, q.Send(src[:batch]))
		k.NoError(q.Flush())
		for i, f := range k.sent(q) {
			k.Equal(message(number+i, 60), f)
		}
		k.Equal(batch, q.Complete(done[:]))
		for i, d := range done[:batch] {
			k.Equal(src[i].Token, d.Token)
			k.NoError(d.Packet.Release())
		}
		number += batch
	}
	k.Less(q.sock.rx.next, uint32(1<<31), "it did not wrap")
	k.Zero(q.counts.badNumbers)
	k.EqualValues(number, q.Stats().RxFrames)
	k.EqualValues(number*60, q.Stats().TxBytes)
}

// Frames of several buffers come as chains, whole, even if the kernel shows their pieces one by one.
func TestChains(t *testing.T) {
	q, k := fake(t, 0, fakeLayout)
	var dst [4]link.Frame
	q.refill(1)
	for i, n := range []int{1984, 1985, 4000, 60, 3968} {
		k.deliver(q, message(i, n))
	}
	sizes := []int{}
	for range 2 {
		for _, f := range dst[:q.Receive(dst[:])] {
			b := make([]byte, f.Packet.Len())
			f.Packet.CopyTo(b)
			k.Equal(message(len(sizes), len(b)), b)
			sizes = append(sizes, len(b))
			k.NoError(f.Packet.Release())
		}
	}
	k.Equal([]int{1984, 1985, 4000, 60, 3968}, sizes)

	q.refill(1)
	k.fill.ready()
	first, second := k.fill.take(), k.fill.take()
	k.rx.put(unix.XDPDesc{Addr: first | 256<<offsetShift, Len: 1984, Options: unix.XDP_PKT_CONTD})
	k.rx.publish()
	k.Zero(q.Receive(dst[:]))
	k.rx.put(unix.XDPDesc{Addr: second | 256<<offsetShift, Len: 16})
	k.rx.publish()
	k.Equal(1, q.Receive(dst[:]))
	k.Equal(2000, dst[0].Packet.Len())
	k.NoError(dst[0].Packet.Release())
}

// What is sent may lie in several small buffers or in a large one: never more than a chunk per descriptor.
func TestSendingPieces(t *testing.T) {
	q, k := fake(t, 0, fakeLayout)
	for _, test := range []struct{ length, size, pieces int }{
		{60, 2048, 1}, {2100, 1000, 3}, {4000, 9000, 2}, {2240, 9000, 1}, {2241, 9000, 2}, {4018, 300, 14},
	} {
		want := message(test.pieces, test.length)
		p := outgoing(t, q.pool, want, test.size)
		k.Equal(1, q.Send([]link.Out{{Packet: p}}), "%+v", test)
		k.NoError(q.Flush())
		k.EqualValues(test.pieces, k.tx.ready(), "%+v", test)
		k.Equal([][]byte{want}, k.sent(q))
		k.Zero(q.Complete(nil))
		k.Zero(q.Unsent())
	}
	long := outgoing(t, q.pool, message(1, 17), 1)
	k.Zero(q.Send([]link.Out{{Packet: long}}), "more pieces than the ring has entries")
	q.pool.Complete(long)
	k.NoError(long.Release())
	short := outgoing(t, q.pool, message(1, 13), 2048)
	k.Panics(func() { q.Send([]link.Out{{Packet: short}}) })
	q.pool.Complete(short)
	k.NoError(short.Release())
	lost := uint64(0)
	refused := func(n, size int) {
		for token := range uint64(2) {
			p := outgoing(t, q.pool, message(1, n), size)
			k.Equal(1, q.Send([]link.Out{{Packet: p, Token: token}}), "%d bytes in pieces of %d", n, size)
			k.EqualValues(token, q.Unsent())
			done := make([]link.Done, 2)
			k.EqualValues(token, q.Complete(done))
			if token > 0 {
				k.Equal(token, done[0].Token)
				k.NoError(done[0].Packet.Release())
			}
			k.Zero(q.Unsent())
			lost++
			k.Equal(lost, q.counts.tooLong)
			k.Zero(k.tx.ready())
		}
		k.Zero(q.pool.Ledger().Transmitting)
	}
	refused(4019, 9000)
	refused(18, 1)
	q.info.MaxPieces = 1
	refused(2100, 1000)
}

// A full transmit ring takes no more; completed frames with tokens wait for the caller however short its slice.
func TestBackPressure(t *testing.T) {
	q, k := fake(t, 0, fakeLayout)
	var src [fakeEntries + 4]link.Out
	for i := range src {
		src[i] = link.Out{Packet: outgoing(t, q.pool, message(i, 60), 2048), Token: uint64(i + 1)}
	}
	k.Equal(fakeEntries, q.Send(src[:]))
	k.Zero(q.Send(src[fakeEntries:]))
	k.NoError(q.Flush())
	k.True(q.Pending(), "the kernel has read nothing")
	k.Len(k.sent(q), fakeEntries)
	k.False(q.Pending(), "read, though not sent")
	k.Zero(q.Send(src[fakeEntries:]), "not completed yet")
	k.Zero(q.Complete(nil))
	k.Equal(fakeEntries, q.Unsent())
	k.Zero(q.Send(src[fakeEntries:]), "nobody has been told yet")
	k.True(q.Arm(), "there is something to tell")
	var tokens []uint64
	var one [3]link.Done
	take := func() int {
		n := q.Complete(one[:])
		for _, d := range one[:n] {
			tokens = append(tokens, d.Token)
			q.pool.Deliver(d.Packet)
			k.NoError(d.Packet.Release())
		}
		return n
	}
	take()
	k.Equal(3, q.Send(src[fakeEntries:]))
	k.NoError(q.Flush())
	k.Len(k.sent(q), 3)
	for take() > 0 {
	}
	k.Equal(1, q.Send(src[fakeEntries+3:]))
	k.Len(tokens, fakeEntries+3)
	for i, token := range tokens {
		k.EqualValues(i+1, token)
	}
	// The last one is never sent: the end of the test takes it back.
	k.NoError(q.Flush())
	k.Equal(1, q.Unsent())
}

// Numbers that name no buffer, or one that is elsewhere, are counted and change nothing.
func TestNonsenseFromTheKernel(t *testing.T) {
	q, k := fake(t, 0, fakeLayout)
	var dst [8]link.Frame
	q.refill(1)
	k.fill.ready()
	good := k.fill.take()
	never := uint64(60) * q.stride // a buffer that was never given to the card
	for _, d := range []unix.XDPDesc{
		{Addr: uint64(len(q.pool.Region())), Len: 60},
		{Addr: mask48, Len: 60},
		{Addr: ^uint64(0), Len: 60},
		{Addr: never, Len: 60},
	} {
		before := q.pool.Ledger()
		k.rx.put(d)
		k.rx.publish()
		k.Zero(q.Receive(dst[:]), "%+v", d)
		k.Equal(before, q.pool.Ledger())
	}
	k.EqualValues(4, q.counts.badNumbers)
	k.rx.put(unix.XDPDesc{Addr: good | 256<<offsetShift, Len: uint32(q.stride - 255)}) // ends beyond the buffer
	k.rx.publish()
	k.Zero(q.Receive(dst[:]))
	k.EqualValues(5, q.counts.badNumbers)
	k.rx.put(unix.XDPDesc{Addr: good, Len: 60}) // a second time
	k.rx.publish()
	k.Zero(q.Receive(dst[:]))
	k.EqualValues(6, q.counts.badNumbers)

	// A chain with a bad link is dropped whole; the next frame is good.
	q.refill(1)
	k.fill.ready()
	a, b, c := k.fill.take(), k.fill.take(), k.fill.take()
	for _, d := range []unix.XDPDesc{
		{Addr: a, Len: 100, Options: unix.XDP_PKT_CONTD}, {Addr: never, Len: 100, Options: unix.XDP_PKT_CONTD}, {Addr: b, Len: 9},
		{Addr: c, Len: 77},
	} {
		k.rx.put(d)
	}
	k.rx.publish()
	k.Equal(1, q.Receive(dst[:]))
	k.Equal(77, dst[0].Packet.Len())
	k.NoError(dst[0].Packet.Release())
	k.EqualValues(7, q.counts.badNumbers)

	for _, addr := range []uint64{mask48, never, good, ^uint64(0)} {
		k.comp.put(addr)
	}
	k.comp.publish()
	k.Equal(1, q.Send([]link.Out{{Packet: outgoing(t, q.pool, message(1, 60), 2048)}}))
	q.Complete(nil)
	k.Equal(1, q.Unsent())
	k.EqualValues(11, q.counts.badNumbers)
}

// When the pool is empty the card gets nothing, and gets buffers again when some came back.
func TestStarving(t *testing.T) {
	q, k := fake(t, 0, fakeLayout)
	var held []buffers.Packet
	for {
		p, err := q.pool.Alloc(2048)
		if err != nil {
			break
		}
		held = append(held, p)
	}
	var dst [8]link.Frame
	for range 3 {
		q.Receive(dst[:])
	}
	k.Zero(q.posted)
	k.EqualValues(1, q.counts.noBuffer, "asked again only when something came back")
	for _, p := range held {
		k.NoError(p.Release())
	}
	q.Receive(dst[:])
	k.Equal(fakeEntries, q.posted)
}

// What an earlier use left in the headroom is never taken for a stamp, and 0 is none.
func TestStamps(t *testing.T) {
	q, k := fake(t, 0, fakeLayout)
	q.clock = link.ClockHardware
	var dst [8]link.Frame
	for i := range fakeLayout.SmallCount { // as if a stamp had been there
		copy(q.pool.Memory(uint32(i))[248:], "\x01\x02\x03\x04\x05\x06\x07\x08")
	}
	q.refill(1)
	k.deliver(q, message(1, 60))
	k.Equal(1, q.Receive(dst[:]))
	k.Equal(link.ClockNone, dst[0].Source)
	k.Zero(dst[0].Nanos)
	k.NoError(dst[0].Packet.Release())

	q.refill(1)
	k.fill.ready()
	addr := k.fill.take()
	q.pool.Region()[addr+248] = 42
	k.rx.put(unix.XDPDesc{Addr: addr | 256<<offsetShift, Len: 60})
	other := k.fill.take() // a driver that leaves another headroom
	q.pool.Region()[other+248] = 42
	k.rx.put(unix.XDPDesc{Addr: other | 260<<offsetShift, Len: 60})
	k.rx.publish()
	k.Equal(2, q.Receive(dst[:]))
	k.Equal(link.ClockHardware, dst[0].Source)
	k.NotZero(dst[0].Nanos)
	k.Equal(link.ClockNone, dst[1].Source)
	for _, f := range dst[:2] {
		k.NoError(f.Packet.Release())
	}
}

func TestBatchesDoNotAllocate(t *testing.T) {
	q, k := fake(t, 0, fakeLayout)
	q.clock = link.ClockKernel
	var dst [8]link.Frame
	var src [8]link.Out
	var done [8]link.Done
	require.Zero(t, testing.AllocsPerRun(500, func() {
		q.refill(1)
		for range 8 {
			k.fill.ready()
			k.rx.put(unix.XDPDesc{Addr: k.fill.take() | 256<<offsetShift, Len: 60})
		}
		k.fill.release()
		k.rx.publish()
		n := q.Receive(dst[:])
		for i := range dst[:n] {
			q.pool.Trim(dst[i].Packet, 14, 40, 0)
			q.pool.Deliver(dst[i].Packet)
			p, _ := q.pool.Transmit(dst[i].Packet)
			_, _ = p.Push(14)
			src[i] = link.Out{Packet: p, Token: uint64(i)}
		}
		if q.Send(src[:n]) != 8 || q.Flush() != nil {
			panic("not sent")
		}
		for r := k.tx.ready(); r > 0; r-- {
			k.comp.put(k.tx.take().Addr)
		}
		k.tx.release()
		k.comp.publish()
		for _, d := range done[:q.Complete(done[:])] {
			_ = d.Packet.Release()
		}
	}))
	k.Zero(q.counts.badNumbers)
}
