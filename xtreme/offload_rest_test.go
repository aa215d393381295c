package xtreme_test

import (
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Whatever happens on either ring, or beside them, ends a sleep: in Wait and on the poller's descriptor.
func TestRestOverBothRings(t *testing.T) {
	for name, rest := range map[string]func(w *cabled){
		"Wait": func(w *cabled) { w.NoError(w.poller.WaitFor(patience)) },
		"FD": func(w *cabled) {
			fd, err := w.poller.FD()
			w.NoError(err)
			pending, err := w.poller.Arm()
			w.NoError(err)
			if pending {
				return
			}
			p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, err := unix.Poll(p, int(patience/time.Millisecond))
			if !errors.Is(err, unix.EINTR) {
				w.NoError(err)
				w.Equal(1, n, "nothing woke it")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCabled(t)
			before, err := w.poller.FD()
			w.NoError(err)
			udp := w.udp(w.at(0))
			tcp := w.listen()
			after, err := w.poller.FD()
			w.NoError(err)
			w.Equal(before, after, "one descriptor for the rings to come as well")
			peer := w.net.Dial(udp.LocalAddr())
			w.write(peer, "to be lent")
			c := w.event(udp, xtreme.EventPacket)
			lent, err := c.Packet.Lend()
			w.NoError(err)
			ran := false
			for _, wake := range []struct {
				what string
				do   func()
				done func() bool
			}{
				{"a frame", func() { _, _ = peer.Write([]byte("x")) }, func() bool { return len(w.kept) > 0 }},
				{"a connection", func() {
					if c, err := net.Dial("tcp", tcp.LocalAddr().String()); err == nil {
						_ = c.Close()
					}
				}, func() bool { return len(w.kept) > 0 }},
				{"posted work", func() { _ = w.poller.Post(func() { ran = true }) }, func() bool { return ran }},
				{"a lent packet", func() { _ = lent.Release() }, func() bool { return w.poller.Ledger().Lent == 0 }},
			} {
				go func() {
					runtime.LockOSThread() // and never unlocked: a thread that was moved is not given back
					if w.net.Enter() == nil {
						wake.do()
					}
				}()
				for end := time.Now().Add(patience); !wake.done(); {
					w.True(time.Now().Before(end), wake.what)
					rest(w)
					w.poll()
				}
				for i := range w.kept {
					_ = w.kept[i].Packet.Release()
				}
				w.kept = nil
			}
		})
	}
}

// Another goroutine can close nothing; the poller's Close leaves no program, no descriptor, and the engine can be used again.
func TestClosingBothRings(t *testing.T) {
	w := newCabled(t)
	warm, err := w.engine.NewPoller("warm", xtreme.PollerConfig{})
	w.NoError(err)
	_, err = warm.OpenUDP(w.at(0), xtreme.UDPConfig{})
	w.NoError(err)
	w.NoError(warm.Close())
	before := descriptors(t)
	for range 3 {
		p, err := w.engine.NewPoller("again", xtreme.PollerConfig{})
		w.NoError(err)
		x := w.other(p)
		x.poll()
		s := x.udp(w.at(0))
		l := x.listen()
		failed := make(chan error)
		go func() { failed <- p.Close() }()
		w.ErrorIs(<-failed, ring.ErrOwner)
		go func() { _, err := p.Poll(make([]xtreme.Completion, 1)); failed <- err }()
		w.ErrorIs(<-failed, ring.ErrOwner)
		answers(x, s, w.net.Dial(s.LocalAddr()))
		w.True(program(t, "v0"), "%s; log: %s; %v", s.Path(), w.log.String(), s.Ring().Stats().Driver)
		w.NotNil(l)
		w.NoError(p.Close())
		w.False(program(t, "v0"))
		_, err = p.OpenUDP(w.at(0), xtreme.UDPConfig{})
		w.ErrorIs(err, xtreme.ErrClosed)
	}
	w.LessOrEqual(descriptors(t), before+3, "but for the peers' sockets")
	w.Equal(1, strings.Count(w.log.String(), "\n"), "said once:\n%s", w.log.String())
}

// Every buffer of both rings is in one ledger; one that the application holds keeps the memory, and says so.
func TestLedgerOfBothRings(t *testing.T) {
	w := newCabled(t)
	p := w.newPoller("holder")
	x := w.other(p)
	s := x.udp(w.at(0))
	total := p.Ledger().Total
	peer := w.net.Dial(s.LocalAddr())
	x.write(peer, "held")
	c := x.event(s, xtreme.EventPacket)
	sum := func() int {
		l := p.Ledger()
		return l.Free + l.Filling + l.Received + l.Held + l.Lent + l.Transmitting + l.Completing
	}
	w.Equal(total, sum())
	w.NotZero(p.Ledger().Filling, "the card has some")
	var held *xtreme.HeldError
	w.ErrorAs(p.Close(), &held)
	w.Equal(total-1, held.Ledger.Free)
	w.Equal("held", string(c.Packet.Bytes()))
	w.NoError(c.Packet.Release())
	w.Equal(total, p.Ledger().Free)
}

// A ring that the application closed by itself is made anew for the next socket.
func TestOffloadedRingClosedByItself(t *testing.T) {
	w := newCabled(t)
	w.NoError(w.udp(w.at(0)).Ring().Close())
	w.False(program(t, "v0"))
	w.Len(w.poller.Rings(), 1)
	w.poll()
	s := w.udp(w.at(0))
	answers(w.world, s, w.net.Dial(s.LocalAddr()))
}
