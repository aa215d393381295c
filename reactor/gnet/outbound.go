package gnet

import (
	"io"

	bytePool "github.com/panjf2000/gnet/v2/pkg/pool/byteslice"
)

// outbound is what a connection's peer has not taken yet: a queue of blocks, each twice the one before up to the limit,
// so that a little that waits costs little.
type outbound struct {
	blocks [][]byte // the last one has room
	at     int      // blocks[at:] is in use
	off    int      // blocks[at][:off] is sent
	size   int
}

const firstBlock = 4096

// write appends a copy of b, in blocks of at most limit bytes.
func (o *outbound) write(b []byte, limit int) {
	o.size += len(b)
	for len(b) > 0 {
		tail := o.tail(limit)
		k := min(len(b), cap(*tail)-len(*tail))
		*tail = append(*tail, b[:k]...)
		b = b[k:]
	}
}

// readFrom appends what r has, until its end.
func (o *outbound) readFrom(r io.Reader, limit int) (total int64, err error) {
	for {
		tail := o.tail(limit)
		room := (*tail)[len(*tail):cap(*tail)]
		n, err := r.Read(room)
		n = max(0, min(n, len(room)))
		*tail = (*tail)[:len(*tail)+n]
		o.size += n
		total += int64(n)
		if err == io.EOF {
			o.trim()
			return total, nil
		}
		if err != nil {
			o.trim()
			return total, err
		}
	}
}

// tail returns the last block, or a new one if that is full.
func (o *outbound) tail(limit int) *[]byte {
	n := len(o.blocks)
	if n == o.at || len(o.blocks[n-1]) == cap(o.blocks[n-1]) {
		size := min(firstBlock, limit)
		if n > o.at {
			size = min(2*cap(o.blocks[n-1]), limit)
		}
		o.blocks = append(o.blocks, bytePool.Get(size)[:0])
		n++
	}
	return &o.blocks[n-1]
}

// peek fills dst with the pieces to be sent next and returns how many it used.
func (o *outbound) peek(dst [][]byte) (n int) {
	for i := o.at; i < len(o.blocks) && n < len(dst); i++ {
		b := o.blocks[i]
		if i == o.at {
			b = b[o.off:]
		}
		if len(b) > 0 {
			dst[n] = b
			n++
		}
	}
	return n
}

// discard drops the first n bytes.
func (o *outbound) discard(n int) {
	o.size -= n
	for n > 0 {
		k := min(n, len(o.blocks[o.at])-o.off)
		o.off += k
		if n -= k; o.off == len(o.blocks[o.at]) {
			o.pop()
		}
	}
	o.trim()
}

// pop drops the first block, all of which was sent.
func (o *outbound) pop() {
	bytePool.Put(o.blocks[o.at][:0])
	o.blocks[o.at] = nil
	o.at++
	o.off = 0
	if o.at >= 64 && 2*o.at >= len(o.blocks) {
		n := copy(o.blocks, o.blocks[o.at:])
		clear(o.blocks[n:])
		o.blocks, o.at = o.blocks[:n], 0
	}
}

// trim forgets the blocks when nothing is left.
func (o *outbound) trim() {
	if o.size > 0 {
		return
	}
	for o.at < len(o.blocks) {
		o.pop()
	}
	o.blocks, o.at, o.off = o.blocks[:0], 0, 0
	if cap(o.blocks) > 64 {
		o.blocks = nil
	}
}

// done drops everything.
func (o *outbound) done() {
	o.size = 0
	o.trim()
	o.blocks = nil
}
