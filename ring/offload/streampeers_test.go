package offload_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	streams "github.com/socketxtreme/socketxtreme/ring/transport/stream"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// streamPeers is the other end of a memory link with TCP: a ring of its own, polled by a goroutine, whose connections are blocking ones as
// package net has them.
type streamPeers struct {
	t     *testing.T
	set   *ring.Set
	ring  *ring.Ring
	deaf  *deafPorts
	stop  chan struct{}
	ended sync.WaitGroup

	mu        sync.Mutex
	changed   *sync.Cond
	conns     map[*ring.Socket]*streamPeer
	listeners map[*ring.Socket]*streamListener
}

var (
	_ ringtest.StreamPeers = (*streamPeers)(nil)
	_ net.Conn             = (*streamPeer)(nil)
)

// blackHole is an address on the wire that no host has.
var blackHole = netip.MustParseAddr("10.9.0.99")

// quickTCP is what TCP of the tests has in the place of minutes. A peer has a large send buffer and fills the window at once, as the suite
// expects of one whose acknowledgements do not wait for the ring.
func quickTCP(peer bool) *streams.Options {
	s := tcp.DefaultSettings()
	s.RTOInitial, s.RTOMin, s.SynRetries = 50*time.Millisecond, 20*time.Millisecond, 3
	if peer {
		s.SendBuffer, s.Congestion = 4<<20, tcp.NoCongestionControl
	}
	return &streams.Options{Settings: &s, Table: tcp.Config{TimeWait: 50 * time.Millisecond}}
}

// streamSide configures a set with TCP on one end of a memory link.
func streamSide(t testing.TB, end int, l link.Staged, mtu int, o *streams.Options, c *ring.SetConfig) *offload.Exchange {
	f := facts(end, mtu)
	f.Neighbours = append(f.Neighbours, host.Neighbour{Target: host.Target{Interface: linkIndex, Addr: blackHole}, MAC: wire.MAC(macs[1-end]),
		State: 0x80})
	h, err := offload.NewMemoryHost(f, rand.Uint64)
	require.NoError(t, err)
	c.Kind, c.Transport, c.OneRing = "offload", h, offload.OneRing
	config := overLink(t, h, l)
	config.TCP = o
	c.Driver = offload.New(config)
	return config.Exchange
}

func newStreamPeers(t *testing.T, l link.Staged, deaf *deafPorts, pool *buffers.DriverPool, mtu int) *streamPeers {
	p := &streamPeers{t: t, deaf: deaf, stop: make(chan struct{}), conns: map[*ring.Socket]*streamPeer{}, listeners: map[*ring.Socket]*streamListener{}}
	p.changed = sync.NewCond(&p.mu)
	c := ring.SetConfig{Transport: kernel.New(), Pool: pool}
	streamSide(t, 1, l, mtu, quickTCP(true), &c)
	var err error
	p.set, err = ring.NewSet(c)
	require.NoError(t, err)
	p.ring, err = p.set.NewRing()
	require.NoError(t, err)
	p.ended.Add(1)
	go p.run()
	t.Cleanup(func() {
		close(p.stop)
		p.ring.Wake()
		p.ended.Wait()
	})
	return p
}

func (p *streamPeers) run() {
	defer p.ended.Done()
	dst := make([]ring.Completion, 64)
	for {
		select {
		case <-p.stop:
			for _, c := range p.conns {
				c.drop()
			}
			if err := p.set.Close(); err != nil {
				p.t.Errorf("the other end: %v", err)
			}
			return
		default:
		}
		n, err := p.ring.Poll(dst)
		if err != nil {
			p.t.Errorf("the other end: %v", err)
		}
		if n > 0 {
			p.mu.Lock()
			for i := range dst[:n] {
				p.completion(&dst[i])
			}
			p.changed.Broadcast()
			p.mu.Unlock()
			continue
		}
		if err := p.ring.Wait(20 * time.Millisecond); err != nil {
			p.t.Errorf("the other end: %v", err)
		}
	}
}

