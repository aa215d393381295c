package book

import "github.com/socketxtreme/socketxtreme/feed"

// Capacity is how much a constructor allocates for. Books that need more grow.
type Capacity struct {
	Instruments int
	Levels      int // of all instruments together
	Orders      int // of all instruments together, for ByOrder
}

// Level is the sum of the orders at one price.
type Level struct {
	Price  int64
	Size   uint64
	Orders uint32 // ByOrder only
}

// Instrument is the book of one symbol.
type Instrument struct {
	Symbol   feed.Symbol
	Bid, Ask Side
	Stale    bool // a lost message may have concerned it
}

// Books are the instruments of ByPrice or ByOrder, for reading.
type Books struct {
	ids         table
	instruments []Instrument
	arena       arena
	changed     bool
}

// newBooks makes empty books.
func newBooks(c Capacity) Books {
	return Books{ids: *newTable(c.Instruments), instruments: make([]Instrument, 0, c.Instruments), arena: *newArena(c.Levels)}
}

// Instruments is every instrument seen, in the order in which they were seen. It is read only.
func (b *Books) Instruments() []Instrument { return b.instruments }

// Find is the instrument of a symbol; nil if no message named it.
func (b *Books) Find(s feed.Symbol) *Instrument {
	if id, ok := b.ids.find(uint64(s)); ok {
		return &b.instruments[id]
	}
	return nil
}

// Changed reports whether a best price or its size changed since the last call.
func (b *Books) Changed() bool {
	c := b.changed
	b.changed = false
	return c
}

// MarkStale marks every instrument.
func (b *Books) MarkStale() {
	for i := range b.instruments {
		b.instruments[i].Stale = true
	}
}

// clear empties every book and keeps the memory.
func (b *Books) clear() {
	for i := range b.instruments {
		s := &b.instruments[i]
		s.Bid.levels, s.Ask.levels, s.Stale = s.Bid.levels[:0], s.Ask.levels[:0], false
	}
	b.changed = true
}

// id returns the index of a symbol's instrument, which it makes for a new symbol.
func (b *Books) id(s feed.Symbol) uint32 {
	if id, ok := b.ids.find(uint64(s)); ok {
		return id
	}
	id := uint32(len(b.instruments))
	b.instruments = append(b.instruments, Instrument{Symbol: s})
	b.ids.put(uint64(s), id)
	return id
}

// add changes size and number of orders at a price of an instrument; both changes may be negative (size as a two's complement). A level without
// orders is removed.
func (b *Books) add(id uint32, buy bool, price int64, size uint64, orders int32) {
	s := &b.instruments[id]
	side, dir := &s.Ask, int64(-1)
	if buy {
		side, dir = &s.Bid, 1
	}
	i, found := side.find(price, dir)
	if !found {
		side.insert(&b.arena, i, Level{Price: price})
	}
	if i == len(side.levels)-1 { // the best level is the last
		b.changed = true
	}
	l := &side.levels[i]
	l.Size += size
	l.Orders = uint32(int64(l.Orders) + int64(orders))
	if l.Orders == 0 {
		side.remove(i)
	}
}
