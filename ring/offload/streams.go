package offload

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/flowrecord"
	"github.com/socketxtreme/socketxtreme/ring/offload/handoff"
	"github.com/socketxtreme/socketxtreme/ring/offload/steering"
	"github.com/socketxtreme/socketxtreme/ring/transport/stream"
)

// TCP is package stream's; here is what ties it to the driver.

// streamPart is what a driver has of TCP.
type streamPart struct {
	streams    *stream.Transport // of the sockets that the stack carries; nil: it carries none, or none yet
	moves      moves             // connections that move into the kernel and back
	claims     streamClaims
	ports      *KernelPorts  // what reserves the ports; nil: the MemoryHost does
	viaKernel  kernelStreams // sockets that the kernel carries
	record     *flowrecord.Record
	unrecorded ring.Reason // why there is none, where there should be one
	icmp       icmpErrors  // ICMP errors for connections of the stack
}

// hasStream reports whether the socket is one of TCP. A driver without TCP has none: Attach refuses them.
func (d *driver) hasStream(s *ring.Socket) bool {
	return d.tcp.streams != nil && ring.HandleOf(s).Kind != ring.KindDatagram
}

// attachStream gives a TCP socket to the stack, or to the kernel where the stack does not carry it.
func (d *driver) attachStream(s *ring.Socket) error {
	isInTransit := ring.HandleOf(s).Conn >= stream.TransitBase
	switch {
	case d.config.TCP == nil:
		return noTCP()
	// What is in transit is adopted from another ring of the stack; all else that is adopted is a descriptor made elsewhere.
	case ring.HandleOf(s).Adopted && !isInTransit:
		return &ring.FeatureError{Feature: "a stream socket made elsewhere, over this stack: its connection, or its port, is the kernel's",
			Code: "offload.adopted"}
	}
	if err := d.startTCP(); err != nil {
		return err
	}
	switch {
	case isInTransit: // a child of another ring's listener
		return d.tcp.streams.Adopt(s)
	case ring.HandleOf(s).Conn >= stream.ConnBase: // a child of the stack
		return d.tcp.streams.Attach(s)
	case isKernels(s): // KernelPorts has decided so
		return d.attachKernelStream(s, d.whyKernel(s))
	case s.Family() == ring.IPv6 && !IsDualStack(s):
		ring.SetTransport(s, d.tcp.ports.streams, ring.HandleOf(s).Conn)
		return d.attachKernelStream(s, noIPv6)
	}
	err := d.tcp.streams.Attach(s)
	if missing := (*ring.FeatureError)(nil); d.tcp.ports == nil || !errors.As(err, &missing) || missing.Code != noLink.Code {
		return err
	}
	// No link of the ring reaches the peer: the kernel connects.
	ring.SetTransport(s, d.tcp.ports.streams, ring.HandleOf(s).Conn)
	local, err := d.tcp.ports.streams.Connect(s, s.RemoteAddr())
	if err != nil {
		return err
	}
	ring.SetLocal(s, local)
	return d.attachKernelStream(s, noLink)
}

// receiveStream starts or stops the reading of a TCP socket, or its accepting.
func (d *driver) receiveStream(s *ring.Socket, on bool) error {
	if isKernels(s) {
		return d.tcp.viaKernel.SetReceiving(s, on)
	}
	d.tcp.streams.SetReceiving(s, on)
	if ring.HandleOf(s).Kind == ring.KindListener {
		return d.acceptBeside(s, on)
	}
	return nil
}

// notifyStreamWritable asks for one Writable of a TCP socket.
func (d *driver) notifyStreamWritable(s *ring.Socket) error {
	if !isKernels(s) {
		d.tcp.streams.NotifyWritable(s)
		return nil
	}
	if d.table.of(s) == nil { // tied to a device, it was on the ring before it was to connect to where the stack does not reach
		if err := d.attachKernelStream(s, d.whyKernel(s)); err != nil {
			return err
		}
	}
	return d.tcp.viaKernel.NotifyWritable(s)
}

// transmitStream sends what was queued on a TCP socket.
func (d *driver) transmitStream(s *ring.Socket) error {
	if isKernels(s) {
		return d.tcp.viaKernel.Transmit(s)
	}
	d.tcp.streams.Transmit(s)
	return nil
}

// detachStream lets go of a TCP socket.
func (d *driver) detachStream(s *ring.Socket) {
	e := d.table.of(s)
	if e == nil || !e.viaKernel {
		d.tcp.streams.Detach(s)
	}
	if e != nil {
		d.tcp.viaKernel.Detach(s) // done at once, as of every driver of kind epoll
		d.table.remove(e)
	}
	d.forgetMoves(s)
}

// Claim redirects a flow of TCP to the links.
func (d *driver) Claim(local, remote netip.AddrPort, device int, exact bool) (int32, error) {
	if d.below.memoryHost != nil { // every frame of the wire comes
		return 0, nil
	}
	n, err := d.tcp.claims.add(steering.SocketFlows{Protocol: link.TCP, Local: local, Remote: remote, IfIndex: device}, exact)
	if err != nil {
		return 0, fmt.Errorf("offload: %w", err)
	}
	return n, nil
}

// Unclaim leaves the flow to the kernel.
func (d *driver) Unclaim(claim int32) { d.tcp.claims.remove(claim) }