// completion notes what happened. The lock is held.
func (p *streamPeers) completion(c *ring.Completion) {
	x := p.conns[c.Socket]
	if c.Events.Has(ring.EventNewConnection) {
		x = p.add(c.Socket)
		x.connected = true
		if l := p.listeners[c.Listener]; l != nil {
			l.waiting = append(l.waiting, x)
		}
	}
	if x == nil {
		_ = c.Packet.Release()
		return
	}
	if c.Events.Has(ring.EventPacket) {
		x.got = append(x.got, c.Packet)
	}
	switch {
	case c.Events.Has(ring.EventClosed):
		x.gone = true
		delete(p.conns, c.Socket)
	case c.Err != nil:
		x.err = c.Err
	case c.Events.Has(ring.EventRdHup):
		x.finished = true
	case c.Events.Has(ring.EventOut):
		x.connected = true
	}
}

func (p *streamPeers) add(s *ring.Socket) *streamPeer {
	require.NoError(p.t, s.SetNoDelay(true)) // as package net has it
	x := &streamPeer{p: p, s: s, local: s.LocalAddr(), remote: s.RemoteAddr()}
	p.conns[s] = x
	return x
}

// do runs f on the ring's goroutine, with the lock held.
func (p *streamPeers) do(f func()) {
	done := make(chan struct{})
	if p.ring.Post(func() { p.mu.Lock(); f(); p.mu.Unlock(); close(done) }) == nil {
		<-done
	}
}

// until polls the other ring until something holds.
func (p *streamPeers) until(turn func(), holds func() bool) error {
	for end := time.Now().Add(patience); ; {
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

func (p *streamPeers) Local() netip.Addr         { return subnets[0][0].Addr() }
func (p *streamPeers) Other() netip.Addr         { return subnets[0][1].Addr() }
func (p *streamPeers) Device() string            { return "mem0" }
func (p *streamPeers) Nobody() netip.AddrPort    { return netip.AddrPortFrom(subnets[1][0].Addr(), 9) }
func (p *streamPeers) BlackHole() netip.AddrPort { return netip.AddrPortFrom(blackHole, 80) }

func (p *streamPeers) DialStream(to netip.AddrPort, turn func()) (c ringtest.StreamPeer, err error) {
	var x *streamPeer
	p.do(func() {
		var s *ring.Socket
		if s, err = p.set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{}); err == nil {
			err = s.Connect(to)
		}
		if err == nil {
			x = p.add(s)
		}
	})
	if err != nil {
		return nil, err
	}
	if err := p.until(turn, func() bool { return x.connected || x.err != nil }); err != nil {
		return nil, err
	}
	return x, x.err
}

func (p *streamPeers) ListenStream() (ringtest.StreamListener, error) {
	l := &streamListener{p: p}
	var err error
	p.do(func() {
		if l.s, err = p.set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{}); err != nil {
			return
		}
		if err = l.s.Bind(netip.AddrPortFrom(subnets[1][0].Addr(), 0)); err == nil {
			err = l.s.Listen(16)
		}
		p.listeners[l.s] = l
	})
	return l, err
}

type streamListener struct {
	p       *streamPeers
	s       *ring.Socket
	waiting []*streamPeer
}

func (l *streamListener) Addr() netip.AddrPort { return l.s.LocalAddr() }

func (l *streamListener) Accept(turn func()) (ringtest.StreamPeer, error) {
	if err := l.p.until(turn, func() bool { return len(l.waiting) > 0 }); err != nil {
		return nil, err
	}
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	c := l.waiting[0]
	l.waiting = l.waiting[1:]
	return c, nil
}

func (l *streamListener) Close() (err error) {
	l.p.do(func() { err = l.s.Close() })
	return err
}

// streamPeer is a connection of the other end. What was received and not read keeps its buffers, so that the window closes.
type streamPeer struct {
	p             *streamPeers
	s             *ring.Socket
	local, remote netip.AddrPort

	connected, finished, gone, closed bool
	err                               error
	got                               []buffers.Packet
	readBy, writeBy                   time.Time
}

func (c *streamPeer) drop() {
	for _, p := range c.got {
		_ = p.Release()
	}
	c.got = nil
}

// wait waits for a change, until the deadline. The lock is held.
func (c *streamPeer) wait(by time.Time) error {
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

func (c *streamPeer) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "memory", Addr: c.RemoteAddr(), Err: err}
}

