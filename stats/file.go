package stats

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/version"
)

// Config is what a file is made with.
type Config struct {
	Directory string // made if it is not there; its parent must be
	Group     string // whose members may read, by name or number; empty: none
	Sockets   int    // how many have room
	Control   bool   // the file has a control socket
}

// File is the file of this process. Any goroutine.
type File struct {
	path     string
	file     *os.File // has the lock
	memory   sys.SharedFile
	words    []uint64
	head     []uint64
	desc     Description
	sections map[string]*section

	mu      sync.Mutex // of blocks that are opened and closed
	sampler *sampler
	host    *Block // of section host
	places  hostPlaces
}

// section is the blocks of a section.
type section struct {
	layout *SectionLayout
	number int
	blocks []*Block // nil: free; [0] adds up those that were closed
	used   int      // the last one that is in use

	// Of drivers, whose blocks name their counters: how much the totals have grown in all blocks, by their rows. By the sampler, with the
	// file's lock.
	grown map[*Counter]uint64
}

// Create makes the file of this process and starts its sampler. The newest eight files of processes that have ended stay in the directory.
func Create(c Config) (*File, error) {
	f, err := create(c)
	if err != nil {
		return nil, fmt.Errorf("stats: %w", err)
	}
	f.sampler = startSampler(f)
	return f, nil
}

