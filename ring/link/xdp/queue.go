package xdp

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Where a buffer of the pool is, as far as this queue knows. Numbers that come back through the rings are believed only if they name a
// buffer that is where they say.
const (
	elsewhere uint8 = iota
	inFill          // with the card, to be filled
	inTx            // with the card, being sent: a whole frame
	inTxChain       // with the card, being sent as one of several buffers of a frame
)

// bufferRecord is what a queue knows of a buffer: where it is, and of one that is being sent the first buffer of its frame. The record of that
// first buffer has the frame and the number of its pieces that have not completed. Two records lie in a cache line.
type bufferRecord struct {
	out    link.Out
	first  uint32
	pieces uint16
	where  uint8
	lost   bool // the kernel has dropped the frame
}

// maxPieces is how many descriptors a frame may have on its way out: the kernel makes one fragment of a socket buffer of each
// (MAX_SKB_FRAGS) and one is spare.
const maxPieces = 17

// Queue is a link over one queue of an interface.
type Queue struct {
	device *Device
	queue  int
	pool   *buffers.DriverPool
	sock   *socket
	info   link.Info
	path   link.Path
	caps   link.Caps
	busy   bool // every idle Receive asks for the driver's poll
	napi   bool // it was checked that the kernel knows a queue to poll

	// Receiving.
	stride   uint64 // of the small buffers, which are the only ones given to the card
	dataAt   uint32 // where a frame begins in its buffer, if the driver does as it is told
	clock    link.Clock
	limit    int                 // buffers to keep with the card
	batch    int                 // buffers that must be missing before they are replaced
	posted   int                 // buffers with the card
	ready    *buffers.ReadyQueue // tells the pool of posted; from the first refill on
	starved  bool
	freed    uint64         // Pool.Freed when no buffer was to be had
	partial  buffers.Packet // frame of several buffers, the last of which have not come yet
	skipping bool           // the rest of a frame that began badly

	records []bufferRecord // by buffer
	read    uint32         // entries of the transmit ring that the kernel has read: its index is late after a frame that it dropped
	unsent  int            // frames
	flying  int            // descriptors
	kick    bool           // the kernel has not read all that was published
	down    unix.Errno
	downErr error
	done    []link.Done // sent, to be notified of
	stats   link.Stats
	counts  queueCounts
	lastErr unix.Errno
	closed  bool // nothing is received or sent any more
	shut    bool // and the kernel has let go
	retired bool // and the buffers are back
	shutErr error
	final   unix.XDPStatistics
}

// queueCounts are what a queue counts beside its statistics and the kernel's.
type queueCounts struct {
	badNumbers uint64 // addresses from the kernel that name no buffer, or one that is not where they say
	noBuffer   uint64 // times that fresh buffers were wanted and none was free
	tooLong    uint64 // frames for Send that were longer than the interface takes, or in more pieces
	noCarrier  uint64 // frames that the kernel dropped because there was no carrier
	closed     uint64 // and those that it had not read when the link was closed
	lostBytes  uint64 // of the last two
}

var _ link.Staged = (*Queue)(nil)

// newQueue makes a Queue over a socket, with a record for each buffer of the pool; nothing is given to the card yet.
func newQueue(d *Device, queue int, pool *buffers.DriverPool, s *socket, fill int) *Queue {
	l := pool.Layout()
	total := l.SmallCount + l.LargeCount
	q := &Queue{
		device: d, queue: queue, pool: pool, sock: s,
		stride: uint64(l.Stride(buffers.Small)), dataAt: unix.XDP_PACKET_HEADROOM,
		limit:   min(fill, d.config.Fill),
		records: make([]bufferRecord, total), read: s.tx.next, done: make([]link.Done, 0, d.config.TxRing),
	}
	q.batch = max(1, min(64, q.limit/8))
	return q
}

// Info describes the link: interface, queue, MTU, and how frames lie in buffers.
func (q *Queue) Info() link.Info { return q.info }

