package book

// Depth is how many levels a side of a Positions book keeps: CME's outright books have ten, implied ones two.
const Depth = 10

// The kinds of side of a Positions book.
const (
	Bid = iota
	Offer
	ImpliedBid
	ImpliedOffer
	sides
)

// Entry is a level of a Positions book. Unknown levels are those that nothing was said about since the book was begun
// or damaged.
type Entry struct {
	Price        int64
	Size, Orders int32
	Known        bool
}

// Ladder is a side by position; 0 is the best level.
type Ladder [Depth]Entry

// insert puts a level in and moves those behind it down.
func (l *Ladder) insert(at, depth int, e Entry) {
	copy(l[at+1:depth], l[at:depth-1])
	l[at] = e
}

// remove takes n levels out and moves those behind them up.
func (l *Ladder) remove(at, n, depth int) {
	copy(l[at:depth], l[at+n:depth])
	for i := depth - n; i < depth; i++ {
		l[i] = Entry{}
	}
}

// Security is one instrument's books.
type Security struct {
	ID      int32
	RptSeq  uint32 // of the last update, 0 before the first
	Sides   [sides]Ladder
	Deepest [sides]uint8 // the deepest level that was told of: the real book is at least that deep
	Damaged uint32       // how often an update was missed
}

// Positions is books by position of many instruments.
type Positions struct {
	Missed uint64 // updates that the instruments' own counts say were missed

	table      *Table
	securities []Security
	depth      int
}

// NewPositions makes books with room for so many instruments, depth levels (1 to Depth) a side.
func NewPositions(securities, depth int) *Positions {
	return &Positions{table: NewTable(securities), securities: make([]Security, 0, securities), depth: depth}
}

// Update is one change of a side.
type Update struct {
	Action uint8 // 0 new, 1 change, 2 delete, 3 delete thru, 4 delete from, 5 overlay
	Side   int
	Level  int // from 1
	Entry
}

// Apply applies one update; it tells whether it could be (a level beyond the depth is counted nowhere: it is not kept).
func (p *Positions) Apply(s *Security, u Update) bool {
	i := u.Level - 1
	if i < 0 || u.Side < 0 || u.Side >= sides {
		return false
	}
	s.Deepest[u.Side] = uint8(max(int(s.Deepest[u.Side]), u.Level))
	if i >= p.depth {
		return false
	}
	l := &s.Sides[u.Side]
	u.Known = true
	switch u.Action {
	case 0:
		l.insert(i, p.depth, u.Entry)
	case 1, 5:
		l[i] = u.Entry
	case 2:
		l.remove(i, 1, p.depth)
	case 3:
		l.remove(0, u.Level, p.depth)
	case 4:
		l.remove(i, p.depth-i, p.depth)
	default:
		return false
	}
	return true
}

// At gives an instrument's books and checks its own update count: after a miss all its levels are unknown until told
// again.
func (p *Positions) At(id int32, rptSeq uint32) *Security {
	s := p.Security(id)
	if s.RptSeq != 0 && rptSeq > s.RptSeq+1 {
		p.Missed += uint64(rptSeq - s.RptSeq - 1)
		s.Damaged++
		s.Sides = [sides]Ladder{}
	}
	s.RptSeq = rptSeq
	return s
}

// Security gives an instrument, and makes it at first sight.
func (p *Positions) Security(id int32) *Security {
	if n, ok := p.table.Find(uint64(uint32(id))); ok {
		return &p.securities[n]
	}
	p.table.Put(uint64(uint32(id)), uint32(len(p.securities)))
	p.securities = append(p.securities, Security{ID: id})
	return &p.securities[len(p.securities)-1]
}

// Reset makes every level of an instrument unknown.
func (s *Security) Reset() { s.Sides = [sides]Ladder{} }

// Securities is every instrument seen; read only.
func (p *Positions) Securities() []Security { return p.securities }

// Clear forgets everything.
func (p *Positions) Clear() {
	p.table.Clear()
	p.securities = p.securities[:0]
}
