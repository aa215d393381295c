package xtreme_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Our own TCP has no rate. A socket that asks for one before it listens or connects is the kernel's, which paces it, and its path says why; one
// that our own TCP carries already is refused.
func TestPacedTCPIsTheKernels(t *testing.T) {
	const rate = 70_000
	w := newTCPCabled(t, unchanged)
	paced := xtreme.IPConfig{Pacing: xtreme.PacingRate{Rate: rate}}
	isPaced := func(s *xtreme.Socket) {
		t.Helper()
		w.Equal("kernel", s.Path().Tier, s.Path().Explain())
		w.Equal("tcp.no_pacing", s.Path().Lost)
		w.Equal(rate, w.sockopt(s, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE))
		w.Equal(xtreme.PacingRate{Rate: rate}, s.Pacing())
	}
	l, err := w.poller.ListenTCP(w.at(0), xtreme.ListenConfig{IPConfig: paced})
	w.NoError(err)
	isPaced(l)
	peer := w.dialFromPeer(w.world, l.LocalAddr())
	c := w.accept(l)
	isPaced(c)
	w.echo(c, peer, 3)

	to := addr(w.listenInPeer().Addr())
	tied := paced
	tied.BindToDevice = w.net.Device(0)
	for _, ip := range []xtreme.IPConfig{paced, tied} {
		d, err := w.poller.DialTCP(to, xtreme.DialConfig{IPConfig: ip})
		w.NoError(err)
		w.event(d, xtreme.EventOut)
		isPaced(d)
		w.close(d)
	}
	steps, err := w.poller.NewTCP(xtreme.IPv4, xtreme.TCPConfig{})
	w.NoError(err)
	w.NoError(steps.SetPacing(xtreme.PacingRate{Rate: rate}))
	w.NoError(steps.Connect(to))
	w.event(steps, xtreme.EventOut)
	isPaced(steps)

	_, err = w.poller.DialTCP(to, xtreme.DialConfig{SocketConfig: xtreme.SocketConfig{RequireOffload: true}, IPConfig: paced})
	w.ErrorIs(err, ring.ErrNotSupported)
	w.ErrorContains(err, "[tcp.no_pacing]")

	own := w.listenTCP(w.world, w.at(0))
	var f *ring.FeatureError
	w.ErrorAs(own.SetPacing(xtreme.PacingRate{Rate: rate}), &f)
	w.Equal("tcp.no_pacing", f.Code)
	for _, s := range []*xtreme.Socket{c, l, steps, own} {
		w.close(s)
	}
}
