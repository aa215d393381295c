package capture

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Config is what a capture is made from.
type Config struct {
	Path  string       // of the file, which is made or emptied; %d is the process's number
	Snap  int          // bytes of a frame that are kept; 0: all
	Limit int64        // bytes of the file; 0: DefaultLimit
	Log   *slog.Logger // gets one warning when the file is full or cannot be written; nil: slog.Default()

	out      io.Writer     // of tests, in place of the file
	tap      int           // and their size of a tap
	patience time.Duration // and for how long Close waits for a reader
}

// DefaultLimit is the Limit where none is given.
const DefaultLimit = 1 << 30

// closePatience is how long Close waits for the reader of a pipe that does not read.
const closePatience = time.Second

// tapSize is the bytes of a link's tap, the same for all links of a file.
func (c *Config) tapSize() int {
	if c.tap > 0 {
		return c.tap
	}
	return tapSize
}

// File is a capture that is being written. Any goroutine.
type File struct {
	config     Config
	file       *os.File
	out        *bufio.Writer
	pcap       *pcapgo.NgWriter          // nil before the first frame: the library begins a file with an interface
	size       int64                     // of the file, about, and not less
	interfaces map[string]*fileInterface // interfaces of the file by their names
	warned     bool
	stop       chan struct{}
	done       chan struct{}

	mu    sync.Mutex
	links []*source
	end   bool

	frames, bytes, over, failed atomic.Uint64
	err                         atomic.Pointer[error]
}

// fileInterface is an interface of the file: a queue's links, one after the other when it is closed and opened again.
type fileInterface struct {
	id                int    // -1: not in the file yet
	received, dropped uint64 // of its links that are gone
}

// source is a link with its place in the file.
type source struct {
	name          string
	iface         *fileInterface
	tap           *tap
	frames, bytes uint64 // written since the last flush
}

// collectEvery is how often the taps are emptied: each holds what 100 Gbit/s bring in a third of a millisecond, 4 MiB, or what 1 Gbit/s
// brings in more than three of these spans.
const collectEvery = 5 * time.Millisecond

// Open makes the file and begins to write. A file that another capture writes is refused.
func Open(c Config) (*File, error) {
	if c.Snap < 0 || c.Snap >= skip || c.Limit != 0 && c.Limit < 4*blockSize {
		return nil, fmt.Errorf("capture: Snap %d, Limit %d: %w", c.Snap, c.Limit, unix.EINVAL)
	}
	if c.Limit == 0 {
		c.Limit = DefaultLimit
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.patience == 0 {
		c.patience = closePatience
	}
	f := &File{interfaces: map[string]*fileInterface{}, stop: make(chan struct{}), done: make(chan struct{})}
	out := c.out
	if out == nil {
		c.Path = strings.Replace(c.Path, "%d", strconv.Itoa(os.Getpid()), 1)
		var err error
		if f.file, err = create(c.Path); err != nil {
			return nil, fmt.Errorf("capture: %w", err)
		}
		out = f.file
	}
	f.config = c
	f.out = bufio.NewWriterSize(out, 256<<10)
	go f.collectLoop()
	return f, nil
}

// create opens and empties the file, readable by the user alone, and locks it, because two captures would write over each other. A pipe is
// opened without waiting for its reader, and in a way that Close need not wait for one either.
func create(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|unix.O_NONBLOCK, 0o600)
	if errors.Is(err, unix.ENXIO) {
		return nil, fmt.Errorf("%w: nobody reads the pipe: start its reader first", err)
	}
	if err != nil {
		return nil, err
	}
	if err = lock(file); errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("%s: another capture writes it: %w", path, unix.EBUSY)
	}
	if err == nil {
		if s, e := file.Stat(); e == nil && s.Mode().IsRegular() { // a pipe to Wireshark is not
			err = file.Truncate(0)
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// lock takes the file's lock, without File.Fd, which would make writes to a pipe wait in the kernel.
func lock(file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	err = raw.Control(func(fd uintptr) { locked = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) })
	return errors.Join(err, locked)
}

// add makes the link one that collectLoop collects from; links of the same interface and queue share an interface of the file.
func (f *File) add(x *Link) {
	i := x.Info()
	f.mu.Lock()
	defer f.mu.Unlock()
	name := fmt.Sprintf("%s queue %d", i.Name, i.Queue)
	if f.interfaces[name] == nil {
		f.interfaces[name] = &fileInterface{id: -1}
	}
	f.links = append(f.links, &source{name: name, iface: f.interfaces[name], tap: x.tap})
}

// collectLoop collects until Close, and once more.
func (f *File) collectLoop() {
	defer close(f.done)
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		select {
		case <-f.stop:
			f.collect()
			f.writeRest()
			return
		case <-tick.C:
			f.collect()
		}
	}
}