func (c *streamPeer) Read(b []byte) (n int, err error) {
	for {
		c.p.do(func() { // packets belong to the ring's goroutine
			for n < len(b) && len(c.got) > 0 {
				p := c.got[0]
				k := copy(b[n:], p.Bytes())
				n += k
				_ = p.Pull(k)
				if p.Len() == 0 {
					_ = p.Release()
					c.got = c.got[1:]
				}
			}
		})
		c.p.mu.Lock()
		switch {
		case n > 0:
		case c.closed:
			err = net.ErrClosed
		case len(c.got) > 0:
			c.p.mu.Unlock()
			continue
		case c.err != nil:
			err = c.err
		case c.finished:
			c.p.mu.Unlock()
			return 0, io.EOF
		default:
			if err = c.wait(c.readBy); err == nil {
				c.p.mu.Unlock()
				continue
			}
		}
		c.p.mu.Unlock()
		if err != nil {
			err = c.opError("read", err)
		}
		return n, err
	}
}

func (c *streamPeer) Write(b []byte) (n int, err error) {
	for {
		c.p.do(func() {
			switch {
			case c.closed:
				err = net.ErrClosed
			case c.err != nil:
				err = c.err
			default:
				var k int
				if k, err = c.s.Send(b[n:]); err == nil || errors.Is(err, ring.ErrWouldBlock) {
					n, err = n+k, nil
				}
			}
		})
		switch {
		case err != nil:
			return n, c.opError("write", err)
		case n == len(b):
			return n, nil
		case !c.writeBy.IsZero() && time.Now().After(c.writeBy):
			return n, c.opError("write", os.ErrDeadlineExceeded)
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// end calls f, unless the connection was closed before.
func (c *streamPeer) end(last bool, f func() error) (err error) {
	c.p.do(func() {
		if c.closed {
			err = net.ErrClosed
			return
		}
		c.closed = last
		if !c.gone {
			err = f()
		}
		c.p.changed.Broadcast()
	})
	return err
}

func (c *streamPeer) Close() error {
	return c.end(true, func() error {
		if len(c.got) > 0 {
			c.drop()
			return c.s.Abort()
		}
		return c.s.Close()
	})
}

func (c *streamPeer) CloseWrite() error {
	return c.end(false, func() error { return c.s.CloseWrite() })
}

func (c *streamPeer) Reset() error {
	return c.end(true, func() error { c.drop(); return c.s.Abort() })
}

func (c *streamPeer) Deafen(*testing.T) { c.p.deaf.add(c.local.Port()) }

func (c *streamPeer) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(c.local) }
func (c *streamPeer) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

func (c *streamPeer) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *streamPeer) SetReadDeadline(t time.Time) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.readBy = t
	return nil
}

func (c *streamPeer) SetWriteDeadline(t time.Time) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.writeBy = t
	return nil
}

// deafPorts are the ports of the other end that receive and send nothing any more.
type deafPorts struct {
	mu    sync.Mutex
	ports map[uint16]bool
}

func (d *deafPorts) add(port uint16) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ports == nil {
		d.ports = map[uint16]bool{}
	}
	d.ports[port] = true
}

// deafLink drops received frames of those ports.
type deafLink struct {
	link.Staged
	deaf *deafPorts
}

func (l deafLink) Receive(dst []link.Frame) int {
	n := l.Staged.Receive(dst)
	l.deaf.mu.Lock()
	defer l.deaf.mu.Unlock()
	if len(l.deaf.ports) == 0 {
		return n
	}
	kept := 0
	for _, f := range dst[:n] {
		if l.deaf.drops(f.Packet.Bytes()) {
			_ = f.Packet.Release()
			continue
		}
		dst[kept] = f
		kept++
	}
	return kept
}

func (d *deafPorts) drops(frame []byte) bool {
	_, _, typ, rest, drop := wire.ParseEthernet(frame)
	if drop != wire.Accept || typ != wire.TypeIPv4 {
		return false
	}
	ip, _, b, drop := wire.ParseIPv4(rest)
	if drop != wire.Accept || ip.Protocol() != wire.ProtocolTCP || len(b) < 4 {
		return false
	}
	return d.ports[uint16(b[0])<<8|uint16(b[1])] || d.ports[uint16(b[2])<<8|uint16(b[3])]
}
