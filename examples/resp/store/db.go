package store

import (
	"math/rand/v2"
	"slices"
)

// DB is one database: keys and their entries. Loop only.
type DB struct {
	clock  *Clock
	keys   map[string]*Entry
	all    []*Entry // every entry once, in no order: for Scan and Random
	dated  dated    // those that expire
	Gone   uint64   // expired entries removed so far
	Looked struct{ Hit, Missed uint64 }
}

// Entry is a key and its value. Its holder may change Value until the next call of the DB, bytes that are there already after Thaw;
// the bytes belong to the entry.
type Entry struct {
	key     string
	Value   []byte
	expires int64 // milliseconds since 1970; 0: never
	place   int   // in all
	date    int   // in dated; -1 when it does not expire
	frozen  bool  // an answer under way reads the bytes of Value
}

// keptValue is how large a value's memory may be to serve a much smaller one.
const keptValue = 4 << 10

// New returns an empty database that goes by this clock.
func New(c *Clock) *DB {
	return &DB{clock: c, keys: map[string]*Entry{}}
}

// Key is the key.
func (e *Entry) Key() string { return e.key }

// Expires is when it will be gone, in milliseconds since 1970; 0: never.
func (e *Entry) Expires() int64 { return e.expires }

// SetValue makes a copy of v the value, in the memory of the old one where that fits well.
func (e *Entry) SetValue(v []byte) {
	if e.frozen || cap(e.Value) > keptValue && cap(e.Value)/4 > len(v) {
		e.Value, e.frozen = nil, false
	}
	e.Value = append(e.Value[:0], v...)
}

// Freeze returns the value, whose bytes stay as they are from now on: a change puts the new value into other memory.
func (e *Entry) Freeze() []byte {
	e.frozen = true
	return e.Value
}

// Thaw is for changing bytes of Value in place, which needs a copy if they are frozen. Appending does not change them.
func (e *Entry) Thaw() {
	if e.frozen {
		e.Value, e.frozen = slices.Clone(e.Value), false
	}
}

// Get finds a key; nil when there is none. It allocates nothing.
func (db *DB) Get(key []byte) *Entry {
	e := db.keys[string(key)]
	if e != nil && e.expires != 0 && db.expired(e) {
		db.remove(e)
		db.Gone++
		e = nil
	}
	return e
}

// Look is Get, counted as a read.
func (db *DB) Look(key []byte) *Entry {
	e := db.Get(key)
	if e == nil {
		db.Looked.Missed++
	} else {
		db.Looked.Hit++
	}
	return e
}

// GetOrAdd finds a key or adds it with an empty value that does not expire.
func (db *DB) GetOrAdd(key []byte) *Entry {
	if e := db.Get(key); e != nil {
		return e
	}
	e := &Entry{key: string(key), place: len(db.all), date: -1}
	db.keys[e.key] = e
	db.all = append(db.all, e)
	return e
}

// Delete removes a key and says whether there was one.
func (db *DB) Delete(key []byte) bool {
	e := db.Get(key)
	if e != nil {
		db.remove(e)
	}
	return e != nil
}

// Rename gives an entry of this DB another key, replacing what was there.
func (db *DB) Rename(e *Entry, key []byte) {
	if e.key == string(key) {
		return
	}
	db.Delete(key)
	delete(db.keys, e.key)
	e.key = string(key)
	db.keys[e.key] = e
}

// Len counts the keys, with those that have expired and were not noticed yet.
func (db *DB) Len() int { return len(db.all) }

// Dated counts those that expire.
func (db *DB) Dated() int { return len(db.dated) }

// Clear removes everything.
func (db *DB) Clear() {
	db.keys, db.all, db.dated = map[string]*Entry{}, nil, nil
}

// Random is any entry; nil when there is none.
func (db *DB) Random() *Entry {
	for len(db.all) > 0 {
		e := db.all[rand.IntN(len(db.all))]
		if !db.expired(e) {
			return e
		}
		db.remove(e)
		db.Gone++
	}
	return nil
}

// Scan calls visit for some count entries and returns the cursor to go on with: 0 begins, and ends. An entry that is there from the
// first call to the last is visited at least once, whatever comes and goes meanwhile.
//
// The cursor is the number of places still to be visited, and they are visited from the last to the first: what is removed is
// replaced by the entry in the last place, which has been visited or has its turn still before it; what is added goes behind.
func (db *DB) Scan(cursor uint64, count int, visit func(*Entry)) uint64 {
	left := len(db.all)
	if cursor != 0 && cursor < uint64(left) {
		left = int(cursor)
	}
	for ; left > 0 && count > 0; count-- {
		left--
		if e := db.all[left]; !db.expired(e) {
			visit(e)
		}
	}
	return uint64(left)
}

func (db *DB) expired(e *Entry) bool { return e.expires != 0 && db.clock.Now() > e.expires }

// remove takes an entry out of everything. Its place is given to the last one: Scan relies on that.
func (db *DB) remove(e *Entry) {
	delete(db.keys, e.key)
	last := db.all[len(db.all)-1]
	db.all[e.place], last.place = last, e.place
	db.all[len(db.all)-1] = nil
	db.all = db.all[:len(db.all)-1]
	db.Persist(e)
}
