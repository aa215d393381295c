package extraapi_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Only a ring's descriptor can be polled: VMA's manual says otherwise, and its maintainers that the manual is wrong (issues/822).
func TestPollByDescriptor(t *testing.T) {
	onEach(t, kernelKinds, func(w *world) {
		e, p := w.ownerOf()
		s, err := p.OpenUDP(w.local, xtreme.UDPConfig{})
		w.NoError(err)
		var fds [1]int
		n, err := extraapi.SocketRingsFDs(s, fds[:])
		w.NoError(err)
		w.Equal(1, n)
		w.peer().write([]byte("by descriptor"), s.LocalAddr())
		done := make([]xtreme.Completion, 4)
		for end := time.Now().Add(patience); ; {
			n, err := extraapi.Poll(e, fds[0], done)
			w.NoError(err)
			if n == 1 {
				break
			}
			w.True(time.Now().Before(end))
		}
		w.Equal("by descriptor", string(done[0].Packet.Bytes()))
		_, err = extraapi.FreeCompletions(s, done)
		w.NoError(err)
		for _, bad := range []int{s.ID(), -1, 1 << 20} {
			_, err = extraapi.Poll(e, bad, done)
			w.ErrorIs(err, unix.EBADFD)
		}
		_, err = extraapi.Poll(e, fds[0], nil)
		w.ErrorIs(err, unix.EINVAL)
		_, err = extraapi.Poll(nil, fds[0], done)
		w.ErrorIs(err, unix.EINVAL)
	})
}

// The list is the same each time: VMA's cached answer has length 0.
func TestRingsAreListedAgain(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		s := w.udp()
		first := w.rings(s, 1)
		for range 3 {
			w.Equal(first, w.rings(s, 1))
		}
	})
}

func TestSocketTxRing(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		s, p := w.udp(), w.peer()
		r, err := extraapi.SocketTxRing(s, p.addr())
		w.NoError(err)
		w.Same(s.Ring(), r)
		_, err = extraapi.SocketTxRing(s, netip.AddrPort{})
		w.ErrorIs(err, unix.ENODATA)
		w.NoError(s.Connect(p.addr()))
		r, err = extraapi.SocketTxRing(s, netip.AddrPort{})
		w.NoError(err)
		w.Same(s.Ring(), r)
		_, err = extraapi.SocketTxRing(s, netip.MustParseAddrPort("[2001:db8::1]:9"))
		w.ErrorIs(err, unix.EAFNOSUPPORT)
		_, err = extraapi.SocketTxRing(w.socket(ring.KindDatagram), p.addr())
		w.ErrorIs(err, ring.ErrState)
		if w.kind == "offload" {
			return
		}
		c, _ := w.pair(w.listen())
		r, err = extraapi.SocketTxRing(c, c.RemoteAddr())
		w.NoError(err)
		w.Same(c.Ring(), r)
		mapped := netip.AddrPortFrom(netip.AddrFrom16(c.RemoteAddr().Addr().As16()), c.RemoteAddr().Port())
		r, err = extraapi.SocketTxRing(c, mapped)
		w.NoError(err, "the same peer, written as an address of IPv6")
		w.Same(c.Ring(), r)
		_, err = extraapi.SocketTxRing(c, p.addr())
		w.ErrorIs(err, unix.ENODATA)
	})
}

