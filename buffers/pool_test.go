package buffers_test

import (
	"testing"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/stretchr/testify/require"
)

// newPool makes a pool over ordinary memory, where the race detector sees the payload too.
func newPool(t testing.TB, l buffers.Layout) *buffers.DriverPool {
	t.Helper()
	p, err := buffers.New(make([]byte, l.Bytes()), l)
	require.NoError(t, err)
	return p
}

// tiny is four small and two large buffers; the test ends with all of them free.
func tiny(t *testing.T) *buffers.DriverPool {
	t.Helper()
	p := newPool(t, buffers.Layout{SmallSize: 100, SmallCount: 4, LargeSize: 1000, LargeCount: 2, Headroom: 20})
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		p.Reclaim()
		require.NoError(t, p.Verify())
		require.Equal(t, buffers.Ledger{Free: 6, Total: 6}, p.Ledger())
	})
	return p
}

// receive is a packet with the given payload, delivered.
func receive(t *testing.T, p *buffers.DriverPool, payload string, a buffers.Account) buffers.Packet {
	t.Helper()
	i, ok := p.Take(buffers.Small)
	require.True(t, ok)
	pk := p.Fill(i, 20, copy(p.Memory(i)[20:], payload), a)
	p.Deliver(pk)
	return pk
}

// receiveChain is a packet of one buffer for each payload.
func receiveChain(t *testing.T, p *buffers.DriverPool, payloads ...string) (pk buffers.Packet) {
	t.Helper()
	for _, s := range payloads {
		pk = p.Append(pk, receive(t, p, s, 0))
	}
	return pk
}

func TestExhaustionAndRecovery(t *testing.T) {
	p := tiny(t)
	var taken []uint32
	for range 4 {
		i, ok := p.Take(buffers.Small)
		require.True(t, ok)
		taken = append(taken, i)
	}
	_, ok := p.Take(buffers.Small)
	require.False(t, ok)
	require.EqualValues(t, 1, p.Stats().Exhausted)
	require.Equal(t, 4, p.Available(buffers.Small), "filling buffers can still receive")
	require.Equal(t, buffers.Ledger{Free: 2, Filling: 4, Total: 6}, p.Ledger())

	before := p.Freed()
	p.Return(taken[2])
	require.Equal(t, before+1, p.Freed())
	i, ok := p.Take(buffers.Small)
	require.True(t, ok)
	require.Equal(t, taken[2], i)

	var pks []buffers.Packet
	for _, i := range taken {
		pks = append(pks, p.Fill(i, 0, 10, 0))
	}
	require.Zero(t, p.Available(buffers.Small))
	require.NoError(t, pks[1].Release())
	i, ok = p.Take(buffers.Small)
	require.True(t, ok)
	require.Equal(t, taken[1], i)
	p.Return(i)
	for _, k := range []int{0, 2, 3} {
		require.NoError(t, pks[k].Release())
	}
}

func TestAllocFallsUp(t *testing.T) {
	p := tiny(t)
	var pks []buffers.Packet
	for range 6 {
		pk, err := p.Alloc(100)
		require.NoError(t, err)
		require.Equal(t, 100, pk.Len())
		pks = append(pks, pk)
	}
	require.Zero(t, p.Available(buffers.Large), "the fifth and sixth are large")
	_, err := p.Alloc(0)
	require.ErrorIs(t, err, buffers.ErrExhausted)
	_, err = p.Alloc(1001)
	require.ErrorIs(t, err, buffers.ErrSize)
	require.ErrorContains(t, err, "n is 1001, the largest buffer holds 1000")
	_, err = p.Alloc(-1)
	require.ErrorContains(t, err, "n is -1")
	require.EqualValues(t, 1, p.Stats().Exhausted, "a wrong size is not exhaustion")
	for _, pk := range pks {
		require.NoError(t, pk.Release())
	}
}

func TestAllocDoesNotFallDown(t *testing.T) {
	p := tiny(t)
	a, err := p.Alloc(101)
	require.NoError(t, err)
	b, err := p.Alloc(1000)
	require.NoError(t, err)
	_, err = p.Alloc(101)
	require.ErrorIs(t, err, buffers.ErrExhausted)
	require.NoError(t, a.Release())
	require.NoError(t, b.Release())
}

