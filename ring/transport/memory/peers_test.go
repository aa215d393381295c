package memory_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory/protocol"
)

var (
	ringAddrs = []netip.Addr{netip.MustParseAddr("10.7.0.1"), netip.MustParseAddr("10.7.0.2")}
	peerAddr  = netip.MustParseAddr("10.7.1.1")
	blackHole = netip.MustParseAddrPort("10.7.9.9:80")
)

// peers is a host with blocking connections, as package net has them: the protocol driven by a goroutine and a lock.
type peers struct {
	link *memory.Link

	mu        sync.Mutex
	changed   *sync.Cond
	table     *protocol.Table
	conns     map[protocol.ID]*conn
	listeners map[int32]*listener
	input     []byte
	wake      chan struct{}
	deafened  bool // some connection ignores all that arrives
	over      bool
	stopped   chan struct{}
}

var (
	_ ringtest.StreamPeers = (*peers)(nil)
	_ net.Conn             = (*conn)(nil)
)

func newPeers(t testing.TB, n *memory.Network, c protocol.Config) *peers {
	link, err := n.NewLink(memory.LinkConfig{Addrs: []netip.Addr{peerAddr}, Slots: 4096, Descriptors: 4096})
	require.NoError(t, err)
	if c.Random == nil {
		c.Random = rand.New(rand.NewPCG(1, 2)).Uint64
	}
	c.MSS = link.MSS()
	p := &peers{link: link, conns: map[protocol.ID]*conn{}, listeners: map[int32]*listener{}, wake: make(chan struct{}, 1),
		stopped: make(chan struct{})}
	p.changed = sync.NewCond(&p.mu)
	p.table = protocol.New(c, hostOf{p}, clock.Now())
	link.SetWake(p.nudge)
	go p.run()
	t.Cleanup(func() {
		p.mu.Lock()
		p.over = true
		p.mu.Unlock()
		p.nudge()
		<-p.stopped
		link.Close()
	})
	return p
}

func (p *peers) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run takes what arrives and what is due.
func (p *peers) run() {
	defer close(p.stopped)
	for {
		p.mu.Lock()
		if p.over {
			p.mu.Unlock()
			return
		}
		p.turn()
		p.link.Arm()
		at := min(p.table.Deadline(), p.link.Deadline())
		p.mu.Unlock()
		var due <-chan time.Time
		if at != clock.Never {
			due = time.After(at.Sub(clock.Now()))
		}
		select {
		case <-p.wake:
		case <-due:
		}
	}
}

func (p *peers) turn() {
	now := clock.Now()
	p.link.Advance(now)
	for range 10_000 {
		if _, ok := p.link.Completed(); !ok {
			break
		}
	}
	p.table.Resume(now)
	for range 256 {
		frame, ok := p.link.Receive(now)
		if !ok {
			break
		}
		if s, payload, ok := protocol.Parse(frame); ok && !p.ignores(&s) {
			p.input = payload
			p.table.Input(now, &s)
		}
		p.link.Release()
	}
	for p.table.Expire(now) {
	}
	p.table.Flush(now)
	p.changed.Broadcast()
}

// ignores reports whether the connection of a segment takes nothing that arrives.
func (p *peers) ignores(s *protocol.Segment) bool {
	if !p.deafened {
		return false // without a look at thousands of connections for each segment
	}
	for _, c := range p.conns {
		if c.deaf && c.local == s.Target && c.remote == s.Source {
			return true
		}
	}
	return false
}

func (p *peers) Local() netip.Addr         { return ringAddrs[0] }
func (p *peers) Other() netip.Addr         { return ringAddrs[1] }
func (p *peers) Device() string            { return "mem0" }
func (p *peers) Nobody() netip.AddrPort    { return netip.AddrPortFrom(peerAddr, 9) }
func (p *peers) BlackHole() netip.AddrPort { return blackHole }

// until polls the ring until something holds, asked under the lock.
func (p *peers) until(turn func(), holds func() bool) error {
	for end := time.Now().Add(10 * time.Second); ; {
		p.mu.Lock()
		ok := holds()
		p.mu.Unlock()
		switch {
		case ok:
			return nil
		case time.Now().After(end):
			return os.ErrDeadlineExceeded
		}
		turn()
	}
}

func (p *peers) DialStream(to netip.AddrPort, turn func()) (ringtest.StreamPeer, error) {
	remote, _ := protocol.EndpointFrom(to)
	p.mu.Lock()
	local, err := p.table.Bind(protocol.Endpoint{Addr: peerAddr.As4()})
	if err != nil {
		p.mu.Unlock()
		return nil, err
	}
	id, err := p.table.Connect(clock.Now(), local, remote)
	if err != nil {
		p.mu.Unlock()
		return nil, err
	}
	c := p.meet(id)
	p.mu.Unlock()
	p.nudge() // its timers are the goroutine's
	if err := p.until(turn, func() bool { return c.connected || c.err != nil }); err != nil {
		return nil, err
	}
	if c.err != nil {
		return nil, c.err
	}
	return c, nil
}

// meet is called with the lock held.
func (p *peers) meet(id protocol.ID) *conn {
	c := &conn{p: p, id: id, local: p.table.Local(id), remote: p.table.Remote(id), first: p.table.End(id)}
	p.conns[id] = c
	return c
}

func (p *peers) ListenStream() (ringtest.StreamListener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, err := p.table.Bind(protocol.Endpoint{Addr: peerAddr.As4()})
	if err != nil {
		return nil, err
	}
	l := &listener{p: p, at: e, number: p.table.Listen(e, 16)}
	p.listeners[l.number] = l
	return l, nil
}

