package book

// Side is the levels of one side, sorted by price. The best one is last: most updates are near the best price, so that little moves and
// the search from the end is short.
type Side struct{ levels []Level }

// Len is the number of levels.
func (s *Side) Len() int { return len(s.levels) }

// Best is the best level; the zero Level if there is none.
func (s *Side) Best() Level {
	if len(s.levels) == 0 {
		return Level{}
	}
	return s.levels[len(s.levels)-1]
}

// Level is the i-th best level; 0 is the best. It panics beyond Len.
func (s *Side) Level(i int) Level { return s.levels[len(s.levels)-1-i] }

// Levels is all levels, the worst first. It is read only and valid until the side changes.
func (s *Side) Levels() []Level { return s.levels }

// find returns the index of the level with a price and true, or the index at which it would be inserted and false. dir is 1 for bids, where a
// higher price is better, and -1 for offers. It tries the eight best levels one by one, then searches the others by halves.
func (s *Side) find(price, dir int64) (int, bool) {
	l := s.levels
	i := len(l) - 1
	for stop := max(i-8, -1); i > stop; i-- {
		switch p := l[i].Price; {
		case p == price:
			return i, true
		case p < price == (dir > 0): // it is worse. Prices are not subtracted, because the difference may overflow
			return i + 1, false
		}
	}
	lo, hi := 0, i+1 // l[hi:] is better than price
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if p := l[mid].Price; p != price && p < price == (dir > 0) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(l) && l[lo].Price == price
}

// set sets the size of the level at price; 0 removes it. It reports whether the best level changed.
func (s *Side) set(a *arena, price, dir int64, size uint64) (best bool) {
	i, found := s.find(price, dir)
	n := len(s.levels)
	switch {
	case found && size > 0:
		s.levels[i].Size = size
		return i == n-1
	case found:
		s.remove(i)
		return i == n-1
	case size > 0:
		s.insert(a, i, Level{Price: price, Size: size})
		return i == n
	}
	return false
}

// insert puts a level at index i.
func (s *Side) insert(a *arena, i int, l Level) {
	n := len(s.levels)
	if n == cap(s.levels) {
		s.levels = a.grow(s.levels)
	}
	s.levels = s.levels[:n+1]
	copy(s.levels[i+1:], s.levels[i:n])
	s.levels[i] = l
}

// replace makes l the only level.
func (s *Side) replace(a *arena, l Level) {
	s.levels = s.levels[:0]
	if l.Size > 0 {
		s.insert(a, 0, l)
	}
}

// remove takes the level at index i out.
func (s *Side) remove(i int) {
	n := len(s.levels)
	copy(s.levels[i:], s.levels[i+1:])
	s.levels = s.levels[:n-1]
}

// arena allocates the arrays of levels of all sides from memory that is allocated at the start. Arrays have sizes 8, 16, 32 and so on; one
// that a side has outgrown is used again.
type arena struct {
	slab []Level       // not used yet
	free [24][][]Level // arrays to be used again; index i has those of leastLevels<<i
}

// newArena makes an arena with memory for that many levels.
func newArena(levels int) *arena {
	a := &arena{slab: make([]Level, levels)}
	for i := range a.free {
		a.free[i] = make([][]Level, 0, 256)
	}
	return a
}

// leastLevels is the size of the smallest array.
const leastLevels = 8

// grow copies levels into an array of twice the size and frees the old one.
func (a *arena) grow(levels []Level) []Level {
	want := max(leastLevels, 2*cap(levels))
	class := 0
	for leastLevels<<class < want {
		class++
	}
	var b []Level
	if n := len(a.free[class]); n > 0 {
		b, a.free[class] = a.free[class][n-1], a.free[class][:n-1]
	} else {
		if len(a.slab) < want {
			a.slab = make([]Level, max(want, 1<<14))
		}
		b, a.slab = a.slab[:want:want], a.slab[want:]
	}
	b = b[:len(levels)]
	copy(b, levels)
	if cap(levels) > 0 {
		a.free[class-1] = append(a.free[class-1], levels[:0])
	}
	return b
}
