package ringtest

import (
	"syscall"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/ring"
)

// untilPassed takes turns until a deadline that is over was looked at: on every 16th Poll.
func (sc *scripted) untilPassed(turn func()) {
	for range 32 {
		turn()
	}
}

// A deadline that has passed and is not told yet does not take the place of the error with which the connection ends.
func TestADeadlineHidesNoEnd(t *testing.T) {
	sc := newScript(t)
	s, _ := sc.pair()
	sc.NoError(s.Suspend()) // its deadline waits for Resume
	sc.NoError(s.SetReadDeadline(time.Now().Add(-time.Second)))
	sc.untilPassed(func() { sc.Empty(sc.turn(8)) })
	got := sc.turn(8, func(k *ring.Sink) { k.Failed(s, syscall.ECONNRESET) })
	sc.events(got, ring.EventIn|ring.EventErr|ring.EventHup|ring.EventRdHup)
	sc.ErrorIs(got[0].Err, syscall.ECONNRESET)
	sc.Empty(sc.turn(8), "the connection is dead: the deadline is about nothing")
}

// A read deadline of a datagram socket and the error of a datagram that was sent are both told, with an error each.
func TestADeadlineBesideAnError(t *testing.T) {
	sc := newScript(t)
	u := sc.socket(ring.KindDatagram, loopback)
	sc.NoError(u.Bind(loopback))
	sc.NoError(u.Suspend())
	sc.NoError(u.SetReadDeadline(time.Now().Add(-time.Second)))
	sc.untilPassed(func() { sc.Empty(sc.turn(8)) })
	sc.Empty(sc.turn(8, func(k *ring.Sink) { k.Failed(u, syscall.ECONNREFUSED) }))
	sc.NoError(u.Resume())
	got := sc.turn(8)
	sc.events(got, ring.EventErr, ring.EventIn)
	sc.ErrorIs(got[0].Err, syscall.ECONNREFUSED)
	sc.ErrorIs(got[1].Err, ring.ErrDeadline)
}

// A write deadline that passes while another OUT waits to be delivered is told beside it: a connection that was established is told without an
// error.
func TestAWriteDeadlineBesideConnected(t *testing.T) {
	sc := newScript(t)
	busy := sc.socket(ring.KindDatagram, loopback)
	sc.NoError(busy.Bind(loopback))
	l, err := sc.streams().ListenStream()
	sc.NoError(err)
	defer l.Close()
	s := sc.socket(ring.KindStream, loopback)
	sc.NoError(s.Connect(l.Addr()))
	// The slice is full when the connection is established.
	got := sc.turn(1, func(k *ring.Sink) {
		k.Datagram(busy, sc.packet(busy), &ring.Meta{})
		k.Connected(s, loopback)
	})
	sc.events(got, ring.EventPacket)
	sc.NoError(s.SetWriteDeadline(time.Now().Add(-time.Second)))
	var told []ring.Completion
	sc.untilPassed(func() { told = append(told, sc.turn(8)...) })
	sc.events(told, ring.EventOut, ring.EventOut)
	sc.NoError(told[0].Err)
	sc.ErrorIs(told[1].Err, ring.ErrDeadline)
	sc.NoError(s.Abort())
}

// A deadline that is moved, or taken back, before it was told is not told.
func TestAPassedDeadlineIsMoved(t *testing.T) {
	sc := newScript(t)
	s, _ := sc.pair()
	sc.NoError(s.Suspend())
	sc.NoError(s.SetReadDeadline(time.Now().Add(-time.Second)))
	sc.untilPassed(func() { sc.Empty(sc.turn(8)) })
	sc.NoError(s.SetReadDeadline(time.Now().Add(time.Hour)))
	sc.NoError(s.Resume())
	sc.untilPassed(func() { sc.Empty(sc.turn(8)) })
}
