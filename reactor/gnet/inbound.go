package gnet

import (
	"io"
	"slices"

	bytePool "github.com/panjf2000/gnet/v2/pkg/pool/byteslice"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// inbound is what a connection has received and its handler has not read: first what was copied together, then the
// unread part of one packet, then further packets.
//
//	heap[off:]  |  head (of pkt)  |  more[at:] ...
//
// The usual message is one packet that the handler reads whole: then only head and pkt are used, nothing is copied, and
// the packet returns to the pool when the handler has returned. Nothing that was handed out moves or is given back before that,
// so Next's bytes stay good as long as gnet's would, and Peek's too.
type inbound struct {
	head []byte         // unread bytes of pkt
	pkt  buffers.Packet // zero when there is none
	long bool           // any of the following is in use

	more  []segment
	at    int // more[at:] is unread
	bytes int // in more[at:]
	heap  []byte
	off   int
	spent []buffers.Packet // read, and waiting for the handler's return
}

// segment is one buffer of a packet; last of them carries the packet.
type segment struct {
	b   []byte
	pkt buffers.Packet
}

// len returns how many unread bytes there are.
func (in *inbound) len() int {
	if !in.long {
		return len(in.head)
	}
	return len(in.heap) - in.off + len(in.head) + in.bytes
}

// push appends a received packet, which belongs to inbound from now on.
func (in *inbound) push(p buffers.Packet) {
	if len(in.head) == 0 && in.pkt.IsZero() && !in.long && p.NumBuffers() == 1 { // head may be bytes of pushBytes, which have no packet
		in.head, in.pkt = p.Bytes(), p
		return
	}
	in.long = true
	for b := range p.Segments() {
		in.more = append(in.more, segment{b: b})
		in.bytes += len(b)
	}
	if n := len(in.more); n > in.at {
		in.more[n-1].pkt = p
	} else {
		in.spent = append(in.spent, p) // an empty packet
	}
}

// pushBytes appends bytes that lie on the Go heap, which belong to inbound from now on.
func (in *inbound) pushBytes(b []byte) {
	in.long = true
	in.more = append(in.more, segment{b: b})
	in.bytes += len(b)
}

// next takes n bytes, all if n is not positive, that stay valid until releaseRead.
func (in *inbound) next(n int) ([]byte, error) {
	if !in.long { // the usual case
		if n > len(in.head) {
			return nil, io.ErrShortBuffer
		}
		if n <= 0 {
			n = len(in.head)
		}
		b := in.head[:n:n]
		in.head = in.head[n:]
		return b, nil
	}
	b, err := in.peek(n)
	if err == nil {
		in.skip(len(b))
	}
	return b, err
}

// peek is next without taking.
func (in *inbound) peek(n int) ([]byte, error) {
	total := in.len()
	if n > total {
		return nil, io.ErrShortBuffer
	}
	if n <= 0 {
		n = total
	}
	if !in.long {
		return in.head[:n:n], nil
	}
	if in.off == len(in.heap) {
		in.advance()
		if n <= len(in.head) {
			return in.head[:n:n], nil
		}
	}
	in.gather(n)
	return in.heap[in.off : in.off+n : in.off+n], nil
}

// discard drops n bytes, or everything if n is not positive or more than there is.
func (in *inbound) discard(n int) int {
	total := in.len()
	if n <= 0 || n > total {
		n = total
	}
	if !in.long {
		in.head = in.head[n:]
	} else {
		in.skip(n)
	}
	return n
}

// skip drops n of the bytes there are.
func (in *inbound) skip(n int) {
	k := min(n, len(in.heap)-in.off)
	in.off += k
	n -= k
	for {
		k = min(n, len(in.head))
		in.head = in.head[k:]
		if n -= k; n == 0 {
			return
		}
		in.advance()
	}
}

// read copies what there is into p.
func (in *inbound) read(p []byte) (n int) {
	for n < len(p) {
		b := in.first()
		if len(b) == 0 {
			break
		}
		k := copy(p[n:], b)
		in.drop(k)
		n += k
	}
	return n
}

// writeTo writes what there is to w, buffer by buffer.
func (in *inbound) writeTo(w io.Writer) (n int64, err error) {
	for {
		b := in.first()
		if len(b) == 0 {
			return n, nil
		}
		k, err := w.Write(b)
		k = max(0, min(k, len(b)))
		in.drop(k)
		n += int64(k)
		if err != nil {
			return n, err
		}
		if k < len(b) {
			return n, io.ErrShortWrite
		}
	}
}

// first returns the unread bytes that lie in one piece of memory.
func (in *inbound) first() []byte {
	if !in.long {
		return in.head
	}
	if in.off < len(in.heap) {
		return in.heap[in.off:]
	}
	in.advance()
	return in.head
}

// drop drops n bytes of first.
func (in *inbound) drop(n int) {
	if in.off < len(in.heap) {
		in.off += n
	} else {
		in.head = in.head[n:]
	}
}

// advance makes the next segment the head if the head is read.
func (in *inbound) advance() {
	for len(in.head) == 0 {
		if !in.pkt.IsZero() {
			in.spent = append(in.spent, in.pkt)
			in.pkt = buffers.Packet{}
			in.long = true
		}
		if in.at == len(in.more) {
			in.more, in.at = in.more[:0], 0
			return
		}
		s := &in.more[in.at]
		in.head, in.pkt = s.b, s.pkt
		in.bytes -= len(s.b)
		*s = segment{}
		in.at++
	}
}

// gather copies data to the heap until n unread bytes are in one piece.
func (in *inbound) gather(n int) {
	in.long = true
	in.grow(n)
	for len(in.heap)-in.off < n {
		in.advance()
		in.heap = append(in.heap, in.head...)
		in.head = nil
	}
	in.advance()
}

// grow makes room for n unread bytes on the heap. Bytes that a handler may have a slice of stay where they are.
func (in *inbound) grow(n int) {
	need := n - (len(in.heap) - in.off)
	if need <= cap(in.heap)-len(in.heap) {
		return
	}
	if in.heap == nil {
		in.heap = bytePool.Get(need)[:0]
		return
	}
	in.heap = slices.Grow(in.heap, need)
}

// releaseRead releases the packets that were read completely. It is called when the handler has returned.
func (in *inbound) releaseRead() {
	if len(in.head) == 0 && !in.pkt.IsZero() && !in.long {
		_ = in.pkt.Release() // valid: nobody else had it
		in.pkt, in.head = buffers.Packet{}, nil
		return
	}
	if in.long {
		in.releaseReadLong()
	}
}

// releaseReadLong is releaseRead for data in several pieces. When everything was read it returns to the form for a single piece.
func (in *inbound) releaseReadLong() {
	in.advance()
	for i, p := range in.spent {
		release(p)
		in.spent[i] = buffers.Packet{}
	}
	in.spent = in.spent[:0]
	if in.off == len(in.heap) && in.heap != nil {
		bytePool.Put(in.heap[:0])
		in.heap, in.off = nil, 0
	}
	if in.heap == nil && in.at == len(in.more) {
		in.long = false
		if cap(in.more) > 64 { // grown by a burst: an idle connection does not keep that memory
			in.more, in.spent = nil, nil
		}
	}
}

// copyOut copies all unread data to the heap, so that its buffers return to the pool. It is called after releaseRead.
func (in *inbound) copyOut() {
	if n := in.len(); n > len(in.heap)-in.off {
		if in.off > 0 { // nothing is handed out now: make room at the front
			in.heap = append(in.heap[:0], in.heap[in.off:]...)
			in.off = 0
		}
		in.gather(n)
		in.releaseReadLong()
	}
}

// done releases everything.
func (in *inbound) done() {
	if in.pkt.IsZero() && !in.long {
		return
	}
	release(in.pkt)
	for _, s := range in.more {
		release(s.pkt)
	}
	for _, p := range in.spent {
		release(p)
	}
	if in.heap != nil {
		bytePool.Put(in.heap[:0])
	}
	*in = inbound{}
}

// release releases a packet, unless it was released already after a panic in the handler.
func release(p buffers.Packet) {
	if p.Valid() {
		_ = p.Release() // valid, so there is nothing it could answer
	}
}