func TestNetworkHeader(t *testing.T) {
	w := newWorld(t, "offload")
	s, p := w.udp(), w.peer()
	_, err := extraapi.SocketNetworkHeader(s, nil, netip.AddrPort{})
	w.ErrorIs(err, unix.ENOTCONN)
	n, err := extraapi.SocketNetworkHeader(s, nil, p.addr())
	w.NoError(err)
	w.Equal(wire.EthernetLen+wire.IPv4Len+wire.UDPLen, n)
	b := bytes.Repeat([]byte{0xaa}, n+1)
	k, err := extraapi.SocketNetworkHeader(s, b[:n-1], p.addr())
	w.ErrorIs(err, unix.ENOBUFS)
	w.Equal(n, k)
	w.Equal(bytes.Repeat([]byte{0xaa}, n+1), b, "nothing is half applied")
	_, err = extraapi.SocketNetworkHeader(s, b, p.addr())
	w.NoError(err)
	w.Equal(byte(0xaa), b[n])
	w.Zero(w.frames)

	// The header of what is sent, but for what differs from datagram to datagram.
	_, err = s.SendTo([]byte("payload"), p.addr())
	w.NoError(err)
	w.Equal("payload", string(p.read()))
	sent := bytes.Clone(w.last[:n])
	for _, f := range [][2]int{{14 + 2, 2}, {14 + 4, 2}, {14 + 10, 2}, {34 + 4, 4}} { // length, identification, sum; UDP length and sum
		copy(sent[f[0]:], make([]byte, f[1]))
	}
	w.Equal(sent, b[:n])
	w.Equal(p.addr().Port(), binary.BigEndian.Uint16(b[34+2:]))

	w.NoError(s.Connect(p.addr()))
	n, err = extraapi.SocketNetworkHeader(s, b, netip.AddrPort{})
	w.NoError(err)
	w.Equal(sent, b[:n])

	// What no link carries has none, and the error is not that of a neighbour that is not known yet.
	_, err = extraapi.SocketNetworkHeader(s, b, netip.AddrPortFrom(hosts[0].Addr(), 9))
	w.ErrorIs(err, ring.ErrNotSupported)
	var f *ring.FeatureError
	w.ErrorAs(err, &f)
	w.Equal("header.no_link", f.Code)

	onEach(t, kernelKinds, func(w *world) {
		_, err := extraapi.SocketNetworkHeader(w.udp(), nil, w.peer().addr())
		var f *ring.FeatureError
		w.ErrorAs(err, &f)
		w.Equal("os.kernel_headers", f.Code)
		_, err = extraapi.SocketNetworkHeader(w.socket(ring.KindDatagram), nil, w.peer().addr())
		w.ErrorIs(err, ring.ErrState)
	})
}

// Two things asked for of which one cannot be done: none is. VMA arms, and forgets the other.
func TestModifyRing(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		s, p := w.udp(), w.peer()
		r := s.Ring()
		w.poll()
		readable := func() bool {
			fds := []unix.PollFd{{Fd: int32(r.FD()), Events: unix.POLLIN}}
			n, err := unix.Poll(fds, 0)
			w.NoError(err)
			return n == 1
		}
		_, err := extraapi.ModifyRing(r, extraapi.RingModification{Arm: true, Moderation: &extraapi.Moderation{Count: 8}})
		var f *ring.FeatureError
		w.ErrorAs(err, &f)
		w.Equal("ring.card_moderation", f.Code)
		w.silent(0)
		_, err = extraapi.ModifyRing(r, extraapi.RingModification{})
		w.ErrorIs(err, unix.EINVAL)
		_, err = extraapi.ModifyRing(nil, extraapi.RingModification{Arm: true})
		w.ErrorIs(err, unix.EINVAL)

		for pending := true; pending; {
			pending, err = extraapi.ModifyRing(r, extraapi.RingModification{Arm: true})
			w.NoError(err)
			if pending {
				w.poll()
			}
		}
		w.False(readable())
		p.write([]byte("x"), s.LocalAddr())
		for end := time.Now().Add(patience); !readable(); {
			w.True(time.Now().Before(end))
		}
		w.Equal("x", w.text(s))
	})
}

func TestRingAttributesOfAPoller(t *testing.T) {
	onEach(t, kernelKinds, func(w *world) {
		_, p := w.ownerOf(xtreme.PollerConfig{RingLogic: xtreme.Ptr(ring.PerUserID)})
		a, err := p.OpenUDP(w.local, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{UserID: 1}})
		w.NoError(err)
		b, err := p.OpenUDP(w.local, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{UserID: 2}})
		w.NoError(err)
		c, err := p.OpenUDP(w.local, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{UserID: 1}})
		w.NoError(err)
		w.NotSame(a.Ring(), b.Ring())
		w.Same(a.Ring(), c.Ring())
		got, err := extraapi.SocketRingAttributes(b)
		w.NoError(err)
		w.Equal(extraapi.RingAttributes{Logic: ring.PerUserID, UserID: 2}, got)
		_, err = p.OpenUDP(w.local, xtreme.UDPConfig{SocketConfig: extraapi.RingAttributes{Logic: 5}.SocketConfig()})
		w.ErrorIs(err, unix.EINVAL)
	})
}

// drop is a callback that keeps nothing.
func drop(extraapi.Info, buffers.Packet) ring.Verdict { return extraapi.PacketDrop }

