package stats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
)

// ErrLayout is a file that this version cannot read: of another layout, damaged, or no file of this library.
var ErrLayout = errors.New("stats: not a file that this version can read")

// Reader reads a file of a process, which may be running or not.
type Reader struct {
	path        string
	file        *os.File
	memory      sys.SharedFile
	words       []uint64
	description Description
}

// Open maps a file for reading. It changes nothing in it.
func Open(path string) (*Reader, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("stats: %w", err)
	}
	r := &Reader{path: path, file: f}
	if err := r.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s: %w", ErrLayout, path, err), r.Close())
	}
	return r, nil
}

// load maps the file, checks its header, and reads and checks its description.
func (r *Reader) load() error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	size := int(info.Size())
	if !info.Mode().IsRegular() || size < 8*pageWords || size > 1<<30 || size%8 != 0 {
		return fmt.Errorf("%d bytes, mode %v", size, info.Mode())
	}
	const writable = false
	if r.memory, err = sys.MapSharedFile(r.file, size, writable); err != nil {
		return err
	}
	r.words = r.memory.Words()
	h := r.words
	switch {
	case h[headMagic] != magic:
		return fmt.Errorf("it begins with %#x", h[headMagic])
	case h[headLayout] != LayoutVersion:
		return fmt.Errorf("layout %d, this version reads %d", h[headLayout], LayoutVersion)
	case h[headSize] != uint64(size):
		return fmt.Errorf("%d bytes of %d", size, h[headSize])
	}
	at, n := h[headDescription], h[headDescriptionLength]
	if at > uint64(size) || n > uint64(size)-at {
		return fmt.Errorf("a description of %d bytes at %d", n, at)
	}
	text := bytes.Clone(r.memory.Bytes()[at : at+n])
	if err := json.Unmarshal(text, &r.description); err != nil {
		return fmt.Errorf("description: %w", err)
	}
	return r.description.check(len(r.words))
}

// Close unmaps the file.
func (r *Reader) Close() error {
	err := r.file.Close()
	if r.words != nil {
		err = errors.Join(err, r.memory.Close())
		r.words = nil
	}
	return err
}

// Path is the file's.
func (r *Reader) Path() string { return r.path }

// Description says what the file holds.
func (r *Reader) Description() *Description { return &r.description }

// Live reports whether the process that writes the file runs.
func (r *Reader) Live() (bool, error) { return isLocked(r.file) }

// Process is what is known of the process that writes, or wrote, the file.
type Process struct {
	ID      int       `json:"pid"` // in its own namespace
	User    int       `json:"uid"`
	Program string    `json:"program"`
	Command []string  `json:"command"`
	Version string    `json:"version"`
	Live    bool      `json:"live"`
	Closed  bool      `json:"closed"` // it has closed the file itself
	Started time.Time `json:"started"`
	Last    time.Time `json:"last"`             // the last sign of life
	Zeroed  time.Time `json:"zeroed,omitempty"` // when the baseline was stored that views subtract
}

// Process returns what is known of the process.
func (r *Reader) Process() (Process, error) {
	live, err := r.Live()
	d := &r.description
	p := Process{ID: int(r.load64(headProcess)), User: int(r.load64(headUser)), Program: d.Program, Command: d.Command, Version: d.Version,
		Live: live, Started: wall(r.load64(headStarted)), Last: wall(r.load64(headTick)), Zeroed: wall(r.load64(headZeroed))}
	if ended := r.load64(headEnded); ended != 0 {
		p.Closed, p.Last = true, wall(ended)
	}
	return p, err
}

func (r *Reader) load64(i int) uint64 { return atomic.LoadUint64(&r.words[i]) }

// wall is a point in time; the zero Time for 0.
func wall(ns uint64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(ns))
}

// View is a block as it was at a moment.
type View struct {
	Section  string
	Index    int // in its section
	Parent   int // index of its poller's block, of a ring's block for what belongs to a ring; 0: none
	ID       uint64
	Opened   time.Time
	Info     map[string]string
	Names    []string          // of its counters, in the table's order
	Totals   map[string]uint64 // counters as they are in the file; of peaks the larger one of this interval and the last
	Baseline map[string]uint64 // what Zero has stored of them
	Unnamed  int               // counters of a driver, or of the host, that found no room
}

// Value is a counter since the baseline; gauges and peaks as they are.
func (v *View) Value(name string) uint64 {
	if b := v.Baseline[name]; b <= v.Totals[name] {
		return v.Totals[name] - b
	}
	return 0
}

// ViewOf is the view of words that lie in no file: the counters of a block in the order of the section's table, and its lines of key=value.
func ViewOf(section string, id uint64, info string, words []uint64) View {
	v := View{Section: section, ID: id, Info: parseInfo([]byte(info)), Totals: map[string]uint64{}, Baseline: map[string]uint64{}}
	for i, row := range SectionOf(section).Counters { // without peaks
		v.Names = append(v.Names, row.Name)
		v.Totals[row.Name] = words[i]
	}
	return v
}

