package book

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/feed"
)

func TestChangedIsAboutTheBestLevels(t *testing.T) {
	x := feed.SymbolOf("X")
	p := NewByPrice(capacity)
	p.Set(x, true, 10, 5)
	require.True(t, p.Changed())
	require.False(t, p.Changed(), "it was asked for")
	p.Set(x, true, 9, 5)
	require.False(t, p.Changed(), "a worse level")
	p.Set(x, true, 10, 6)
	require.True(t, p.Changed())
	p.Set(x, true, 10, 0)
	require.True(t, p.Changed())

	o := NewByOrder(capacity)
	o.Add(Order{1, x, 10, 5, false})
	require.True(t, o.Changed())
	o.Add(Order{2, x, 11, 5, false})
	require.False(t, o.Changed(), "a worse level")
	o.Reduce(1, 1)
	require.True(t, o.Changed())
	o.Delete(2)
	require.False(t, o.Changed())
	o.Delete(1)
	require.True(t, o.Changed())
}

func TestFind(t *testing.T) {
	o := NewByOrder(capacity)
	require.Nil(t, o.Find(feed.SymbolOf("X")))
	want := Order{1, feed.SymbolOf("X"), 10, 5, true}
	o.Add(want)
	got, ok := o.FindOrder(1)
	require.True(t, ok)
	require.Equal(t, want, got)
	_, ok = o.FindOrder(2)
	require.False(t, ok)
	o.Add(Order{2, want.Symbol, 9, 1, true})
	bid := &o.Find(want.Symbol).Bid
	require.Equal(t, []int64{10, 9}, []int64{bid.Level(0).Price, bid.Level(1).Price})
	require.Equal(t, bid.Best(), bid.Level(0))
}

func TestDepthIsChecked(t *testing.T) {
	for _, depth := range []int{-1, 0, MaxDepth + 1} {
		_, err := NewByLevel(1, depth)
		require.ErrorContains(t, err, "depth")
	}
	p, err := NewByLevel(1, MaxDepth)
	require.NoError(t, err)
	s := p.CountUpdate(1, 1)
	require.False(t, p.Apply(s, Update{Level: 300}))
	require.Equal(t, uint8(255), s.Deepest[Bid])
}

// FuzzByLevel: no update, however wrong, panics, and levels that moved out are gone.
func FuzzByLevel(f *testing.F) {
	f.Add([]byte{0, 1, 1, 10, 2, 1, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := NewByLevel(2, 3)
		require.NoError(t, err)
		for i := 0; i+4 <= len(b); i += 4 {
			s := p.CountUpdate(int32(b[i+3]&1), uint32(b[i+3]))
			p.Apply(s, Update{Action: Action(b[i]), Side: int(int8(b[i+1])), Level: int(int8(b[i+2])), Entry: Entry{Price: int64(b[i+3])}})
			for _, side := range s.Sides {
				require.Equal(t, Entry{}, side[3], "deeper than the books")
			}
		}
	})
}

func TestResize(t *testing.T) {
	o := NewByOrder(capacity)
	o.Add(Order{1, feed.SymbolOf("X"), 10, 100, true})
	o.Resize(1, 70)
	require.Equal(t, Level{Price: 10, Size: 70, Orders: 1}, o.Find(feed.SymbolOf("X")).Bid.Best())
	o.Resize(1, 90)
	require.Equal(t, Level{Price: 10, Size: 90, Orders: 1}, o.Find(feed.SymbolOf("X")).Bid.Best())
	o.Resize(1, 0)
	require.Zero(t, o.Len())
	require.Zero(t, o.Find(feed.SymbolOf("X")).Bid.Len())
	o.Resize(1, 5)
	require.Equal(t, uint64(1), o.Unknown())
}

// Prices are compared, not subtracted: those of a malformed message may be farther apart than an int64 is wide.
func TestPricesFarApart(t *testing.T) {
	b := NewByPrice(Capacity{})
	prices := []int64{-2, math.MaxInt64, math.MinInt64, 0}
	for i := range 12 { // more than are tried one by one
		prices = append(prices, math.MinInt64+2+int64(i), math.MaxInt64-2-int64(i))
	}
	for _, buy := range []bool{true, false} {
		for _, p := range prices {
			b.Set(feed.SymbolOf("A"), buy, p, 1)
		}
	}
	s := b.Find(feed.SymbolOf("A"))
	for i := 1; i < len(prices); i++ {
		require.Greater(t, s.Bid.Level(i-1).Price, s.Bid.Level(i).Price)
		require.Less(t, s.Ask.Level(i-1).Price, s.Ask.Level(i).Price)
	}
	for _, p := range prices {
		b.Set(feed.SymbolOf("A"), true, p, 0)
		b.Set(feed.SymbolOf("A"), false, p, 0)
	}
	require.Zero(t, s.Bid.Len())
	require.Zero(t, s.Ask.Len())
}
