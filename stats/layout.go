package stats

import (
	"encoding/json"
	"fmt"
)

// LayoutVersion changes when a reader of before would read a file wrongly. New counters and sections do not change it: the description tells
// where they are.
const LayoutVersion = 1

const (
	magic     = 0x314154535458530a // "\nSXTSTA1" in the memory of a little-endian machine, another text on others: files do not travel
	pageWords = 512
)

// The words of the header.
const (
	headMagic = iota
	headLayout
	headSize        // of the file, in bytes
	headDescription // where it begins, in bytes
	headDescriptionLength
	headProcess // id, in its own namespace
	headUser
	headStarted     // wall-clock nanoseconds
	headEnded       // 0 while the process has not closed the file
	headTick        // when the sampler last ran, wall-clock nanoseconds
	headEpoch       // number of the interval of a second: see PeakWords
	headSamples     // samples ever taken
	headEvents      // events ever noted
	headZeroed      // when a baseline was last stored; 0: never
	headUnpublished // one word for each section: blocks that found no room
)

// The words in front of a block's counters.
const (
	blockState   = iota // generation << 1, and 1 while the block is open
	blockInfo           // version of the text behind the counters: odd while it is written
	blockInfoLen        // its length in bytes
	blockParent         // 1 + index of the poller's block, or of the ring's; 0: none
	blockID             // a socket's id, a ring's number
	blockOpened         // wall-clock nanoseconds
	blockCount          // counters in use, where the section has no fixed ones
	blockHeader
)

// Words of an event.
const (
	eventSequence = iota // 1 + its number: 0 while it is written
	eventTime            // wall-clock nanoseconds
	eventKind
	eventCount
	eventSubject // section << 32 | index of the block that it happened to; 0: none
	eventText    // length in bytes of the text, which is first in the words behind; name and code follow it
	eventHeader
	eventWords   = 40
	eventStrings = eventWords - eventHeader - int(numEventFields)
)

// eventField is a word at the end of an event. The description names them, so that a reader of another version finds those that it knows. A file
// of before fields has none: there the fields are empty, and the times are that of the event.
type eventField int

const (
	fieldName     eventField = iota // length in bytes
	fieldCode                       // length in bytes
	fieldEarliest                   // this and the next two are wall-clock nanoseconds: see JournalEntry
	fieldLatest
	fieldEnd
	numEventFields
)

var eventFields = [numEventFields]string{"name", "code", "earliest", "latest", "end"}

const (
	sampleCount   = 900
	eventCapacity = 4096
)

// SectionLayout is where the blocks of a section lie.
type SectionLayout struct {
	Section
	Offset int `json:"offset"` // of the first block, in words
	Blocks int `json:"blocks"` // the first one adds up those that were closed
	Stride int `json:"stride"` // words from one block to the next
	Width  int `json:"width"`  // words of counters; the baseline behind them is as wide
	Info   int `json:"info"`   // bytes of text
	Names  int `json:"names"`  // bytes for the name of each counter, where the table gives them none
}

// RingLayout is a ring of records of one size.
type RingLayout struct {
	Offset   int `json:"offset"` // in words
	Capacity int `json:"capacity"`
	Words    int `json:"words"` // of one
}

// Description says what a file holds.
type Description struct {
	Layout   int             `json:"layout"`
	Version  string          `json:"version"`
	Program  string          `json:"program"`
	Command  []string        `json:"command"`
	Control  string          `json:"control"` // the control socket's file in the same directory; empty: none
	Sections []SectionLayout `json:"sections"`
	Samples  RingLayout      `json:"samples"`
	Columns  []string        `json:"columns"` // of samples: section and counter, "ring.packets"
	Host     int             `json:"host"`    // words behind the columns of a sample: the counters of the block of section host
	Journal  RingLayout      `json:"journal"`
	Kinds    []string        `json:"kinds"`  // of events, by number
	Fields   []string        `json:"fields"` // the last words of an event
}

// capacities are how many blocks a file has for each section; those of sockets are a setting.
var capacities = map[string]int{Pollers: 64, Rings: 128, Drops: 64, Drivers: 64, Host: 1, Feeds: 32, Lines: 96}

const (
	driverWidth = 256 // counters that a driver may name
	hostWidth   = 512 // counters that the host may name
	driverName  = 48  // bytes for each of the names
)

