package book

// Symbol is one symbol's book.
type Symbol struct {
	Name     uint64 // eight characters, the first one lowest, padded with spaces
	Bid, Ask Side
	Stale    bool // something that may have concerned it was lost
}

// Prices is the price-level books of many symbols.
type Prices struct {
	table   *Table
	symbols []Symbol
	arena   *arena
	changed bool
}

// NewPrices makes books with room for so many symbols and levels.
func NewPrices(symbols, levels int) *Prices {
	return &Prices{table: NewTable(symbols), symbols: make([]Symbol, 0, symbols), arena: newArena(levels)}
}

// Set makes size the whole of what rests at a price; 0 removes the level.
func (p *Prices) Set(name uint64, buy bool, price int64, size uint64) {
	s := p.at(name)
	var best bool
	if buy {
		best = s.Bid.set(p.arena, price, 1, size)
	} else {
		best = s.Ask.set(p.arena, price, -1, size)
	}
	p.changed = p.changed || best
}

// Quote replaces both sides with one level each: for feeds that send the best bid and offer only.
func (p *Prices) Quote(name uint64, bid, ask Level) {
	s := p.at(name)
	s.Bid.only(p.arena, bid)
	s.Ask.only(p.arena, ask)
	p.changed = true
}

func (s *Side) only(a *arena, l Level) {
	s.levels = s.levels[:0]
	if l.Size > 0 {
		s.insert(a, 0, l)
	}
}

// Add adds to what rests at a price, for books of single orders.
func (p *Prices) Add(id uint32, buy bool, price int64, size uint64, orders int32) {
	s := &p.symbols[id]
	side, dir := &s.Ask, int64(-1)
	if buy {
		side, dir = &s.Bid, 1
	}
	i, found := side.find(price, dir)
	if !found {
		side.insert(p.arena, i, Level{Price: price})
	}
	l := &side.levels[i]
	l.Size += size
	l.Orders = uint32(int64(l.Orders) + int64(orders))
	if l.Orders == 0 {
		side.remove(i)
	}
}

// ID is a symbol's number, given at first sight.
func (p *Prices) ID(name uint64) uint32 {
	if id, ok := p.table.Find(name); ok {
		return id
	}
	id := uint32(len(p.symbols))
	p.symbols = append(p.symbols, Symbol{Name: name})
	p.table.Put(name, id)
	return id
}

func (p *Prices) at(name uint64) *Symbol { return &p.symbols[p.ID(name)] }

// Symbols is every symbol seen; read only.
func (p *Prices) Symbols() []Symbol { return p.symbols }

// Changed tells whether a best price or size changed since the last call.
func (p *Prices) Changed() bool {
	c := p.changed
	p.changed = false
	return c
}

// Clear empties every book and keeps the memory.
func (p *Prices) Clear() {
	for i := range p.symbols {
		s := &p.symbols[i]
		s.Bid.levels, s.Ask.levels, s.Stale = s.Bid.levels[:0], s.Ask.levels[:0], false
	}
	p.changed = true
}

// MarkStale marks every book: which ones a lost message concerned is not known.
func (p *Prices) MarkStale() {
	for i := range p.symbols {
		p.symbols[i].Stale = true
	}
}

// Name is eight characters as text, without the padding.
func Name(n uint64) string {
	var b [8]byte
	for i := range b {
		b[i] = byte(n >> (8 * i))
	}
	end := len(b)
	for end > 0 && (b[end-1] == ' ' || b[end-1] == 0) {
		end--
	}
	return string(b[:end])
}

// Key is a text's eight characters, padded with spaces.
func Key(s string) (n uint64) {
	for i := range 8 {
		c := byte(' ')
		if i < len(s) {
			c = s[i]
		}
		n |= uint64(c) << (8 * i)
	}
	return n
}
