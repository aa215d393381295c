package offload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/stack"
	"github.com/socketxtreme/socketxtreme/ring/transport/stream"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// Each ring on an exchange may carry TCP, with tables of its own. A segment that comes in on a queue of another ring than its own is handed
// over: the exchange's directory says whose flow it is, or which ring listens.
//
//	card, queue 0 ──► ring A ──► segments ──┬─────────────► stream.Transport of A
//	                                        └─► handoff ──┐
//	card, queue 1 ──► ring B ──► segments ────────────────┴► stream.Transport of B

// OpenTCP makes a driver carry TCP, if it does not yet. The error is a *ring.FeatureError if it was made without Config.TCP. Owner only, or
// anyone before the first Poll.
func OpenTCP(drv ring.Driver) error {
	d, ok := drv.(*driver)
	if !ok || d.config.TCP == nil {
		return noTCP()
	}
	return d.startTCP()
}

// registerTCP makes the driver a receiver of TCP segments. It has no transport for them until startTCP, which is at once without a kernel:
// nobody else answers there.
func (d *driver) registerTCP() error {
	if err := d.ip.Register(wire.ProtocolTCP, segments{d}, nil); err != nil || d.below.memoryHost == nil {
		return err
	}
	return d.startTCP()
}

// openTCP makes the transport of TCP, with what reserves its ports.
func (d *driver) openTCP(o stream.Options) (err error) {
	var below stream.Below = d.below.memoryHost
	if d.below.memoryHost == nil {
		d.tcp.ports = NewKernelPorts(d.below.host)
		below = d.tcp.ports
	}
	if c := d.config.FlowRecord; c != nil && d.below.memoryHost == nil {
		d.tcp.openRecord(c)
	}
	d.tcp.streams, err = stream.New(stream.Config{Options: o, Host: d, Below: below, IP: d.ip, Clock: d.turn.source,
		QueueLimit: stack.QueueLimit, Record: d.tcp.record, Transit: d.config.Exchange.transit})
	if err != nil {
		return errors.Join(err, d.tcp.closeRecord())
	}
	return nil
}

// startTCP is OpenTCP.
func (d *driver) startTCP() error {
	if d.tcp.streams != nil {
		return nil
	}
	x, o := d.config.Exchange, *d.config.TCP
	o.Table.Directory, o.Table.Number = x.flows, d.number
	err := d.openTCP(o)
	if err == nil && d.below.memoryHost == nil {
		err = d.tcp.icmp.open(&d.shadows.List)
	}
	if err != nil {
		d.tcp.streams = nil
		return fmt.Errorf("offload: %w", err)
	}
	x.tcpRings.Or(1 << d.number)
	return nil
}

// segments is the TCP of a driver, as its network layer calls it.
type segments struct{ *driver }

var _ ip.Protocol = segments{}

// Input takes the segments of a burst, and hands those over that are for other rings.
func (d segments) Input(now clock.Time, b *ip.Burst) {
	if !d.isAlone() {
		handedOver := false
		for n := range b.Packets {
			p := &b.Packets[n]
			if p.Protocol != wire.ProtocolTCP {
				continue
			}
			f, ok := flowOf(p.Flow.Target, p.Flow.Source, p.Payload())
			if ok && f.isSyn && d.tcp.streams != nil { // before ringOf, which would find this ring by its TIME-WAIT
				d.tcp.streams.GiveWay(now, p, b.Checksum)
			}
			if !ok {
				continue // Input drops and counts it
			}
			to := d.ringOf(&f)
			if to == tcp.InTransit { // verified before it is kept: InputCopy takes it later without its link's policy
				if drop := stream.Verify(p, b.Checksum); drop != wire.Accept {
					d.ip.Drops()[drop]++
					b.Release(n)
					continue
				}
				to = d.keep(&f, p.Packet())
			}
			switch to {
			case d.number:
			case tcp.InTransit: // and kept
				b.Release(n)
			default:
				handedOver = true
				if drop := d.handOver(to, b, n); drop != wire.Accept {
					d.ip.Drops()[drop]++
					b.Release(n)
				}
			}
		}
		if handedOver {
			d.handoff.Publish()
		}
	}
	if d.tcp.streams != nil {
		d.tcp.streams.Input(now, b)
	}
}

// segmentFlow is what decides which ring a segment is for.
type segmentFlow struct {
	local, remote tcp.Endpoint
	isSyn         bool // it may begin a connection
}

// flowOf reads it from a segment; false: it is too short to have a header, and anybody may count it.
func flowOf(local, remote wire.Addr, segment []byte) (f segmentFlow, ok bool) {
	if len(segment) < wire.TCPLen {
		return f, false
	}
	f.local = tcp.Endpoint{Addr: local, Port: binary.BigEndian.Uint16(segment[2:])}
	f.remote = tcp.Endpoint{Addr: remote, Port: binary.BigEndian.Uint16(segment)}
	f.isSyn = wire.TCPFlags(segment[13])&(wire.TCPSyn|wire.TCPAck) == wire.TCPSyn
	return f, true
}

