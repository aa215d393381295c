package buffers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
)

var frameLayout = buffers.Layout{SmallSize: 200, SmallCount: 7, LargeSize: 900, LargeCount: 3, Headroom: 50}

// Every byte of the region is located: at the boundaries of the buffers and in between.
func TestLocate(t *testing.T) {
	for _, l := range []buffers.Layout{frameLayout, {SmallSize: 2048, SmallCount: 5, Headroom: 192}, {LargeSize: 100, LargeCount: 4}} {
		p := newPool(t, l)
		require.Len(t, p.Region(), l.Bytes())
		at := 0
		for i := range uint32(l.SmallCount + l.LargeCount) {
			for k := range len(p.Memory(i)) {
				got, place, ok := p.Locate(uint64(at))
				require.True(t, ok && got == i && int(place) == k, "byte %d: buffer %d at %d, want %d at %d", at, got, place, i, k)
				require.Same(t, &p.Region()[at], &p.Memory(i)[k])
				at++
			}
		}
		for _, off := range []uint64{uint64(l.Bytes()), 1 << 32, 1 << 48, ^uint64(0)} {
			_, _, ok := p.Locate(off)
			require.False(t, ok, "%d", off)
		}
	}
}

func received(t *testing.T, p *buffers.DriverPool, c buffers.Class, off int, payload string) buffers.Packet {
	t.Helper()
	i, ok := p.Take(c)
	require.True(t, ok)
	copy(p.Memory(i)[off:], payload)
	return p.Fill(i, off, len(payload), 0)
}

func TestTrim(t *testing.T) {
	p := newPool(t, frameLayout)
	a, err := p.OpenAccount(0)
	require.NoError(t, err)
	pk := received(t, p, buffers.Small, 50, "headers-payload-padding")
	p.Trim(pk, 8, 7, a)
	require.Equal(t, "payload", string(pk.Bytes()))
	require.Equal(t, p.Layout().Stride(buffers.Small), p.Used(a))
	require.NoError(t, p.Verify())
	require.Panics(t, func() { p.Trim(pk, 0, 1, a) }, "already charged")
	require.NoError(t, pk.Release())

	// An empty datagram, and one whose account has gone.
	require.NoError(t, p.CloseAccount(a))
	pk = received(t, p, buffers.Small, 50, "headers")
	p.Trim(pk, 7, 0, a)
	require.Zero(t, pk.Len())
	require.True(t, pk.Valid())
	require.EqualValues(t, 1, p.Stats().StaleAccounts)
	require.NoError(t, p.Verify())
	require.NoError(t, pk.Release())

	for _, bad := range [][2]int{{-1, 1}, {0, 8}, {8, 0}, {3, 5}, {0, -1}} {
		pk = received(t, p, buffers.Small, 0, "headers")
		require.Panics(t, func() { p.Trim(pk, bad[0], bad[1], 0) }, "%v", bad)
		require.NoError(t, pk.Release())
	}
	require.Equal(t, p.Ledger().Total, p.Ledger().Free)
}

// DeliverFrame does what Trim and DeliverTo do, or nothing.
func TestDeliverFrame(t *testing.T) {
	p := newPool(t, frameLayout)
	a, err := p.OpenAccount(1)
	require.NoError(t, err)
	refused := func(pk buffers.Packet, off, n int, a buffers.Account) {
		t.Helper()
		before, bytes := p.Ledger(), string(pk.Bytes())
		_, ok := p.DeliverFrame(pk, off, n, a)
		require.False(t, ok)
		require.Equal(t, before, p.Ledger())
		require.Equal(t, bytes, string(pk.Bytes()))
		require.NoError(t, p.Verify())
	}
	pk := received(t, p, buffers.Small, 50, "headers-payload-padding")
	over, ok := p.DeliverFrame(pk, 8, 7, a)
	require.True(t, ok)
	require.True(t, over, "one byte is the limit")
	require.Equal(t, "payload", string(pk.Bytes()))
	require.Equal(t, p.Layout().Stride(buffers.Small), p.Used(a))
	require.Equal(t, 1, p.Ledger().Held)
	require.NoError(t, p.Verify())
	refused(pk, 0, 1, a) // it was delivered
	require.NoError(t, pk.Release())
	refused(pk, 0, 1, a) // and is gone

	pk = received(t, p, buffers.Small, 50, "headers")
	for _, bad := range [][2]int{{-1, 1}, {0, 8}, {8, 0}, {3, 5}, {0, -1}} {
		refused(pk, bad[0], bad[1], a)
	}
	refused(pk, 0, 1, a+1<<20)
	require.NoError(t, pk.Retain())
	refused(pk, 0, 1, a)
	require.NoError(t, pk.Release())
	pk = p.Append(pk, received(t, p, buffers.Small, 50, "more"))
	refused(pk, 0, 1, a)
	require.NoError(t, pk.Release())
	p.SetDebug(true)
	pk = received(t, p, buffers.Small, 50, "headers")
	refused(pk, 0, 1, a)
	require.NoError(t, pk.Release())
	require.Equal(t, p.Ledger().Total, p.Ledger().Free)
}

