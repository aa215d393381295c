package record

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/stats"
)

// Config is what a recorder is made from.
type Config struct {
	Memory int    // bytes; 0: nothing is recorded until Start
	Snap   int    // bytes of a frame that are kept; 0: all
	Filter string // a program as tcpdump -ddd prints it; empty: all frames
	Alarm  AlarmConfig
	Log    *slog.Logger // nil: slog.Default()

	// Capture, unless nil, is a file of all frames, whatever Filter says, for which the memory has at least captureMemory bytes. The recorder
	// closes it.
	Capture *Capture
}

// Recorder keeps the last frames of the links that it has taps for. Any goroutine.
type Recorder struct {
	config Config
	filter *filter                // Config.Filter; nil: all frames
	memory atomic.Pointer[memory] // nil: off
	alarms alarms

	mu     sync.Mutex
	users  int // Starts without their Stop
	events []event
	first  uint64                       // number of events[0]
	counts map[countsKey]*captureCounts // of the capture
	closed atomic.Bool
}

// event is something that happened at a loop: it becomes a comment.
type event struct {
	nanos  int64 // Unix time
	scope  *Scope
	before bool // of the last frame before it, not of the next one
	text   string
}

// eventMax is how many events are kept.
const eventMax = 4096

// New makes a recorder, which records at once if the configuration gives it memory or a capture. After an error the capture is as it was.
func New(c Config) (*Recorder, error) {
	if c.Memory < 0 || c.Snap < 0 || c.Memory > maxMemory {
		return nil, fmt.Errorf("record: memory of %d bytes, snap %d: %w", c.Memory, c.Snap, unix.EINVAL)
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	f, err := parseFilter(c.Filter)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	r := &Recorder{config: c, filter: f, counts: map[countsKey]*captureCounts{}}
	if err := r.alarms.open(r, c.Alarm); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if m := c.newMemory(f); m != nil {
		r.users = 1
		r.memory.Store(m)
	}
	if c.Capture != nil {
		c.Capture.start(r)
	}
	return r, nil
}

// newMemory is what the recorder begins with; nil: it is off. One memory serves the capture, too: it has the longer of both copies of each
// frame then, and all frames, and readers of the recorder cut and choose (cursor).
func (c *Config) newMemory(f *filter) *memory {
	size, snap := c.Memory, c.Snap
	if x := c.Capture; x != nil {
		switch {
		case size == 0:
			snap = x.config.Snap
		case snap == 0 || x.config.Snap == 0:
			snap = 0
		default:
			snap = max(snap, x.config.Snap)
		}
		size, f = max(size, x.config.memory), nil
	}
	if size == 0 {
		return nil
	}
	return newMemory(size, snap, f)
}

// maxMemory is the largest memory, so that a number that is wrong by an order is an error.
const maxMemory = 64 << 30

// Start turns a recorder on that is off, with so much memory; one that is on stays as it is. Each Start needs a Stop.
func (r *Recorder) Start(size, snap int) error {
	if size < 1 || size > maxMemory || snap < 0 {
		return fmt.Errorf("record: start with %d bytes, snap %d: %w", size, snap, unix.EINVAL)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users++; r.users == 1 {
		r.memory.Store(newMemory(size, snap, nil))
	}
	return nil
}

// Stop undoes a Start. The last one gives the memory up.
func (r *Recorder) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users--; r.users == 0 {
		r.memory.Store(nil)
		r.events, r.first = nil, 0
	}
}

// IsOn reports whether frames are recorded.
func (r *Recorder) IsOn() bool { return r != nil && r.memory.Load() != nil }

// Close waits for an alarm that is being written, ends the capture, and turns the recorder off. A nil Recorder does nothing.
func (r *Recorder) Close() error {
	if r == nil || r.closed.Swap(true) {
		return nil
	}
	err := errors.Join(r.alarms.close(), r.config.Capture.close(r))
	r.memory.Store(nil)
	return err
}

// Scope is a loop whose links are recorded: its events are comments of its own frames.
type Scope struct {
	recorder *Recorder
	name     string
}

// Scope makes the scope of a loop. nil for a nil Recorder.
func (r *Recorder) Scope(name string) *Scope {
	if r == nil {
		return nil
	}
	return &Scope{recorder: r, name: name}
}

// Tap makes the tap of a link whose packets are of a pool. nil for a nil Scope.
func (s *Scope) Tap(l link.Link, pool *buffers.DriverPool) *Tap {
	if s == nil {
		return nil
	}
	info := l.Info()
	return &Tap{scope: s, link: l, pool: pool, Interface: info.Name, Queue: info.Queue, counts: s.recorder.countsFor(s, info)}
}

// Note notes something that has just happened at the loop: a comment of its next frame. A nil Scope, or a recorder that is off, does nothing.
func (s *Scope) Note(text string) {
	if s != nil {
		s.recorder.note(event{nanos: time.Now().UnixNano(), scope: s, text: text})
	}
}

// Gap is Note for a gap between two polls; long ones are alarms (AlarmConfig.Gap).
func (s *Scope) Gap(d time.Duration, why string) {
	if s == nil || !s.recorder.IsOn() {
		return
	}
	text := fmt.Sprintf("gap of %v between two polls of %s", d, s.name)
	if why != "" {
		text += ": " + why
	}
	s.Note(text)
	if least := s.recorder.config.Alarm.Gap; least > 0 && d >= least {
		s.recorder.alarms.raise(&text)
	}
}

// Note notes something that the program has found out from frames that it has received: a comment of the last frame before. alarm: the frames
// are written to a file, as for a drop.
func (r *Recorder) Note(text string, alarm bool) {
	if !r.IsOn() {
		return
	}
	r.note(event{nanos: time.Now().UnixNano(), before: true, text: text})
	if alarm {
		why := text // apart, because a parameter whose address is taken is allocated at each call, also of a recorder that is off
		r.alarms.raise(&why)
	}
}

// note keeps an event for the comments of the frames around it. When eventMax are kept the older half is forgotten; first is the number of the
// oldest that is left.
func (r *Recorder) note(e event) {
	if !r.IsOn() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) >= eventMax {
		r.first += uint64(copy(r.events, r.events[eventMax/2:]))
		r.events = r.events[:eventMax/2]
	}
	r.events = append(r.events, e)
}

// eventsSince are the events from a number on, and the number behind the last one.
func (r *Recorder) eventsSince(number uint64) ([]event, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := max(number, r.first) - r.first
	end := r.first + uint64(len(r.events))
	if from > uint64(len(r.events)) {
		return nil, end // the recorder was started again
	}
	return append([]event(nil), r.events[from:]...), end
}

// By the codes of drops: dropNames are the reasons, isLoss says whether such a drop is a loss, dropTexts are the comments of dropped frames.
var (
	dropNames, dropTexts [wire.NumDrops]string
	isLoss               [wire.NumDrops]bool
)

func init() {
	rows := stats.SectionOf(stats.Drops)
	for i := 1; i < wire.NumDrops; i++ { // 0 is wire.Accept
		name := wire.Drop(i).String()
		dropNames[i] = name
		dropTexts[i] = "dropped: " + name
		if row := rows.Find(name); row != nil { // nil: no reason has this code
			isLoss[i] = row.Loss
			dropTexts[i] += ": " + row.Help
			if row.Kernel != "" {
				dropTexts[i] += " (the kernel's " + row.Kernel + ")"
			}
		}
	}
}
