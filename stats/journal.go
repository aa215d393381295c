package stats

import (
	"sync/atomic"
	"time"
)

// EventKind is the kind of an event in the journal.
type EventKind uint8

// The kinds. A file's description has their names, so that a reader need not know the numbers.
const (
	EventDrop     EventKind = iota // something was lost: the code is the counter
	EventPollGap                   // more than 100 µs passed between two polls without a sleep
	EventPath                      // a socket's packets travel another way; with a code: the counter Name began to grow, or ceased to
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

// Codes of an EventPollGap: what kept the owner from polling.
const (
	CodeHandler    = "handler"
	CodeTimers     = "timers"
	CodePostedWork = "posted work"
	CodeCollection = "garbage collection"
	CodePreempted  = "preempted"
	CodePageFault  = "page fault"
	CodeSteal      = "steal"
	CodeStopped    = "stopped"
	CodeUnknown    = "unknown"
)

// Codes of an EventLink that the kernel has told of. What a ring tells has the code of link.Reason, and none if frames come.
const (
	CodeCame        = "came"
	CodeDeleted     = "deleted" // or moved to another namespace
	CodeRenamed     = "renamed"
	CodeDown        = "down" // by its administrator
	CodeUp          = "up"
	CodeCarrierLost = "carrier lost"
	CodeCarrierBack = "carrier back"
	CodeProgramOn   = "program attached" // an XDP program, where none was
	CodeProgramOff  = "program displaced"
	CodeMTU         = "mtu"
	CodeMissed      = "missed" // changes came faster than they were read
)

// Codes of an EventPath with a counter's name.
const (
	CodeBegan = "began"
	CodeEnded = "ended" // it has not grown for a second; the count is how much it grew
)

// JournalEntry is an event as it is written into the journal. The text is for people; what readers compute with has fields of its own. Times are
// wall-clock nanoseconds.
//
//	              Earliest        Latest                     End
//	─────────────────┼───────────────┼────────────────────────┼────►
//	 nothing yet     │ it began here │                        │ it is over
type JournalEntry struct {
	Kind     EventKind
	Of       *Block // what it happened to; nil: none
	Count    uint64 // how often or how much
	Name     string // what it is about: a poller, an interface, a feed, a counter; of a drop the interface and queue that the counter is of
	Code     string // which case of the kind: see the codes; of a drop the counter
	Text     string
	Time     int64 // 0: now
	Earliest int64 // 0: Time
	Latest   int64 // 0: Earliest
	End      int64 // 0: Time
}

// EventTextMax is how many bytes of an event's text are kept, where it has neither name nor code.
const EventTextMax = 8 * eventStrings

const (
	nameMax = 64 // bytes of an event's name that are kept
	codeMax = 32
)

// Note writes an event into the journal: what happened to a block (nil: to none), how often or how much, and a text. Any goroutine; it takes no
// lock and does not allocate. The oldest of 4,096 events makes room.
func (f *File) Note(kind EventKind, of *Block, count uint64, text string) {
	f.Write(&JournalEntry{Kind: kind, Of: of, Count: count, Text: text})
}

// Write is Note for an event with more fields, or of a time before.
func (f *File) Write(x *JournalEntry) {
	now := x.Time
	if now == 0 {
		now = time.Now().UnixNano()
	}
	earliest := or(x.Earliest, now)
	n := atomic.AddUint64(&f.head[headEvents], 1)
	at := f.desc.Journal.Offset + int((n-1)%eventCapacity)*eventWords
	e := f.words[at : at+eventWords]
	atomic.StoreUint64(&e[eventSequence], 0) // first: a reader that is at it finds that it is being written over
	e[eventTime], e[eventKind], e[eventCount], e[eventSubject] = uint64(now), uint64(x.Kind), x.Count, 0
	if x.Of != nil {
		e[eventSubject] = uint64(x.Of.section.number)<<32 | uint64(x.Of.index)
	}
	name, code := x.Name[:min(len(x.Name), nameMax)], x.Code[:min(len(x.Code), codeMax)]
	text := x.Text[:min(len(x.Text), EventTextMax-len(name)-len(code))]
	fields := e[eventHeader+eventStrings:]
	e[eventText], fields[fieldName], fields[fieldCode] = uint64(len(text)), uint64(len(name)), uint64(len(code))
	fields[fieldEarliest], fields[fieldLatest], fields[fieldEnd] = uint64(earliest), uint64(or(x.Latest, earliest)), uint64(or(x.End, now))
	room := f.memory.Bytes()[8*(at+eventHeader):][:EventTextMax]
	copy(room[copy(room, text):], name)
	copy(room[len(text)+len(name):], code)
	atomic.StoreUint64(&e[eventSequence], n) // last: a reader takes it for complete
}

// or is v, or other for 0.
func or(v, other int64) int64 {
	if v == 0 {
		return other
	}
	return v
}
