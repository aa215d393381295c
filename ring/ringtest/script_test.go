package ringtest

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring"
)

// scripted is a world over the fake driver whose facts the test writes itself.
type scripted struct {
	*world
	fake *Fake
}

func newScript(t *testing.T) *scripted {
	sc := &scripted{}
	sc.world = newWorld(t, Backend{Name: "fake", Driver: func(c ring.DriverConfig) (ring.Driver, error) {
		d, err := NewFake(c)
		sc.fake = d.(*Fake)
		return d, err
	}})
	return sc
}

// turn runs the facts in one Reap and returns what Poll delivers into a slice of the given length.
func (sc *scripted) turn(room int, facts ...func(*ring.Sink)) []ring.Completion {
	sc.t.Helper()
	sc.fake.Script = append(sc.fake.Script, facts...)
	dst := make([]ring.Completion, room)
	n, err := sc.set.Rings()[0].Poll(dst)
	sc.NoError(err)
	for i := range dst[:n] {
		_ = dst[i].Packet.Release() // most cases look at the events alone
	}
	return dst[:n]
}

func (sc *scripted) events(got []ring.Completion, want ...ring.Event) {
	sc.t.Helper()
	var have []string
	for i := range got {
		have = append(have, got[i].Events.String())
	}
	var names []string
	for _, e := range want {
		names = append(names, e.String())
	}
	sc.Equal(names, have)
}

func (sc *scripted) packet(s *ring.Socket) buffers.Packet {
	i, ok := sc.pool.Take(buffers.Small)
	sc.True(ok)
	return sc.pool.Fill(i, 192, 10, ring.AccountOf(s))
}

func (sc *scripted) data(s *ring.Socket) func(*ring.Sink) {
	return func(k *ring.Sink) { k.Data(s, sc.packet(s)) }
}

// both runs facts as one, so that the second comes when the slice may be full.
func both(facts ...func(*ring.Sink)) func(*ring.Sink) {
	return func(k *ring.Sink) {
		for _, f := range facts {
			f(k)
		}
	}
}

func TestLatchIsTheValueWhenRaised(t *testing.T) {
	sc := newScript(t)
	s, _ := sc.pair()
	s.SetUserData(7)
	got := sc.turn(1, both(sc.data(s), sc.data(s))) // the second finds the slice full and becomes pending
	sc.events(got, ring.EventPacket)
	sc.Equal(uint64(7), got[0].UserData)
	s.SetUserData(8)
	got = sc.turn(4, sc.data(s))
	sc.events(got, ring.EventPacket, ring.EventPacket)
	sc.Equal(uint64(7), got[0].UserData, "raised before it was changed")
	sc.Equal(uint64(8), got[1].UserData, "raised afterwards")
}

func TestFlagsMergeAndPacketsQueue(t *testing.T) {
	sc := newScript(t)
	s, _ := sc.pair()
	filler := sc.udp(loopback)
	full := func(k *ring.Sink) { k.Datagram(filler, sc.packet(filler), &ring.Meta{}) }
	got := sc.turn(1, both(full, sc.data(s), sc.data(s), func(k *ring.Sink) { k.EndOfStream(s) }))
	sc.events(got, ring.EventPacket)
	got = sc.turn(4)
	sc.events(got, ring.EventPacket, ring.EventPacket|ring.EventIn|ring.EventRdHup)
	sc.Empty(sc.turn(4))
}

func TestResetBeforeTheNewConnectionWasSeen(t *testing.T) {
	sc := newScript(t)
	l := sc.listen()
	filler := sc.udp(loopback)
	fd := sc.silentStream()
	var child *ring.Socket
	got := sc.turn(1, both(
		func(k *ring.Sink) { k.Datagram(filler, sc.packet(filler), &ring.Meta{}) },
		func(k *ring.Sink) {
			k.Accepted(l, ring.Conn(fd), netip.MustParseAddrPort("192.0.2.1:5"))
			child = k.Socket(sc.lastSlot(k), 1)
			k.Failed(child, unix.ECONNRESET)
		}))
	sc.events(got, ring.EventPacket)
	got = sc.turn(1)
	sc.events(got, ring.EventNewConnection|ring.EventIn|ring.EventErr|ring.EventHup|ring.EventRdHup)
	sc.Equal(child, got[0].Socket)
	sc.Equal("192.0.2.1:5", got[0].Source.String())
	sc.ErrorIs(got[0].Err, unix.ECONNRESET)
	// Nothing comes after the failure, whatever a driver says.
	sc.Empty(sc.turn(4, both(
		func(k *ring.Sink) { k.Failed(child, unix.ETIMEDOUT) },
		func(k *ring.Sink) { k.EndOfStream(child) },
		func(k *ring.Sink) { k.Writable(child) })))
	sc.NoError(child.Close())
	sc.events(sc.turn(4), ring.EventClosed)
}

