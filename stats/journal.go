package stats

import (
	"sync/atomic"
	"time"
)

// EventKind is the kind of an event in the journal.
type EventKind uint8

// The kinds. A file's description has their names, so that a reader need not know the numbers.
const (
	EventDrop     EventKind = iota // something was lost; the text begins with the counter
	EventPollGap                   // more than 100 µs passed between two polls without a sleep
	EventPath                      // a socket's packets travel another way; with a counter's name: it began to grow, and with OnsetEnd: it ended
	EventLink                      // a link came, went or changed
	EventJoin                      // a socket joined a group
	EventLeave                     // a socket left a group
	EventFeedGap                   // messages of a feed are missing: line and range of sequence numbers
	EventRecovery                  // what was missing came
	EventZero                      // a baseline was stored
	EventNote                      // what the program itself notes
	numEventKinds
)

var eventKinds = [numEventKinds]string{"drop", "poll_gap", "path", "link", "join", "leave", "feed_gap", "recovery", "zero", "note"}

// String is the kind's name.
func (k EventKind) String() string {
	if k < numEventKinds {
		return eventKinds[k]
	}
	return "unknown"
}

// EventTextMax is how many bytes of an event's text are kept.
const EventTextMax = 8 * (eventWords - eventHeader)

// Note writes an event into the journal: what happened to a block (nil: to none), how often or how much, and a text. Any goroutine; it takes no
// lock and does not allocate. The oldest of 4,096 events makes room.
func (f *File) Note(kind EventKind, of *Block, count uint64, text string) {
	f.noteAt(time.Now().UnixNano(), kind, of, count, text)
}

// NoteAt is Note for what has happened before.
func (f *File) NoteAt(at time.Time, kind EventKind, of *Block, count uint64, text string) {
	f.noteAt(at.UnixNano(), kind, of, count, text)
}

// noteAt is Note with a time in wall-clock nanoseconds.
func (f *File) noteAt(now int64, kind EventKind, of *Block, count uint64, text string) {
	n := atomic.AddUint64(&f.head[headEvents], 1)
	at := f.desc.Journal.Offset + int((n-1)%eventCapacity)*eventWords
	e := f.words[at : at+eventWords]
	atomic.StoreUint64(&e[eventSequence], 0) // first: a reader that is at it finds that it is being written over
	e[eventTime], e[eventKind], e[eventCount], e[eventSubject] = uint64(now), uint64(kind), count, 0
	if of != nil {
		e[eventSubject] = uint64(of.section.number)<<32 | uint64(of.index)
	}
	text = text[:min(len(text), EventTextMax)]
	e[eventText] = uint64(len(text))
	copy(f.memory.Bytes()[8*(at+eventHeader):8*(at+eventWords)], text)
	atomic.StoreUint64(&e[eventSequence], n) // last: a reader takes it for complete
}