// collect empties the taps into the file, and removes the links that were closed.
func (f *File) collect() {
	f.mu.Lock()
	links := f.links
	f.mu.Unlock()
	gone := false
	for _, s := range links {
		closed := s.tap.closed.Load() // before the last look
		s.tap.drain(func(r *record) { f.writeFrame(s, r) })
		gone = gone || closed
	}
	f.flush()
	f.countWritten(links)
	if gone {
		f.removeClosed()
	}
}

// removeClosed removes closed links whose taps are empty, and writes their statistics.
func (f *File) removeClosed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	var left []*source
	for _, s := range f.links {
		if s.tap.closed.Load() && s.tap.head.Load() == s.tap.tail.Load() {
			f.writeStatistics(s)
			continue
		}
		left = append(left, s)
	}
	f.links = left
}

var (
	flagsInbound  = pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionInbound}
	flagsOutbound = pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionOutbound}
)

// writeFrame writes one frame into the file, unless the file is full or cannot be written, which is counted.
func (f *File) writeFrame(s *source, r *record) {
	const block = 28 + 4 + 3 + 12 // of a frame beside its bytes: head, end, padding, flags
	size := int64(len(r.bytes)) + block
	if f.err.Load() != nil {
		f.countFailed(s, 1)
		return
	}
	if f.size+size+blockSize > f.config.Limit {
		f.over.Add(1)
		s.tap.over.Add(1)
		f.warnOnce("the capture has its size: no more frames are written", "bytes", f.config.Limit)
		return
	}
	if s.iface.id < 0 && !f.describe(s) {
		f.countFailed(s, 1)
		return
	}
	flags := &flagsInbound
	if r.dir == sent {
		flags = &flagsOutbound
	}
	ci := gopacket.CaptureInfo{Timestamp: time.Unix(0, r.nanos), CaptureLength: len(r.bytes), Length: r.length, InterfaceIndex: s.iface.id}
	if err := f.pcap.WritePacketWithOptions(ci, r.bytes, pcapgo.NgPacketOptions{Flags: flags}); err != nil {
		f.countFailed(s, 1)
		f.noteError(err)
		return
	}
	f.size += size
	s.frames++
	s.bytes += uint64(len(r.bytes))
}

// countFailed counts n frames of the link that could not be written.
func (f *File) countFailed(s *source, n uint64) {
	f.failed.Add(n)
	s.tap.failed.Add(n)
}

// countWritten counts what was written since the last flush: it is in the file, or, when that failed, none of it can be said to be.
func (f *File) countWritten(links []*source) {
	broken := f.err.Load() != nil
	for _, s := range links {
		if broken {
			f.countFailed(s, s.frames)
		} else {
			s.tap.written.Add(s.frames)
			f.frames.Add(s.frames)
			f.bytes.Add(s.bytes)
		}
		s.frames, s.bytes = 0, 0
	}
}

// blockSize is what the file's head, an interface or its statistics take at the most.
const blockSize = 512

// describe writes the interface of the link into the file before its first frame; false: it could not be written.
func (f *File) describe(s *source) bool {
	id, err := f.addInterface(s.name)
	if f.noteError(err); err != nil {
		return false
	}
	s.iface.id = id
	return true
}

