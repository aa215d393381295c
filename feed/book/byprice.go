package book

import "github.com/socketxtreme/socketxtreme/feed"

// ByPrice is books from messages that give the whole size at a price.
type ByPrice struct{ Books }

// NewByPrice makes empty books.
func NewByPrice(c Capacity) *ByPrice { return &ByPrice{newBooks(c)} }

// Set sets the whole size at a price of one side; 0 removes the level.
func (p *ByPrice) Set(symbol feed.Symbol, buy bool, price int64, size uint64) {
	s := &p.instruments[p.id(symbol)]
	var best bool
	if buy {
		best = s.Bid.set(&p.arena, price, 1, size)
	} else {
		best = s.Ask.set(&p.arena, price, -1, size)
	}
	p.changed = p.changed || best
}

// Quote replaces each side with one level, for feeds that send the best bid and offer only. A level with size 0 empties its side.
func (p *ByPrice) Quote(symbol feed.Symbol, bid, ask Level) {
	s := &p.instruments[p.id(symbol)]
	s.Bid.replace(&p.arena, bid)
	s.Ask.replace(&p.arena, ask)
	p.changed = true
}

// Clear empties every book and removes the stale marks.
func (p *ByPrice) Clear() { p.clear() }
