package book

// table maps 64-bit keys to small numbers: a hash table with open addressing and linear probing, at most half full. It is faster than a Go map,
// and allocates only when it becomes half full, which the right size at the start avoids.
type table struct {
	keys  []uint64
	ids   []uint32 // plus one; 0 is free
	shift uint8
	n     int
}

// newTable makes a table for about n keys.
func newTable(n int) *table {
	size, bits := 16, uint8(4)
	for size < 2*n {
		size, bits = size*2, bits+1
	}
	return &table{keys: make([]uint64, size), ids: make([]uint32, size), shift: 64 - bits}
}

// slot returns the index at which the search for a key begins (Fibonacci hashing: Knuth, TAOCP 3, 6.4).
func (t *table) slot(key uint64) uint64 { return (key ^ key>>29) * 0x9e3779b97f4a7c15 >> t.shift }

// find returns the number of a key.
func (t *table) find(key uint64) (id uint32, ok bool) {
	mask := uint64(len(t.ids) - 1)
	for i := t.slot(key) & mask; ; i = (i + 1) & mask {
		switch {
		case t.ids[i] == 0:
			return 0, false
		case t.keys[i] == key:
			return t.ids[i] - 1, true
		}
	}
}

// put stores the number of a key, which must not be in the table.
func (t *table) put(key uint64, id uint32) {
	if 2*t.n >= len(t.ids) {
		t.grow()
	}
	mask := uint64(len(t.ids) - 1)
	i := t.slot(key) & mask
	for t.ids[i] != 0 {
		i = (i + 1) & mask
	}
	t.keys[i], t.ids[i] = key, id+1
	t.n++
}

// delete forgets a key and closes the gap it leaves (Knuth, TAOCP 3, 6.4, algorithm R).
func (t *table) delete(key uint64) {
	mask := uint64(len(t.ids) - 1)
	i := t.slot(key) & mask
	for t.ids[i] != 0 && t.keys[i] != key {
		i = (i + 1) & mask
	}
	if t.ids[i] == 0 {
		return
	}
	t.n--
	for j := (i + 1) & mask; t.ids[j] != 0; j = (j + 1) & mask {
		home := t.slot(t.keys[j]) & mask
		if (j-home)&mask >= (j-i)&mask {
			t.keys[i], t.ids[i] = t.keys[j], t.ids[j]
			i = j
		}
	}
	t.ids[i] = 0
}

// clear forgets every key.
func (t *table) clear() {
	clear(t.ids)
	t.n = 0
}

// grow doubles the table.
func (t *table) grow() {
	bigger := newTable(len(t.ids))
	for i, id := range t.ids {
		if id != 0 {
			bigger.put(t.keys[i], id-1)
		}
	}
	*t = *bigger
}
