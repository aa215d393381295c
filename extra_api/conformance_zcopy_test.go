package extraapi_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// pull puts a socket into pull mode before it is bound.
func (w *world) pull(s *ring.Socket) { w.NoError(extraapi.SetPull(s, true)) }

func zcopyTooSmall(w *world) {
	s, peer := w.pair(w.listen(w.pull))
	_, err := peer.Write([]byte("whole message"))
	w.NoError(err)
	w.event(s, ring.EventIn)
	var space *ring.SpaceError
	dst := make([]ring.Completion, 1)
	_, _, err = extraapi.RecvFromZeroCopy(s, dst, 12, 0)
	w.ErrorIs(err, unix.ENOBUFS)
	w.ErrorAs(err, &space)
	w.Equal(ring.SpaceError{Need: 13, Room: 12}, *space)
	_, _, err = extraapi.RecvFromZeroCopy(s, nil, 0, 0)
	w.ErrorIs(err, unix.ENOBUFS)
	n, bytes, err := extraapi.RecvFromZeroCopy(s, dst, 13, extraapi.ZeroCopy)
	w.NoError(err)
	w.Equal(1, n)
	w.Equal(13, bytes)
	w.Equal("whole message", string(dst[0].Packet.Bytes()))
	_, err = extraapi.FreeCompletions(s, dst)
	w.NoError(err)
}

func zcopyOnce(w *world) {
	s, peer := w.pair(w.listen(w.pull))
	_, err := peer.Write([]byte("message"))
	w.NoError(err)
	w.event(s, ring.EventIn)
	dst := make([]ring.Completion, 4)
	n, bytes, err := extraapi.RecvFromZeroCopy(s, dst, 0, 0)
	w.NoError(err)
	w.Equal(1, n)
	w.Equal(7, bytes)
	w.Equal(1, dst[0].Packet.NumBuffers())
	w.Equal("message", string(dst[0].Packet.Bytes()))
	w.Equal(s.RemoteAddr(), dst[0].Source)
	freed, err := extraapi.FreePackets(s, dst[0].Packet)
	w.NoError(err)
	w.Equal(1, freed)
}

// Its walk over the packets is not VMA's, which is right for one packet only.
func zcopyLarge(w *world) {
	s, peer := w.pair(w.listen(w.pull))
	random := rand.NewChaCha8([32]byte{1})
	for _, size := range []int{1, 2, 1000, 2048, 2049, 9000, 65536, 100_000, 300_000} {
		sent := make([]byte, size)
		_, _ = random.Read(sent)
		failed := make(chan error, 1)
		go func() { _, err := peer.Write(sent); failed <- err }()
		var got []byte
		dst := make([]ring.Completion, 8)
		w.until("all of it", func() bool {
			for {
				n, sum, err := extraapi.RecvFromZeroCopy(s, dst, 0, 0)
				if err != nil {
					w.ErrorIs(err, unix.EAGAIN)
					return len(got) == size
				}
				before := len(got)
				for i := range dst[:n] {
					for b := range dst[i].Packet.Segments() {
						got = append(got, b...)
					}
				}
				w.Equal(sum, len(got)-before, "the bytes that it says are the bytes that are there")
				freed, err := extraapi.FreeCompletions(s, dst[:n])
				w.NoError(err)
				w.Equal(n, freed)
			}
		})
		w.NoError(<-failed)
		w.True(bytes.Equal(sent, got))
		w.kept = nil // the IN of each arrival
	}
}

// ownerOf makes a poller of a kernel ring through the engine.
func (w *world) ownerOf(c ...xtreme.PollerConfig) (*xtreme.Engine, *xtreme.Poller) {
	w.t.Helper()
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers = conf.RingKind(w.kind), 256, 16
	e, err := xtreme.New(s)
	w.NoError(err)
	p, err := e.NewPoller("extra", append(c, xtreme.PollerConfig{})[0])
	w.NoError(err)
	w.t.Cleanup(func() { w.NoError(p.Close()); w.NoError(e.Close()) })
	return e, p
}

func allocValid(w *world) {
	_, p := w.ownerOf()
	for _, l := range []ring.Logic{ring.PerInterface, ring.PerIP, ring.PerSocket, ring.PerUserID, ring.PerThread, ring.PerCore} {
		a := extraapi.RingAttributes{Logic: l, UserID: 77}
		s, err := p.OpenUDP(w.local, xtreme.UDPConfig{SocketConfig: a.SocketConfig()})
		w.NoError(err)
		got, err := extraapi.SocketRingAttributes(s)
		w.NoError(err)
		w.Equal(a, got)
	}
	l, err := p.ListenTCP(w.local, xtreme.ListenConfig{SocketConfig: extraapi.RingAttributes{Logic: ring.PerSocket}.SocketConfig()})
	w.NoError(err)
	w.Equal(ring.PerSocket, l.Ring().Key().Logic)
}

