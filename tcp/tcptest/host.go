package tcptest

import (
	"errors"
	"fmt"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// Host is a table with an address, its buffers and its connections. It belongs to one goroutine.
type Host struct {
	Table *tcp.Table
	Addr  wire.Addr
	// Handle sees each event after the host has noted it in its connection. It may call the connection.
	Handle func(now clock.Time, c *Conn, e tcp.Event)
	// Moved sees each change of a connection's state.
	Moved func(c *Conn, from, to tcp.State)

	// Piece is how long a buffer of sent data gets.
	Piece int

	Drops    map[wire.Drop]int
	Segments struct{ In, Out int }

	plant  planted
	memory memory
	conns  map[tcp.ID]*Conn
	live   []*Conn // in the order in which they were made
	ready  []*Conn // accepted and not taken
	id     uint16
	err    error
}

// planted are the places at which a test can put a bug between the table and the host, as if the table had it.
type planted struct {
	input  func(s *tcp.Segment) bool           // before Input; false: the segment never reaches the table
	output func(s *tcp.Segment) (copies int)   // behind Output: how often the segment leaves
	packet func(b []byte)                      // what leaves
	event  func(e tcp.Event) []tcp.Event       // behind Events
	credit func(n int) int                     // before Credit
	due    func(now, at clock.Time) clock.Time // behind Deadline
	state  func(s tcp.State) tcp.State         // behind State
}

// NewHost makes a host with an empty table.
func NewHost(addr wire.Addr, c tcp.Config, now clock.Time) (*Host, error) {
	t, err := tcp.New(c, now)
	if err != nil {
		return nil, err
	}
	return &Host{Table: t, Addr: addr, Piece: 64 << 10, Drops: map[wire.Drop]int{}, memory: memory{live: map[tcp.Buffer]*block{}}, conns: map[tcp.ID]*Conn{}}, nil
}

// Err is the first rule that the table has broken.
func (h *Host) Err() error { return h.err }

// fail notes the first violation, which Err returns.
func (h *Host) fail(format string, args ...any) {
	if h.err == nil {
		h.err = fmt.Errorf("tcptest: "+format, args...)
	}
}

// Live is how many connections have a record; Memory how many bytes the table holds.
func (h *Host) Live() int   { return len(h.live) }
func (h *Host) Memory() int { return h.memory.bytes }

// Receive takes an IPv4 packet: a TCP segment or an ICMP error. The bytes are copied.
func (h *Host) Receive(now clock.Time, packet []byte) {
	ip, _, payload, d := wire.ParseIPv4(packet)
	if d != wire.Accept {
		h.Drops[d]++
		return
	}
	switch ip.Protocol() {
	case wire.ProtocolTCP:
		h.segment(now, ip, payload)
	case wire.ProtocolICMP:
		h.icmp(now, payload)
	}
}

// segment verifies and parses a TCP segment, copies it into a buffer if it has payload, and gives it to the table. It frees a buffer that the
// table does not keep.
func (h *Host) segment(now clock.Time, ip *wire.IPv4, b []byte) {
	if len(b) < wire.TCPLen {
		h.Drops[wire.TCPShort]++
		return
	}
	if wire.CheckTCP(ip, b) != wire.SumGood {
		h.Drops[wire.TCPSum]++
		return
	}
	var s tcp.Segment
	if d := s.Parse(ip.Source(), ip.Target(), b, 0, 0); d != wire.Accept {
		h.Drops[d]++
		return
	}
	length := s.Payload.Length
	if length > 0 {
		s.Payload.Buffer = h.memory.add(b, fromSegment)
	}
	number := s.Payload.Buffer
	s.ECN = tcp.ECN(ip.TOS() & 3)
	s.Group = ip.Target().IsMulticast() || ip.Target().IsBroadcast() || ip.Source().IsMulticast() || ip.Source().IsBroadcast() || ip.Source().IsZero()
	h.Segments.In++
	if f := h.plant.input; f != nil && !f(&s) {
		if length > 0 {
			h.memory.remove(number)
		}
		return
	}
	kept, d := h.Table.Input(now, &s)
	if d != wire.Accept {
		h.Drops[d]++
	}
	switch {
	case kept && length == 0:
		h.fail("buffer: a segment without payload was kept")
	case !kept && length > 0:
		h.memory.remove(number)
	}
	h.watch()
}

// icmp parses an ICMP message and gives the table the error it reports; other messages are ignored.
func (h *Host) icmp(now clock.Time, b []byte) {
	m, body, d := wire.ParseICMP(b)
	if d != wire.Accept || !m.IsError() {
		return
	}
	q, d := wire.ParseQuote(m, body)
	if d != wire.Accept {
		h.Drops[d]++
		return
	}
	e := tcp.NetworkError{Local: tcp.Endpoint{Addr: q.IP.Source(), Port: q.SourcePort()}, Remote: tcp.Endpoint{Addr: q.IP.Target(), Port: q.TargetPort()},
		Type: m.Type(), Code: m.Code(), MTU: m.MTU(),
		Seq: tcp.Seq(uint32(q.Transport[4])<<24 | uint32(q.Transport[5])<<16 | uint32(q.Transport[6])<<8 | uint32(q.Transport[7]))}
	h.Error(now, e)
}

// Error takes an ICMP error that was parsed.
func (h *Host) Error(now clock.Time, e tcp.NetworkError) {
	if d := h.Table.Error(now, e); d != wire.Accept {
		h.Drops[d]++
	}
	h.watch()
}

// maxTurns bounds how often a table may go on at one time.
const maxTurns = 10000

// Turn does what is due and sends what is to be sent, until nothing is left or send returns false, which is a link without room. more reports
// that the link's room ended it.
func (h *Host) Turn(now clock.Time, send func(packet []byte) bool) (more bool) {
	for range maxTurns {
		again := h.Table.Expire(now)
		h.watch()
		again = h.Events(now) || again
		var s tcp.Segment
		for h.Table.Output(now, &s) {
			again = true
			if !h.sendSegment(&s, send) {
				return true
			}
			s = tcp.Segment{}
		}
		if !again {
			if d := h.Deadline(now); d <= now {
				h.fail("timer: the deadline %v has passed at %v and nothing is done", d, now)
			}
			return false
		}
		if h.err != nil {
			return false
		}
	}
	h.fail("livelock: the table has work without end at %v", now)
	return false
}

// Deadline is the table's.
func (h *Host) Deadline(now clock.Time) clock.Time {
	d := h.Table.Deadline()
	if f := h.plant.due; f != nil {
		d = f(now, d)
	}
	return d
}

// sendSegment builds the packet of a segment and sends it. It reports whether the link has room for more.
func (h *Host) sendSegment(s *tcp.Segment, send func(packet []byte) bool) bool {
	copies := 1
	if f := h.plant.output; f != nil {
		copies = f(s)
	}
	room := true
	for range copies {
		h.Segments.Out++
		packet := h.build(s)
		h.watch()
		if packet != nil {
			if f := h.plant.packet; f != nil {
				f(packet)
			}
			room = send(packet) && room
		}
	}
	return room
}

// build makes an IPv4 packet. Its payload is read from the memory of the connection's buffers.
func (h *Host) build(s *tcp.Segment) []byte {
	n := s.HeaderLen() + int(s.Payload.Length)
	h.id++
	f := wire.IPv4Fields{TOS: s.TOS | byte(s.ECN), ID: h.id, DontFragment: !s.MayFrag, TTL: s.TTL, Protocol: wire.ProtocolTCP,
		Source: s.Local.Addr, Target: s.Remote.Addr}
	b, err := f.Append(make([]byte, 0, wire.IPv4Len+n), n)
	if err != nil {
		h.fail("packet: %w", err)
		return nil
	}
	b = b[:wire.IPv4Len+n]
	segment := b[wire.IPv4Len:]
	payload := segment[s.HeaderLen():]
	if len(payload) > 0 {
		from, err := h.memory.read(s.Payload, givenToSend)
		if err != nil {
			h.fail("buffer: segment %v to %v: %w", s.Local, s.Remote, err)
			return nil
		}
		copy(payload, from)
	}
	s.Put(segment, wire.Pseudo(s.Local.Addr, s.Remote.Addr, wire.ProtocolTCP, uint16(n)), wire.Sum(0).Add(payload))
	return b
}

// Events takes the table's events, notes each in its connection and calls Handle for it. It reports whether there were any.
func (h *Host) Events(now clock.Time) bool {
	list := h.Table.Events()
	for _, e := range list {
		if f := h.plant.event; f != nil {
			for _, e := range f(e) {
				h.event(now, e)
			}
			continue
		}
		h.event(now, e)
	}
	h.watch()
	return len(list) > 0
}

// errNoSuchBuffer is a buffer number that is not in use.
var errNoSuchBuffer = errors.New("no such buffer")

// block is a buffer in the table's hands.
type block struct {
	b    []byte
	sent bool // Send was given it; else a segment brought it
}

// The argument sent of add and read.
const (
	givenToSend = true
	fromSegment = false
)

// memory is the transport's buffers that the table has.
type memory struct {
	next  tcp.Buffer
	live  map[tcp.Buffer]*block
	bytes int
}

// add copies b into a new buffer and returns its number.
func (m *memory) add(b []byte, sent bool) tcp.Buffer {
	m.next++
	m.live[m.next] = &block{append([]byte(nil), b...), sent}
	m.bytes += len(b)
	return m.next
}

func (m *memory) remove(n tcp.Buffer) {
	m.bytes -= len(m.live[n].b)
	delete(m.live, n)
}

// read returns the bytes of a payload's piece of a buffer. sent says that it must be a buffer that Send was given, else one of a segment.
func (m *memory) read(p tcp.Payload, sent bool) ([]byte, error) {
	x := m.live[p.Buffer]
	switch {
	case x == nil || x.sent != sent:
		return nil, fmt.Errorf("%w: %d", errNoSuchBuffer, p.Buffer)
	case uint64(p.Offset)+uint64(p.Length) > uint64(len(x.b)):
		return nil, fmt.Errorf("piece %d+%d of a buffer of %d bytes", p.Offset, p.Length, len(x.b))
	}
	return x.b[p.Offset : p.Offset+p.Length], nil
}
