package offload

import (
	"errors"
	"fmt"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/stack"
	"github.com/socketxtreme/socketxtreme/ring/transport/stream"
)

// Of the rings on an exchange one carries TCP. A segment that comes in on a queue of another ring is handed over to it.
//
//	card, queue 0 ──► ring A ──► segments ──► handoff ──┐
//	                                                    ▼
//	card, queue 1 ──► ring B ──► segments ──────────► stream.Transport of B

// ReserveTCP makes a driver the one that carries TCP on its exchange, until it is closed. The error is a *ring.FeatureError if it was made
// without Config.TCP, or if another driver of the exchange carries TCP. Owner only, or anyone before the first Poll.
func ReserveTCP(drv ring.Driver) error {
	d, ok := drv.(*driver)
	if !ok || d.config.TCP == nil {
		return noTCP()
	}
	return d.reserveTCP()
}

// CarriesTCP returns the driver that carries TCP on the exchange, nil if none does yet. Any goroutine.
func (x *Exchange) CarriesTCP() ring.Driver {
	if d := x.tcp.Load(); d != nil {
		return d
	}
	return nil
}

// OneTCPRing is the reason for which another ring of an exchange than the one that carries TCP leaves TCP to the kernel.
var OneTCPRing = ring.Reason{Code: "tcp.one_ring",
	Text: "another ring of the process carries TCP on these interfaces, and only one can: the kernel carries the TCP sockets of this one"}

// registerTCP makes the driver a receiver of TCP segments. A driver on an exchange has no transport for them until reserveTCP.
func (d *driver) registerTCP() error {
	if d.config.Exchange != nil {
		return d.ip.Register(wire.ProtocolTCP, segments{d}, nil)
	}
	if err := d.openTCP(); err != nil {
		return err
	}
	return d.ip.Register(wire.ProtocolTCP, d.streams, nil)
}

// openTCP makes the transport of TCP, with what reserves its ports.
func (d *driver) openTCP() (err error) {
	var below stream.Below = d.config.MemoryHost
	if d.config.MemoryHost == nil {
		d.kernelPorts = NewKernelPorts(d.config.Host)
		below = d.kernelPorts
	}
	d.flowRecord = d.openFlowRecord()
	d.streams, err = stream.New(stream.Config{Options: *d.config.TCP, Host: d, Below: below, IP: d.ip, Clock: d.clock,
		QueueLimit: stack.QueueLimit, Record: d.flowRecord})
	if err != nil {
		return errors.Join(err, d.closeFlowRecord())
	}
	return nil
}

// reserveTCP is ReserveTCP. A driver that is on no exchange carries TCP from the start.
func (d *driver) reserveTCP() error {
	if d.streams != nil {
		return nil
	}
	if x := d.config.Exchange; !x.tcp.CompareAndSwap(nil, d) {
		return &ring.FeatureError{Feature: OneTCPRing.Text, Code: OneTCPRing.Code}
	}
	err := d.openTCP()
	if err == nil {
		err = d.openICMPErrors()
	}
	if err != nil {
		d.streams = nil
		d.config.Exchange.tcp.Store(nil)
		return fmt.Errorf("offload: %w", err)
	}
	return nil
}

// segments is the TCP of a driver on an exchange, as its network layer calls it.
type segments struct{ *driver }

var _ ip.Protocol = segments{}

// Input takes the segments of a burst, or hands them over to the ring that carries TCP.
func (d segments) Input(now clock.Time, b *ip.Burst) {
	if d.streams != nil {
		d.streams.Input(now, b)
		return
	}
	to := d.config.Exchange.tcp.Load()
	for n := range b.Packets {
		if p := &b.Packets[n]; p.Protocol == wire.ProtocolTCP {
			if drop := d.handOver(to, b, n); drop != wire.Accept {
				d.ip.Drops()[drop]++
				b.Release(n)
			}
		}
	}
	d.handoff.Publish()
}

// handOver verifies segment n of the burst and lends its IPv4 packet to the ring that carries TCP. The result is why the segment was dropped,
// or wire.Accept. A number that was given to another ring since names one that carries no TCP, which drops the segment.
func (d segments) handOver(to *driver, b *ip.Burst, n int) wire.Drop {
	p := &b.Packets[n]
	drop := stream.Verify(p, b.Checksum)
	switch {
	case drop != wire.Accept:
		return drop
	case to == nil: // the ring that had the claim was closed just now
		return wire.TCPNoConnection
	}
	frame := b.Frames[n].Packet
	b.Frames[n].Packet = buffers.Packet{}
	// Charged to no socket: the queues between rings bound what is lent.
	d.pool.Trim(frame, p.PayloadOffset()-p.IPv4().HeaderLen(), len(p.Packet()), 0)
	d.handoff.SendSegment(to.number, p.Flow.Interface, frame)
	return wire.Accept
}

// Error gives TCP an ICMP error about one of its segments.
func (d segments) Error(now clock.Time, e ip.ICMPError) wire.Drop {
	if d.streams == nil {
		return wire.ICMPNoSocket
	}
	return d.streams.Error(now, e)
}

// Changed passes a change of the host on.
func (d segments) Changed(c ip.Change) {
	if d.streams != nil {
		if c.Kind == ip.TablesChanged {
			d.scanMovesSoon()
		}
		d.streams.Changed(c)
	}
}
