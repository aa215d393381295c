package torture

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"net/netip"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/stream"
	"github.com/socketxtreme/socketxtreme/tcp"
	"github.com/socketxtreme/socketxtreme/udp"
)

// ourEnd is the near side with our TCP: a ring over v0.
type ourEnd struct {
	x       *trial
	m       *meeting
	ring    *ring.Ring
	set     *ring.Set
	streams map[*ring.Socket]*ourStream // by connection
	waiting map[*ring.Socket]*ourStream // by listener
	all     []*ourStream
	open    int // streams that have not ended
}

// ourStream is a flow at our end.
type ourStream struct {
	number    int
	s         *ring.Socket
	out       []byte
	sent, got int
	sum       hash.Hash
	connected bool
	ended     bool // the peer's FIN
	shut      bool // ours
	done      bool
	unread    []buffers.Packet // of a slow reader
	readAt    time.Time        // when a slow reader reads
}

// runOurs is the near side with our TCP. It returns when all its streams have ended and the far side has, with what was wrong.
func (x *trial) runOurs(n *network, m *meeting) (err error) {
	return within(n.sides[near], func() (err error) {
		layout := buffers.Layout{SmallSize: 2048, SmallCount: 4096, LargeSize: 65536, LargeCount: 32, Headroom: 256}
		region, err := sys.NewRegion(sys.RegionConfig{Bytes: layout.Bytes()})
		if err != nil {
			m.ready <- struct{}{}
			return err
		}
		defer func() { err = errors.Join(err, region.Close()) }()
		pool, err := buffers.New(region.Bytes(), layout)
		if err != nil {
			m.ready <- struct{}{}
			return err
		}
		e := &ourEnd{x: x, m: m, streams: map[*ring.Socket]*ourStream{}, waiting: map[*ring.Socket]*ourStream{}}
		closeAll, err := e.openRing(pool)
		if err == nil {
			err = e.listen()
		}
		m.ready <- struct{}{}
		if err == nil {
			err = e.serve()
		}
		err = errors.Join(err, closeAll())
		pool.Reclaim()
		if l := pool.Ledger(); err == nil && l.Free != l.Total {
			err = fmt.Errorf("buffers are missing: %v", l)
		}
		return err
	})
}

// openRing makes a ring over v0. The function closes all that was opened.
func (e *ourEnd) openRing(pool *buffers.DriverPool) (closeAll func() error, err error) {
	var closers []func() error
	closeAll = func() (err error) {
		for i := len(closers) - 1; i >= 0; i-- {
			err = errors.Join(err, closers[i]())
		}
		return err
	}
	mirror, err := host.Open(host.Config{})
	if err != nil {
		return closeAll, err
	}
	closers = append(closers, mirror.Close)
	exchange, err := offload.NewExchange(offload.ExchangeConfig{Host: mirror, Open: nic.XDP(xdp.Config{TCP: true})})
	if err != nil {
		return closeAll, err
	}
	closers = append(closers, exchange.Close)
	driver := offload.New(offload.Config{Exchange: exchange, Interfaces: []nic.Interface{{Name: "v0", Checksum: udp.Strict}},
		TCP: &stream.Options{Settings: &e.x.Ours, Table: tcp.Config{TimeWait: 100 * time.Millisecond}}})
	e.set, err = ring.NewSet(ring.SetConfig{Pool: pool, Kind: "offload", OneRing: offload.OneRing, Transport: offload.NewKernelPorts(mirror), Driver: driver})
	if err != nil {
		return closeAll, err
	}
	closers = append(closers, e.set.Close)
	e.ring, err = e.set.NewRing()
	return closeAll, err
}

func (e *ourEnd) newSocket() (*ring.Socket, error) {
	return e.set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
}

// listen opens the listeners.
func (e *ourEnd) listen() error {
	for i, f := range e.x.Flows {
		st := &ourStream{number: i, out: e.x.text(near, i), sum: sha256.New()}
		e.all = append(e.all, st)
		e.open++
		if f.From == near {
			continue
		}
		l, err := e.newSocket()
		if err != nil {
			return err
		}
		if err := l.Bind(netip.AddrPortFrom(addresses[near], e.m.port(i))); err != nil {
			return err
		}
		if err := l.Listen(16); err != nil {
			return err
		}
		e.waiting[l] = st
	}
	return nil
}

