package null

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
)

// PayloadBytes is how long each delivered datagram is.
const PayloadBytes = 64

// Driver hands Batch datagrams of PayloadBytes to its socket on every Reap, from buffers of the pool, as far as there is room and
// there are buffers. It can receive on one datagram socket, and cannot send.
type Driver struct {
	Batch int

	pool     *buffers.DriverPool
	headroom int
	socket   *ring.Socket // nil while nobody receives
	meta     ring.Meta
}

// NewDriver makes a driver with a batch of 1. It writes an ordinal into each small buffer, where payloads will start.
func NewDriver(c ring.DriverConfig) *Driver {
	l := c.Pool.Layout()
	for i := range l.SmallCount {
		binary.LittleEndian.PutUint64(c.Pool.Memory(uint32(i))[l.Headroom:], uint64(i))
	}
	return &Driver{Batch: 1, pool: c.Pool, headroom: l.Headroom,
		meta: ring.Meta{Source: netip.MustParseAddrPort("192.0.2.1:4000")}}
}

// Kind is "null".
func (d *Driver) Kind() string { return "null" }

// Caps is none.
func (d *Driver) Caps() ring.Caps { return 0 }

// Why is always the same.
func (d *Driver) Why(c ring.Caps) ring.Reason {
	return ring.Reason{Code: "null." + c.String(), Text: "a null ring has no " + c.String()}
}

// FD is none: a null ring always has something.
func (d *Driver) FD() int { return -1 }

// Bind needs nothing.
func (d *Driver) Bind() error { return nil }

// Reap delivers a batch.
func (d *Driver) Reap(k *ring.Sink) error {
	s := d.socket
	if s == nil {
		return nil
	}
	for range min(d.Batch, k.Room()) {
		i, ok := d.pool.Take(buffers.Small)
		if !ok {
			k.Starved(s)
			return nil
		}
		k.DatagramIn(s, i, d.headroom, PayloadBytes, &d.meta)
	}
	return nil
}

// Flush has nothing to start.
func (d *Driver) Flush() error { return nil }

// ReturnSpare has nothing to return.
func (d *Driver) ReturnSpare() {}

// Arm always reports that something is pending.
func (d *Driver) Arm(clock.Time, clock.Time) (bool, error) { return true, nil }

// Disarm has nothing to end.
func (d *Driver) Disarm() {}

// Wait returns at once.
func (d *Driver) Wait(time.Duration) error { return nil }

// Wake has nobody to wake.
func (d *Driver) Wake() {}

// Attach takes any socket; only SetReceiving decides whether it can be served.
func (d *Driver) Attach(*ring.Socket) error { return nil }

// SetReceiving starts or stops the delivery.
func (d *Driver) SetReceiving(s *ring.Socket, on bool) error {
	switch {
	case !on && d.socket == s:
		d.socket = nil
	case !on:
	case ring.HandleOf(s).Kind != ring.KindDatagram || ring.HandleOf(s).Class != buffers.Small:
		return fmt.Errorf("null: receive on a %v socket with %v buffers: %w", ring.HandleOf(s).Kind, ring.HandleOf(s).Class, unix.EOPNOTSUPP)
	case d.socket != nil && d.socket != s:
		return fmt.Errorf("null: receive on a second socket: %w", unix.EOPNOTSUPP)
	default:
		d.socket = s
	}
	return nil
}

// NotifyWritable is refused: nothing here is sent.
func (d *Driver) NotifyWritable(*ring.Socket) error {
	return fmt.Errorf("null: notify writable: %w", unix.EOPNOTSUPP)
}

// Transmit is refused.
func (d *Driver) Transmit(*ring.Socket) error {
	return fmt.Errorf("null: transmit: %w", unix.EOPNOTSUPP)
}

// Detach forgets the socket.
func (d *Driver) Detach(s *ring.Socket) bool {
	if d.socket == s {
		d.socket = nil
	}
	return true
}

// Close has nothing to give back.
func (d *Driver) Close() error { return nil }
