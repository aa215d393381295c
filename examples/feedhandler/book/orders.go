package book

// Orders is books built from single orders. Unknown references are counted, never guessed.
type Orders struct {
	Prices
	Unknown uint64 // references to orders that were not seen

	refs  *Table
	pool  []order
	freed []uint32
}

type order struct {
	symbol uint32
	shares uint32
	price  int64
	buy    bool
}

// NewOrders makes books with room for so many symbols, levels and resting orders.
func NewOrders(symbols, levels, orders int) *Orders {
	return &Orders{Prices: *NewPrices(symbols, levels), refs: NewTable(orders), pool: make([]order, 0, orders),
		freed: make([]uint32, 0, orders)}
}

// New adds an order.
func (o *Orders) New(ref, stock uint64, buy bool, shares uint32, price int64) {
	o.rest(ref, o.ID(stock), buy, shares, price)
}

func (o *Orders) rest(ref uint64, symbol uint32, buy bool, shares uint32, price int64) {
	if _, ok := o.refs.Find(ref); ok {
		o.Delete(ref) // sent twice under one reference: the later one stands
	}
	var id uint32
	if n := len(o.freed); n > 0 {
		id, o.freed = o.freed[n-1], o.freed[:n-1]
	} else {
		id = uint32(len(o.pool))
		o.pool = append(o.pool, order{})
	}
	o.pool[id] = order{symbol, shares, price, buy}
	o.refs.Put(ref, id)
	o.Add(symbol, buy, price, uint64(shares), 1)
}

// Reduce takes shares off an order (executed or cancelled); an order without shares is gone.
func (o *Orders) Reduce(ref uint64, shares uint32) {
	id, ok := o.refs.Find(ref)
	if !ok {
		o.Unknown++
		return
	}
	r := &o.pool[id]
	if shares >= r.shares {
		o.drop(ref, id)
		return
	}
	r.shares -= shares
	o.Add(r.symbol, r.buy, r.price, -uint64(shares), 0)
}

// Delete removes an order.
func (o *Orders) Delete(ref uint64) {
	id, ok := o.refs.Find(ref)
	if !ok {
		o.Unknown++
		return
	}
	o.drop(ref, id)
}

// Replace removes an order and adds another one on its side; it loses its place.
func (o *Orders) Replace(ref, with uint64, shares uint32, price int64) {
	id, ok := o.refs.Find(ref)
	if !ok {
		o.Unknown++
		return
	}
	old := o.pool[id]
	o.drop(ref, id)
	o.rest(with, old.symbol, old.buy, shares, price)
}

// Resting is the number of orders.
func (o *Orders) Resting() int { return o.refs.Len() }

// Clear forgets every order and empties the books.
func (o *Orders) Clear() {
	o.Prices.Clear()
	o.refs.Clear()
	o.pool, o.freed = o.pool[:0], o.freed[:0]
}

func (o *Orders) drop(ref uint64, id uint32) {
	r := &o.pool[id]
	o.Add(r.symbol, r.buy, r.price, -uint64(r.shares), -1)
	o.refs.Delete(ref)
	o.freed = append(o.freed, id)
}