// connect opens the connections that this side opens.
func (e *ourEnd) connect() error {
	for i, f := range e.x.Flows {
		if f.From != near {
			continue
		}
		s, err := e.newSocket()
		if err != nil {
			return err
		}
		e.all[i].s, e.streams[s] = s, e.all[i]
		if err := s.Connect(netip.AddrPortFrom(addresses[far], e.m.port(i))); err != nil {
			return err
		}
	}
	return nil
}

// serve polls the ring until the trial is over.
func (e *ourEnd) serve() error {
	dst := make([]ring.Completion, 64)
	started := false
	for {
		select {
		case <-e.m.stop:
			return e.result()
		default:
		}
		if !started {
			select {
			case <-e.m.start:
				started = true
				if err := e.connect(); err != nil {
					return err
				}
			default:
			}
		}
		n, err := e.ring.Poll(dst)
		if err != nil {
			return err
		}
		for i := range dst[:n] {
			if err := e.completion(&dst[i]); err != nil {
				return err
			}
		}
		if err := e.readSlowly(); err != nil {
			return err
		}
		if n == 0 {
			if err := e.ring.Wait(slowly / 2); err != nil {
				return err
			}
		}
		if e.open == 0 {
			e.open = -1
			e.m.ended <- e.result()
		}
	}
}

// result is what is wrong with the streams.
func (e *ourEnd) result() error {
	for _, st := range e.all {
		for _, p := range st.unread {
			_ = p.Release()
		}
		st.unread = nil
		if !st.done {
			return fmt.Errorf("flow %d at our end has not ended: %d of %d bytes sent, %d of %d received, connected %v, FIN received %v: %v", st.number, st.sent, len(st.out),
				st.got, e.x.Flows[st.number].Bytes[far], st.connected, st.ended, e.ring.Stats().Driver)
		}
	}
	return nil
}

// completion does what a completion asks for.
func (e *ourEnd) completion(c *ring.Completion) error {
	st := e.streams[c.Socket]
	if c.Events.Has(ring.EventNewConnection) {
		st = e.waiting[c.Listener]
		if st == nil || st.s != nil {
			return errors.New("a connection that nobody has opened")
		}
		st.s, st.connected, e.streams[c.Socket] = c.Socket, true, st
	}
	if st == nil {
		_ = c.Packet.Release()
		return nil
	}
	if c.Events.Has(ring.EventPacket) {
		st.unread = append(st.unread, c.Packet)
		if !e.x.Flows[st.number].Slow[near] {
			if err := st.read(); err != nil {
				return err
			}
		}
	}
	switch {
	case c.Events.Has(ring.EventClosed):
		delete(e.streams, c.Socket)
		return nil
	case c.Err != nil:
		return fmt.Errorf("flow %d at our end: %w", st.number, c.Err)
	}
	st.connected = st.connected || c.Events.Has(ring.EventOut)
	st.ended = st.ended || c.Events.Has(ring.EventRdHup)
	return e.advance(st)
}

// read takes what was received.
func (st *ourStream) read() error {
	for _, p := range st.unread {
		for b := range p.Segments() {
			_, _ = st.sum.Write(b)
			st.got += len(b)
		}
		if err := p.Release(); err != nil {
			return err
		}
	}
	st.unread = st.unread[:0]
	return nil
}

// readSlowly has the slow readers read whose time has come.
func (e *ourEnd) readSlowly() error {
	for _, st := range e.all {
		if len(st.unread) == 0 || time.Now().Before(st.readAt) {
			continue
		}
		st.readAt = time.Now().Add(slowly)
		if err := st.read(); err != nil {
			return err
		}
		if err := e.advance(st); err != nil {
			return err
		}
	}
	return nil
}

// advance sends what there is room for, FIN behind it, and closes when both directions have ended.
func (e *ourEnd) advance(st *ourStream) error {
	if !st.connected || st.done {
		return nil
	}
	for st.sent < len(st.out) {
		n, err := st.s.Send(st.out[st.sent:min(len(st.out), st.sent+16<<10)])
		st.sent += n
		if errors.Is(err, ring.ErrWouldBlock) {
			break
		}
		if err != nil {
			return fmt.Errorf("flow %d at our end: %w", st.number, err)
		}
	}
	if st.sent == len(st.out) && !st.shut {
		st.shut = true
		if err := st.s.CloseWrite(); err != nil {
			return err
		}
	}
	if !st.shut || !st.ended || len(st.unread) > 0 {
		return nil
	}
	st.done = true
	e.open--
	if err := e.x.check(near, st.number, st.got, [32]byte(st.sum.Sum(nil))); err != nil {
		return fmt.Errorf("flow %d at our end: %w", st.number, err)
	}
	return st.s.Close()
}
