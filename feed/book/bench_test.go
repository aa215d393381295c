package book

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/feed"
)

// made is a run of changes near the best price of a few symbols, as a market makes them.
type made struct {
	symbol feed.Symbol
	price  int64
	size   uint32
	buy    bool
}

func changes(n int) []made {
	rnd := rand.New(rand.NewPCG(7, 8))
	all := make([]made, n)
	for i := range all {
		buy := rnd.IntN(2) == 0
		away := int64(1 + rnd.IntN(10)*rnd.IntN(10)/4)
		if buy {
			away = -away
		}
		all[i] = made{feed.SymbolOf(string(rune('A' + rnd.IntN(20)))), 1000 + away, uint32(100 * rnd.IntN(4)), buy}
	}
	return all
}

func (m made) setPrice(p *ByPrice) { p.Set(m.symbol, m.buy, m.price, uint64(m.size)) }

// order gives the order of a reference a life: added, reduced, replaced, deleted.
func (m made) order(o *ByOrder, i int) {
	ref := uint64(i)
	o.Add(Order{ref, m.symbol, m.price, m.size + 1, m.buy})
	if i >= 64 {
		o.Reduce(ref-16, 50)
		if _, ok := o.FindOrder(ref - 32); ok {
			o.Replace(ref-32, ref-32, 100, m.price)
		}
		o.Delete(ref - 64)
	}
}

func (m made) level(p *ByLevel, i int) {
	side := Bid
	if !m.buy {
		side = Offer
	}
	s := p.CountUpdate(int32(m.symbol&31), uint32(i))
	p.Apply(s, Update{Action: Action(i % 3), Side: side, Level: 1 + i%MaxDepth, Entry: Entry{Price: m.price, Size: int32(m.size)}})
}

var capacity = Capacity{Instruments: 64, Levels: 4096, Orders: 256}

// BenchmarkByPrice is one price level message.
func BenchmarkByPrice(b *testing.B) {
	all, p := changes(4096), NewByPrice(capacity)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		all[i%len(all)].setPrice(p)
		i++
	}
}

// BenchmarkByOrder is the life of one order: four messages.
func BenchmarkByOrder(b *testing.B) {
	all, o := changes(4096), NewByOrder(capacity)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		all[i%len(all)].order(o, i)
		i++
	}
}

// BenchmarkByLevel is one entry of a market by price message.
func BenchmarkByLevel(b *testing.B) {
	all := changes(4096)
	p, err := NewByLevel(64, MaxDepth)
	require.NoError(b, err)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		all[i%len(all)].level(p, i)
		i++
	}
}

func TestUpdatesDoNotAllocate(t *testing.T) {
	all := changes(4096)
	p, o := NewByPrice(capacity), NewByOrder(capacity)
	l, err := NewByLevel(64, MaxDepth)
	require.NoError(t, err)
	i := 0
	run := func() {
		for _, m := range all {
			m.setPrice(p)
			m.order(o, i)
			m.level(l, i)
			i++
		}
	}
	run() // levels get their arrays
	require.Zero(t, testing.AllocsPerRun(5, run))
}