// inTransit is where connections wait that AcceptTo was offered.
func (d *driver) inTransit() *stream.Transit { return d.config.Exchange.transit }

// isAlone reports whether all segments that come in are for this ring.
func (d *driver) isAlone() bool {
	return d.inTransit().Len() == 0 && d.config.Exchange.tcpRings.Load() == 1<<d.number
}

// keep keeps a segment for a connection in transit, and returns InTransit; or the number of the ring that has adopted the connection just now.
func (d *driver) keep(f *segmentFlow, packet []byte) (to int) {
	for range 8 { // each time it was adopted, and offered again
		if d.inTransit().Keep(f.local, f.remote, packet) {
			return tcp.InTransit
		}
		if to = d.ringOf(f); to != tcp.InTransit {
			return to
		}
	}
	return tcp.InTransit // lost, as on the wire
}

// ringOf is the number of the ring that a segment is for: this one, if it has the flow or nobody has; InTransit; 0: no ring carries TCP any
// more.
func (d *driver) ringOf(f *segmentFlow) int {
	if d.tcp.streams != nil && d.tcp.streams.Table().IsHere(f.local, f.remote) {
		return d.number
	}
	if d.below.memoryHost != nil {
		if d.inTransit().Has(f.local, f.remote) {
			return tcp.InTransit
		}
		return d.number
	}
	x := d.config.Exchange
	to := x.flows.Find(f.local, f.remote)
	switch {
	case to != 0:
		return to
	case d.tcp.streams != nil:
		return d.number // which answers with a reset
	}
	return bits.TrailingZeros64(x.tcpRings.Load()) & tcp.MaxTables // any that can reset the peer; of none TrailingZeros64 is 64: 0
}

// handOver verifies segment n of the burst and lends its IPv4 packet to another ring. The result is why the segment was dropped, or wire.Accept;
// a segment that spans buffers, because no large one was free, is counted here. A number that was given to another ring since names one that
// carries no TCP, which drops the segment.
func (d segments) handOver(to int, b *ip.Burst, n int) wire.Drop {
	p := &b.Packets[n]
	drop := stream.Verify(p, b.Checksum)
	switch {
	case drop != wire.Accept:
		return drop
	case to == 0: // the ring that had the claim was closed just now
		return wire.TCPNoConnection
	}
	frame := b.Frames[n].Packet
	if frame.NumBuffers() > 1 { // the other ring reads one buffer
		d.ip.CountNoBuffer()
		b.Release(n)
		return wire.Accept
	}
	b.Frames[n].Packet = buffers.Packet{}
	// Charged to no socket: the queues between rings bound what is lent.
	d.pool.Trim(frame, p.PayloadOffset()-p.IPv4().HeaderLen(), len(p.Packet()), 0)
	d.handoff.SendSegment(to, p.Flow.Interface, frame)
	return wire.Accept
}

// takeSegment takes an IPv4 packet with a segment that another ring has received on the interface and verified. If the flow is another ring's by
// now, the packet goes on there.
func (d *driver) takeSegment(now clock.Time, ifIndex int, packet []byte) {
	if d.tcp.streams == nil {
		d.ip.Drops()[wire.TCPNoConnection]++ // this ring has the number of one that carried TCP
		return
	}
	if h, _, payload, drop := wire.ParseIPv4(packet); drop == wire.Accept {
		f, ok := flowOf(h.Target(), h.Source(), payload)
		if ok && f.isSyn { // as in Input
			d.tcp.streams.GiveWayCopy(now, packet)
		}
		to := d.ringOf(&f)
		if ok && to == tcp.InTransit {
			to = d.keep(&f, packet)
		}
		switch {
		case !ok, to == d.number: // InputCopy takes it, or counts why not
		case to == tcp.InTransit: // and kept
			return
		default:
			d.forward(to, ifIndex, packet)
			return
		}
	}
	d.tcp.streams.InputCopy(packet)
}

// forward hands over a copy of a packet that another ring has handed over. Without a buffer it is lost, as on the wire.
func (d *driver) forward(to, ifIndex int, packet []byte) {
	if frame := d.tcp.streams.CopyPacket(packet); !frame.IsZero() {
		d.handoff.SendSegment(to, uint32(ifIndex), frame)
		d.handoff.Publish()
	}
}

// Error gives TCP an ICMP error about one of its segments.
func (d segments) Error(now clock.Time, e ip.ICMPError) wire.Drop {
	if d.tcp.streams == nil {
		return wire.ICMPNoSocket
	}
	return d.tcp.streams.Error(now, e)
}

// Changed passes a change of the host on.
func (d segments) Changed(c ip.Change) {
	if d.tcp.streams != nil {
		if c.Kind == ip.TablesChanged {
			d.scanMovesSoon()
		}
		d.tcp.streams.Changed(c)
	}
}
