package xdp

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// OpenQueue opens a queue as a link over a pool, whose region becomes the memory that frames are received into. For the goroutine that
// owns the pool. When it cannot, the error is a *link.Refusal.
func (d *Device) OpenQueue(queue int, pool *buffers.DriverPool) (*Queue, error) {
	fill := 1
	if pool != nil { // refused below
		fill = max(pool.ReceiveShare(buffers.Small)/2, 1)
	}
	return d.OpenQueueWith(queue, pool, fill)
}

// OpenQueueWith is OpenQueue, which gives the card half of what receiving may take of the pool, for pools that several queues share, or
// that are divided otherwise: at most fill buffers of this one lie ready for the card, and never more than Config.Fill.
func (d *Device) OpenQueueWith(queue int, pool *buffers.DriverPool, fill int) (*Queue, error) {
	q, err := d.PrepareQueue(queue, pool, fill)
	if err != nil {
		return nil, err
	}
	if err := q.Start(); err != nil {
		return nil, err
	}
	return q, nil
}

// PrepareQueue is the long part of OpenQueueWith, which registers the memory and binds the socket. It takes no buffer and reads of the pool
// what never changes: any goroutine. The link carries nothing before Start; one that is not to be started is closed.
func (d *Device) PrepareQueue(queue int, pool *buffers.DriverPool, fill int) (*Queue, error) {
	if fill < 1 {
		return nil, fmt.Errorf("xdp: queue %d: fill %d: a card needs a buffer", queue, fill)
	}
	if !slices.Contains(d.queues, queue) {
		return nil, fmt.Errorf("xdp: queue %d is not one of %v", queue, d.queues)
	}
	if pool == nil {
		return nil, fmt.Errorf("xdp: queue %d: pool is nil", queue)
	}
	// The kernel takes chunks of 2,048 bytes to a page; large buffers are for sending.
	chunk := pool.Layout().Stride(buffers.Small)
	if l := pool.Layout(); l.SmallCount == 0 || chunk < 2048 || chunk > 4096 {
		return nil, fmt.Errorf("xdp: queue %d: pool of %d small buffers of %d bytes with headroom: the kernel takes 2048 to 4096",
			queue, l.SmallCount, chunk)
	}
	place := new(Queue) // reserves the queue's number while the socket is bound, which may wait: a second call is refused
	d.mu.Lock()
	taken := d.open[queue] != nil
	if !taken {
		d.open[queue] = place
	}
	d.mu.Unlock()
	if taken {
		return nil, refusal(ReasonBusy, unix.EBUSY, "queue %d of %s: open already in this process", queue, d.config.Interface)
	}
	q, err := d.bind(queue, pool, chunk, fill)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		delete(d.open, queue)
		return nil, err
	}
	d.open[queue] = q
	d.describe(q, chunk)
	if d.config.BusyPoll {
		if err := q.sock.busyPoll(); err != nil {
			q.path.Reasons = append(q.path.Reasons, link.Reason{Code: ReasonNoBusyPoll, Text: "preferred busy polling: " + err.Error()})
		} else {
			q.busy = true
		}
	}
	return q, nil
}

// Start gives the card its buffers and steers the queue's frames to its socket. For the goroutine that owns the pool. On an error the link is
// closed.
func (q *Queue) Start() error {
	// Buffers first: a socket in the map without any loses what is steered to it.
	q.refill(1)
	if err := q.device.program.setSocket(q.queue, q.sock.fd); err != nil {
		err = refuse(err, fmt.Sprintf("steering to queue %d of %s", q.queue, q.info.Name))
		return errors.Join(err, q.Close())
	}
	return nil
}

// attempt is one way of binding.
type attempt struct {
	zeroCopy, jumbo bool
}

