package book

import "fmt"

// MaxDepth is the most levels that a side of a ByLevel book keeps: the outright books of CME have ten, implied ones two.
const MaxDepth = 10

// The sides of a Security.
const (
	Bid = iota
	Offer
	ImpliedBid
	ImpliedOffer
	sides
)

// Action is what an Update does to its level. The numbers are those of MDP 3.0.
type Action uint8

// The actions.
const (
	ActionNew        Action = iota // insert; worse levels move down
	ActionChange                   // replace
	ActionDelete                   // remove; worse levels move up
	ActionDeleteThru               // remove with all better ones
	ActionDeleteFrom               // remove with all worse ones
	ActionOverlay                  // replace
)

// Entry is one level. An entry that is not Known is zero: no message has described it.
type Entry struct {
	Price        int64
	Size, Orders int32
	Known        bool
}

// Ladder is the levels of one side; index 0 is the best.
type Ladder [MaxDepth]Entry

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

// Security is the book of one instrument.
type Security struct {
	ID      int32
	RptSeq  uint32        // of the last update, 0 before the first
	Sides   [sides]Ladder // by Bid, Offer, ImpliedBid, ImpliedOffer
	Deepest [sides]uint8  // the deepest level that a message named: the exchange's book is at least that deep
	Damaged uint32        // how often updates were missed
}

// Reset makes every level unknown.
func (s *Security) Reset() { s.Sides = [sides]Ladder{} }

// ByLevel is books from messages that change numbered levels.
type ByLevel struct {
	ids        table
	securities []Security
	depth      int
	missed     uint64
}

// NewByLevel makes empty books for so many instruments with depth levels a side, 1 to MaxDepth.
func NewByLevel(instruments, depth int) (*ByLevel, error) {
	if depth < 1 || depth > MaxDepth {
		return nil, fmt.Errorf("book: depth %d: want 1 to %d", depth, MaxDepth)
	}
	return &ByLevel{ids: *newTable(instruments), securities: make([]Security, 0, instruments), depth: depth}, nil
}

// CountUpdate notes that a message, of whatever kind, was update rptSeq of an instrument, and returns the instrument. If updates were
// missed, all levels become unknown. A number that is not higher than the last one begins a new count.
func (b *ByLevel) CountUpdate(id int32, rptSeq uint32) *Security {
	s := b.Security(id)
	if s.RptSeq != 0 && rptSeq > s.RptSeq+1 {
		b.missed += uint64(rptSeq - s.RptSeq - 1)
		s.Damaged++
		s.Reset()
	}
	s.RptSeq = rptSeq
	return s
}

// Update is one change of a side.
type Update struct {
	Action Action
	Side   int // Bid, Offer, ImpliedBid or ImpliedOffer
	Level  int // 1 is the best
	Entry      // Known need not be set
}

// Apply applies a change to an instrument of b. It is false if nothing changed: the level is deeper than the books, or level, side or
// action do not exist.
func (b *ByLevel) Apply(s *Security, u Update) bool {
	i := u.Level - 1
	if i < 0 || u.Side < 0 || u.Side >= sides {
		return false
	}
	s.Deepest[u.Side] = uint8(min(max(int(s.Deepest[u.Side]), u.Level), 255))
	if i >= b.depth {
		return false
	}
	l := &s.Sides[u.Side]
	u.Known = true
	switch u.Action {
	case ActionNew:
		l.insert(i, b.depth, u.Entry)
	case ActionChange, ActionOverlay:
		l[i] = u.Entry
	case ActionDelete:
		l.remove(i, 1, b.depth)
	case ActionDeleteThru:
		l.remove(0, u.Level, b.depth)
	case ActionDeleteFrom:
		l.remove(i, b.depth-i, b.depth)
	default:
		return false
	}
	return true
}

// Security is an instrument, made when it is first seen.
func (b *ByLevel) Security(id int32) *Security {
	if n, ok := b.ids.find(uint64(uint32(id))); ok {
		return &b.securities[n]
	}
	b.ids.put(uint64(uint32(id)), uint32(len(b.securities)))
	b.securities = append(b.securities, Security{ID: id})
	return &b.securities[len(b.securities)-1]
}

// Securities is every instrument seen, in the order in which they were seen. It is read only.
func (b *ByLevel) Securities() []Security { return b.securities }

// Missed is how many updates were missed, by the counts of the instruments.
func (b *ByLevel) Missed() uint64 { return b.missed }

// Clear removes every instrument.
func (b *ByLevel) Clear() {
	b.ids.clear()
	b.securities = b.securities[:0]
}
