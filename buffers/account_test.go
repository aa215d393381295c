package buffers_test

import (
	"math/rand/v2"
	"testing"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/stretchr/testify/require"
)

func open(t *testing.T, p *buffers.DriverPool, limit int) buffers.Account {
	t.Helper()
	a, err := p.OpenAccount(limit)
	require.NoError(t, err)
	require.Positive(t, a)
	return a
}

func TestAccountsChargeBufferMemory(t *testing.T) {
	p := newPool(t, buffers.Layout{SmallSize: 128, SmallCount: 64, LargeSize: 1000, LargeCount: 8})
	small, large := 192, 1088
	a := open(t, p, 2*small)
	pk := receive(t, p, "x", a)
	require.Equal(t, small, p.Used(a), "one byte costs a buffer")
	require.False(t, p.Over(a))
	pk2 := receive(t, p, "y", a)
	require.True(t, p.Over(a), "at the limit")
	require.NoError(t, pk2.Release())
	require.False(t, p.Over(a))

	i, _ := p.Take(buffers.Large)
	big := p.Fill(i, 0, 1, a)
	require.Equal(t, small+large, p.Used(a))
	require.True(t, p.Over(a))
	require.NoError(t, p.SetLimit(a, small+large+1))
	require.False(t, p.Over(a))
	require.NoError(t, p.SetLimit(a, 1))
	require.True(t, p.Over(a))
	require.NoError(t, p.SetLimit(a, 0))
	require.False(t, p.Over(a))

	out, err := p.Alloc(10)
	require.NoError(t, err)
	require.Equal(t, small, p.Used(0), "sending is charged to nobody")
	require.False(t, p.Over(0))
	for _, pk := range []buffers.Packet{pk, big, out} {
		require.NoError(t, pk.Release())
	}
	require.Zero(t, p.Used(a))
}

// OverFree counts what is free in the class, Over what is filling there as well.
func TestOverWhatIsFree(t *testing.T) {
	p := newPool(t, buffers.Layout{SmallSize: 128, SmallCount: 8, LargeSize: 1000, LargeCount: 1})
	a := open(t, p, 0)
	var held []buffers.Packet
	for range 2 {
		held = append(held, receive(t, p, "x", a))
	}
	var filling []uint32
	for p.Free(buffers.Small) > 1 {
		require.False(t, p.OverFree(a, buffers.Small), "2 held, %d free", p.Free(buffers.Small))
		i, ok := p.Take(buffers.Small)
		require.True(t, ok)
		filling = append(filling, i)
	}
	require.True(t, p.OverFree(a, buffers.Small), "2 held, 1 free")
	require.False(t, p.OverFree(a, buffers.Large), "the classes count apart")
	require.False(t, p.OverFree(0, buffers.Small))
	require.False(t, p.Over(a), "2 held, 6 free or filling")
	for _, i := range filling {
		p.Return(i)
	}
	for _, pk := range held {
		require.NoError(t, pk.Release())
	}
	require.NoError(t, p.CloseAccount(a))
	require.True(t, p.OverFree(a, buffers.Large), "closed and settled")
}

func TestChargeLastsAsLongAsTheBuffer(t *testing.T) {
	p := tiny(t)
	a, b := open(t, p, 0), open(t, p, 0)
	one := p.Used(a)
	require.Zero(t, one)
	pk := p.Append(receive(t, p, "a", a), receive(t, p, "b", b))
	stride := p.Layout().Stride(buffers.Small)
	keep, _ := pk.Buffer().Next()
	require.NoError(t, keep.Retain())
	l := lend(t, pk)
	require.Equal(t, stride, p.Used(a), "lent, still charged")
	require.NoError(t, l.Release())
	p.Reclaim()
	require.Zero(t, p.Used(a))
	require.Equal(t, stride, p.Used(b), "kept, still charged")
	require.NoError(t, keep.Release())
	require.Zero(t, p.Used(b))
}