type listener struct {
	p       *peers
	at      protocol.Endpoint
	number  int32
	waiting []*conn
}

func (l *listener) Addr() netip.AddrPort { return l.at.AddrPort() }

func (l *listener) Accept(turn func()) (ringtest.StreamPeer, error) {
	if err := l.p.until(turn, func() bool { return len(l.waiting) > 0 }); err != nil {
		return nil, err
	}
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	c := l.waiting[0]
	l.waiting = l.waiting[1:]
	l.p.table.Take(c.id)
	return c, nil
}

func (l *listener) Close() error {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.p.table.Unlisten(l.number)
	l.p.table.Unbind(l.at)
	return nil
}

// hostOf is the peers as the protocol sees them. The lock is held.
type hostOf struct{ *peers }

func (h hostOf) Piece(_ protocol.ID, _ protocol.Seq, n int) int { return n }

func (h hostOf) Transmit(id protocol.ID, s *protocol.Segment) protocol.Outcome {
	var payload []byte
	if s.Length > 0 {
		c := h.conns[id]
		off := s.Seq.Minus(c.first)
		payload = slices.Clone(c.sent[off : off+int(s.Length)])
	}
	if !h.link.Transmit(clock.Now(), s, payload, 0) {
		return protocol.Full
	}
	return protocol.Sent
}

func (h hostOf) Receive(id protocol.ID, off, n int) bool {
	c := h.conns[id]
	c.got = append(c.got, h.input[off:off+n]...)
	return true
}

func (h hostOf) Event(id protocol.ID, e protocol.Event) {
	c := h.conns[id]
	if e.Kind == protocol.EventAccepted {
		c = h.meet(id)
		c.connected = true
		if l := h.listeners[e.Listener]; l != nil {
			l.waiting = append(l.waiting, c)
		}
	}
	if c == nil {
		return
	}
	switch e.Kind {
	case protocol.EventConnected:
		c.connected = true
	case protocol.EventAcknowledged:
		c.sent = c.sent[e.Bytes:]
		c.first = c.first.Add(e.Bytes)
	case protocol.EventEnded:
		c.ended = true
	case protocol.EventRefused:
		c.err = syscall.ECONNREFUSED
	case protocol.EventReset:
		c.err = syscall.ECONNRESET
	case protocol.EventTimedOut:
		c.err = syscall.ETIMEDOUT
	case protocol.EventGone:
		c.gone = true
		delete(h.conns, id)
	}
}

// conn is a connection of the peers.
type conn struct {
	p             *peers
	id            protocol.ID
	local, remote protocol.Endpoint

	connected, ended, gone, deaf, closed bool
	err                                  error
	first                                protocol.Seq
	sent, got                            []byte
	readBy, writeBy                      time.Time
}

const sendLimit = 4 << 20

// wait waits for a change, until the deadline.
func (c *conn) wait(by time.Time) error {
	if by.IsZero() {
		c.p.changed.Wait()
		return nil
	}
	left := time.Until(by)
	if left <= 0 {
		return os.ErrDeadlineExceeded
	}
	t := time.AfterFunc(left, func() {
		c.p.mu.Lock()
		c.p.changed.Broadcast()
		c.p.mu.Unlock()
	})
	c.p.changed.Wait()
	t.Stop()
	return nil
}

func (c *conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "memory", Addr: c.RemoteAddr(), Err: err}
}

func (c *conn) Read(b []byte) (int, error) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, c.opError("read", net.ErrClosed)
		case len(c.got) > 0:
			n := copy(b, c.got)
			c.got = c.got[n:]
			if !c.gone {
				c.p.table.Credit(clock.Now(), c.id, n)
				c.p.table.Flush(clock.Now())
				c.p.nudge()
			}
			return n, nil
		case c.err != nil:
			return 0, c.opError("read", c.err)
		case c.ended:
			return 0, io.EOF
		}
		if err := c.wait(c.readBy); err != nil {
			return 0, c.opError("read", err)
		}
	}
}

func (c *conn) Write(b []byte) (n int, err error) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	for {
		switch {
		case c.closed:
			return n, c.opError("write", net.ErrClosed)
		case c.err != nil:
			return n, c.opError("write", c.err)
		case n == len(b):
			return n, nil
		case !c.p.table.Sends(c.id):
			return n, c.opError("write", syscall.EPIPE)
		}
		if room := sendLimit - len(c.sent); room > 0 {
			k := min(room, len(b)-n)
			c.sent = append(c.sent, b[n:n+k]...)
			c.p.table.Queue(clock.Now(), c.id, k)
			n += k
			c.p.nudge()
			continue
		}
		if err := c.wait(c.writeBy); err != nil {
			return n, c.opError("write", err)
		}
	}
}

// end calls f with the lock held, if the connection is still there.
func (c *conn) end(last bool, f func(now clock.Time)) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = last
	if !c.gone {
		f(clock.Now())
	}
	c.p.changed.Broadcast()
	c.p.nudge()
	return nil
}

func (c *conn) Close() error {
	return c.end(true, func(now clock.Time) { c.p.table.Close(now, c.id, len(c.got) > 0) })
}

func (c *conn) CloseWrite() error {
	return c.end(false, func(now clock.Time) { c.p.table.CloseWrite(now, c.id) })
}

func (c *conn) Reset() error {
	return c.end(true, func(now clock.Time) { c.p.table.Abort(now, c.id) })
}

func (c *conn) Deafen(*testing.T) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.deaf, c.p.deafened = true, true
}

func (c *conn) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(c.local.AddrPort()) }
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote.AddrPort()) }

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.readBy = t
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.writeBy = t
	return nil
}
