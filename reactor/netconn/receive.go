package netconn

import (
	"io"
	"net"
	"os"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// How a packet reaches a reader, the cheapest way that is possible first:
//
//	a reader waits in Read          copied by the loop straight into the reader's slice; the buffer is free at once
//	the packet is in a small        copied into a chunk of heap memory, together with what came before it
//	buffer, or buffers are scarce
//	otherwise                       lent: the reader copies out of the ring's buffer, WriteTo writes from it
//
// Lending a buffer and taking it back costs about what copying 2 KiB does, and wakes a loop that sleeps. It also lets a reader
// that does nothing keep a buffer of 2 KiB for a message of 50 bytes; so small ones are never lent, and large ones (see
// Config.LargeStream) are not while fewer than a quarter of the pool's buffers are free: however many connections are slow,
// what they hold is heap memory then, bounded for each, and the buffers go round for the others.

// segment is a piece of what waits for a reader: lent by the pool, or in a chunk.
type segment struct {
	lent  buffers.Lent
	chunk *chunk
	skip  int // bytes of lent that were read already
}

// free releases the memory of the segment.
func (g *segment) free() {
	if g.chunk != nil {
		g.chunk.free()
	} else {
		_ = g.lent.Release()
	}
	*g = segment{}
}

// inbound is the receiving direction; guarded by the endpoint's mutex.
type inbound struct {
	gate
	queue     []segment
	queued    int    // bytes in queue
	want      []byte // of a reader that waits: where the bytes may go directly
	got       int    // bytes that went there
	err       error  // nothing comes after queue: io.EOF, or what broke the connection
	shut      bool   // CloseRead
	suspended bool   // queue is full: the ring is to stop until a reader has come
}

func (i *inbound) full(limit int) bool { return i.queued > limit }

// drop releases all queued data.
func (i *inbound) drop() {
	for at := range i.queue {
		i.queue[at].free()
	}
	i.queue, i.queued = nil, 0
}

// copyToReader copies as much of a packet as fits to the slice of a Read that waits, and returns how much that was.
func (i *inbound) copyToReader(p buffers.Packet) int {
	if i.want == nil || len(i.queue) > 0 {
		return 0
	}
	n := p.CopyTo(i.want[i.got:])
	i.got += n
	return n
}

// copyIn appends a copy of the packet's bytes to the queue.
func (i *inbound) copyIn(p buffers.Packet) {
	left := p.Len()
	i.queued += left
	for b := range p.Segments() {
		for len(b) > 0 {
			n := len(i.queue)
			if n == 0 || i.queue[n-1].chunk == nil || len(i.queue[n-1].chunk.room()) == 0 {
				want := left
				if n > 0 {
					want = largeChunk // there is more than one message: it is a stream
				}
				i.queue = append(i.queue, segment{chunk: newChunk(want)})
				n++
			}
			k := i.queue[n-1].chunk.add(b)
			b = b[k:]
			left -= k
		}
	}
}

// receive takes a packet inside the ring's Poll, and reports whether it keeps the packet's buffer. Loop only.
func (c *Conn) receive(p buffers.Packet) (kept bool) {
	kept, call := c.receiveLocked(p)
	if call {
		c.loop.call(c)
	}
	return kept
}

// receiveLocked is receive with mu held; call says that the connection must be put on the loop's list, to suspend reading because the queue
// is full.
func (c *Conn) receiveLocked(p buffers.Packet) (kept, call bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.in.shut {
		return false, false
	}
	if n := c.in.copyToReader(p); n > 0 {
		c.loop.noteWoken(c.in.wake())
		if n == p.Len() {
			return false, false
		}
		_ = p.Pull(n) // it has one reference and more than n bytes
	}
	length := p.Len()
	if !c.in.suspended && c.loop.mayLend(length) {
		if l, err := p.Lend(); err == nil {
			c.in.queue = append(c.in.queue, segment{lent: l})
			c.in.queued += length
			kept = true
		}
	}
	if !kept {
		c.in.copyIn(p)
	}
	suspend := c.in.full(c.loop.net.config.ReceiveBuffer) && !c.in.suspended
	c.in.suspended = c.in.suspended || suspend
	c.loop.noteWoken(c.in.wake())
	return kept, suspend && c.needsLoop() // serveCalls stops the ring, outside of its Poll, if the reader has not come by then
}

// endReading makes reads return cause after the data that is queued. Loop only.
func (c *Conn) endReading(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in.err == nil {
		c.in.err = cause
	}
	c.loop.noteWoken(c.in.wakeAll())
}

// Read reads the data that was received, and waits if there is none. After the peer's last byte it returns io.EOF. An empty b reads nothing
// and does not wait; on a closed connection it is an error.
func (c *Conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		if c.isClosed() {
			return 0, c.fail("read", net.ErrClosed)
		}
		return 0, nil
	}
	if err := c.acquireTurn(); err != nil {
		return 0, c.fail("read", err)
	}
	defer c.releaseTurn()
	n, err := c.fetch(b)
	if err != nil {
		return n, c.fail("read", err)
	}
	if n > 0 {
		return n, nil
	}
	for n < len(b) && c.handAt < len(c.inHand) {
		g := &c.inHand[c.handAt]
		k, done := g.copyTo(b[n:])
		n += k
		if done {
			g.free()
			c.handAt++
		}
	}
	return n, nil
}