func TestReleaseAfterCloseAccount(t *testing.T) {
	p := tiny(t)
	a := open(t, p, 100)
	pk, other := receive(t, p, "x", a), receive(t, p, "y", a)
	require.NoError(t, p.CloseAccount(a))
	require.ErrorIs(t, p.CloseAccount(a), buffers.ErrAccount)
	require.NotEqual(t, slot(a), slot(open(t, p, 0)), "not while buffers are out")
	require.NoError(t, pk.Release())
	require.Positive(t, p.Used(a))
	require.Equal(t, "y", string(other.Bytes()))
	late := receive(t, p, "z", a)
	require.NoError(t, other.Release())
	require.Positive(t, p.Used(a), "filled after the close: still its")
	require.NoError(t, late.Release())

	require.Zero(t, p.Used(a))
	require.True(t, p.Over(a), "settled: may take no more")
	b := open(t, p, 0)
	require.Equal(t, slot(a), slot(b))
	require.NotEqual(t, a, b)
	require.ErrorIs(t, p.SetLimit(a, 1), buffers.ErrAccount)
	require.ErrorIs(t, p.CloseAccount(a), buffers.ErrAccount)

	pk = receive(t, p, "x", a)
	require.Zero(t, p.Used(b), "the old number does not reach the new account")
	require.EqualValues(t, 1, p.Stats().StaleAccounts)
	require.NoError(t, pk.Release())
}

func slot(a buffers.Account) buffers.Account { return a & (1<<20 - 1) }

func TestAccountNumbersRepeatLate(t *testing.T) {
	p := tiny(t)
	first := open(t, p, 0)
	require.NoError(t, p.CloseAccount(first))
	for range 2047 {
		a := open(t, p, 0)
		require.NotEqual(t, first, a)
		require.NoError(t, p.CloseAccount(a))
	}
	require.Equal(t, first, open(t, p, 0))
}

func TestAccountArguments(t *testing.T) {
	p := tiny(t)
	_, err := p.OpenAccount(-5)
	require.ErrorIs(t, err, buffers.ErrSize)
	require.ErrorContains(t, err, "limit is -5")
	a := open(t, p, 0)
	require.ErrorContains(t, p.SetLimit(a, -6), "limit is -6")
	for _, bad := range []buffers.Account{0, -1, a + 1, a + 1<<20} {
		require.ErrorIs(t, p.SetLimit(bad, 1), buffers.ErrAccount)
		require.ErrorIs(t, p.CloseAccount(bad), buffers.ErrAccount)
	}
	require.ErrorContains(t, p.CloseAccount(77), "account 77")
	require.Zero(t, p.Used(77))
}

func TestTooManyAccounts(t *testing.T) {
	p := tiny(t)
	for range 1<<20 - 1 {
		if _, err := p.OpenAccount(0); err != nil {
			require.NoError(t, err)
		}
	}
	_, err := p.OpenAccount(0)
	require.ErrorIs(t, err, buffers.ErrExhausted)
	require.ErrorContains(t, err, "1048575 accounts")
}

// Holders that take whenever Over allows: the first, alone, gets half of a class. As buffers come and go among N of them
// each ends with 1/(N+1), and as much is left.
func TestDynamicThreshold(t *testing.T) {
	layout := buffers.Layout{SmallSize: 128, SmallCount: 240, LargeSize: 1000, LargeCount: 120}
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 2))
		c, holders := buffers.Class(seed%2), 1+r.IntN(11)
		p := newPool(t, layout)
		total := p.Available(c)
		accounts, held := make([]buffers.Account, holders), make([][]buffers.Packet, holders)
		greedy := func(h int) {
			for !p.Over(accounts[h]) {
				i, ok := p.Take(c)
				if !ok {
					require.Empty(t, held[h], "seed %d: who has some and is not over finds a buffer", seed)
					return
				}
				held[h] = append(held[h], p.Fill(i, 0, 1, accounts[h]))
			}
		}
		for h := range holders {
			accounts[h] = open(t, p, 0)
		}
		greedy(0)
		require.Len(t, held[0], total/2+1)
		for range 30 * total {
			if h := r.IntN(holders); len(held[h]) > 0 {
				require.NoError(t, held[h][0].Release())
				held[h] = held[h][1:]
			}
			for _, h := range r.Perm(holders) {
				greedy(h)
			}
		}
		share := total / (holders + 1)
		for h := range held {
			require.InDelta(t, share, len(held[h]), 2, "seed %d, %d holders, %v", seed, holders, c)
		}
		require.InDelta(t, share, p.Available(c), 2, "seed %d: as much is left", seed)
		require.NoError(t, p.Verify())
	}
}

// One greedy holder of the large class leaves half of it, though there is plenty of small memory.
func TestThresholdIsPerClass(t *testing.T) {
	p := newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 1000, LargeSize: 4096, LargeCount: 10})
	a, b := open(t, p, 0), open(t, p, 0)
	n := 0
	for ; !p.Over(a); n++ {
		i, ok := p.Take(buffers.Large)
		require.True(t, ok)
		p.Fill(i, 0, 1, a)
	}
	require.Equal(t, 6, n)
	require.False(t, p.Over(b))
	require.Equal(t, 4, p.Available(buffers.Large))
}