// FillHeld does what Fill and DeliverTo do.
func TestFillHeld(t *testing.T) {
	p := newPool(t, frameLayout)
	a, err := p.OpenAccount(2 * p.Layout().Stride(buffers.Small))
	require.NoError(t, err)
	require.NoError(t, p.AskCredit(a, 5))
	take := func() uint32 {
		i, ok := p.Take(buffers.Small)
		require.True(t, ok)
		copy(p.Memory(i)[10:], "payload")
		return i
	}
	for _, debug := range []bool{false, true} {
		p.SetDebug(debug)
		first, over := p.FillHeld(take(), 10, 7, a)
		require.False(t, over)
		require.Equal(t, "payload", string(first.Bytes()))
		second, over := p.FillHeld(take(), 10, 0, a)
		require.True(t, over)
		require.Equal(t, 2, p.Ledger().Held)
		require.NoError(t, p.Verify())
		require.NoError(t, first.Release())
		require.NoError(t, second.Release())
		c, ok := p.TakeCredit()
		require.True(t, ok)
		require.Equal(t, buffers.Credit{Account: a, Holder: 5, Bytes: 7}, c)
	}
	p.SetDebug(false)
	i := take()
	require.Panics(t, func() { p.FillHeld(i, 10, p.Layout().Stride(buffers.Small), a) })
	pk, _ := p.FillHeld(i, 10, 7, a+1<<20)
	require.EqualValues(t, 1, p.Stats().StaleAccounts)
	require.Panics(t, func() { p.FillHeld(i, 10, 7, 0) }, "held already")
	require.NoError(t, pk.Release())
	require.Equal(t, p.Ledger().Total, p.Ledger().Free)
}

// A frame of several buffers, cut at every place at both ends.
func TestTrimChain(t *testing.T) {
	p := newPool(t, frameLayout)
	a, err := p.OpenAccount(0)
	require.NoError(t, err)
	const whole = "abcdefghijkl"
	for off := range len(whole) + 1 {
		for n := range len(whole) - off + 1 {
			pk := received(t, p, buffers.Small, 60, whole[:5])
			pk = p.Append(pk, received(t, p, buffers.Small, 3, whole[5:8]))
			pk = p.Append(pk, received(t, p, buffers.Large, 0, whole[8:]))
			p.Trim(pk, off, n, a)
			got := make([]byte, 20)
			require.Equal(t, whole[off:off+n], string(got[:pk.CopyTo(got)]), "%d %d", off, n)
			require.Equal(t, n, pk.Len())
			require.NoError(t, p.Verify())
			places := ""
			for l := p.Place(pk); ; l = p.NextPlace(l) {
				places += string(p.Region()[l.Off : l.Off+l.Len])
				if !l.More() {
					break
				}
			}
			require.Equal(t, whole[off:off+n], places)
			require.Equal(t, 2*p.Layout().Stride(buffers.Small)+p.Layout().Stride(buffers.Large), p.Used(a))
			require.NoError(t, pk.Release())
			require.Zero(t, p.Used(a))
		}
	}
}

func TestPush(t *testing.T) {
	p := newPool(t, frameLayout)
	pk, err := p.Alloc(4)
	require.NoError(t, err)
	copy(pk.Bytes(), "data")
	require.Equal(t, 50, pk.Headroom())
	udp, err := pk.Push(4)
	require.NoError(t, err)
	require.Equal(t, 4, cap(udp))
	copy(udp, "udp ")
	sent, err := p.Transmit(pk)
	require.NoError(t, err)
	_, err = pk.Push(1)
	require.ErrorIs(t, err, buffers.ErrStale)
	ip, err := sent.Push(3)
	require.NoError(t, err)
	copy(ip, "ip ")
	require.Equal(t, "ip udp data", string(sent.Bytes()))
	require.Equal(t, 43, sent.Headroom())
	for _, n := range []int{-1, 44, 1 << 40} {
		_, err = sent.Push(n)
		require.ErrorIs(t, err, buffers.ErrSize, "%d", n)
	}
	l := p.Place(sent)
	require.Equal(t, "ip udp data", string(p.Region()[l.Off:l.Off+l.Len]))
	require.False(t, l.More())
	require.NoError(t, p.Verify())
	p.Complete(sent)
	require.NoError(t, sent.Release())
	require.Zero(t, sent.Headroom())

	// What Pull took away, Push gives back, also after the front moved on in a chain.
	chain := p.Append(received(t, p, buffers.Small, 0, "ab"), received(t, p, buffers.Small, 9, "cdef"))
	require.NoError(t, chain.Pull(3))
	b, err := chain.Push(2)
	require.NoError(t, err)
	copy(b, "CD")
	require.Equal(t, "CDdef", string(chain.Bytes()))
	require.Equal(t, 5, chain.Len())
	require.NoError(t, p.Verify())
	require.NoError(t, chain.Retain())
	_, err = chain.Push(1)
	require.ErrorIs(t, err, buffers.ErrShared)
	require.NoError(t, chain.Release())
	require.NoError(t, chain.Release())
	_, err = buffers.Packet{}.Push(1)
	require.ErrorIs(t, err, buffers.ErrNone)
	require.Equal(t, p.Ledger().Total, p.Ledger().Free)
}

func TestFramesDoNotAllocate(t *testing.T) {
	p := newPool(t, frameLayout)
	a, err := p.OpenAccount(0)
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		i, _ := p.Take(buffers.Small)
		pk := p.Fill(i, 40, 100, 0)
		p.Trim(pk, 42, 50, a)
		p.Deliver(pk)
		pk, _ = p.Transmit(pk)
		_, _ = pk.Push(42)
		l := p.Place(pk)
		_, _, _ = p.Locate(uint64(l.Off))
		p.Complete(pk)
		_ = pk.Release()
	}))
}