func TestAConnectionAndItsEarlyDataAreOneCompletion(t *testing.T) {
	sc := newScript(t)
	l := sc.listen()
	filler := sc.udp(loopback)
	fd := sc.silentStream()
	var child *ring.Socket
	accept := func(k *ring.Sink) {
		k.Accepted(l, ring.Conn(fd), netip.MustParseAddrPort("192.0.2.1:5"))
		child = k.Socket(sc.lastSlot(k), 1)
		for range 3 {
			k.Data(child, sc.packet(child))
		}
		k.EndOfStream(child)
	}
	sc.turn(1, both(func(k *ring.Sink) { k.Datagram(filler, sc.packet(filler), &ring.Meta{}) }, accept))
	got := sc.turn(8)
	sc.events(got, ring.EventNewConnection|ring.EventPacket)
	sc.Equal(uint64(fd), got[0].UserData)
	child.SetUserData(99)
	got = sc.turn(8)
	sc.events(got, ring.EventPacket, ring.EventPacket|ring.EventIn|ring.EventRdHup)
	sc.Equal(uint64(99), got[0].UserData)
	sc.Equal(uint64(99), got[1].UserData)
}

// silentStream is a descriptor that has nothing to read.
func (sc *scripted) silentStream() int {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	sc.NoError(err)
	sc.t.Cleanup(func() { _ = unix.Close(pair[1]) })
	return pair[0]
}

// lastSlot is the slot of the socket made last.
func (sc *scripted) lastSlot(k *ring.Sink) uint32 {
	for slot := uint32(0); ; slot++ {
		if k.Socket(slot, 1) == nil {
			return slot - 1
		}
	}
}

func TestAFailingDriverIsHeard(t *testing.T) {
	boom := errors.New("boom")
	w := newWorld(t, Backend{Name: "fake", Driver: func(c ring.DriverConfig) (ring.Driver, error) {
		d, err := NewFake(c)
		return &failing{d.(*Fake), boom}, err
	}})
	r := w.udp(loopback).Ring()
	_, err := r.Poll(make([]ring.Completion, 1))
	w.ErrorIs(err, boom)
	n, err := r.Poll(make([]ring.Completion, 1))
	w.NoError(err)
	w.Zero(n)
}

// failing fails its first Reap.
type failing struct {
	*Fake
	err error
}

func (f *failing) Reap(k *ring.Sink) error {
	if err := f.err; err != nil {
		f.err = nil
		return err
	}
	return f.Fake.Reap(k)
}

// What a Reap had reported before it failed comes first, the failure alone. A driver that fails for ever stops neither.
func TestAFailingReapLosesNothing(t *testing.T) {
	boom := errors.New("boom")
	var drv *reporting
	w := newWorld(t, Backend{Name: "fake", Driver: func(c ring.DriverConfig) (ring.Driver, error) {
		d, err := NewFake(c)
		drv = &reporting{Fake: d.(*Fake), err: boom}
		return drv, err
	}})
	u := w.udp(loopback)
	peer := w.udpPeer(u.LocalAddr())
	dst := make([]ring.Completion, 4)
	packets, failures := 0, 0
	for i := range 20 {
		w.write(peer, []byte("x"))
		n, err := u.Ring().Poll(dst)
		if err != nil {
			w.Zero(n, "completions beside an error: %v", err)
			w.ErrorIs(err, boom)
			failures++
		}
		for i := range dst[:n] {
			w.release(dst[i])
		}
		packets += n
		w.LessOrEqual(i+1-packets, 4, "completions are held back by failures")
	}
	w.GreaterOrEqual(failures, 9)
	drv.err = nil
	for end := time.Now().Add(patience); packets < 20; {
		w.True(time.Now().Before(end))
		n, err := u.Ring().Poll(dst)
		if err != nil {
			w.Zero(n)
		}
		for i := range dst[:n] {
			w.release(dst[i])
		}
		packets += n
	}
	_, _ = u.Ring().Poll(dst) // the last failure
}