// Caps are the capabilities.
func (q *Queue) Caps() link.Caps { return q.caps }

// Why explains a missing capability: the reason of the path that names it, or that it was not asked for. It is empty for one that the link has.
func (q *Queue) Why(c link.Caps) link.Reason {
	code, text := "", ""
	switch {
	case q.caps.Has(c):
		return link.Reason{}
	case c.Has(link.CapZeroCopy):
		code, text = ReasonNoZeroCopy, "frames are copied: zero-copy was not asked for"
	case c.Has(link.CapJumbo):
		code, text = ReasonNoJumbo, "frames of several buffers were not to be had"
	case c.Has(link.CapHardwareTime):
		code, text = ReasonNoHardwareTime, "stamps of the card were not asked for"
	case c.Has(link.CapKernelTime):
		code, text = ReasonNoXDPTime, "stamps of the program were not asked for"
	}
	for _, r := range q.path.Reasons {
		if r.Code == code {
			return r
		}
	}
	return link.Reason{Code: code, Text: text}
}

// Path is how frames travel.
func (q *Queue) Path() link.Path { return q.path }

// FD is readable when frames wait; -1 after Shut.
func (q *Queue) FD() int { return q.sock.fd }

// Arm prepares for sleeping on FD. The descriptor is readable as long as frames wait, so there is nothing to announce. Waiting sends nothing:
// the kernel looks at the transmit ring when the descriptor is put into a list (xsk_poll), not while it waits there for EPOLLIN. See Pending.
func (q *Queue) Arm() (pending bool) {
	q.refill(1)
	return !q.closed && q.sock.rx.ready() > 0 || len(q.done) > 0
}

// Disarm has nothing to end.
func (q *Queue) Disarm() {}

// Unsent is how many frames have not come back by Complete.
func (q *Queue) Unsent() int { return q.unsent + len(q.done) }

// Pending reports whether the kernel has not read all that was published: a call of copy mode ends when the interface has no room.
func (q *Queue) Pending() bool { return q.kick && !q.closed && q.sock.tx.unread() > 0 }

// Check is nil while program and socket are on the interface; link.ErrDetached for errors.Is when one of them is not, link.ErrClosed after Stop.
func (q *Queue) Check() error {
	if q.closed {
		return link.ErrClosed
	}
	// Asking clears the error, so it is kept: ENETDOWN when the interface was unregistered (xsk_notifier).
	if e := sys.SocketError(q.sock.fd); e != 0 {
		q.lastErr = e
	}
	if q.lastErr != 0 {
		return fmt.Errorf("xdp: %s queue %d: %w: %w", q.info.Name, q.queue, link.ErrDetached, q.lastErr)
	}
	return q.device.program.Check()
}

// Stats are the totals. RxLost is what the kernel could not give to this socket: for an entry of the fill ring that it refuses it takes the
// next one, and no frame is lost. Send has counted each frame as sent: those that were lost later are taken off, but for those of refused
// descriptors, because the kernel does not say whose they were.
func (q *Queue) Stats() link.Stats {
	s, x := q.stats, q.statistics()
	s.RxLost = x.Rx_dropped + x.Rx_ring_full
	s.TxFrames -= q.counts.noCarrier + q.counts.closed
	s.TxBytes -= q.counts.lostBytes
	s.TxLost = x.Tx_invalid_descs + q.counts.tooLong + q.counts.noCarrier + q.counts.closed
	return s
}

// statistics asks the kernel for the socket's losses. When it does not answer, and once the queue is closed, it is the answer got last.
func (q *Queue) statistics() unix.XDPStatistics {
	if q.closed {
		return q.final
	}
	s, e := statistics(q.sock.fd)
	if e != 0 {
		return q.final
	}
	q.final = s
	return s
}

