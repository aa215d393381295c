package record

import (
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

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// CaptureConfig is what a capture is made from.
type CaptureConfig struct {
	Path  string       // of the file, which is made or emptied; the first %d is the process's number
	Snap  int          // bytes of a frame that are written; 0: all
	Limit int64        // bytes of the file; 0: DefaultCaptureLimit
	Log   *slog.Logger // gets one warning when the file is full or cannot be written; nil: slog.Default()

	out      io.Writer     // of tests, in place of the file
	memory   int           // and the recorder's memory
	patience time.Duration // and for how long Close waits for a reader
}

// DefaultCaptureLimit is the Limit where none is given.
const DefaultCaptureLimit = 1 << 30

const (
	// captureMemory is the least memory of a recorder with a capture: what 100 Gbit/s bring in 2.6 ms, or 1 Gbit/s in a quarter of a second.
	captureMemory = 32 << 20
	// captureEvery is how often a capture writes what has come.
	captureEvery = 5 * time.Millisecond
	// closePatience is how long Close waits for the reader of a pipe that does not read.
	closePatience = time.Second
)

// Capture is a file of all frames that a recorder records, from the first one until the recorder is closed (Config.Capture). A goroutine reads
// the recorder's memory: no ring waits for the file. A frame that is written over in the memory before the goroutine has read it is missing in
// the file. Counters of each link say what became of its frames:
//
//	capture.written     in the file
//	capture.no_room     not in the file: written over before they were read, because the disk was slower than the frames came
//	capture.over_limit  not in the file: it has its size, CaptureConfig.Limit
//	capture.failed      not in the file: it could not be written
type Capture struct {
	config CaptureConfig
	file   *os.File // nil: CaptureConfig.out
	writer *writer
	cursor *cursor
	stop   chan struct{}
	done   sync.WaitGroup
	warned bool
	err    error // the first of the file; nothing is written after it

	unflushed map[*captureCounts]uint64 // frames written since the last flush
}

// captureCounts are what became of the frames of one interface's queue at one loop, whatever links were there one after the other.
type captureCounts struct {
	recorded                           atomic.Uint32 // by links that are closed
	written, noRoom, overLimit, failed atomic.Uint64
}

// OpenCapture makes the file of a capture, empty. Config.Capture of a recorder begins to write it, and that recorder closes it. Error: the
// file cannot be made, or another capture writes it.
func OpenCapture(c CaptureConfig) (*Capture, error) {
	if c.Snap < 0 || c.Limit != 0 && c.Limit < 4*interfaceSize {
		return nil, fmt.Errorf("capture: Snap %d, Limit %d: %w", c.Snap, c.Limit, unix.EINVAL)
	}
	if c.Limit == 0 {
		c.Limit = DefaultCaptureLimit
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.patience == 0 {
		c.patience = closePatience
	}
	if c.memory == 0 {
		c.memory = captureMemory
	}
	x := &Capture{stop: make(chan struct{}), unflushed: map[*captureCounts]uint64{}}
	out := c.out
	if out == nil {
		c.Path = strings.Replace(c.Path, "%d", strconv.Itoa(os.Getpid()), 1)
		var err error
		if x.file, err = createCaptureFile(c.Path); err != nil {
			return nil, fmt.Errorf("capture: %w", err)
		}
		out = x.file
	}
	x.config = c
	x.writer = newWriter(out, WriteOptions{Limit: c.Limit})
	return x, nil
}

// createCaptureFile opens and empties the file, readable by the user alone, and locks it, because two captures would write over each other. A
// pipe is opened without waiting for its reader, and in a way that Close need not wait for one either.
func createCaptureFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|unix.O_NONBLOCK, 0o600)
	if errors.Is(err, unix.ENXIO) {
		return nil, fmt.Errorf("%w: nobody reads the pipe: start its reader first", err)
	}
	if err != nil {
		return nil, err
	}
	if err = lockFile(file); errors.Is(err, unix.EWOULDBLOCK) {
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

// start begins to write what the recorder records. Nothing has been recorded yet.
func (x *Capture) start(r *Recorder) {
	x.cursor = newCursor(r)
	x.cursor.snap, x.cursor.filter, x.cursor.first = x.config.Snap, nil, true
	x.done.Go(x.run)
}

// run is the goroutine that writes, until close.
func (x *Capture) run() {
	tick := time.NewTicker(captureEvery)
	defer tick.Stop()
	for {
		select {
		case <-x.stop:
			x.collect(lastTime)
			if x.err == nil {
				x.noteError(x.writer.finish())
			}
			return
		case <-tick.C:
			x.collect(!lastTime)
		}
	}
}

// collect writes the frames that are new into the file, and counts what became of each.
func (x *Capture) collect(last bool) {
	list := x.cursor.next(last)
	for i := range list {
		r := &list[i]
		n := r.tap.counts
		n.noRoom.Add(uint64(r.Missing))
		wrote := false
		if x.err == nil {
			var err error
			wrote, err = x.writer.write(r)
			x.noteError(err)
		}
		switch {
		case x.err != nil:
			n.failed.Add(1)
		case wrote:
			x.unflushed[n]++
		default:
			n.overLimit.Add(1)
			x.warnOnce("the capture has its size: no more frames are written", "bytes", x.config.Limit)
		}
	}
	if x.err == nil && len(x.unflushed) > 0 {
		x.noteError(x.writer.flush())
	}
	for n, frames := range x.unflushed { // a flush that failed: of none can be said that it is in the file
		if x.err != nil {
			n.failed.Add(frames)
		} else {
			n.written.Add(frames)
		}
	}
	clear(x.unflushed)
}

// noteError notes the first error of the file.
func (x *Capture) noteError(err error) {
	if err == nil || x.err != nil {
		return
	}
	x.err = err
	x.warnOnce("the capture cannot be written: no more frames are", "error", err)
}

// warnOnce logs a warning, the first time that it is called.
func (x *Capture) warnOnce(text string, more ...any) {
	if !x.warned {
		x.warned = true
		x.config.Log.Warn(text, append([]any{"file", x.config.Path}, more...)...)
	}
}

// close writes what was recorded until now and closes the file. The error is the first that was met in writing. It waits for a second at the
// most for the reader of a pipe that does not read. A nil Capture does nothing.
func (x *Capture) close(r *Recorder) error {
	if x == nil {
		return nil
	}
	if x.file != nil {
		_ = x.file.SetWriteDeadline(time.Now().Add(x.config.patience)) // an error: a file that nothing waits for
	}
	close(x.stop)
	x.done.Wait()
	r.mu.Lock()
	for _, n := range r.counts {
		n.countUnread()
	}
	r.mu.Unlock()
	err := x.err
	if err != nil {
		err = fmt.Errorf("capture: %w", err)
	}
	if x.file != nil {
		err = errors.Join(err, x.file.Close())
	}
	return err
}

// countUnread counts frames as written over behind which no frame came that the capture has read: the last ones of a link that is closed.
func (n *captureCounts) countUnread() {
	read := n.written.Load() + n.noRoom.Load() + n.overLimit.Load() + n.failed.Load()
	if rest := int32(n.recorded.Load() - uint32(read)); rest > 0 {
		n.noRoom.Add(uint64(rest))
	}
}

// countsFor are the counts of a queue of a loop; nil without a capture.
func (r *Recorder) countsFor(s *Scope, info link.Info) *captureCounts {
	if r.config.Capture == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := countsKey{s, info.Name, info.Queue}
	if r.counts[key] == nil {
		r.counts[key] = &captureCounts{}
	}
	return r.counts[key]
}

// countsKey is a queue of a loop.
type countsKey struct {
	scope     *Scope
	Interface string
	Queue     int
}

// Counters appends what became of the link's frames in the capture; nothing without one, or for a nil Tap. Any goroutine.
func (t *Tap) Counters(dst []link.Counter) []link.Counter {
	if t == nil || t.counts == nil {
		return dst
	}
	n := t.counts
	return append(dst, link.Counter{Name: "capture.written", Value: n.written.Load()}, link.Counter{Name: "capture.no_room", Value: n.noRoom.Load()},
		link.Counter{Name: "capture.over_limit", Value: n.overLimit.Load()}, link.Counter{Name: "capture.failed", Value: n.failed.Load()})
}

// Reasons are what paths say of a link whose frames are captured; none without a capture, or for a nil Tap.
func (t *Tap) Reasons() []link.Reason {
	if t == nil || t.counts == nil {
		return nil
	}
	return []link.Reason{{Code: "link.captured", Text: "each frame is copied for the capture " + t.scope.recorder.config.Capture.config.Path}}
}
