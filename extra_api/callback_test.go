package extraapi_test

import (
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// with registers a callback before the socket is bound.
func (w *world) with(f extraapi.Callback) func(*ring.Socket) {
	return func(s *ring.Socket) { w.NoError(extraapi.RegisterRecvCallback(s, f)) }
}

// keep is a callback that keeps all.
func keep(extraapi.Info, buffers.Packet) ring.Verdict { return extraapi.PacketRecv }

// The callback sees every packet, in order, with all that is known of it; also those that come while others wait, which VMA keeps from it
// (issues/43, issues/45).
func TestCallbackSeesEveryPacket(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		var infos []extraapi.Info
		var seen []string
		s := w.udp(w.pull, w.with(func(i extraapi.Info, p buffers.Packet) ring.Verdict {
			infos, seen = append(infos, i), append(seen, string(p.Bytes()))
			return extraapi.PacketRecv
		}))
		p := w.peer()
		want := []string{"one", "three", "fifteen", ""}
		for _, b := range want {
			p.write([]byte(b), s.LocalAddr())
		}
		w.until("all four", func() bool { return len(infos) == 4 })
		w.Equal(want, seen)
		bytes := 0
		for i, info := range infos {
			w.Same(s, info.Socket)
			w.Equal(p.addr(), info.Source)
			w.Equal(s.LocalAddr(), info.Destination)
			w.Equal(len(want[i]), info.Bytes, "payload_sz is never filled in by VMA")
			w.Equal(i, info.QueuedPackets)
			w.Equal(bytes, info.QueuedBytes)
			w.NoError(info.Err)
			bytes += info.Bytes
		}
		packets, waiting := s.Waiting()
		w.Equal(4, packets)
		w.Equal(bytes, waiting)
		dst := make([]ring.Completion, 8)
		n, sum, err := extraapi.RecvFromZeroCopy(s, dst, 0, 0)
		w.NoError(err)
		w.Equal(4, n)
		w.Equal(bytes, sum)
		packets, waiting = s.Waiting()
		w.Zero(packets)
		w.Zero(waiting)
		_, err = extraapi.FreeCompletions(s, dst[:n])
		w.NoError(err)
	})
}

// With timestamps and packet info asked for, the callback has them: VMA hides destination and interface (issues/829).
func TestCallbackHasTimeAndInterface(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		s, err := w.set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{Timestamps: true, PacketInfo: true})
		w.NoError(err)
		var got extraapi.Info
		w.with(func(i extraapi.Info, _ buffers.Packet) ring.Verdict { got = i; return extraapi.PacketDrop })(s)
		w.NoError(s.Bind(netip.AddrPortFrom(netip.IPv4Unspecified(), 0)))
		w.peer().write([]byte("x"), netip.AddrPortFrom(w.local.Addr(), s.LocalAddr().Port()))
		w.until("the callback", func() bool { return got.Socket != nil })
		w.Equal(w.local.Addr(), got.Destination.Addr())
		w.NotZero(got.IfIndex)
		w.False(got.Time.IsZero())
		w.WithinDuration(time.Now(), got.Time.Time(), time.Minute)
	})
}

func TestCallbackVerdictsInCompletionMode(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		var held []buffers.Packet
		s := w.udp(w.with(func(_ extraapi.Info, p buffers.Packet) ring.Verdict {
			switch string(p.Bytes()) {
			case "drop":
				return extraapi.PacketDrop
			case "hold":
				held = append(held, p)
				return extraapi.PacketHold
			}
			return extraapi.PacketRecv
		}))
		p := w.peer()
		for _, b := range []string{"drop", "a", "hold", "hold", "b"} {
			p.write([]byte(b), s.LocalAddr())
		}
		w.Equal("a", w.text(s))
		w.Equal("b", w.text(s))
		w.Len(held, 2)
		w.Equal(ring.SocketStats{Packets: 5, Bytes: 14, CallbackDrops: 1, CallbackHolds: 2}, s.Stats())
		w.Equal(2, s.Ring().Ledger().Held)
		freed, err := extraapi.FreePackets(s, held...)
		w.NoError(err)
		w.Equal(2, freed)
	})
}

