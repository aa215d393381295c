package tcptest

import (
	"errors"
	"slices"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// Conn is a connection as the application sees it.
type Conn struct {
	Host     *Host
	ID       tcp.ID
	User     uint64         // what Connect or Accept was given: each event must bring it
	Listener tcp.ListenerID // of a child
	Local    tcp.Endpoint
	Remote   tcp.Endpoint

	Connected, Ended, Gone bool
	Reason                 tcp.Reason // not 0: it has failed
	Warnings               int
	Received, Written      int // bytes that EventData has brought; that were given to Send
	Acked                  int
	WriteClosed, Closed    bool

	state    tcp.State
	taken    bool
	accepted bool
	unread   []byte
	sending  int // buffers that Send was given and that are not back
}

// Listen opens a listener.
func (h *Host) Listen(c tcp.ListenConfig) (tcp.ListenerID, error) { return h.Table.Listen(c) }

// Accept takes the next child of a listener; nil: there is none.
func (h *Host) Accept(l tcp.ListenerID, user uint64) *Conn {
	for i, c := range h.ready {
		if c.Listener == l {
			h.ready = slices.Delete(h.ready, i, i+1)
			if err := h.Table.Take(c.ID, user); err != nil {
				return nil // a reset ended it since, and EventGone is on its way
			}
			c.User, c.taken = user, true
			return c
		}
	}
	return nil
}

// Connect begins a connection.
func (h *Host) Connect(now clock.Time, d tcp.Dial) (*Conn, error) {
	id, err := h.Table.Connect(now, d)
	if err != nil {
		return nil, err
	}
	c := h.add(id, &Conn{User: d.User, taken: true})
	h.watch()
	return c, nil
}

// add enters a connection that the table has made into the host's list. It is a fault if the ID is still that of another one.
func (h *Host) add(id tcp.ID, c *Conn) *Conn {
	c.Host, c.ID = h, id
	if old := h.conns[id]; old != nil {
		h.fail("record: the ID %d was given out again before EventGone", id)
	}
	if i, ok := h.Table.Info(id); ok {
		c.Local, c.Remote = i.Local, i.Remote
	}
	h.conns[id] = c
	h.live = append(h.live, c)
	if c.state = h.Table.State(id); h.Moved != nil {
		h.Moved(c, tcp.Closed, c.state)
	}
	return c
}

// Room is how much Write takes.
func (c *Conn) Room() int { return c.Host.Table.Room(c.ID) }

// Write queues bytes, as many as there is room for, and returns how many. What fits goes into the last piece that was queued; the rest is
// cut into pieces of at most Host.Piece bytes.
func (c *Conn) Write(now clock.Time, b []byte, more bool) int {
	b = b[:min(len(b), max(c.Room(), 0))]
	written := 0
	for written < len(b) {
		n := c.extend(now, b[written:], more)
		if n == 0 {
			if n = c.queue(now, b[written:], more); n == 0 {
				break
			}
		}
		written += n
	}
	c.Written += written
	c.Host.watch()
	return written
}

// extend appends bytes to the last piece that was queued, if nothing of it was sent.
func (c *Conn) extend(now clock.Time, b []byte, more bool) int {
	h := c.Host
	p, ok := h.Table.Tail(c.ID)
	if !ok {
		return 0
	}
	x := h.memory.live[p.Buffer]
	if x == nil || !x.sent || int(p.Offset+p.Length) != len(x.b) {
		h.fail("buffer: the tail %v is not the end of a buffer that was queued", p)
		return 0
	}
	n := min(len(b), h.Piece-len(x.b))
	if n <= 0 {
		return 0
	}
	x.b = append(x.b, b[:n]...)
	h.memory.bytes += n
	if err := h.Table.Extend(now, c.ID, n, more); err != nil {
		h.fail("buffer: extend: %w", err)
	}
	return n
}

// queue copies at most Host.Piece bytes into a new buffer and gives it to the table. It returns how many; 0 if the table refuses.
func (c *Conn) queue(now clock.Time, b []byte, more bool) int {
	h := c.Host
	b = b[:min(len(b), h.Piece)]
	n := h.memory.add(b, givenToSend)
	if err := h.Table.Send(now, c.ID, tcp.Payload{Buffer: n, Length: uint32(len(b))}, more); err != nil {
		h.memory.remove(n)
		return 0
	}
	c.sending++
	return len(b)
}

// Unread is how many bytes Read would give.
func (c *Conn) Unread() int { return len(c.unread) }

// Read takes at most n bytes that were received, and opens the window by as much.
func (c *Conn) Read(now clock.Time, n int) []byte {
	b := c.unread[:min(n, len(c.unread))]
	c.unread = c.unread[len(b):]
	if len(b) > 0 && !c.Gone {
		n := len(b)
		if f := c.Host.plant.credit; f != nil {
			n = f(n)
		}
		c.Host.Table.Credit(now, c.ID, n)
		c.Host.watch()
	}
	return b
}

// CloseWrite has the table send FIN behind what was written, once.
func (c *Conn) CloseWrite(now clock.Time) {
	if c.WriteClosed || c.Closed {
		return
	}
	c.WriteClosed = true
	err := c.Host.Table.CloseWrite(now, c.ID)
	if err != nil && !errors.Is(err, tcp.ErrNotOpen) && !errors.Is(err, tcp.ErrNoConn) { // one that has failed since: its event is on its way
		c.Host.fail("half close: %w", err)
	}
	c.Host.watch()
}

// Close ends the application's part.
func (c *Conn) Close(now clock.Time) {
	if !c.Closed && !c.Gone {
		c.Closed = true
		c.Host.Table.Close(now, c.ID)
		c.Host.watch()
	}
}

// Abort ends the connection with a reset.
func (c *Conn) Abort(now clock.Time) {
	if !c.Gone {
		c.Closed = true
		c.Host.Table.Abort(now, c.ID)
		c.Host.watch()
	}
}

// State is the connection's.
func (c *Conn) State() tcp.State { return c.state }

// Info is the table's.
func (c *Conn) Info() tcp.Info {
	i, _ := c.Host.Table.Info(c.ID)
	return i
}

// event notes an event in its connection, checks it against the contract of package tcp (a violation fails the host), and calls Handle.
func (h *Host) event(now clock.Time, e tcp.Event) {
	c := h.conns[e.Conn]
	if e.Kind == tcp.EventAccepted {
		c = h.add(e.Conn, &Conn{Listener: e.Listener, Connected: true, accepted: true})
		h.ready = append(h.ready, c)
	}
	if c == nil {
		h.fail("event: %v of connection %d, which has no record", e.Kind, e.Conn)
		return
	}
	if c.taken && e.User != c.User && e.Kind != tcp.EventAccepted {
		h.fail("event: %v of connection %d has user %d, expected %d", e.Kind, e.Conn, e.User, c.User)
	}
	switch e.Kind {
	case tcp.EventAccepted:
	case tcp.EventConnected:
		if c.Connected || c.accepted {
			h.fail("event: connection %d is connected twice", e.Conn)
		}
		c.Connected = true
	case tcp.EventData:
		h.data(c, e.Payload)
	case tcp.EventEnd:
		if c.Ended {
			h.fail("event: connection %d has ended twice", e.Conn)
		}
		c.Ended = true
	case tcp.EventAcked:
		c.Acked += int(e.Payload.Length)
		if c.Acked > c.Written {
			h.fail("event: %d bytes are acknowledged of %d that were written", c.Acked, c.Written)
		}
	case tcp.EventSent, tcp.EventDropped:
		sent := e.Kind == tcp.EventSent
		if _, err := h.memory.read(e.Payload, sent); err != nil {
			h.fail("buffer: %v: %w", e.Kind, err)
			return
		}
		if sent {
			c.sending--
		}
		h.memory.remove(e.Payload.Buffer)
	case tcp.EventFailed:
		if c.Reason != 0 || e.Reason == 0 {
			h.fail("event: connection %d has failed for %v, before that for %v", e.Conn, e.Reason, c.Reason)
		}
		c.Reason = e.Reason
	case tcp.EventWarning:
		c.Warnings++
	case tcp.EventGone:
		h.gone(c)
	default:
		h.fail("event: kind %d is not known", e.Kind)
	}
	if h.Handle != nil {
		h.Handle(now, c, e)
	}
}

// data checks received data, copies it to what Read returns, and frees its buffer.
func (h *Host) data(c *Conn, p tcp.Payload) {
	b, err := h.memory.read(p, fromSegment)
	switch {
	case err != nil:
		h.fail("buffer: data: %w", err)
		return
	case c.Ended || c.Reason != 0:
		h.fail("event: connection %d receives data behind its end", c.ID)
	case !c.Connected:
		h.fail("event: connection %d receives data before it is established", c.ID)
	case len(b) == 0:
		h.fail("event: connection %d receives no data", c.ID)
	}
	c.Received += len(b)
	c.unread = append(c.unread, b...)
	h.memory.remove(p.Buffer)
}

// gone ends a connection after EventGone. By then all its buffers must have returned, and the application must have closed it.
func (h *Host) gone(c *Conn) {
	c.Gone = true
	if c.sending != 0 {
		h.fail("buffer: connection %d is gone with %d buffers", c.ID, c.sending)
	}
	if c.taken && !c.Closed {
		h.fail("event: connection %d is gone before it was closed", c.ID)
	}
	delete(h.conns, c.ID)
	h.live = slices.DeleteFunc(h.live, func(x *Conn) bool { return x == c })
	h.ready = slices.DeleteFunc(h.ready, func(x *Conn) bool { return x == c })
	if h.Moved != nil && c.state != tcp.Closed {
		h.Moved(c, c.state, tcp.Closed)
	}
	c.state = tcp.Closed
}

// watch asks the table for the state of each connection and reports changes to Moved. It runs after each call of the table.
func (h *Host) watch() {
	for _, c := range h.live {
		s := h.Table.State(c.ID)
		if f := h.plant.state; f != nil {
			s = f(s)
		}
		if s != c.state {
			from := c.state
			c.state = s
			if h.Moved != nil {
				h.Moved(c, from, s)
			}
		}
	}
}