// IsFinishing implements ring.Finisher.
func (d *driver) IsFinishing() bool { return d.tcp.streams != nil && d.tcp.streams.IsFinishing() }

// hasOutput reports whether something is to be sent.
func (d *driver) hasOutput() bool {
	return len(d.sending.list) > 0 || d.ip.Queued() > 0 || d.tcp.streams != nil && d.tcp.streams.HasOutput()
}

// streamFrame takes a frame back that is TCP's, as its token says.
func (d *driver) streamFrame(token uint64) bool {
	if token&stream.TokenBit == 0 {
		return false
	}
	d.tcp.streams.Completed(token)
	return true
}

// Pull has the stack take what has come, for a call of the application whose answer depends on it. Not within a turn: the turn takes it. What
// is UDP's of it is delivered in the next one.
func (d *driver) Pull() {
	if d.turn.isRunning {
		return
	}
	d.ip.Refresh()
	for i := range d.links {
		n := d.links[i].Link.Receive(d.burst.frames[:])
		if n == 0 {
			continue
		}
		recording := d.record(i, n, len(d.burst.frames))
		d.ip.Input(d.turn.now, i, d.burst.frames[:n])
		if recording {
			d.recordDrops(i, 0, n)
		}
	}
	if d.handoff != nil {
		_, queues := d.handoff.Poll()
		for _, q := range queues {
			if q.IsReady() {
				d.takeHandoff(q, ip.MaxBurst)
			}
		}
	}
}

// takeHandoff copies a burst of datagrams and segments, max at the most, out of another ring's buffers and returns those buffers. The result is
// whether there were any; nothing is delivered yet.
func (d *driver) takeHandoff(q *handoff.Queue, max int) bool {
	n := q.Begin(max)
	if n == 0 {
		return false
	}
	for i := range n {
		x, payload := q.At(i)
		if x.To == handoff.ToTCP {
			d.takeSegment(d.turn.now, int(x.Flow.Interface), payload)
		} else {
			d.udp.TakeHandoff(&x, payload)
		}
	}
	q.End(n)
	d.handoff.CountTaken(n)
	return true
}

// PullIfIdle is Pull if the ring was not polled for a while: a Poll takes the frames as well.
func (d *driver) PullIfIdle() {
	if d.turn.isRunning || d.turn.isFresh() {
		return
	}
	d.Pull()
}

// streamCounters adds the counts of TCP.
func (d *driver) streamCounters(add func(name string, v uint64)) {
	if d.tcp.streams == nil {
		return
	}
	t, s := d.tcp.streams.Table(), d.tcp.streams.Stats()
	x := t.Stats()
	add("tcp.connections", uint64(t.Len()))
	add("tcp.via_kernel", d.tcp.viaKernel.attached)
	add("tcp.unpassed", d.config.Exchange.nics.Unpassed())
	add("tcp.moved_to_kernel", d.tcp.moves.toKernel)
	add("tcp.moved_to_stack", d.tcp.moves.toStack)
	add("tcp.not_moved", d.tcp.moves.refusals)
	add("tcp.icmp_errors", d.tcp.icmp.taken)
	add("tcp.half_open", uint64(t.HalfOpen()))
	add("tcp.time_wait", uint64(t.TimeWaits()))
	add("tcp.segments_in", x.In)
	add("tcp.segments_out", x.Out)
	add("tcp.retransmitted", x.Retransmitted)
	add("tcp.timeouts", x.TimeOuts)
	add("tcp.recoveries", x.FastRecovery)
	add("tcp.loss_probes", x.LossProbes)
	add("tcp.undone", x.Undone)
	add("tcp.window_probes", x.WindowProbes)
	add("tcp.keepalives", x.KeepAlives)
	add("tcp.resets_sent", x.Resets)
	add("tcp.resets_limited", x.ResetsLimited)
	add("tcp.resets_received", x.ResetsTaken)
	add("tcp.challenges", x.Challenges)
	add("tcp.out_of_order", x.OutOfOrder)
	add("tcp.duplicate", x.Duplicate)
	add("tcp.reneged", x.Reneged)
	add("tcp.overflows", x.Overflows)
	add("tcp.cookies", x.Cookies)
	add("tcp.bad_cookies", x.CookiesBad)
	add("tcp.black_holes", x.BlackHoles)
	add("tcp.sent_in_place", s.InPlace)
	add("tcp.sent_copied", s.Copied)
	add("tcp.no_buffer", s.NoBuffer)
	add("tcp.no_route", s.NoRoute)
	add("tcp.too_long", s.TooLong)
	add("tcp.partial_sums", s.Partial)
	add("tcp.collapsed", s.Collapsed)
	add("tcp.unrecorded", s.Unrecorded)
	add("tcp.ports_kept", s.PortsKept)
}

// noTCP is the error of a stream socket on a driver without Config.TCP, noUnix that of a unix-domain one on any.
func noTCP() error {
	return &ring.FeatureError{Feature: "TCP over this stack, which was made for UDP alone", Code: "offload.no_tcp"}
}

func noUnix() error {
	return &ring.FeatureError{Feature: "unix-domain sockets over this stack, which speaks UDP and TCP", Code: "offload.no_unix"}
}