// fetch waits until there is data in inHand, or the loop has copied data to b and returns how much. With a nil b it waits for the former
// only.
func (c *Conn) fetch(b []byte) (n int, err error) {
	n, call, err := c.fetchLocked(b)
	if call {
		c.loop.call(c)
	}
	return n, err
}

// fetchLocked is fetch with mu held; call says that the connection must be put on the loop's list, to resume reading.
func (c *Conn) fetchLocked(b []byte) (n int, call bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, false, net.ErrClosed
		case c.in.expired():
			return 0, false, os.ErrDeadlineExceeded
		case c.in.shut:
			c.emptyHand()
			return 0, false, c.in.err
		case c.handAt < len(c.inHand):
			return 0, false, nil
		case len(c.in.queue) > 0:
			c.in.queue, c.inHand, c.handAt = c.inHand[:0], c.in.queue, 0
			c.in.queued = 0
			return 0, c.in.suspended && c.needsLoop(), nil // a ring that was stopped because the queue was full may go on
		case c.in.err != nil:
			return 0, false, c.in.err
		}
		c.in.want = b
		c.in.wait()
		c.in.want = nil
		if n = c.in.got; n > 0 {
			c.in.got = 0
			return n, false, nil
		}
	}
}

func (c *Conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// copyTo copies what is left of the segment to b, and reports whether that was all.
func (g *segment) copyTo(b []byte) (n int, done bool) {
	if g.chunk != nil {
		n = copy(b, g.chunk.bytes())
		g.chunk.r += n
		return n, g.chunk.r == g.chunk.w
	}
	at := 0 // of the whole chain
	for s := range g.lent.Segments() {
		if from := g.skip + n - at; from < len(s) {
			n += copy(b[n:], s[from:])
			if n == len(b) {
				break
			}
		}
		at += len(s)
	}
	g.skip += n
	return n, g.skip == g.lent.Len()
}

// WriteTo writes what comes to w until the peer's end, straight from the memory it was received into where that was lent
// (see Config; with large messages it is). It is what io.Copy uses. A Read at the same time waits until it has ended, its
// own deadline has passed or the connection is closed.
func (c *Conn) WriteTo(w io.Writer) (int64, error) {
	if err := c.acquireTurn(); err != nil {
		return 0, c.fail("writeto", c.fail("read", err))
	}
	defer c.releaseTurn()
	return c.writeTo(w)
}

// writeTo is WriteTo for a caller that has the turn to read.
func (c *Conn) writeTo(w io.Writer) (total int64, err error) {
	for {
		if _, err := c.fetch(nil); err == io.EOF {
			return total, nil
		} else if err != nil {
			return total, c.fail("writeto", c.fail("read", err))
		}
		for c.handAt < len(c.inHand) {
			g := &c.inHand[c.handAt]
			n, err := g.writeTo(w)
			total += n
			if err != nil {
				return total, err
			}
			g.free()
			c.handAt++
		}
	}
}

// writeTo writes what is left of the segment to w.
func (g *segment) writeTo(w io.Writer) (total int64, err error) {
	if g.chunk != nil {
		n, err := writeAll(w, g.chunk.bytes())
		g.chunk.r += n
		return int64(n), err
	}
	skip := g.skip
	for s := range g.lent.Segments() {
		if skip >= len(s) {
			skip -= len(s)
			continue
		}
		n, err := writeAll(w, s[skip:])
		skip = 0
		total += int64(n)
		g.skip += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// writeAll calls w.Write, and returns an error also for a writer that violates the rules of io.Writer.
func writeAll(w io.Writer, b []byte) (int, error) {
	n, err := w.Write(b)
	n = max(0, min(n, len(b)))
	if n < len(b) && err == nil {
		err = io.ErrShortWrite
	}
	return n, err
}
