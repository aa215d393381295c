package ringtest

import (
	"fmt"
	"io"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

// callbackVerdicts is the case "callback verdicts: drop, keep, hold": on datagrams, and on connections, which inherit the listener's callback.
func callbackVerdicts(t *testing.T, b Backend) {
	w := newWorld(t, b)
	if !b.Streams {
		datagramVerdicts(w)
	}
	if !b.Datagrams {
		inheritedCallback(w)
	}
}

// datagramVerdicts checks the three verdicts of a callback on datagrams.
func datagramVerdicts(w *world) {
	u := w.socket(ring.KindDatagram, w.local)
	var held []buffers.Packet
	var seen []string
	w.NoError(u.SetReceiveMode(ring.Completions, func(s *ring.Socket, c *ring.Completion) ring.Verdict {
		w.Equal(u, s)
		w.Equal(u, c.Socket)
		w.Equal(ring.EventPacket, c.Events)
		w.True(c.Source.IsValid())
		data := string(c.Packet.Bytes())
		seen = append(seen, data)
		switch data {
		case "drop":
			return ring.Drop
		case "hold":
			held = append(held, c.Packet)
			return ring.Hold
		}
		return ring.Keep
	}))
	w.NoError(u.Bind(w.local))
	peer := w.udpPeer(u.LocalAddr())
	for _, m := range []string{"drop", "keep", "hold", "drop", "keep too"} {
		w.write(peer, []byte(m))
	}
	w.Equal("keep", string(w.read(u, 4)))
	w.Equal("keep too", string(w.read(u, 8)))
	w.Equal([]string{"drop", "keep", "hold", "drop", "keep too"}, seen)
	w.Len(held, 1)
	w.Equal("hold", string(held[0].Bytes()))
	w.NoError(held[0].Release())
	st := u.Ring().Stats()
	w.Equal(uint64(2), st.CallbackDrops)
	w.Equal(uint64(1), st.CallbackHolds)
}

// inheritedCallback checks that accepted sockets have their listener's callback, because data may come with the connection.
func inheritedCallback(w *world) {
	l := w.socket(ring.KindStream, w.local)
	count := 0
	w.NoError(l.SetReceiveMode(ring.Completions, func(*ring.Socket, *ring.Completion) ring.Verdict { count++; return ring.Keep }))
	w.NoError(l.Bind(w.local))
	w.NoError(l.Listen(0))
	w.write(w.dial(l), []byte("early"))
	c := w.accept(l)
	w.release(c)
	if !c.Events.Has(ring.EventPacket) {
		w.read(c.Socket, 5)
	}
	w.Equal(1, count)
}

// queueMode is the case "queue mode: IN and Receive".
func queueMode(t *testing.T, b Backend) {
	w := newWorld(t, b)
	if !b.Datagrams {
		queueStream(w)
	}
	if !b.Streams {
		queueDatagrams(w)
	}
}

// queueStream checks pull mode on a stream: EventIn once, data in order, the end after it.
func queueStream(w *world) {
	l := w.socket(ring.KindStream, w.local)
	w.NoError(l.SetReceiveMode(ring.Queue, nil))
	w.NoError(l.Bind(w.local))
	w.NoError(l.Listen(0))
	peer := w.dial(l)
	s := w.accept(l).Socket
	into := make([]ring.Completion, 4)
	_, err := s.Receive(into)
	w.ErrorIs(err, ring.ErrWouldBlock)
	w.write(peer, []byte("one"))
	c := w.event(s, ring.EventIn, nil)
	w.True(c.Packet.IsZero())
	n, err := s.Receive(into)
	w.NoError(err)
	w.Equal(1, n)
	w.Equal("one", string(into[0].Packet.Bytes()))
	w.Equal(s, into[0].Socket)
	w.NoError(into[0].Packet.Release())

	w.write(peer, []byte("two"))
	w.NoError(peer.CloseWrite())
	got, fin := "", false
	for !fin {
		c := w.completionOf(s)
		w.False(c.Events.Has(ring.EventPacket))
		fin = fin || c.Events.Has(ring.EventRdHup)
	}
	for {
		n, err := s.Receive(into)
		if err != nil {
			w.ErrorIs(err, io.EOF)
			break
		}
		for _, c := range into[:n] {
			got += string(c.Packet.Bytes())
			w.NoError(c.Packet.Release())
		}
	}
	w.Equal("two", got)

	peer2 := w.dial(l)
	s2 := w.accept(l).Socket
	w.write(peer2, []byte("never read"))
	w.event(s2, ring.EventIn, nil)
	w.reset(peer2)
	w.next("the reset", func(c *ring.Completion) bool { return c.Socket == s2 && c.Events.Has(ring.EventHup) })
	n, err = s2.Receive(into)
	w.NoError(err)
	w.NoError(into[0].Packet.Release())
	w.Equal(1, n)
	_, err = s2.Receive(into)
	w.ErrorIs(err, unix.ECONNRESET)
	_, err = s2.Receive(nil)
	w.Error(err)
}

// queueDatagrams checks pull mode on datagrams.
func queueDatagrams(w *world) {
	// What waits on the socket counts against its budget, and goes back when it is closed.
	u := w.socket(ring.KindDatagram, w.local, ring.Config{LargestDatagram: 2048, Budget: 4 * w.pool.Layout().Stride(buffers.Small)})
	w.NoError(u.SetReceiveMode(ring.Queue, nil))
	w.NoError(u.Bind(w.local))
	up := w.udpPeer(u.LocalAddr())
	for range 20 {
		w.write(up, []byte("x"))
	}
	w.event(u, ring.EventIn, nil)
	for end := time.Now().Add(patience); u.Ring().Stats().BudgetStops == 0; w.poll() {
		w.True(time.Now().Before(end), "the budget did not stop it")
	}
	w.kept = nil
	w.closeAndWait(u)
	w.Zero(u.Held())
}

// callbackMode is the case "callback mode: the callback sees all, Receive gets what it kept".
func callbackMode(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u := w.socket(ring.KindDatagram, w.local)
	seen := 0
	w.NoError(u.SetReceiveMode(ring.Callback, func(_ *ring.Socket, c *ring.Completion) ring.Verdict {
		seen++
		if string(c.Packet.Bytes()) == "drop" {
			return ring.Drop
		}
		return ring.Keep
	}))
	w.NoError(u.Bind(w.local))
	peer := w.udpPeer(u.LocalAddr())
	w.write(peer, []byte("drop"))
	for seen == 0 {
		w.poll()
	}
	w.silent(5 * time.Millisecond) // a dropped packet makes nothing ready (VMA raises EPOLLIN for held ones)
	w.write(peer, []byte("keep"))
	w.event(u, ring.EventIn, nil)
	into := make([]ring.Completion, 4)
	n, err := u.Receive(into)
	w.NoError(err)
	w.Equal(1, n)
	w.Equal("keep", string(into[0].Packet.Bytes()))
	w.Equal(peer.LocalAddr().String(), into[0].Source.String())
	w.NoError(into[0].Packet.Release())
}

// modesDoNotMix is the case "modes do not mix".
func modesDoNotMix(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u, _ := w.receiver()
	w.poll() // a connection's mode may be chosen in the turn that announced it
	_, err := u.Receive(make([]ring.Completion, 1))
	w.ErrorIs(err, ring.ErrMode)
	w.ErrorIs(u.SetReceiveMode(ring.Queue, nil), ring.ErrMode, "the socket receives already")
	keep := func(*ring.Socket, *ring.Completion) ring.Verdict { return ring.Keep }
	w.NoError(u.SetReceiveMode(ring.Completions, keep))
	s := w.unusedSocket()
	w.ErrorContains(s.SetReceiveMode(ring.Callback, nil), "callback")
	w.ErrorContains(s.SetReceiveMode(ring.Queue, keep), "queue")
	w.ErrorContains(s.SetReceiveMode(ring.Mode(9), nil), "9")
	w.NoError(s.Close())
	w.ErrorIs(s.SetReceiveMode(ring.Queue, nil), ring.ErrClosed)

	if b.Datagrams {
		return
	}
	// An accepted connection's mode may be chosen in the turn that announced it, not later.
	child, _ := w.pair()
	w.NoError(child.SetReceiveMode(ring.Queue, nil))
	w.NoError(child.SetReceiveMode(ring.Completions, nil))
	w.poll()
	w.ErrorIs(child.SetReceiveMode(ring.Queue, nil), ring.ErrMode)
}

// callbackPanics is the case "a callback that panics costs its connection".
func callbackPanics(t *testing.T, b Backend) {
	w := newWorld(t, b)
	l := w.socket(ring.KindStream, w.local)
	w.NoError(l.SetReceiveMode(ring.Completions, func(s *ring.Socket, c *ring.Completion) ring.Verdict {
		if c.Packet.Bytes()[0] == 'p' {
			panic("the callback's own fault")
		}
		return ring.Keep
	}))
	w.NoError(l.Bind(w.local))
	w.NoError(l.Listen(0))
	bad := w.dial(l)
	one := w.accept(l).Socket
	good := w.dial(l)
	two := w.accept(l).Socket
	w.write(bad, []byte("panic"))
	var err error
	dst := make([]ring.Completion, 8)
	for end := time.Now().Add(patience); err == nil; {
		var n int
		n, err = l.Ring().Poll(dst)
		w.kept = append(w.kept, dst[:n]...)
		w.True(time.Now().Before(end))
	}
	w.ErrorContains(err, "the callback's own fault")
	w.ErrorIs(w.endOf(bad), unix.ECONNRESET)
	w.event(one, ring.EventClosed, nil)
	w.write(good, []byte("go on"))
	w.Equal("go on", string(w.read(two, 5)))
	w.Equal(uint64(1), l.Ring().Stats().CallbackPanics)
}

// callbackCloses is the case "a callback may close its socket".
func callbackCloses(t *testing.T, b Backend) {
	w := newWorld(t, b)
	u := w.socket(ring.KindDatagram, w.local)
	w.NoError(u.SetReceiveMode(ring.Completions, func(s *ring.Socket, c *ring.Completion) ring.Verdict {
		w.NoError(s.Close())
		return ring.Keep
	}))
	w.NoError(u.Bind(w.local))
	peer := w.udpPeer(u.LocalAddr())
	for i := range 10 {
		_, _ = fmt.Fprint(peer, i)
	}
	c := w.completionOf(u)
	w.Equal(ring.EventClosed, c.Events)
	w.silent(5 * time.Millisecond)
}
