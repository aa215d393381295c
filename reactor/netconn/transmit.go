package netconn

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// What is written is copied into chunks, and the loop sends them: a socket belongs to its loop, and so do the pool's
// buffers, which is why transmit memory here is heap memory. One wake-up of the loop takes whatever was written by then, by
// however many connections.

// outbound is the sending direction; guarded by the endpoint's mutex.
type outbound struct {
	gate
	chunks []*chunk // oldest first
	queued int      // bytes in chunks
	err    error    // nothing can be sent any more
	shut   bool     // CloseWrite
	stuck  bool     // the kernel's queue is full: the loop sends on when it is notified of room
	cut    bool     // the last Write failed: its caller knows that the peer does not get all

	drained chan struct{} // of who waits for an empty queue; closed when it is; nil: nobody does
}

// drop drops all queued data.
func (o *outbound) drop() {
	for _, k := range o.chunks {
		k.free()
	}
	o.chunks, o.queued = nil, 0
	o.endDrainWait()
}

// endDrainWait ends the waiting of Close and CloseWrite for an empty queue.
func (o *outbound) endDrainWait() {
	if o.drained != nil {
		close(o.drained)
		o.drained = nil
	}
}

// smallWrite is the length up to which bytes are copied with the mutex held, so that small writes share a chunk. Longer
// ones are copied before, into chunks of their own.
const smallWrite = smallChunk

// addSmall appends a copy of b to the queue.
func (o *outbound) addSmall(b []byte) {
	o.queued += len(b)
	for len(b) > 0 {
		n := len(o.chunks)
		if n == 0 || len(o.chunks[n-1].room()) == 0 {
			want := len(b)
			if n > 0 {
				want = largeChunk // the socket does not keep up, or the loop has not come yet: more will follow
			}
			o.chunks = append(o.chunks, newChunk(want))
			n++
		}
		b = b[o.chunks[n-1].add(b):]
	}
}

// addChunk appends a chunk to the queue, which owns it from now on.
func (o *outbound) addChunk(k *chunk) {
	o.chunks = append(o.chunks, k)
	o.queued += k.w
}

// sent removes n bytes that were sent from the front of the queue.
func (o *outbound) sent(n int) {
	o.queued -= n
	done := 0
	for n > 0 {
		k := o.chunks[done]
		m := min(n, k.w-k.r)
		k.r += m
		n -= m
		if k.r == k.w {
			k.free()
			done++
		}
	}
	left := copy(o.chunks, o.chunks[done:])
	clear(o.chunks[left:])
	o.chunks = o.chunks[:left]
	if o.queued == 0 {
		o.endDrainWait()
	}
}

// Write queues b for sending and returns; it waits while more than Config.SendBuffer bytes are queued. If the connection breaks, the next
// call returns the error, as with the kernel's own queue. b is not kept.
func (c *Conn) Write(b []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	n := 0
	for {
		small, large, err := c.begin(b[n:])
		n += small
		if large > 0 {
			k := newChunk(largeChunk)
			large = k.add(b[n : n+large])
			if err = c.queueChunk(k); err == nil {
				n += large
			}
		}
		if err != nil {
			return n, c.fail("write", err)
		}
		if n == len(b) {
			return n, nil
		}
	}
}

// begin waits until something of b may be queued. It queues a small piece itself (small); of a larger one it returns how much may follow in a
// chunk (large). The caller holds writing.
func (c *Conn) begin(b []byte) (small, large int, err error) {
	small, large, call, err := c.beginLocked(b)
	if call {
		c.loop.call(c)
	}
	return small, large, err
}

// beginLocked is begin with mu held; call says that the connection must be put on the loop's list, to send.
func (c *Conn) beginLocked(b []byte) (small, large int, call bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	room, err := c.room(len(b))
	if err != nil || len(b) == 0 {
		return 0, 0, false, err
	}
	k := min(room, len(b))
	if k > smallWrite {
		return 0, k, false, nil
	}
	c.out.addSmall(b[:k])
	return k, 0, c.wantsSending(), nil
}

// room waits until something of want bytes may be queued, and returns how much. With want 0 it returns the room without waiting, which is
// negative if ReadFrom's last chunk exceeded the limit. With mu held.
func (c *Conn) room(want int) (int, error) {
	limit := c.loop.net.config.SendBuffer
	for {
		if err := c.cannotWrite(); err != nil {
			c.out.cut = true
			return 0, err
		}
		if room := limit - c.out.queued; room > 0 || want == 0 {
			c.out.cut = c.out.cut && want == 0
			return room, nil
		}
		c.out.wait()
	}
}

// cannotWrite returns the error with which writing fails now, or nil. With mu held.
func (c *Conn) cannotWrite() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.out.expired():
		return os.ErrDeadlineExceeded
	case c.out.err != nil:
		return c.out.err
	case c.out.shut:
		return os.NewSyscallError("write", unix.EPIPE)
	}
	return nil
}

// queueChunk queues a chunk for which begin has found room. On an error the chunk is freed. The caller holds writing.
func (c *Conn) queueChunk(k *chunk) error {
	call, err := c.queueChunkLocked(k)
	switch {
	case err != nil:
		k.free()
	case call:
		c.loop.call(c)
	}
	return err
}