// Blocks are the open blocks of a section.
func (r *Reader) Blocks(section string) []View {
	var list []View
	if s := r.section(section); s != nil {
		for i := 1; i < s.Blocks; i++ {
			if v, ok := r.view(s, i); ok {
				list = append(list, v)
			}
		}
	}
	return list
}

// Closed is the sum of the totals of a section's blocks that were closed.
func (r *Reader) Closed(section string) View {
	v := View{Section: section}
	if s := r.section(section); s != nil {
		r.counters(s, 0, &v)
	}
	return v
}

// Unpublished is how many blocks of a section ever found no room in the file.
func (r *Reader) Unpublished(section string) uint64 {
	for i := range r.description.Sections {
		if r.description.Sections[i].Name == section && headUnpublished+i < pageWords {
			return r.load64(headUnpublished + i)
		}
	}
	return 0
}

// section is the layout of a section by its name; nil: the file has none.
func (r *Reader) section(name string) *SectionLayout {
	for i := range r.description.Sections {
		if r.description.Sections[i].Name == name {
			return &r.description.Sections[i]
		}
	}
	return nil
}

// view reads block i of a section. It reads again if another block took the place meanwhile; false: no block is open there.
func (r *Reader) view(s *SectionLayout, i int) (View, bool) {
	at := s.Offset + i*s.Stride
	for range 8 { // more often a place does not change hands in a row
		state := r.load64(at + blockState)
		if state&1 == 0 { // closed
			return View{}, false
		}
		v := View{Section: s.Name, Index: i, Parent: int(r.load64(at+blockParent)) - 1, ID: r.load64(at + blockID), Opened: wall(r.load64(at + blockOpened))}
		v.Parent = max(v.Parent, 0)
		r.counters(s, i, &v)
		if s.Names == 0 {
			v.Info = parseInfo(r.text(at+blockInfo, at+blockHeader+2*s.Width, min(int(r.load64(at+blockInfoLen)), s.Info)))
		}
		if r.load64(at+blockState) == state {
			return v, true
		}
	}
	return View{}, false
}

// text copies n bytes at word at. The word version is odd while they are written, and text reads again if it changed. A writer that was killed
// while it wrote leaves an odd version: then the bytes are returned as they are.
func (r *Reader) text(version, at, n int) []byte {
	var text []byte
	for range 100 {
		v := r.load64(version)
		text = bytes.Clone(r.memory.Bytes()[8*at : 8*at+n])
		if v&1 == 0 && r.load64(version) == v {
			break
		}
	}
	return text
}

// counters reads names, values and baseline of block i of a section into v: by the names in the block, or by the description's.
func (r *Reader) counters(s *SectionLayout, i int, v *View) {
	v.Totals, v.Baseline = map[string]uint64{}, map[string]uint64{}
	at := s.Offset + i*s.Stride
	first := at + blockHeader
	add := func(name string, word int, value uint64) {
		v.Names = append(v.Names, name)
		v.Totals[name], v.Baseline[name] = value, r.load64(first+s.Width+word)
	}
	if s.Names > 0 {
		n := int(r.load64(at + blockCount))
		v.Unnamed, n = max(n-s.Width, 0), max(min(n, s.Width), 0)
		names := r.text(at+blockInfo, first+2*s.Width, s.Info)
		for j := range n {
			place := names[j*s.Names : (j+1)*s.Names]
			add(string(place[1:1+min(int(place[0]), s.Names-1)]), j, r.load64(first+j))
		}
		return
	}
	word := 0
	for j := range s.Counters {
		row := &s.Counters[j]
		value := r.load64(first + word)
		if row.Type == Peak {
			epoch := r.load64(headEpoch)
			pair := r.words[first+word : first+word+PeakWords]
			value = max(peakOf(pair, epoch), peakOf(pair, epoch-1))
		}
		if row.Name != "" {
			add(row.Name, word, value)
		}
		word += row.Words()
	}
}

// parseInfo reads lines of key=value.
func parseInfo(text []byte) map[string]string {
	info := map[string]string{}
	for line := range bytes.Lines(text) {
		if k, v, ok := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte("=")); ok {
			info[string(k)] = string(v)
		}
	}
	return info
}

// Sample is what was counted until a moment, summed over all blocks, with the peaks of the interval that ended then.
type Sample struct {
	Number   uint64 // from 1 on; 1 is the first one of the file
	Time     time.Time
	Interval time.Duration
	Values   map[string]uint64 // by column, "ring.packets", and by counter of the host, "host.eth0.rx_packets"
}

// hostNames are the names of the host's counters, by their places in samples.
func (r *Reader) hostNames() (names []string) {
	for _, v := range r.Blocks(Host) {
		names = v.Names
	}
	for i := range names {
		names[i] = Host + "." + names[i]
	}
	return names[:min(len(names), r.description.Host)]
}