// failing fails at the first Write.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestDump(t *testing.T) {
	onEach(t, kernelKinds, func(w *world) {
		_, o := w.ownerOf()
		s, err := o.OpenUDP(w.local, xtreme.UDPConfig{SocketConfig: extraapi.RecvCallback(drop, false)})
		w.NoError(err)
		l, err := o.ListenTCP(w.local, xtreme.ListenConfig{})
		w.NoError(err)
		p := w.peer()
		p.write([]byte("12345"), s.LocalAddr())
		_, err = s.SendTo([]byte("123"), p.addr())
		w.NoError(err)
		w.NoError(extraapi.DummySend(s, nil, p.addr()))
		done := make([]xtreme.Completion, 4)
		for end := time.Now().Add(patience); s.Stats().Packets == 0; {
			w.True(time.Now().Before(end))
			_, err := o.Poll(done)
			w.NoError(err)
		}
		var one, all strings.Builder
		w.NoError(extraapi.DumpStats(&one, o, s.ID()))
		for _, want := range []string{"UDP, open, completions mode", s.LocalAddr().String(), s.Path().String(), "rx: packets 1, bytes 5",
			"by the callback: dropped 1, held 0", "tx: messages 1, bytes 3, short 0, errors 0, warm 1, warm refused 0"} {
			w.Contains(one.String(), want)
		}
		w.NoError(extraapi.DumpStats(&all, o, 0))
		w.Contains(all.String(), one.String())
		w.Contains(all.String(), "TCP listener, listening")
		w.Contains(all.String(), "buffers: free ")
		w.Contains(all.String(), "ring ")
		w.NotContains(all.String(), "invalid")
		var none strings.Builder
		err = extraapi.DumpStats(&none, o, 1<<20)
		w.ErrorIs(err, unix.EBADF)
		w.Empty(none.String())
		w.ErrorIs(extraapi.DumpStats(failing{}, o, 0), io.ErrClosedPipe)
		w.ErrorIs(extraapi.DumpStats(&none, nil, 0), unix.EINVAL)
		failed := make(chan error)
		go func() {
			failed <- errors.Join(extraapi.DumpStats(io.Discard, o, 0), extraapi.DumpSocket(io.Discard, l))
		}()
		w.ErrorIs(<-failed, ring.ErrOwner)
	})
}

// What Query says is what the call does, both ways.
func TestCapabilitiesTellTheTruth(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		sockets := []*ring.Socket{w.udp(), w.udp(w.pull)}
		if w.kind != "offload" {
			l := w.listen()
			c, _ := w.pair(l)
			pulled, _ := w.pair(w.listen(w.pull))
			sockets = append(sockets, l, c, pulled)
		}
		p := w.peer()
		for _, s := range sockets {
			all, err := extraapi.Capabilities(s)
			w.NoError(err)
			w.Len(all, len(extraapi.Features()))
			for _, c := range all {
				w.Equal(c.Support == extraapi.Yes, c.Reason.Code == "", c)
				w.Contains(c.String(), string(c.Feature))
				try, ok := w.attempt(s, p, c.Feature)
				if ok {
					w.Equal(c.Support != extraapi.No, try == nil, "%v: %v", c, try)
				}
			}
		}
		_, err := extraapi.Query(sockets[0], "flying")
		w.ErrorIs(err, unix.EINVAL)
		_, err = extraapi.Query(w.socket(ring.KindDatagram), extraapi.WarmSend)
		w.ErrorIs(err, ring.ErrState)
	})
	require.Equal(t, []string{"no", "partly", "yes", "Support(9)"}, []string{extraapi.No.String(), extraapi.Partly.String(),
		extraapi.Yes.String(), extraapi.Support(9).String()})
}

// attempt uses a feature; ok is false for those that a call does not show.
func (w *world) attempt(s *ring.Socket, p *peer, f extraapi.Feature) (err error, ok bool) {
	var to netip.AddrPort
	if s.Kind() == ring.KindDatagram {
		to = p.addr()
	}
	switch f {
	case extraapi.ReceiveCallback:
		err = errors.Join(extraapi.RegisterRecvCallback(s, keep), extraapi.RegisterRecvCallback(s, nil))
	case extraapi.ZeroCopyReceive:
		if _, _, err = extraapi.RecvFromZeroCopy(s, make([]ring.Completion, 1), 0, 0); err == ring.ErrNothing {
			err = nil
		}
		if s.Kind() == ring.KindListener {
			return nil, false // its mode is its children's
		}
	case extraapi.WarmSend:
		err = extraapi.DummySend(s, []byte("x"), to)
	case extraapi.NetworkHeader:
		_, err = extraapi.SocketNetworkHeader(s, nil, to)
	case extraapi.ArmRing:
		_, err = extraapi.ModifyRing(s.Ring(), extraapi.RingModification{Arm: true})
		w.poll()
	case extraapi.ModerateRing:
		_, err = extraapi.ModifyRing(s.Ring(), extraapi.RingModification{Moderation: &extraapi.Moderation{}})
	case extraapi.OutPerAck:
		err = s.SetOutPerAck(true)
	default:
		return nil, false
	}
	return err, true
}