// queueChunkLocked is queueChunk with mu held; call says that the connection must be put on the loop's list.
func (c *Conn) queueChunkLocked(k *chunk) (call bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.cannotWrite(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return false, err
	}
	c.out.addChunk(k)
	return c.wantsSending(), nil
}

// wantsSending notes that something was queued and reports whether the loop must be called for it. With mu held.
func (c *Conn) wantsSending() bool { return !c.out.stuck && c.needsLoop() }

// ReadFrom sends what it reads from r until r's end, and reads it directly into the memory from which it is sent; io.Copy uses it. While r
// has nothing, other writes go on. It checks before each read of r whether it can write: data that it has read from r when the connection
// breaks is lost.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	var total int64
	for {
		if err := c.writable(); err != nil {
			return total, c.fail("readfrom", c.fail("write", err))
		}
		k := newChunk(largeChunk)
		n, err := r.Read(k.room())
		if n < 0 || n > len(k.b) {
			k.free()
			return total, errors.New("netconn: ReadFrom: the reader returned an impossible count")
		}
		k.w = n
		if n == 0 {
			k.free()
		} else if sendErr := c.queueFilled(k); sendErr != nil {
			return total, c.fail("readfrom", c.fail("write", sendErr))
		}
		total += int64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// queueFilled queues a chunk that ReadFrom has filled, when there is room. A short one is copied behind the queued data instead, so that a
// reader that returns a few bytes at a time does not use a chunk for each.
func (c *Conn) queueFilled(k *chunk) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	kept, call, err := c.queueFilledLocked(k)
	if !kept {
		k.free()
	}
	if call {
		c.loop.call(c)
	}
	return err
}

// queueFilledLocked is queueFilled with mu held. kept says that the queue owns the chunk, call that the connection must be put on the loop's
// list.
func (c *Conn) queueFilledLocked(k *chunk) (kept, call bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.room(k.w); err != nil {
		return false, false, err
	}
	if kept = k.w > smallWrite; kept {
		c.out.addChunk(k)
	} else {
		c.out.addSmall(k.bytes())
	}
	return kept, c.wantsSending(), nil
}

// writable returns the error with which writing fails now, or nil.
func (c *Conn) writable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cannotWrite()
}

// flush sends the data that was queued before the call. Later data has put the connection on the loop's list again and is sent in another
// turn, so that a writer that is as fast as the kernel does not hold up the loop. Loop only.
func (c *Conn) flush() {
	l, left := c.loop, -1 // bytes still to be sent; -1: not counted yet
	for left != 0 && !c.blocked && !c.socketClosed && c.dialled == nil {
		c.mu.Lock()
		if left < 0 {
			left = c.out.queued
		}
		bufs := l.vector[:0]
		for _, k := range c.out.chunks[:min(len(c.out.chunks), maxVector)] {
			bufs = append(bufs, k.bytes())
		}
		c.mu.Unlock()
		if len(bufs) == 0 {
			return
		}
		var n int
		var err error
		if len(bufs) == 1 {
			n, err = c.socket.Send(bufs[0])
		} else {
			n, err = c.socket.SendVector(bufs, netip.AddrPort{})
		}
		clear(bufs)
		left = max(left-n, 0)
		c.mu.Lock()
		c.out.sent(n)
		c.out.stuck = errors.Is(err, ring.ErrWouldBlock)
		c.blocked = c.out.stuck
		if c.out.queued <= l.net.config.SendBuffer/2 {
			l.noteWoken(c.out.wake())
		}
		c.mu.Unlock()
		if err != nil && !c.blocked {
			c.endWriting(asNetError("write", err))
			return
		}
	}
}

// endWriting makes writes return cause, because nothing can be sent any more. Loop only.
func (c *Conn) endWriting(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.err == nil {
		c.out.err = cause
	}
	c.out.drop()
	c.loop.noteWoken(c.out.wakeAll())
}

// waitSent waits for Close and CloseWrite until the kernel has all queued data, so that it reaches the peer even if the process ends. It
// waits until the write deadline, and for Config.CloseTimeout at most. It does not wait if the connection is being reset, nor after a Write
// that failed, or beside one that has not returned and now fails: their callers know that the stream was cut.
func (c *Conn) waitSent() {
	if sys.Goroutine() == c.loop.self || !c.writing.TryLock() {
		return
	}
	c.writing.Unlock()
	c.mu.Lock()
	wait := c.loop.net.config.CloseTimeout
	if !c.out.deadline.IsZero() {
		wait = min(wait, time.Until(c.out.deadline))
	}
	if c.out.queued == 0 || c.out.err != nil || c.out.cut || c.reset || wait <= 0 {
		c.mu.Unlock()
		return
	}
	if c.out.drained == nil {
		c.out.drained = make(chan struct{})
	}
	drained := c.out.drained
	c.mu.Unlock()
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case <-drained:
	case <-limit.C:
	case <-c.loop.net.ended:
	}
}
