package extraapi_test

import (
	"bytes"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/ring"
)

// The statistics of a closed connection are its own, and not those of whatever has its number by then.
func TestDumpOfAClosedConnection(t *testing.T) {
	onEach(t, kernelKinds, func(w *world) {
		s, _ := w.pair(w.listen())
		var out bytes.Buffer
		w.NoError(extraapi.DumpSocket(&out, s))
		w.Contains(out.String(), "tcp: round trip")
		id := s.ID()
		w.closed(s)
		if stranger := w.listen(); stranger.ID() != id { // a lower number was free
			_, err := unix.FcntlInt(uintptr(id), unix.F_GETFD, 0)
			w.ErrorIs(err, unix.EBADF)
			w.NoError(unix.Dup3(stranger.ID(), id, unix.O_CLOEXEC))
			defer unix.Close(id)
		}
		_, err := unix.GetsockoptTCPInfo(id, unix.IPPROTO_TCP, unix.TCP_INFO)
		w.NoError(err, "there is a stranger to ask")
		out.Reset()
		w.NoError(extraapi.DumpSocket(&out, s))
		w.Contains(out.String(), "closed")
		w.NotContains(out.String(), "tcp: round trip")
	})
}

// Errors name the call that was made.
func TestErrorsNameTheirCall(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		s, none := w.udp(), w.socket(ring.KindDatagram)
		other := newPool(t, defaultLayout)
		p, err := other.Alloc(8)
		w.NoError(err)
		defer func() { w.NoError(p.Release()) }()
		_, foreign := extraapi.FreeCompletions(s, []ring.Completion{{Packet: p}})
		w.ErrorIs(foreign, buffers.ErrOtherPool)
		_, foreignPacket := extraapi.FreePackets(s, p)
		_, noRing := extraapi.FreeCompletions(none, nil)
		_, nobody := extraapi.FreeCompletions(nil, nil)
		_, flagged := extraapi.Send(s, nil, netip.AddrPort{}, extraapi.DummyFlag)
		for _, c := range []struct {
			call string
			err  error
		}{
			{"FreeCompletions", foreign}, {"FreePackets", foreignPacket}, {"FreeCompletions", noRing}, {"FreeCompletions", nobody},
			{"DummySend", extraapi.DummySend(s, nil, netip.AddrPort{})}, {"Send", flagged},
			{"Prepare", extraapi.Prepare(none, netip.AddrPort{})},
		} {
			w.ErrorContains(c.err, "extraapi: "+c.call+": ")
			w.True(bytes.HasPrefix([]byte(c.err.Error()), []byte("extraapi: ")), c.err)
		}
		w.NoError(none.Close())
	})
}