// A callback comes and goes while packets flow, and may replace itself.
func TestCallbackChanges(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		for _, pull := range []bool{false, true} {
			s := w.socket(ring.KindDatagram)
			if pull {
				w.pull(s)
			}
			w.NoError(s.Bind(w.local))
			p := w.peer()
			first, second := 0, 0
			receive := func() {
				p.write([]byte("x"), s.LocalAddr())
				if !pull {
					w.text(s)
					return
				}
				w.event(s, ring.EventIn)
				n, _, err := extraapi.Recv(s, make([]byte, 8))
				w.NoError(err)
				w.Equal(1, n)
			}
			receive()
			w.NoError(extraapi.RegisterRecvCallback(s, func(i extraapi.Info, _ buffers.Packet) ring.Verdict {
				first++
				w.NoError(extraapi.RegisterRecvCallback(i.Socket, func(extraapi.Info, buffers.Packet) ring.Verdict {
					second++
					return extraapi.PacketRecv
				}))
				return extraapi.PacketRecv
			}))
			for range 3 {
				receive()
			}
			w.NoError(extraapi.RegisterRecvCallback(s, nil))
			receive()
			w.Equal([]int{1, 2}, []int{first, second})
			w.ErrorIs(extraapi.SetPull(s, !pull), ring.ErrMode, "the mode is fixed")
			w.closed(s)
			w.ErrorIs(extraapi.RegisterRecvCallback(s, keep), ring.ErrClosed)
		}
	})
}

// Children have their listener's callback, and one of their own when they are given it.
func TestCallbackOfChildren(t *testing.T) {
	onEach(t, kernelKinds, func(w *world) {
		seen := map[*ring.Socket]string{}
		l := w.listen(w.with(func(i extraapi.Info, p buffers.Packet) ring.Verdict {
			seen[i.Socket] += string(p.Bytes())
			return extraapi.PacketDrop
		}))
		a, peerA := w.pair(l)
		b, peerB := w.pair(l)
		own := ""
		w.NoError(extraapi.RegisterRecvCallback(b, func(_ extraapi.Info, p buffers.Packet) ring.Verdict {
			own += string(p.Bytes())
			return extraapi.PacketDrop
		}))
		for _, c := range []io.Writer{peerA, peerB} {
			_, err := c.Write([]byte("hello"))
			w.NoError(err)
		}
		w.until("both", func() bool { return seen[a] == "hello" && own == "hello" })
		w.Empty(seen[b])
	})
}

func TestNilSocket(t *testing.T) {
	dst := make([]ring.Completion, 1)
	_, _, e1 := extraapi.RecvFromZeroCopy(nil, dst, 0, 0)
	_, _, e2 := extraapi.Recv(nil, nil)
	_, e3 := extraapi.FreePackets(nil)
	_, e4 := extraapi.SocketTxRing(nil, netip.AddrPort{})
	_, e5 := extraapi.SocketNetworkHeader(nil, nil, netip.AddrPort{})
	_, e6 := extraapi.SocketRingAttributes(nil)
	_, e7 := extraapi.Query(nil, extraapi.WarmSend)
	for i, err := range []error{e1, e2, e3, e4, e5, e6, e7, extraapi.RegisterRecvCallback(nil, keep), extraapi.SetPull(nil, true),
		extraapi.DummySend(nil, nil, netip.AddrPort{}), extraapi.Prepare(nil, netip.AddrPort{}), extraapi.DumpSocket(io.Discard, nil)} {
		require.ErrorIs(t, err, unix.EBADF, i)
		require.ErrorContains(t, err, "socket is nil")
	}
}

// The options do what the calls do, from the first packet on.
func TestOptions(t *testing.T) {
	onEach(t, kernelKinds, func(w *world) {
		_, p := w.ownerOf()
		for _, c := range []struct {
			f    extraapi.Callback
			pull bool
			mode ring.Mode
		}{{nil, false, ring.Completions}, {nil, true, ring.Queue}, {keep, false, ring.Completions}, {keep, true, ring.Callback}} {
			s, err := p.OpenUDP(w.local, xtreme.UDPConfig{SocketConfig: extraapi.RecvCallback(c.f, c.pull)})
			w.NoError(err)
			w.Equal(c.mode, s.Mode())
			w.Equal(c.f == nil, s.ReceiveCallback() == nil)
		}
		s, err := p.OpenUDP(w.local, xtreme.UDPConfig{SocketConfig: extraapi.Pull()})
		w.NoError(err)
		w.Equal(ring.Queue, s.Mode())
	})
}