// Counters appends the kernel's counts (XDP_STATISTICS) by their names, and ours.
func (q *Queue) Counters(dst []link.Counter) []link.Counter {
	x := q.statistics()
	return append(dst,
		link.Counter{Name: "xdp.rx_dropped", Value: x.Rx_dropped},
		link.Counter{Name: "xdp.rx_invalid_descs", Value: x.Rx_invalid_descs},
		link.Counter{Name: "xdp.tx_invalid_descs", Value: x.Tx_invalid_descs},
		link.Counter{Name: "xdp.rx_ring_full", Value: x.Rx_ring_full},
		link.Counter{Name: "xdp.rx_fill_ring_empty_descs", Value: x.Rx_fill_ring_empty_descs},
		link.Counter{Name: "xdp.tx_ring_empty_descs", Value: x.Tx_ring_empty_descs},
		link.Counter{Name: "xdp.tx_too_long", Value: q.counts.tooLong},
		link.Counter{Name: "xdp.tx_no_carrier", Value: q.counts.noCarrier},
		link.Counter{Name: "xdp.tx_closed", Value: q.counts.closed},
		link.Counter{Name: "xdp.bad_numbers", Value: q.counts.badNumbers},
		link.Counter{Name: "xdp.no_buffer", Value: q.counts.noBuffer})
}

// releaseDelay is how long buffers stay untouched after a zero-copy socket was closed: the driver lets go of them in deferred work, about as
// long after as a queue stays busy.
const releaseDelay = 100 * time.Millisecond

// Close ends the link: packets pass to the kernel again, and every buffer is back in the pool. Frames that waited are lost.
func (q *Queue) Close() error {
	err := q.Retire()
	q.takeBack()
	return err
}

// Retire is Close, but that Complete still reports the frames with a token: until then they have their buffers. For a ring that goes on
// without the link. Closing the socket waits for the kernel, some milliseconds, hundreds under load; who cannot wait has it done elsewhere:
//
//	owner            another goroutine    owner
//	Stop ───────────► Shut ─────────────► Retire, which has no more to wait for
func (q *Queue) Retire() error {
	if q.retired {
		return link.ErrClosed
	}
	q.Stop()
	err := q.Shut()
	q.retired = true
	q.recall()
	q.device.forget(q)
	if err != nil {
		return fmt.Errorf("xdp: close %s queue %d: %w", q.info.Name, q.queue, err)
	}
	return nil
}

// Stop ends receiving and sending. What the kernel has of the buffers it keeps until Shut.
func (q *Queue) Stop() {
	if !q.closed {
		_ = q.statistics() // they are kept in q.final
		q.closed = true
		q.loseUnread()
	}
}

// Shut closes the socket, after Stop. It is the long part of closing and touches no buffer: any goroutine, while the owner leaves the link
// alone. A second call returns the same error.
func (q *Queue) Shut() error {
	if q.shut {
		return q.shutErr
	}
	q.shut = true
	q.shutErr = errors.Join(q.device.program.clearSocket(q.queue), q.sock.close())
	releasedQueues.add(queueID{q.device.info.Index, q.queue}, time.Now())
	if q.caps.Has(link.CapZeroCopy) {
		time.Sleep(releaseDelay)
	}
	return q.shutErr
}

// takeBack returns every buffer to the pool: those of the card, and of frames that Complete has not reported.
func (q *Queue) takeBack() {
	q.recall()
	for _, d := range q.done {
		_ = d.Packet.Release()
	}
	q.done = q.done[:0]
}

// recall takes every buffer from the card after the socket was closed: empty ones return to the pool, frames being sent end with ENETDOWN. Those
// with a token are left for Complete.
func (q *Queue) recall() {
	if !q.partial.IsZero() {
		_ = q.partial.Release() // nobody else has it
		q.partial = buffers.Packet{}
	}
	for i := range q.records {
		b := &q.records[i]
		if b.where == inFill {
			q.pool.Return(uint32(i))
		}
		if b.pieces > 0 {
			q.finishSend(b.out, unix.ENETDOWN)
		}
		*b = bufferRecord{}
	}
	q.posted, q.unsent, q.flying = 0, 0, 0
	if q.ready != nil {
		q.ready.Remove()
		q.ready = nil
	}
}
