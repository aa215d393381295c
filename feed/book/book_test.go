package book

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/feed"
)

func TestTableAgainstAMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	table, model := newTable(4), map[uint64]uint32{}
	for range 100_000 {
		key := rnd.Uint64N(600) << (8 * rnd.Uint64N(3))
		switch _, there := model[key]; {
		case there && rnd.IntN(2) == 0:
			table.delete(key)
			delete(model, key)
		case !there:
			v := rnd.Uint32N(1 << 30)
			table.put(key, v)
			model[key] = v
			table.delete(^key) // nothing
		}
		v, ok := table.find(key)
		want, there := model[key]
		require.Equal(t, there, ok)
		require.Equal(t, want, v)
		require.Equal(t, len(model), table.n)
	}
	for k, v := range model {
		got, ok := table.find(k)
		require.True(t, ok)
		require.Equal(t, v, got)
	}
	table.clear()
	require.Zero(t, table.n)
}

// naive is a book as a map.
type naive map[bool]map[int64]uint64

func (n naive) rows(buy bool) (rows []string) {
	var prices []int64
	for p := range n[buy] {
		prices = append(prices, p)
	}
	slices.Sort(prices)
	if !buy {
		slices.Reverse(prices)
	}
	for _, p := range prices {
		rows = append(rows, fmt.Sprint(p, n[buy][p]))
	}
	return rows
}

func rows(s *Side) (rows []string) {
	for _, l := range s.Levels() {
		rows = append(rows, fmt.Sprint(l.Price, l.Size))
	}
	return rows
}

func TestByPriceAgainstAMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	p := NewByPrice(Capacity{Instruments: 2, Levels: 16})
	model := map[string]naive{}
	names := []string{"A", "BB", "LONGNAME"}
	for _, n := range names {
		model[n] = naive{true: {}, false: {}}
	}
	for i := range 50_000 {
		name, buy, price, size := names[rnd.IntN(3)], rnd.IntN(2) == 0, int64(rnd.IntN(60))-20, uint64(rnd.IntN(3))
		p.Set(feed.SymbolOf(name), buy, price, size)
		if size == 0 {
			delete(model[name][buy], price)
		} else {
			model[name][buy][price] = size
		}
		s := p.Find(feed.SymbolOf(name))
		require.Equal(t, model[name].rows(true), rows(&s.Bid), "step %d", i)
		require.Equal(t, model[name].rows(false), rows(&s.Ask), "step %d", i)
	}
	p.MarkStale()
	require.True(t, p.Instruments()[0].Stale)
	p.Clear()
	require.Zero(t, p.Instruments()[0].Bid.Len())
	require.False(t, p.Instruments()[0].Stale)
	p.Quote(feed.SymbolOf("A"), Level{Price: 5, Size: 1}, Level{})
	p.Quote(feed.SymbolOf("A"), Level{Price: 6, Size: 2}, Level{Price: 7, Size: 3})
	require.Equal(t, []Level{{Price: 6, Size: 2}}, p.Find(feed.SymbolOf("A")).Bid.Levels())
	require.Equal(t, Level{Price: 7, Size: 3}, p.Find(feed.SymbolOf("A")).Ask.Best())
}

func TestByOrderAgainstAMap(t *testing.T) {
	type resting struct {
		shares uint32
		price  int64
		buy    bool
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	o, model := NewByOrder(Capacity{Instruments: 1, Levels: 16, Orders: 16}), map[uint64]resting{}
	unknown := uint64(0)
	for range 40_000 {
		ref := rnd.Uint64N(300)
		r, there := model[ref]
		switch rnd.IntN(5) {
		case 0, 1:
			if !there {
				model[ref] = resting{1 + rnd.Uint32N(100), int64(rnd.IntN(40)), rnd.IntN(2) == 0}
				o.Add(Order{ref, feed.SymbolOf("X"), model[ref].price, model[ref].shares, model[ref].buy})
			}
		case 2:
			n := rnd.Uint32N(120)
			o.Reduce(ref, n)
			if !there {
				unknown++
			} else if n >= r.shares {
				delete(model, ref)
			} else {
				r.shares -= n
				model[ref] = r
			}
		case 3:
			o.Delete(ref)
			if !there {
				unknown++
			}
			delete(model, ref)
		case 4:
			to := 1000 + rnd.Uint64N(300)
			if _, taken := model[to]; taken {
				continue
			}
			o.Replace(ref, to, 7, 9)
			if !there {
				unknown++
				continue
			}
			delete(model, ref)
			model[to] = resting{7, 9, r.buy}
		}
		require.Equal(t, len(model), o.Len())
		require.Equal(t, unknown, o.Unknown())
	}
	want := naive{true: {}, false: {}}
	orders := map[bool]map[int64]uint32{true: {}, false: {}}
	for _, r := range model {
		want[r.buy][r.price] += uint64(r.shares)
		orders[r.buy][r.price]++
	}
	s := o.Find(feed.SymbolOf("X"))
	require.Equal(t, want.rows(true), rows(&s.Bid))
	require.Equal(t, want.rows(false), rows(&s.Ask))
	for _, l := range s.Bid.Levels() {
		require.Equal(t, orders[true][l.Price], l.Orders)
	}
	o.Add(Order{1 << 40, feed.SymbolOf("X"), 1, 5, true})
	o.Add(Order{1 << 40, feed.SymbolOf("X"), 1, 6, true}) // the same reference again
	o.Clear()
	require.Zero(t, o.Len())
}

func TestByLevel(t *testing.T) {
	p, err := NewByLevel(1, 3)
	require.NoError(t, err)
	s := p.CountUpdate(7, 1)
	apply := func(action Action, level int, price int64) bool {
		return p.Apply(s, Update{Action: action, Side: Offer, Level: level, Entry: Entry{Price: price, Size: 1}})
	}
	prices := func() (all [3]int64) {
		for i := range all {
			if e := s.Sides[Offer][i]; e.Known {
				all[i] = e.Price
			}
		}
		return all
	}
	require.True(t, apply(0, 1, 10))
	require.True(t, apply(0, 1, 9))
	require.True(t, apply(0, 3, 12))
	require.Equal(t, [3]int64{9, 10, 12}, prices())
	require.True(t, apply(0, 2, 95))
	require.Equal(t, [3]int64{9, 95, 10}, prices())
	require.True(t, apply(1, 2, 96))
	require.True(t, apply(2, 1, 0))
	require.Equal(t, [3]int64{96, 10, 0}, prices())
	require.True(t, apply(3, 1, 0))
	require.Equal(t, [3]int64{10, 0, 0}, prices())
	require.True(t, apply(5, 3, 30))
	require.True(t, apply(4, 1, 0))
	require.Equal(t, [3]int64{}, prices())
	require.False(t, apply(0, 4, 1), "deeper than it keeps")
	require.False(t, apply(0, 0, 1))
	require.False(t, apply(9, 1, 1))
	require.Equal(t, uint8(4), s.Deepest[Offer])
	require.True(t, apply(0, 1, 10))
	p.CountUpdate(7, 2)
	require.Zero(t, s.Damaged)
	p.CountUpdate(7, 5) // 3 and 4 were missed: nothing is known any more
	require.Equal(t, uint32(1), s.Damaged)
	require.Equal(t, uint64(2), p.Missed())
	require.Equal(t, [3]int64{}, prices())
	p.Clear()
	require.Empty(t, p.Securities())
}