// describe computes the layout of a file with room for so many sockets, and the file's length in words, a multiple of pageWords.
func describe(sockets int) (Description, int) {
	d := Description{Layout: LayoutVersion, Kinds: eventKinds[:], Fields: eventFields[:]}
	at := pageWords + 64*pageWords // the header, and 256 KiB for the description: pages that are not written take no memory
	for _, s := range sections {
		l := SectionLayout{Section: s, Offset: at, Blocks: 1 + capacities[s.Name], Width: s.Words(), Info: 512}
		switch s.Name {
		case Sockets:
			l.Blocks, l.Info = 1+sockets, 1024
		case Drivers:
			l.Width, l.Names, l.Info = driverWidth, driverName, driverWidth*driverName
		case Host:
			l.Width, l.Names, l.Info = hostWidth, driverName, hostWidth*driverName
		}
		l.Stride = (blockHeader + 2*l.Width + l.Info/8 + 7) &^ 7 // whole cache lines
		at += l.Blocks * l.Stride
		d.Sections = append(d.Sections, l)
	}
	at = (at + pageWords - 1) &^ (pageWords - 1)
	d.Columns = sampleColumns(d.Sections)
	d.Samples = RingLayout{Offset: at, Capacity: sampleCount, Words: sampleHeader + len(d.Columns) + hostWidth}
	d.Host = hostWidth
	at += d.Samples.Capacity * d.Samples.Words
	d.Journal = RingLayout{Offset: at, Capacity: eventCapacity, Words: eventWords}
	at += d.Journal.Capacity * d.Journal.Words
	return d, (at + pageWords - 1) &^ (pageWords - 1)
}

// sampleColumns are the columns of samples: of each section each counter that it names, summed over its blocks; of peaks the largest. The
// counters of section host stand behind them, each by itself.
func sampleColumns(list []SectionLayout) []string {
	var columns []string
	for i := range list {
		for j := range list[i].Counters {
			if list[i].Name == Host {
				break
			}
			if name := list[i].Counters[j].Name; name != "" {
				columns = append(columns, list[i].Name+"."+name)
			}
		}
	}
	return columns
}

// check refuses a description whose sections, samples or events lie outside a file of so many words, or do not fit their own sizes. After it a
// reader may load all that the description names. No sum or product of its numbers overflows.
func (d *Description) check(words int) error {
	inside := func(what string, offset, n, stride int) error {
		if offset < 0 || n < 0 || stride <= 0 || offset > words || n > (words-offset)/stride {
			return fmt.Errorf("%s of %d times %d words at %d lie outside a file of %d words", what, n, stride, offset, words)
		}
		return nil
	}
	for i := range d.Sections {
		s := &d.Sections[i]
		if err := inside("blocks of section "+s.Name, s.Offset, s.Blocks, s.Stride); err != nil {
			return err
		}
		if s.Width < 0 || s.Info < 0 || s.Names < 0 || s.Width > s.Stride || s.Info/8 > s.Stride ||
			blockHeader+2*s.Width+(s.Info+7)/8 > s.Stride ||
			s.Names == 0 && s.Words() > s.Width || s.Names > 0 && s.Width > s.Info/s.Names {
			return fmt.Errorf("section %s: its counters do not fit blocks of %d words", s.Name, s.Stride)
		}
	}
	if d.Host < 0 || d.Host > words || d.Samples.Words < sampleHeader+len(d.Columns)+d.Host || d.Journal.Words < eventHeader+len(d.Fields) || d.Samples.Capacity < 1 || d.Journal.Capacity < 1 {
		return fmt.Errorf("records of %d and %d words", d.Samples.Words, d.Journal.Words)
	}
	if err := inside("samples", d.Samples.Offset, d.Samples.Capacity, d.Samples.Words); err != nil {
		return err
	}
	return inside("journal", d.Journal.Offset, d.Journal.Capacity, d.Journal.Words)
}

// marshal is the description as JSON. Error: it is longer than the room for it.
func (d *Description) marshal() ([]byte, error) {
	text, err := json.Marshal(d)
	if err == nil && len(text) > 64*pageWords*8 {
		err = fmt.Errorf("a description of %d bytes", len(text))
	}
	return text, err
}
