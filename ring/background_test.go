package ring_test

import (
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
)

// stub is a transport and the driver above it; a test says what happens by the facts that the next Reap reports. It writes down the calls.
type stub struct {
	calls      []string
	facts      []func(k *ring.Sink)
	credit     int
	next       ring.Conn
	refuse     error // of Listen
	background bool
	full       bool // Send takes nothing
	sent       []string
	taken      []ring.Transmission
	sockets    map[*ring.Socket]bool
}

var (
	_        ring.ProtocolDriver = stubDriver{}
	_        ring.Creditor       = (*stub)(nil)
	stubAddr                     = netip.MustParseAddrPort("192.0.2.1:7")
)

func (d *stub) call(what string) { d.calls = append(d.calls, what) }

func (d *stub) Open(ring.SocketKind, ring.Family, *ring.Config) (ring.Conn, error) {
	d.next++
	return d.next, nil
}
func (d *stub) Bind(*ring.Socket, netip.AddrPort) (netip.AddrPort, error) { return stubAddr, nil }
func (d *stub) Listen(s *ring.Socket, _ int) (netip.AddrPort, error) {
	d.call("listen")
	return stubAddr, d.refuse
}
func (d *stub) Connect(*ring.Socket, netip.AddrPort) (netip.AddrPort, error) {
	d.call("connect")
	return netip.AddrPort{}, nil
}
func (d *stub) Accept(_, l *ring.Socket) netip.AddrPort                 { return l.LocalAddr() }
func (d *stub) Refuse(ring.Conn)                                        { d.call("refuse") }
func (d *stub) SetOption(*ring.Socket, ring.Option, int) error          { return nil }
func (d *stub) SetDevice(*ring.Socket, string, int) error               { return nil }
func (d *stub) SetMembership(*ring.Socket, ring.Membership, bool) error { return syscall.EINVAL }
func (d *stub) Interface(string) (int, error)                           { return 1, nil }
func (d *stub) InterfaceOf(netip.Addr) int                              { return 1 }
func (d *stub) RoutedInterface(netip.Addr) int                          { return 0 }
func (d *stub) Drops(*ring.Socket) (uint32, error)                      { return 0, nil }
func (d *stub) SendVector(*ring.Socket, [][]byte, netip.AddrPort) (int, syscall.Errno) {
	return 0, syscall.EAGAIN
}
func (d *stub) Send(_ *ring.Socket, b []byte, _ netip.AddrPort) (int, syscall.Errno) {
	if d.full {
		return 0, syscall.EAGAIN
	}
	d.sent = append(d.sent, string(b))
	return len(b), 0
}
func (d *stub) CloseWrite(*ring.Socket) error { d.call("close write"); return nil }
func (d *stub) Close(_ *ring.Socket, reset bool) error {
	if reset {
		d.call("reset")
	} else {
		d.call("close")
	}
	return nil
}
func (d *stub) Credit(_ *ring.Socket, n int) { d.credit += n }

func (d *stub) Kind() string              { return "stub" }
func (d *stub) Caps() ring.Caps           { return ring.CapOutPerAck | ring.CapPathChanges }
func (d *stub) Why(ring.Caps) ring.Reason { return ring.Reason{Code: "stub.none", Text: "a stub"} }
func (d *stub) FD() int                   { return -1 }
func (d *stub) Reap(k *ring.Sink) error {
	for len(d.facts) > 0 {
		f := d.facts[0]
		d.facts = d.facts[1:]
		f(k)
	}
	return nil
}
func (d *stub) Flush() error                             { d.call("flush"); return nil }
func (d *stub) ReturnSpare()                             {}
func (d *stub) Arm(clock.Time, clock.Time) (bool, error) { return true, nil }
func (d *stub) Disarm()                                  {}
func (d *stub) Wait(time.Duration) error                 { return nil }
func (d *stub) Wake()                                    {}
func (d *stub) Attach(s *ring.Socket) error              { d.call("attach"); d.sockets[s] = true; return nil }
func (d *stub) SetReceiving(*ring.Socket, bool) error    { d.call("receive"); return nil }
func (d *stub) NotifyWritable(*ring.Socket) error        { d.call("notify"); return nil }
func (d *stub) Transmit(s *ring.Socket) error {
	for {
		t, ok := ring.TakeTransmission(s)
		if !ok {
			return nil
		}
		d.taken = append(d.taken, t)
	}
}
func (d *stub) Detach(s *ring.Socket) bool { d.call("detach"); delete(d.sockets, s); return true }
func (d *stub) HasBackground() bool        { return d.background }

// stubDriver is the stub as a Driver, whose Bind and Close have other arguments than the transport's.
type stubDriver struct{ *stub }

func (d stubDriver) Bind() error  { return nil }
func (d stubDriver) Close() error { return nil }