// addInterface writes an interface into the file and returns its number. The first one begins the file.
func (f *File) addInterface(name string) (id int, err error) {
	i := pcapgo.NgInterface{Name: name, LinkType: layers.LinkTypeEthernet, SnapLength: uint32(f.config.Snap)}
	f.size += blockSize
	if f.pcap != nil {
		return f.pcap.AddInterface(i)
	}
	options := pcapgo.DefaultNgWriterOptions
	options.SectionInfo.Application = "socketxtreme"
	f.size += blockSize
	f.pcap, err = pcapgo.NewNgWriterInterface(f.out, i, options)
	return 0, err
}

// writeStatistics writes, when a link is removed, how many frames of its interface were received and how many of them are not in the file. The
// numbers are of all links that the interface has had, because a reader takes the last such block.
func (f *File) writeStatistics(s *source) {
	s.iface.received += s.tap.frames.Load() + s.tap.noRoom.Load()
	s.iface.dropped += s.tap.noRoom.Load() + s.tap.over.Load() + s.tap.failed.Load()
	if s.iface.id < 0 || f.err.Load() != nil || f.size+blockSize > f.config.Limit {
		return
	}
	f.size += blockSize
	f.noteError(f.pcap.WriteInterfaceStats(s.iface.id, pcapgo.NgInterfaceStatistics{LastUpdate: time.Now(),
		PacketsReceived: s.iface.received, PacketsDropped: s.iface.dropped}))
}

// noteError notes the first error of the file, after which nothing more is written.
func (f *File) noteError(err error) {
	if err == nil || f.err.Load() != nil {
		return
	}
	f.err.Store(&err)
	f.warnOnce("the capture cannot be written: no more frames are", "error", err)
}

// warnOnce logs a warning, the first time that it is called.
func (f *File) warnOnce(text string, more ...any) {
	if !f.warned {
		f.warned = true
		f.config.Log.Warn(text, append([]any{"file", f.config.Path}, more...)...)
	}
}

// writeRest ends the file: the statistics of all links, and the head of a file without frames, so that it can be read.
func (f *File) writeRest() {
	f.mu.Lock()
	links := f.links
	f.links = nil
	f.mu.Unlock()
	for _, s := range links {
		f.writeStatistics(s)
	}
	if f.pcap == nil { // no frame was written: the file has no head yet
		_, err := f.addInterface("none")
		f.noteError(err)
	}
	f.flush()
}

// flush writes what the library and the buffer hold into the file.
func (f *File) flush() {
	if f.pcap == nil || f.err.Load() != nil {
		return
	}
	if f.noteError(f.pcap.Flush()); f.err.Load() == nil {
		f.noteError(f.out.Flush())
	}
}

// Stats are what became of the frames, over all links.
type Stats struct {
	Frames, Bytes uint64 // in the file
	OverLimit     uint64 // not there: the file has its size
	Failed        uint64 // not there: it could not be written
}

// Stats returns the totals so far.
func (f *File) Stats() Stats {
	return Stats{f.frames.Load(), f.bytes.Load(), f.over.Load(), f.failed.Load()}
}

// Close writes what was captured and closes the file. The links may live on: what they carry from then on is not written. The error is the
// first that was met in writing; it waits a second at the most for a reader of a pipe that does not read. A second Close is link.ErrClosed.
func (f *File) Close() error {
	f.mu.Lock()
	if f.end {
		f.mu.Unlock()
		return link.ErrClosed
	}
	f.end = true
	f.mu.Unlock()
	if f.file != nil {
		_ = f.file.SetWriteDeadline(time.Now().Add(f.config.patience)) // an error: a file that nothing waits for
	}
	close(f.stop)
	<-f.done
	var err error
	if e := f.err.Load(); e != nil {
		err = fmt.Errorf("capture: %w", *e)
	}
	if f.file != nil {
		err = errors.Join(err, f.file.Close())
	}
	return err
}
