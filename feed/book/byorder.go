package book

import "github.com/socketxtreme/socketxtreme/feed"

// ByOrder is books from messages about single orders.
type ByOrder struct {
	Books
	unknown uint64

	refs  table
	pool  []order
	freed []uint32
}

// Order is a displayed order.
type Order struct {
	Ref    uint64
	Symbol feed.Symbol
	Price  int64
	Shares uint32
	Buy    bool
}

// order is an Order as it is stored; its reference is the key in refs.
type order struct {
	id     uint32 // index of the instrument
	shares uint32
	price  int64
	buy    bool
}

// NewByOrder makes empty books.
func NewByOrder(c Capacity) *ByOrder {
	return &ByOrder{Books: newBooks(c), refs: *newTable(c.Orders), pool: make([]order, 0, c.Orders), freed: make([]uint32, 0, c.Orders)}
}

// Add adds an order. One with the same reference is removed first.
func (b *ByOrder) Add(o Order) { b.insert(o.Ref, order{b.id(o.Symbol), o.Shares, o.Price, o.Buy}) }

// insert adds an order under a reference; one that is there under the same reference is removed first.
func (b *ByOrder) insert(ref uint64, o order) {
	if id, ok := b.refs.find(ref); ok {
		b.remove(ref, id)
	}
	var id uint32
	if n := len(b.freed); n > 0 {
		id, b.freed = b.freed[n-1], b.freed[:n-1]
	} else {
		id = uint32(len(b.pool))
		b.pool = append(b.pool, order{})
	}
	b.pool[id] = o
	b.refs.put(ref, id)
	b.add(o.id, o.buy, o.price, uint64(o.shares), 1)
}

// FindOrder is the order with a reference: an execution, for example, names neither symbol nor price.
func (b *ByOrder) FindOrder(ref uint64) (o Order, ok bool) {
	id, ok := b.refs.find(ref)
	if !ok {
		return o, false
	}
	r := &b.pool[id]
	return Order{Ref: ref, Symbol: b.instruments[r.id].Symbol, Price: r.price, Shares: r.shares, Buy: r.buy}, true
}

// Reduce takes shares off an order that was executed or cancelled. An order without shares is removed.
func (b *ByOrder) Reduce(ref uint64, shares uint32) {
	id, ok := b.refs.find(ref)
	if !ok {
		b.unknown++
		return
	}
	r := &b.pool[id]
	if shares >= r.shares {
		b.remove(ref, id)
		return
	}
	r.shares -= shares
	b.add(r.id, r.buy, r.price, -uint64(shares), 0)
}

// Resize gives an order another size at its price. An order without shares is removed.
func (b *ByOrder) Resize(ref uint64, shares uint32) {
	id, ok := b.refs.find(ref)
	if !ok {
		b.unknown++
		return
	}
	if shares == 0 {
		b.remove(ref, id)
		return
	}
	r := &b.pool[id]
	b.add(r.id, r.buy, r.price, uint64(shares)-uint64(r.shares), 0)
	r.shares = shares
}

// Delete removes an order.
func (b *ByOrder) Delete(ref uint64) {
	id, ok := b.refs.find(ref)
	if !ok {
		b.unknown++
		return
	}
	b.remove(ref, id)
}

// Replace removes an order and adds another one of the same instrument and side. The two references may be equal.
func (b *ByOrder) Replace(ref, newRef uint64, shares uint32, price int64) {
	id, ok := b.refs.find(ref)
	if !ok {
		b.unknown++
		return
	}
	o := b.pool[id]
	b.remove(ref, id)
	o.shares, o.price = shares, price
	b.insert(newRef, o)
}

// Len is the number of orders in all books.
func (b *ByOrder) Len() int { return b.refs.n }

// Unknown is how many messages named an order that was not there.
func (b *ByOrder) Unknown() uint64 { return b.unknown }

// Clear removes every order and the stale marks.
func (b *ByOrder) Clear() {
	b.clear()
	b.refs.clear()
	b.pool, b.freed = b.pool[:0], b.freed[:0]
}

// remove removes the order with a reference from its level and frees its place id in the pool.
func (b *ByOrder) remove(ref uint64, id uint32) {
	r := &b.pool[id]
	b.add(r.id, r.buy, r.price, -uint64(r.shares), -1)
	b.refs.delete(ref)
	b.freed = append(b.freed, id)
}