func newStub(t *testing.T) (*stub, *ring.Set, *buffers.DriverPool) {
	l := buffers.Layout{SmallSize: 2048, SmallCount: 16, Headroom: 192}
	pool, err := buffers.New(make([]byte, l.Bytes()), l)
	require.NoError(t, err)
	d := &stub{sockets: map[*ring.Socket]bool{}}
	set, err := ring.NewSet(ring.SetConfig{Pool: pool, Transport: d, Kind: "stub",
		Driver: func(ring.DriverConfig) (ring.Driver, error) { return stubDriver{d}, nil }})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, set.Close())
		pool.Reclaim()
		ledger := pool.Ledger()
		require.Equal(t, ledger.Total, ledger.Free, ledger)
		require.NoError(t, pool.Verify())
	})
	return d, set, pool
}

// connected is a stream of the stub whose connection stands.
func connected(t *testing.T, d *stub, set *ring.Set) *ring.Socket {
	s, err := set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Connect(netip.MustParseAddrPort("192.0.2.9:9")))
	c := poll(t, d, s, func(k *ring.Sink) { k.Connected(s, stubAddr) })
	require.Equal(t, ring.EventOut, c[0].Events)
	require.Equal(t, stubAddr, s.LocalAddr())
	return s
}

// poll polls once, with these facts.
func poll(t *testing.T, d *stub, s *ring.Socket, facts ...func(k *ring.Sink)) []ring.Completion {
	d.facts = append(d.facts, facts...)
	dst := make([]ring.Completion, 16)
	n, err := s.Ring().Poll(dst)
	require.NoError(t, err)
	return dst[:n]
}

// A listener is on its ring before its transport answers; one that is refused is a socket without a ring again.
func TestListenComesAfterAttach(t *testing.T) {
	d, set, _ := newStub(t)
	s, err := set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	d.refuse = syscall.EADDRINUSE
	require.ErrorIs(t, s.Listen(1), syscall.EADDRINUSE)
	require.Nil(t, s.Ring())
	require.Equal(t, ring.KindStream, s.Kind())
	require.Equal(t, []string{"attach", "listen", "detach"}, d.calls)
	d.calls, d.refuse = nil, nil
	require.NoError(t, s.Listen(1))
	require.Equal(t, []string{"attach", "listen", "receive"}, d.calls)
	require.Equal(t, stubAddr, s.LocalAddr())
}

// A child is a connection of its transport; one that comes for a listener that was closed is refused.
func TestAcceptedConnection(t *testing.T) {
	d, set, _ := newStub(t)
	l, err := set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	require.NoError(t, err)
	require.NoError(t, l.Listen(1))
	peer := netip.MustParseAddrPort("192.0.2.3:4")
	c := poll(t, d, l, func(k *ring.Sink) { k.Accepted(l, 77, peer) })
	require.Equal(t, ring.EventNewConnection, c[0].Events)
	require.Equal(t, ring.Conn(77), ring.HandleOf(c[0].Socket).Conn)
	require.Equal(t, 77, c[0].Socket.ID())
	require.Equal(t, peer, c[0].Source)
	d.calls = nil
	poll(t, d, l, func(k *ring.Sink) { _ = l.Close(); k.Accepted(l, 78, peer) })
	require.Contains(t, d.calls, "refuse")
}

// EventOut follows an acknowledgement where it was asked for.
func TestAcknowledged(t *testing.T) {
	d, set, _ := newStub(t)
	s := connected(t, d, set)
	ack := func(k *ring.Sink) { k.Acknowledged(s) }
	require.Empty(t, poll(t, d, s, ack))
	require.NoError(t, s.SetOutPerAck(true))
	c := poll(t, d, s, ack)
	require.Equal(t, ring.EventOut, c[0].Events)
	require.Empty(t, poll(t, d, s))
}

// A transport is told once how much the application has released, on whichever goroutine: in Poll, in Flush and before a sleep.
func TestCredit(t *testing.T) {
	d, set, pool := newStub(t)
	s := connected(t, d, set)
	receive := func(n int) buffers.Packet {
		i, ok := pool.Take(buffers.Small)
		require.True(t, ok)
		c := poll(t, d, s, func(k *ring.Sink) { k.Data(s, pool.Fill(i, 192, n, ring.AccountOf(s))) })
		require.Equal(t, ring.EventPacket, c[0].Events)
		return c[0].Packet
	}
	p := receive(100)
	require.Zero(t, d.credit)
	require.NoError(t, p.Release())
	poll(t, d, s)
	require.Equal(t, 100, d.credit)
	poll(t, d, s)
	require.Equal(t, 100, d.credit)

	p, q := receive(1), receive(2)
	l, err := p.Lend()
	require.NoError(t, err)
	require.NoError(t, q.Release())
	require.NoError(t, s.Ring().Flush())
	require.Equal(t, 102, d.credit)
	done := make(chan error)
	go func() { done <- l.Release() }()
	require.NoError(t, <-done)
	poll(t, d, s)
	require.Equal(t, 103, d.credit)
	p = receive(5)
	require.NoError(t, p.Release())
	_, err = s.Ring().Arm()
	require.NoError(t, err)
	require.Equal(t, 108, d.credit)

	p = receive(7)
	require.NoError(t, s.Close())
	require.NoError(t, p.Release())
	poll(t, d, s)
	require.Equal(t, 108, d.credit, "the account is closed")
}