// Samples are the samples that the file has, the oldest first.
func (r *Reader) Samples() []Sample {
	l := &r.description.Samples
	host := r.hostNames()
	var list []Sample
	end := r.load64(headSamples)
	for n := end - min(end, uint64(l.Capacity)); n < end; n++ {
		at := l.Offset + int(n%uint64(l.Capacity))*l.Words
		s := Sample{Number: n + 1, Time: wall(r.load64(at + sampleTime)), Interval: time.Duration(r.load64(at + sampleInterval)), Values: map[string]uint64{}}
		for i, name := range r.description.Columns {
			s.Values[name] = r.load64(at + sampleHeader + i)
		}
		for i, name := range host {
			s.Values[name] = r.load64(at + sampleHeader + len(r.description.Columns) + i)
		}
		if r.load64(at+sampleSequence) == n+1 { // else it was written over meanwhile
			list = append(list, s)
		}
	}
	return list
}

// Event is an entry of the journal.
type Event struct {
	Number uint64    `json:"number"`
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"`
	Count  uint64    `json:"count"`
	Of     string    `json:"of,omitempty"`    // section and index of the block: "ring 3"
	About  string    `json:"about,omitempty"` // the socket "fd=9 10.0.0.1:5000", or the poller by its name; empty once the block is closed
	Name   string    `json:"name,omitempty"`  // this and the next ones are those of JournalEntry
	Code   string    `json:"code,omitempty"`
	Text   string    `json:"text"`

	Earliest time.Time `json:"earliest"`
	Latest   time.Time `json:"latest"`
	End      time.Time `json:"end"`
}

// HasEventFields reports whether the events of the journal have names, codes and times of begin and end. Those of a process that was built with
// an older version have a text alone.
func (r *Reader) HasEventFields() bool {
	return !slices.ContainsFunc(eventFields[:], func(name string) bool { return !slices.Contains(r.description.Fields, name) })
}

// Events are the entries of the journal in the order of their times, the oldest first; numbers are in the order of writing, which differs where
// an entry is about something earlier. One that was being written when the process was killed is missing.
func (r *Reader) Events() []Event {
	l := &r.description.Journal
	var list []Event
	about := r.subjects()
	end := r.load64(headEvents)
	for n := end - min(end, uint64(l.Capacity)); n < end; n++ {
		at := l.Offset + int(n%uint64(l.Capacity))*l.Words
		if r.load64(at+eventSequence) != n+1 {
			continue
		}
		e := Event{Number: n + 1, Time: wall(r.load64(at + eventTime)), Count: r.load64(at + eventCount), Kind: "unknown"}
		if k := r.load64(at + eventKind); k < uint64(len(r.description.Kinds)) {
			e.Kind = r.description.Kinds[k]
		}
		if of := r.load64(at + eventSubject); of != 0 && of>>32 < uint64(len(r.description.Sections)) {
			e.Of = fmt.Sprintf("%s %d", r.description.Sections[of>>32].Name, of&(1<<32-1))
			if x := about[e.Of]; !x.since.After(e.Time) { // else the block stood for something else at that time
				e.About = x.name
			}
		}
		r.fields(at, &e)
		if r.load64(at+eventSequence) == n+1 {
			list = append(list, e)
		}
	}
	slices.SortStableFunc(list, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return list
}

// fields reads the strings of the event at a word, and its times.
func (r *Reader) fields(at int, e *Event) {
	l, names := &r.description.Journal, r.description.Fields
	behind := at + l.Words - len(names) // the strings
	value := func(f eventField) int {
		if i := slices.Index(names, eventFields[f]); i >= 0 {
			return int(r.load64(behind + i))
		}
		return 0
	}
	room := r.memory.Bytes()[8*(at+eventHeader) : 8*behind]
	next := func(length int) string {
		s := string(room[:max(0, min(length, len(room)))])
		room = room[len(s):]
		return s
	}
	e.Text, e.Name, e.Code = next(int(r.load64(at+eventText))), next(value(fieldName)), next(value(fieldCode))
	e.Earliest, e.Latest, e.End = e.Time, e.Time, e.Time
	for f, t := range map[eventField]*time.Time{fieldEarliest: &e.Earliest, fieldLatest: &e.Latest, fieldEnd: &e.End} {
		if v := value(f); v != 0 {
			*t = wall(uint64(v))
		}
	}
}

// subject is what a block stands for since it was opened.
type subject struct {
	name  string
	since time.Time
}

// subjects are those of the open blocks, by section and index as Event.Of has them.
func (r *Reader) subjects() map[string]subject {
	list := map[string]subject{}
	pollers := map[int]string{}
	for _, section := range []string{Pollers, Drops, Drivers, Rings, Sockets} {
		for _, v := range r.Blocks(section) {
			name := pollers[v.Parent]
			switch section {
			case Pollers:
				name = v.Info["name"]
				pollers[v.Index] = name
			case Sockets:
				name = strings.TrimSpace(fmt.Sprintf("fd=%d %s", v.ID, v.Info["local"]))
			}
			list[fmt.Sprintf("%s %d", section, v.Index)] = subject{name, v.Opened}
		}
	}
	return list
}