func allocInvalid(w *world) {
	for _, bad := range []ring.Logic{-1, 2, 12, 32, 100} {
		_, err := w.set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{Alloc: &bad})
		w.ErrorIs(err, unix.EINVAL)
		w.ErrorContains(err, bad.String())
	}
	_, err := extraapi.SocketRingAttributes(w.socket(ring.KindDatagram))
	w.ErrorIs(err, ring.ErrState)
}

// The allocator is memory that the caller hands over (xtreme.PollerConfig.Memory): too little is an error before anything is opened.
func userMemory(w *world) {
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers = conf.RingKind(w.kind), 256, 16
	e, err := xtreme.New(s)
	w.NoError(err)
	_, err = e.NewPoller("short", xtreme.PollerConfig{Memory: make([]byte, 4096)})
	w.Error(err)
	_, err = e.NewPoller("none", xtreme.PollerConfig{Memory: []byte{}})
	w.ErrorIs(err, unix.EINVAL)
	layout := buffers.DefaultLayout()
	layout.SmallCount, layout.LargeCount = 256, 16
	memory, err := unix.Mmap(-1, 0, layout.Bytes(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	w.NoError(err)
	p, err := e.NewPoller("mine", xtreme.PollerConfig{Memory: memory})
	w.NoError(err)
	l, err := p.ListenTCP(w.local, xtreme.ListenConfig{})
	w.NoError(err)
	peer := w.dial(l)
	_, err = peer.Write([]byte("in my own memory"))
	w.NoError(err)
	done := make([]xtreme.Completion, 8)
	for end, got := time.Now().Add(patience), false; !got; {
		w.True(time.Now().Before(end))
		n, err := p.Poll(done)
		w.NoError(err)
		for i := range done[:n] {
			if c := &done[i]; c.Events.Has(xtreme.EventPacket) {
				w.True(bytes.Contains(memory, []byte("in my own memory")))
				w.NoError(c.Packet.Release())
				got = true
			}
		}
	}
	w.NoError(p.Close())
	w.NoError(unix.Munmap(memory))
	w.NoError(e.Close())
}

// VMA's manual program: two listeners on one ring, echo, each packet freed.
func twoListenersOneRing(w *world) {
	a, b := w.listen(), w.listen()
	w.Same(a.Ring(), b.Ring())
	for _, l := range []*ring.Socket{a, b} {
		s, peer := w.pair(l)
		_, err := peer.Write([]byte("ping"))
		w.NoError(err)
		c := w.event(s, ring.EventPacket)
		_, err = s.Send(c.Packet.Bytes())
		w.NoError(err)
		freed, err := extraapi.FreePackets(l, c.Packet) // of another socket of this poller
		w.NoError(err)
		w.Equal(1, freed)
		echo := make([]byte, 4)
		_, err = io.ReadFull(peer, echo)
		w.NoError(err)
		w.Equal("ping", string(echo))
	}
}

// HOLD reports nothing here: VMA raises EPOLLIN, and the recv that follows answers EAGAIN.
func callbackVerdicts(w *world) {
	var verdict ring.Verdict
	var held []buffers.Packet
	l := w.listen(w.pull, func(s *ring.Socket) {
		w.NoError(extraapi.RegisterRecvCallback(s, func(_ extraapi.Info, p buffers.Packet) ring.Verdict {
			if verdict == extraapi.PacketHold {
				held = append(held, p)
			}
			return verdict
		}))
	})
	s, peer := w.pair(l)
	dst := make([]ring.Completion, 1)
	write := func(v ring.Verdict) {
		verdict = v
		_, err := peer.Write([]byte("data"))
		w.NoError(err)
	}
	write(extraapi.PacketRecv)
	w.event(s, ring.EventIn)
	_, _, err := extraapi.RecvFromZeroCopy(s, dst, 0, 0)
	w.NoError(err)
	_, err = extraapi.FreeCompletions(s, dst)
	w.NoError(err)

	write(extraapi.PacketHold)
	w.until("the callback", func() bool { return len(held) == 1 })
	_, _, err = extraapi.RecvFromZeroCopy(s, dst, 0, 0)
	w.ErrorIs(err, unix.EAGAIN)
	w.Equal("data", string(held[0].Bytes()))
	_, err = extraapi.FreePackets(s, held...)
	w.NoError(err)

	write(extraapi.PacketDrop)
	w.until("the callback", func() bool { return s.Stats().CallbackDrops == 1 })
	w.silent(time.Millisecond)
	_, _, err = extraapi.RecvFromZeroCopy(s, dst, 0, 0)
	w.ErrorIs(err, unix.EAGAIN)
}

// port0 is an address with port 0.
func port0(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr(), 0) }