func TestPoolsOfOneClass(t *testing.T) {
	small := newPool(t, buffers.Layout{SmallSize: 100, SmallCount: 1})
	_, err := small.Alloc(101)
	require.ErrorContains(t, err, "the largest buffer holds 100")
	_, ok := small.Take(buffers.Large)
	require.False(t, ok)

	large := newPool(t, buffers.Layout{LargeSize: 100, LargeCount: 1, SmallSize: 10})
	pk, err := large.Alloc(5)
	require.NoError(t, err)
	require.Equal(t, 5, pk.Len())
	require.Zero(t, large.Available(buffers.Small))
	require.Zero(t, large.Available(buffers.NumClasses))
	require.NoError(t, large.Verify())
}

// The buffer released last is taken first: it is the one still in the cache.
func TestFreeListIsLastInFirstOut(t *testing.T) {
	p := tiny(t)
	a, _ := p.Take(buffers.Small)
	b, _ := p.Take(buffers.Small)
	p.Return(a)
	p.Return(b)
	c, _ := p.Take(buffers.Small)
	require.Equal(t, b, c)
	p.Return(c)
}

func TestExhaustedPoolTakesBackLentBuffers(t *testing.T) {
	p := tiny(t)
	for range 4 {
		l, err := receive(t, p, "x", 0).Lend()
		require.NoError(t, err)
		require.NoError(t, l.Release())
	}
	require.Equal(t, 4, p.Ledger().Lent, "released, not reclaimed")
	i, ok := p.Take(buffers.Small)
	require.True(t, ok)
	require.Zero(t, p.Stats().Exhausted)
	p.Return(i)
}

// Another goroutine counts the states while the owner moves buffers: each is counted once.
func TestSampleLedger(t *testing.T) {
	p := newPool(t, buffers.Layout{SmallSize: 256, SmallCount: 64})
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			l := p.SampleLedger()
			if l.Sum() != l.Total || l.Total != 64 {
				t.Errorf("a buffer is counted twice or never: %v", l)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	var held []buffers.Packet
	for i := range 20000 {
		if len(held) == 40 || i%3 == 2 {
			require.NoError(t, held[0].Release())
			held = held[1:]
			continue
		}
		k, err := p.Alloc(100)
		require.NoError(t, err)
		held = append(held, k)
	}
	close(stop)
	<-done
	require.Equal(t, p.Ledger(), p.SampleLedger(), "the owner rests")
	require.Equal(t, len(held), p.SampleLedger().Held)
	for _, k := range held {
		require.NoError(t, k.Release())
	}
}

func TestLedgerText(t *testing.T) {
	p := tiny(t)
	pk := receive(t, p, "x", 0)
	require.Equal(t, "free 5, filling 0, received 0, held 1, lent 0, transmitting 0, unacknowledged 0, completing 0, total 6",
		p.Ledger().String())
	require.Equal(t, 6, p.Ledger().Sum())
	require.NoError(t, pk.Release())
}

// panics requires f to panic with a message that contains want, and returns the message.
func panics(t *testing.T, want string, f func()) (message string) {
	t.Helper()
	defer func() {
		t.Helper()
		message, _ = recover().(string)
		require.Contains(t, message, want)
	}()
	f()
	return ""
}

func TestPoolsDoNotMix(t *testing.T) {
	p, q := tiny(t), tiny(t)
	pk, other := receive(t, p, "p", 0), receive(t, q, "q", 0)
	_, err := p.Transmit(other)
	require.ErrorIs(t, err, buffers.ErrOtherPool)
	for _, f := range []func(){
		func() { p.Deliver(other) },
		func() { p.Complete(other) },
		func() { p.Append(pk, other) },
		func() { p.Append(other, pk) },
	} {
		panics(t, "handle of another pool", f)
	}
	require.Equal(t, "p", string(pk.Bytes()))
	require.NoError(t, pk.Release())
	require.NoError(t, other.Release())
}
