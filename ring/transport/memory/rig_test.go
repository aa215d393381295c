package memory_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory"
	"github.com/socketxtreme/socketxtreme/ring/transport/memory/protocol"
)

// rig is a ring on a host, and peers.
type rig struct {
	*require.Assertions
	t     testing.TB
	pool  *buffers.DriverPool
	host  *memory.Host
	set   *ring.Set
	peers *peers
	spare *memory.Host // where there is one
	kept  []ring.Completion
}

func quick() protocol.Config {
	return protocol.Config{ConnectTries: 3, TimeWait: 50 * time.Millisecond, RTOInitial: 30 * time.Millisecond, FinWait: 200 * time.Millisecond}
}

func newRig(t testing.TB, c protocol.Config, change ...func(*memory.Config)) *rig {
	t.Helper()
	return makeRig(t, c, false, change...)
}

func makeRig(t testing.TB, c protocol.Config, withSpare bool, change ...func(*memory.Config)) *rig {
	t.Helper()
	x := &rig{Assertions: require.New(t), t: t}
	layout := buffers.Layout{SmallSize: 2048, SmallCount: 256, LargeSize: 65536, LargeCount: 32, Headroom: 192}
	var err error
	x.pool, err = buffers.New(make([]byte, layout.Bytes()), layout)
	x.NoError(err)
	n := memory.NewNetwork(1)
	link, err := n.NewLink(memory.LinkConfig{Addrs: ringAddrs})
	x.NoError(err)
	config := memory.Config{Link: link, Protocol: c, Seed: 1}
	for _, f := range change {
		f(&config)
	}
	if withSpare {
		second, err := n.NewLink(memory.LinkConfig{Addrs: []netip.Addr{netip.MustParseAddr("10.7.0.9")}})
		x.NoError(err)
		x.spare, err = memory.New(memory.Config{Link: second, Protocol: c, Seed: 2})
		x.NoError(err)
		config.Spare = x.spare
	}
	x.host, err = memory.New(config)
	x.NoError(err)
	x.peers = newPeers(t, n, c)
	x.set, err = ring.NewSet(ring.SetConfig{Kind: "memory", Pool: x.pool, Transport: x.host, Driver: x.host.Driver, OneRing: memory.OneRing})
	x.NoError(err)
	t.Cleanup(func() {
		for i := range x.kept {
			_ = x.kept[i].Packet.Release()
		}
		x.NoError(x.set.Close())
		x.pool.Reclaim()
		l := x.pool.Ledger()
		x.Equal(l.Total, l.Free, "%v", l)
		x.NoError(x.pool.Verify())
		x.Zero(x.host.Protocol().Len())
	})
	return x
}

func (x *rig) ring() *ring.Ring { return x.set.Rings()[0] }

func (x *rig) poll() (n int) {
	x.t.Helper()
	var dst [32]ring.Completion
	for _, r := range x.set.Rings() {
		k, err := r.Poll(dst[:])
		x.NoError(err)
		x.kept = append(x.kept, dst[:k]...)
		n += k
	}
	return n
}

func (x *rig) pollFor(d time.Duration) {
	x.t.Helper()
	x.until(func() bool { return false }, d)
}

// until polls until something holds, or for the time.
func (x *rig) until(holds func() bool, d time.Duration) bool {
	x.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if holds() {
			return true
		}
		if x.poll() == 0 {
			time.Sleep(50 * time.Microsecond)
		}
	}
	return holds()
}

// event takes the socket's next completion, which must have these events.
func (x *rig) event(s *ring.Socket, e ring.Event, err error) ring.Completion {
	x.t.Helper()
	at := -1
	x.True(x.until(func() bool {
		for i := range x.kept {
			if x.kept[i].Socket == s {
				at = i
				return true
			}
		}
		return false
	}, 5*time.Second), "nothing comes")
	c := x.kept[at]
	x.kept = append(x.kept[:at:at], x.kept[at+1:]...)
	x.Equal(e.String(), c.Events.String(), "err %v", c.Err)
	x.ErrorIs(c.Err, err)
	return c
}

func (x *rig) socket() *ring.Socket {
	x.t.Helper()
	s, err := x.set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	x.NoError(err)
	return s
}

func (x *rig) listen(backlog int) *ring.Socket {
	x.t.Helper()
	l := x.socket()
	x.NoError(l.Bind(netip.AddrPortFrom(ringAddrs[0], 0)))
	x.NoError(l.Listen(backlog))
	return l
}

func (x *rig) dial(l *ring.Socket) *conn {
	x.t.Helper()
	c, err := x.peers.DialStream(l.LocalAddr(), func() { x.pollFor(100 * time.Microsecond) })
	x.NoError(err)
	x.NoError(c.SetDeadline(time.Now().Add(20 * time.Second)))
	return c.(*conn)
}

// pair is an accepted connection and its peer.
func (x *rig) pair() (*ring.Socket, *conn) {
	x.t.Helper()
	l := x.listen(16)
	c := x.dial(l)
	for {
		if i := x.accepted(l); i >= 0 {
			s := x.kept[i].Socket
			x.kept = append(x.kept[:i:i], x.kept[i+1:]...)
			return s, c
		}
		x.poll()
	}
}

func (x *rig) accepted(l *ring.Socket) int {
	for i := range x.kept {
		if x.kept[i].Events.Has(ring.EventNewConnection) && x.kept[i].Listener == l {
			return i
		}
	}
	return -1
}

// all reads what the peer gets until its end, polling meanwhile.
func (x *rig) all(c *conn) (data []byte, err error) {
	x.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, e := c.Read(b)
			data = append(data, b[:n]...)
			if e != nil {
				err = e
				return
			}
		}
	}()
	x.True(x.until(func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}, 20*time.Second), "no end comes")
	return data, err
}

func (x *rig) packet(n int) buffers.Packet {
	x.t.Helper()
	p, err := x.pool.Alloc(n)
	x.NoError(err)
	return p
}
