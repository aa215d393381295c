package capture

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Link is a link whose frames are captured. It is used as the link is.
type Link struct {
	link.Link
	file *File
	tap  *tap
	snap int
	tai  int64 // nanoseconds that CLOCK_TAI, which stamps of the kernel have, is ahead of the Unix clock
}

// Link returns a link that is l with its frames captured; each interface and queue is an interface of the file. Any goroutine may call it;
// what it returns is used as l would be.
func (f *File) Link(l link.Link) *Link {
	x := &Link{Link: l, file: f, tap: newTap(f.config.tapSize()), snap: f.config.Snap}
	var tai, unixTime unix.Timespec
	if unix.ClockGettime(unix.CLOCK_TAI, &tai) == nil && unix.ClockGettime(unix.CLOCK_REALTIME, &unixTime) == nil {
		x.tai = int64(time.Duration(tai.Nano() - unixTime.Nano()).Round(time.Second))
	}
	f.add(x)
	return x
}

// Receive receives from the link beneath and copies what it received into the tap.
func (x *Link) Receive(dst []link.Frame) int {
	n := x.Link.Receive(dst)
	if n == 0 {
		return 0
	}
	now, lost := time.Now().UnixNano(), uint64(0)
	for i := range dst[:n] {
		at := now
		if dst[i].Nanos != 0 && dst[i].Source == link.ClockKernel {
			at = dst[i].Nanos - x.tai
		}
		if !x.tap.push(at, dst[i].Packet, x.snap, received) {
			lost++
		}
	}
	x.count(uint64(n), lost)
	x.tap.publish(x.tap.next)
	return n
}

// Send copies the frames that the link beneath takes into the tap, a batch at a time.
func (x *Link) Send(src []link.Out) (took int) {
	for len(src) > 0 {
		n := min(len(src), batch)
		k := x.send(src[:n])
		if took += k; k < n {
			break
		}
		src = src[n:]
	}
	return took
}

// batch is how many frames the link is given at once.
const batch = 64

// send is Send for a batch. Frames are copied before the link gets them, for after that they may be changed. The copies of those that it does
// not take are discarded.
func (x *Link) send(src []link.Out) int {
	now, before := time.Now().UnixNano(), x.tap.next
	var ends [batch]uint64
	var pushed [batch]bool
	for i := range src {
		pushed[i] = x.tap.push(now, src[i].Packet, x.snap, sent)
		ends[i] = x.tap.next
	}
	took := x.Link.Send(src)
	if took == 0 {
		x.tap.next = before
		return 0
	}
	x.tap.next = ends[took-1]
	lost := uint64(0)
	for _, ok := range pushed[:took] {
		if !ok {
			lost++
		}
	}
	x.count(uint64(took), lost)
	x.tap.publish(x.tap.next)
	return took
}

// count adds n frames, of which lost found no room in the tap. It is called before publish, so that a frame is never counted as written before
// it is counted.
func (x *Link) count(n, lost uint64) {
	x.tap.frames.Store(x.tap.frames.Load() + n - lost)
	if lost > 0 {
		x.tap.noRoom.Store(x.tap.noRoom.Load() + lost)
	}
}

// Path is that of the link beneath, with the capture among its reasons.
func (x *Link) Path() link.Path {
	p := x.Link.Path()
	p.Reasons = append(p.Reasons[:len(p.Reasons):len(p.Reasons)], link.Reason{Code: "link.captured",
		Text: "each frame is copied for the capture " + x.file.config.Path})
	return p
}

// Counters are the link's and the capture's.
func (x *Link) Counters(dst []link.Counter) []link.Counter {
	return append(x.Link.Counters(dst), x.tap.counters()...)
}

// Close closes the link beneath; what was captured of it is still written to the file.
func (x *Link) Close() error {
	x.tap.closed.Store(true)
	return x.Link.Close()
}

// Start starts the link beneath if it is a link.Staged; others carry frames from the beginning.
func (x *Link) Start() error {
	l, ok := x.Link.(interface{ Start() error })
	if !ok {
		return nil
	}
	err := l.Start()
	if err != nil { // it is closed
		x.tap.closed.Store(true)
	}
	return err
}

// Stop stops the link beneath, if it can be stopped.
func (x *Link) Stop() {
	if l, ok := x.Link.(interface{ Stop() }); ok {
		l.Stop()
	}
}

// Shut shuts the link beneath, if it can be shut.
func (x *Link) Shut() error {
	if l, ok := x.Link.(interface{ Shut() error }); ok {
		return l.Shut()
	}
	return nil
}

// Retire ends the capture and retires the link beneath; a link that cannot be retired is closed.
func (x *Link) Retire() error {
	x.tap.closed.Store(true)
	if l, ok := x.Link.(interface{ Retire() error }); ok {
		return l.Retire()
	}
	return x.Link.Close()
}