// bind makes a socket for each of the attempts, in order, until one can be bound, and returns the queue over it. An attempt that the driver
// refuses leaves a reason in the queue's path. A queue that is in use, a missing privilege and an interface that is down or gone end it.
func (d *Device) bind(queue int, pool *buffers.DriverPool, chunk, fill int) (*Queue, error) {
	attempts, reasons := d.attempts(pool.Contiguous())
	fill = max(min(fill, d.config.Fill, pool.ReceiveShare(buffers.Small)), 1)
	config := d.config.entries(fill)
	var err error
	for i, a := range attempts {
		var s *socket
		if s, err = newSocket(pool.Region(), chunk, &config); err != nil {
			return nil, err
		}
		flags := uint16(unix.XDP_USE_NEED_WAKEUP | unix.XDP_COPY)
		if a.zeroCopy {
			flags = unix.XDP_USE_NEED_WAKEUP | unix.XDP_ZEROCOPY
		}
		if a.jumbo {
			flags |= unix.XDP_USE_SG
		}
		if err = s.bind(d.info.Index, queue, flags, d.config.Retry); err == nil {
			q := newQueue(d, queue, pool, s, fill)
			q.path = d.path
			q.path.Reasons = append(slices.Clone(d.path.Reasons), reasons...)
			q.path.Queue, q.path.ZeroCopy, q.path.Jumbo = queue, a.zeroCopy, a.jumbo
			return q, nil
		}
		_ = s.close() // never bound: the kernel has nothing to unbind
		switch {
		case errors.Is(err, unix.EBUSY):
			return nil, refusal(ReasonBusy, err, "queue %d of %s belongs to another AF_XDP socket", queue, d.config.Interface)
		case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENETDOWN), errors.Is(err, unix.ENODEV):
			return nil, refuse(err, fmt.Sprintf("binding to queue %d of %s", queue, d.config.Interface))
		}
		if i+1 < len(attempts) {
			switch next := attempts[i+1]; {
			case a.zeroCopy && !next.zeroCopy:
				text := fmt.Sprintf("zero-copy on %s: %v", d.config.Interface, err)
				reasons = append(reasons, link.Reason{Code: ReasonNoZeroCopy, Text: text})
			case a.jumbo && !next.jumbo:
				text := fmt.Sprintf("frames of several buffers on %s: %v", d.config.Interface, err)
				reasons = append(reasons, link.Reason{Code: ReasonNoJumbo, Text: text})
			}
		}
	}
	if d.config.Copy == CopyNever {
		return nil, refusal(ReasonNoZeroCopy, err, "zero-copy on queue %d of %s", queue, d.config.Interface)
	}
	return nil, refuse(err, fmt.Sprintf("binding to queue %d of %s", queue, d.config.Interface))
}

// attempts lists the ways worth trying, the best first, and the reasons against those that are not.
func (d *Device) attempts(contiguous bool) (list []attempt, reasons []link.Reason) {
	why := ""
	switch {
	case d.config.Copy == CopyAlways:
		why = "not wanted"
	case !d.native:
		why = "the program runs behind the driver"
	case !d.kind.zeroCopy:
		why = "a " + d.kind.name + " has no zero-copy"
	case !contiguous:
		why = "buffers cross pages, and the region is not contiguous memory (one huge page)"
	}
	if why == "" || d.config.Copy == CopyNever { // CopyNever has nothing else to try: the kernel's refusal is the answer
		list = append(list, attempt{zeroCopy: true, jumbo: true}, attempt{zeroCopy: true})
	} else if d.config.Copy != CopyAlways {
		reasons = append(reasons, link.Reason{Code: ReasonNoZeroCopy, Text: "zero-copy on " + d.config.Interface + ": " + why})
	}
	if d.config.Copy != CopyNever {
		list = append(list, attempt{jumbo: true}, attempt{})
	}
	return list, reasons
}

// describe sets the queue's info, capabilities and clock by how its socket was bound and what the program stamps.
func (d *Device) describe(q *Queue, chunk int) {
	q.info = d.info
	q.info.Queue = q.queue
	q.info.PerBuffer = chunk - unix.XDP_PACKET_HEADROOM
	const tagged = 14 + 4
	q.info.MaxPieces = min(maxPieces, len(q.sock.tx.entries))
	q.info.MaxFrame = min(d.info.MTU+tagged, q.info.MaxPieces*chunk)
	q.clock = d.path.Clock
	q.caps = link.CapSteering
	if q.path.Jumbo {
		q.caps |= link.CapJumbo
	} else {
		q.info.MaxFrame, q.info.MaxPieces = min(d.info.MTU+tagged, q.info.PerBuffer), 1
	}
	q.info.MTU = q.info.MaxFrame - tagged // the kernel sends what is longer
	if q.path.ZeroCopy {
		q.caps |= link.CapZeroCopy
	}
	switch q.clock {
	case link.ClockKernel:
		q.caps |= link.CapKernelTime
	case link.ClockHardware:
		q.caps |= link.CapHardwareTime
	}
}