// reporting fails after each Reap.
type reporting struct {
	*Fake
	err error
}

func (f *reporting) Reap(k *ring.Sink) error {
	if err := f.Fake.Reap(k); err != nil {
		return err
	}
	return f.err
}

func TestADriverThatCannotAttachLeavesNothingBehind(t *testing.T) {
	boom := errors.New("boom")
	w := newWorld(t, Backend{Name: "fake", Driver: func(c ring.DriverConfig) (ring.Driver, error) {
		d, err := NewFake(c)
		return &unattached{d.(*Fake), boom}, err
	}})
	s := w.socket(ring.KindDatagram, loopback)
	w.ErrorIs(s.Bind(loopback), boom)
	w.NoError(s.Abort())
	w.Zero(w.set.Rings()[0].Sockets())
}

type unattached struct {
	*Fake
	err error
}

func (f *unattached) Attach(*ring.Socket) error { return f.err }

func TestADriverThatCannotBeMade(t *testing.T) {
	boom := errors.New("boom")
	w := newWorld(t, Backend{Name: "broken", Driver: func(ring.DriverConfig) (ring.Driver, error) { return nil, boom }})
	s := w.socket(ring.KindDatagram, loopback)
	err := s.Bind(loopback)
	w.ErrorIs(err, boom)
	w.ErrorContains(err, "broken")
	w.NoError(s.Close())
}

// hoarding keeps a buffer back until its ring is about to sleep. With it a socket that has none could go on.
type hoarding struct {
	*Fake
	pool  *buffers.DriverPool
	spare uint32
	have  bool
	slept bool
}

// ReturnSpare is what the core calls before it looks whether the ring may sleep.
func (h *hoarding) ReturnSpare() {
	if h.have {
		h.pool.Return(h.spare)
		h.have = false
	}
}

func (h *hoarding) Arm(clock.Time, clock.Time) (bool, error) { h.ReturnSpare(); return false, nil }

func (h *hoarding) Wait(time.Duration) error { h.ReturnSpare(); h.slept = true; return nil }

// A ring does not sleep when its own driver returns a buffer, on the way to sleep, that a socket of it waits for.
func TestAStarvedSocketDoesNotSleepBesideAFreeBuffer(t *testing.T) {
	for _, how := range []string{"Arm", "Wait"} {
		t.Run(how, func(t *testing.T) {
			var drv *hoarding
			w := newWorld(t, Backend{Name: "fake", Driver: func(c ring.DriverConfig) (ring.Driver, error) {
				d, err := NewFake(c)
				drv = &hoarding{Fake: d.(*Fake), pool: c.Pool}
				return drv, err
			}}, smallPool)
			u := w.udp(loopback, ring.Config{LargestDatagram: 2048})
			drv.spare, drv.have = w.pool.Take(buffers.Small)
			var taken []buffers.Packet
			for w.pool.Free(buffers.Small) > 0 {
				p, err := w.pool.Alloc(1)
				w.NoError(err)
				taken = append(taken, p)
			}
			r := u.Ring()
			w.write(w.udpPeer(u.LocalAddr()), []byte("x"))
			for r.Stats().Starved == 0 {
				w.poll()
			}
			if how == "Arm" {
				pending, err := r.Arm()
				w.NoError(err)
				w.True(pending, "asleep beside a free buffer")
			} else {
				w.NoError(r.Wait(time.Second))
				w.False(drv.slept, "asleep beside a free buffer")
			}
			w.release(w.event(u, ring.EventPacket, nil))
			// Budgets that a returned buffer does not help keep nobody awake: see "many stopped sockets let the ring sleep".
			for _, p := range taken {
				w.NoError(p.Release())
			}
		})
	}
}