// create is Create without the sampler. After an error nothing is left.
func create(c Config) (*File, error) {
	if c.Sockets < 0 {
		return nil, fmt.Errorf("room for %d sockets: %w", c.Sockets, unix.EINVAL)
	}
	group, err := groupNumber(c.Group)
	if err != nil {
		return nil, err
	}
	if err := makeDirectory(c.Directory, group); err != nil {
		return nil, fmt.Errorf("directory: %w", err)
	}
	if err := Clean(c.Directory); err != nil {
		return nil, fmt.Errorf("clean directory: %w", err)
	}
	f := &File{}
	var words int
	f.desc, words = describe(c.Sockets)
	now := time.Now().UnixNano()
	f.desc.Program, f.desc.Command, f.desc.Version = filepath.Base(os.Args[0]), os.Args, version.OfModule()
	f.path = filepath.Join(c.Directory, fileName(os.Getpid(), now))
	if c.Control {
		f.desc.Control = filepath.Base(f.path) + controlSuffix
	}
	// Under another name until it is complete and locked: a reader finds no half of a file, and no live one that looks dead.
	draft := f.path + draftSuffix
	f.file, err = os.OpenFile(draft, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err = f.fill(now, words, group); err == nil {
		err = os.Rename(draft, f.path)
	}
	if err != nil {
		return nil, errors.Join(err, f.unmap(), f.file.Close(), remove(draft))
	}
	return f, nil
}

// fill locks the new file, gives it to the group (-1: none), maps it with so many words, and writes header and description. now is the wall
// clock's time in nanoseconds.
func (f *File) fill(now int64, words, group int) error {
	if err := lock(f.file); err != nil {
		return err
	}
	if group >= 0 {
		if err := errors.Join(f.file.Chown(-1, group), f.file.Chmod(0o640)); err != nil {
			return err
		}
	}
	if err := f.file.Truncate(int64(8 * words)); err != nil {
		return err
	}
	text, err := f.desc.marshal()
	if err != nil {
		return err
	}
	const writable = true
	if f.memory, err = sys.MapSharedFile(f.file, 8*words, writable); err != nil {
		return err
	}
	f.words = f.memory.Words()
	f.head = f.words[:pageWords]
	copy(f.memory.Bytes()[8*pageWords:], text)
	f.head[headSize], f.head[headDescription], f.head[headDescriptionLength] = uint64(8*words), 8*pageWords, uint64(len(text))
	f.head[headProcess], f.head[headUser], f.head[headStarted] = uint64(os.Getpid()), uint64(os.Geteuid()), uint64(now)
	f.head[headTick], f.head[headEpoch] = uint64(now), 1
	f.head[headLayout], f.head[headMagic] = LayoutVersion, magic
	f.sections = map[string]*section{}
	for i := range f.desc.Sections {
		l := &f.desc.Sections[i]
		s := &section{layout: l, number: i, blocks: make([]*Block, l.Blocks)}
		s.blocks[0] = f.newBlock(s, 0)
		if l.Name == Drivers {
			s.grown = map[*Counter]uint64{}
		}
		f.sections[l.Name] = s
	}
	f.host = f.Open(Host, nil, 0)
	f.places.byName = map[string]*hostPlace{}
	return nil
}

// Path is where the file is.
func (f *File) Path() string { return f.path }

// Epoch is the word that numbers the intervals of a second: see PeakWords.
func (f *File) Epoch() *uint64 { return &f.head[headEpoch] }

// Close stops the sampler, marks the file as ended and unmaps it. It stays for readers. Nothing may use blocks of it any more.
func (f *File) Close() error {
	f.sampler.close()
	f.mu.Lock()
	defer f.mu.Unlock()
	atomic.StoreUint64(&f.head[headEnded], uint64(time.Now().UnixNano()))
	return errors.Join(f.unmap(), f.file.Close())
}

// unmap ends the mapping, if there is one.
func (f *File) unmap() error {
	if f.words == nil {
		return nil
	}
	f.words, f.head = nil, nil
	return f.memory.Close()
}

// Block is the counters of one thing, in a file.
type Block struct {
	file     *File
	section  *section
	index    int
	words    []uint64
	counters []uint64
	baseline []uint64
	info     []byte

	lookBegan, lookDone atomic.Int64 // see BeginLook

	// By the sampler, with the file's lock.
	last        []uint64   // the counters as they were at its last turn
	looked      int64      // lookDone then
	grown       int64      // when the counter with onset grew last
	growing     bool       // the journal has its onset, and not its end
	onsetValue  uint64     // what it was before its onset
	rows        []*Counter // of counters that the block names
	rowNames    []string   // and their names
	rowsVersion uint64
	lastOf      map[string]uint64 // the value of last of each name that the block has had: a counter may move to another place
	baselineOf  map[string]uint64 // the same of baseline
}

// newBlock makes the Block for place i of a section: slices of the mapping for its header, counters, baseline and text. It changes nothing in
// the file.
func (f *File) newBlock(s *section, i int) *Block {
	l := s.layout
	at := l.Offset + i*l.Stride
	w := f.words[at : at+l.Stride : at+l.Stride]
	first := 8*at + 8*(blockHeader+2*l.Width)
	return &Block{file: f, section: s, index: i, words: w, counters: w[blockHeader : blockHeader+l.Width : blockHeader+l.Width],
		baseline: w[blockHeader+l.Width : blockHeader+2*l.Width], info: f.memory.Bytes()[first : first+l.Info : first+l.Info]}
}

// Open takes a free block of a section, with counters that are zero; nil when there is none, which is counted. parent is the block that it
// belongs to, or nil; id is what tells it from others.
func (f *File) Open(name string, parent *Block, id uint64) *Block {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sections[name]
	if s == nil {
		panic("stats: no section " + name)
	}
	for i := 1; i < len(s.blocks); i++ {
		if s.blocks[i] != nil {
			continue
		}
		b := f.newBlock(s, i)
		clear(b.words[blockParent:])
		if parent != nil {
			b.words[blockParent] = uint64(parent.index) + 1
		}
		b.words[blockID], b.words[blockOpened], b.words[blockInfoLen] = id, uint64(time.Now().UnixNano()), 0
		atomic.StoreUint64(&b.words[blockState], b.words[blockState]|1) // last: odd is open
		s.blocks[i] = b
		s.used = max(s.used, i)
		return b
	}
	f.CountUnpublished(name)
	return nil
}

// CountUnpublished counts something that gets no block of a section. Any goroutine.
func (f *File) CountUnpublished(section string) {
	atomic.AddUint64(&f.head[headUnpublished+f.sections[section].number], 1)
}

// Counters are the block's words, to be stored to by one goroutine.
func (b *Block) Counters() []uint64 { return b.counters }

// Close gives the block back. What its totals have counted goes on counting in the sums of the section. The words may be used by another one
// afterwards.
func (b *Block) Close() {
	f := b.file
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.words == nil || b.section.blocks[b.index] != b {
		return
	}
	f.sampler.lookAt(b) // what was lost since the sampler's last turn
	closed := b.section.blocks[0]
	for i, row := range b.section.layout.rows() {
		if row != nil && row.Type == Total {
			atomic.AddUint64(&closed.counters[i], b.counters[i])
			atomic.AddUint64(&closed.baseline[i], b.baseline[i])
		}
	}
	atomic.StoreUint64(&b.words[blockState], (b.words[blockState]|1)+1) // the next generation, closed
	b.section.blocks[b.index] = nil
}

// rows is the table's row of each word of a block's counters. It is nil for the second to fourth word of a peak, and for all words of a section
// whose blocks name their counters.
func (l *SectionLayout) rows() []*Counter {
	rows := make([]*Counter, l.Width)
	if l.Names > 0 {
		return rows
	}
	at := 0
	for i := range l.Counters {
		rows[at] = &l.Counters[i]
		at += l.Counters[i].Words()
	}
	return rows
}

// SetInfo stores what is to be read of the block beside its counters: lines of key=value, cut at the end of a line if they do not fit. By the
// goroutine that stores to the counters.
func (b *Block) SetInfo(text string) {
	if len(text) > len(b.info) {
		text = text[:len(b.info)]
		for i := len(text) - 1; i >= 0 && text[i] != '\n'; i-- {
			text = text[:i]
		}
	}
	v := atomic.AddUint64(&b.words[blockInfo], 1) // odd: readers try again until it is even
	copy(b.info, text)
	atomic.StoreUint64(&b.words[blockInfoLen], uint64(len(text)))
	atomic.StoreUint64(&b.words[blockInfo], v+1)
}

// SetNamed stores counter i of a block whose section has no fixed counters, and its name if another one stands there. What has no room is not
// stored: the block's count of names tells (Block.SetCount).
func (b *Block) SetNamed(i int, name string, value uint64) {
	l := b.section.layout
	if i >= l.Width {
		return
	}
	place := b.info[i*l.Names : (i+1)*l.Names]
	name = name[:min(len(name), l.Names-1)]
	if int(place[0]) != len(name) || string(place[1:1+len(name)]) != name {
		v := atomic.AddUint64(&b.words[blockInfo], 1) // odd while the name is written: a reader tries again
		place[0] = byte(len(name))
		copy(place[1:], name)
		atomic.StoreUint64(&b.counters[i], value) // before the name is valid: it never has another counter's value
		atomic.StoreUint64(&b.words[blockInfo], v+1)
		return
	}
	atomic.StoreUint64(&b.counters[i], value)
}

// BeginLook says that the owner is about to read what it stores in a block that names its counters: what they have counted was counted before
// now, in wall-clock nanoseconds. EndLook says that all of it is stored.
func (b *Block) BeginLook(now int64) { b.lookBegan.Store(now) }

// EndLook ends what BeginLook has begun.
func (b *Block) EndLook() { b.lookDone.Store(b.lookBegan.Load()) }

// SetCount says how many counters a block with names has, those without room included.
func (b *Block) SetCount(n int) { atomic.StoreUint64(&b.words[blockCount], uint64(n)) }