// What was sent and is not acknowledged outlives the close of its socket: CLOSED comes when the buffers are back.
func TestClosedComesAfterTheLastSent(t *testing.T) {
	d, set, pool := newStub(t)
	s := connected(t, d, set)
	p, err := pool.Alloc(10)
	require.NoError(t, err)
	require.NoError(t, s.SendPacket(p, netip.AddrPort{}, 5))
	pool.Unacknowledge(d.taken[0].Packet)
	require.Equal(t, 1, pool.Ledger().Unacknowledged)
	require.NoError(t, s.Abort())
	require.Contains(t, d.calls, "reset")
	require.Empty(t, poll(t, d, s))
	c := poll(t, d, s, func(k *ring.Sink) { k.Sent(s, d.taken[0], 0) })
	require.Len(t, c, 2)
	require.Equal(t, ring.EventSent, c[0].Events)
	require.Equal(t, ring.EventClosed, c[1].Events)
}

// A live socket goes to another transport: what was queued and asked for goes on there, the application is notified that the path is another.
func TestMove(t *testing.T) {
	d, set, pool := newStub(t)
	s := connected(t, d, set)
	require.NoError(t, s.SetUserData(4711))
	require.NoError(t, s.SetReadDeadline(time.Now().Add(time.Hour)))
	d.full = true
	_, err := s.Send([]byte("x"))
	require.ErrorIs(t, err, ring.ErrWouldBlock)
	old := []ring.Transmission{}
	p, err := pool.Alloc(3)
	require.NoError(t, err)
	require.NoError(t, s.SendPacket(p, netip.AddrPort{}, 1))
	old = append(old, d.taken...)

	other := &stub{sockets: map[*ring.Socket]bool{}}
	d.calls = nil
	c := poll(t, d, s, func(k *ring.Sink) { k.Move(s, other, 99) })
	require.Equal(t, ring.EventPath, c[0].Events)
	require.Equal(t, uint64(4711), c[0].UserData)
	require.Equal(t, ring.Conn(99), ring.HandleOf(s).Conn)
	require.Equal(t, []string{"notify"}, d.calls)
	c = poll(t, d, s, func(k *ring.Sink) { k.Sent(s, old[0], 0) })
	require.Equal(t, ring.EventSent|ring.EventOut, c[0].Events, "what was under way at the old one ends as ever")
	n, err := s.Send([]byte("y"))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, []string{"y"}, other.sent)

	i, ok := pool.Take(buffers.Small)
	require.True(t, ok)
	c = poll(t, d, s, func(k *ring.Sink) { k.Data(s, pool.Fill(i, 192, 4, ring.AccountOf(s))) })
	require.NoError(t, c[0].Packet.Release())
	poll(t, d, s)
	require.Equal(t, []int{0, 4}, []int{d.credit, other.credit}, "the window is the new one's")
	require.NoError(t, s.Close())
	require.Equal(t, []string{"close"}, other.calls)
}

// A driver with a protocol of its own is flushed before a sleep, and polled while it has work without a socket.
func TestBackground(t *testing.T) {
	d, set, _ := newStub(t)
	s := connected(t, d, set)
	r := s.Ring()
	d.calls = nil
	_, err := r.Arm()
	require.NoError(t, err)
	require.Equal(t, []string{"flush"}, d.calls)
	require.NoError(t, s.Close())
	poll(t, d, s)
	d.background = true
	require.False(t, ring.IsIdle(r))
	d.background = false
	dst := make([]ring.Completion, 1)
	_, err = r.Poll(dst)
	require.NoError(t, err)
	require.True(t, ring.IsIdle(r))
}

// The sets of one owner share a pool: whichever of them is polled, a window opens where the packet was received.
func TestCreditOfSeveralSets(t *testing.T) {
	d, set, pool := newStub(t)
	other := &stub{sockets: map[*ring.Socket]bool{}}
	second, err := ring.NewSet(ring.SetConfig{Pool: pool, Transport: other, Kind: "stub",
		Driver: func(ring.DriverConfig) (ring.Driver, error) { return stubDriver{other}, nil }})
	require.NoError(t, err)
	defer func() { require.NoError(t, second.Close()) }()
	s, beside := connected(t, d, set), connected(t, other, second)
	i, ok := pool.Take(buffers.Small)
	require.True(t, ok)
	c := poll(t, d, s, func(k *ring.Sink) { k.Data(s, pool.Fill(i, 192, 100, ring.AccountOf(s))) })
	require.NoError(t, c[0].Packet.Release())
	poll(t, other, beside)
	poll(t, d, s)
	require.Equal(t, 100, d.credit)
	require.Zero(t, other.credit)
}
