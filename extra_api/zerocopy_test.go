package extraapi_test

import (
	"io"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/ring"
)

// arrive has a peer write, piece by piece, and waits until all of it waits on the socket.
func (w *world) arrive(s *ring.Socket, peer io.Writer, pieces ...string) {
	w.t.Helper()
	_, want := s.Waiting()
	for _, b := range pieces {
		_, err := peer.Write([]byte(b))
		w.NoError(err)
		want += len(b)
		w.until("the bytes", func() bool { _, n := s.Waiting(); return n == want })
	}
	w.kept = nil // IN
}

// A part that was copied is not handed out again, and what is left is the packet's beginning.
func TestPartialReads(t *testing.T) {
	onEach(t, kernelKinds, func(w *world) {
		s, peer := w.pair(w.listen(w.pull))
		w.arrive(s, peer, "abcdef", "ghi", "jkl", "mno")
		b := make([]byte, 4)
		n, from, err := extraapi.Recv(s, b)
		w.NoError(err)
		w.Equal("abcd", string(b[:n]))
		w.Equal(s.RemoteAddr(), from)
		_, waiting := s.Waiting()
		w.Equal(11, waiting)
		dst := make([]ring.Completion, 8)
		packets, bytes, err := extraapi.RecvFromZeroCopy(s, dst, 7, 0)
		w.NoError(err)
		w.Equal([]int{2, 5}, []int{packets, bytes}, "a third would be too much")
		w.Equal("ef", string(dst[0].Packet.Bytes()))
		w.Equal("ghi", string(dst[1].Packet.Bytes()))
		freed, err := extraapi.FreeCompletions(s, dst[:packets])
		w.NoError(err)
		w.Equal(2, freed)
		b = make([]byte, 100)
		n, _, err = extraapi.Recv(s, b)
		w.NoError(err)
		w.Equal("jklmno", string(b[:n]), "one copy over packets")
		_, _, err = extraapi.Recv(s, b)
		w.ErrorIs(err, unix.EAGAIN)
		w.ErrorIs(err, ring.ErrNothing)
		n, _, err = extraapi.Recv(s, nil)
		w.Zero(n)
		w.ErrorIs(err, unix.EAGAIN)
	})
}

// What is refused keeps the data, and names the reason.
func TestRefusedReceives(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		s, p := w.udp(w.pull), w.peer()
		p.write([]byte("stays"), s.LocalAddr())
		w.event(s, ring.EventIn)
		dst := make([]ring.Completion, 1)
		try := func(maxBytes int, flags extraapi.Flags) error {
			_, _, err := extraapi.RecvFromZeroCopy(s, dst, maxBytes, flags)
			w.Error(err)
			w.True(dst[0].Packet.IsZero())
			packets, bytes := s.Waiting()
			w.Equal([]int{1, 5}, []int{packets, bytes})
			return err
		}
		var f *ring.FeatureError
		w.ErrorAs(try(0, extraapi.Peek), &f)
		w.Equal("zcopy.peek", f.Code)
		w.ErrorIs(try(0, extraapi.Peek|extraapi.DontWait), ring.ErrNotSupported)
		w.ErrorAs(try(0, extraapi.WaitAll), &f)
		w.Equal("zcopy.waitall", f.Code)
		w.ErrorIs(try(0, unix.MSG_OOB), unix.EINVAL)
		w.ErrorContains(try(0, 0x80000002), "0x80000000")
		w.ErrorIs(try(-1, 0), unix.EINVAL)
		w.ErrorIs(try(4, 0), unix.ENOBUFS)
		if w.kind != "offload" {
			err := try(0, extraapi.ZeroCopyForce)
			w.ErrorIs(err, unix.EIO)
			w.ErrorContains(err, s.Path().Explain())
		}
		failed := make(chan error)
		go func() { _, _, err := extraapi.RecvFromZeroCopy(s, make([]ring.Completion, 1), 0, 0); failed <- err }()
		w.ErrorIs(<-failed, ring.ErrOwner)
		flags := extraapi.DontWait | extraapi.ZeroCopy
		if w.kind == "offload" {
			flags |= extraapi.ZeroCopyForce
		}
		packets, _, err := extraapi.RecvFromZeroCopy(s, dst, 0, flags)
		w.NoError(err)
		w.Equal(1, packets)
		w.Equal("stays", string(dst[0].Packet.Bytes()))
		w.Equal(p.addr(), dst[0].Source)
		_, err = extraapi.FreeCompletions(s, dst)
		w.NoError(err)
	})
}

// A socket is in one mode, and the calls of the other answer ErrMode: VMA loses data where poll and recv meet.
func TestModesDoNotMix(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		s, p := w.udp(), w.peer()
		p.write([]byte("x"), s.LocalAddr())
		_, _, err := extraapi.RecvFromZeroCopy(s, make([]ring.Completion, 1), 0, 0)
		w.ErrorIs(err, ring.ErrMode)
		_, _, err = extraapi.RecvFromZeroCopy(s, nil, 0, 0)
		w.ErrorIs(err, ring.ErrMode)
		_, _, err = extraapi.Recv(s, make([]byte, 1))
		w.ErrorIs(err, ring.ErrMode)
		w.ErrorIs(extraapi.SetPull(s, true), ring.ErrMode)
		w.Equal("x", w.text(s))
		pull := w.udp(w.pull)
		p.write([]byte("x"), pull.LocalAddr())
		c := w.event(pull, ring.EventIn)
		w.True(c.Packet.IsZero())
		w.silent(0)
		w.ErrorIs(extraapi.SetPull(pull, false), ring.ErrMode)
		n, _, err := extraapi.Recv(pull, make([]byte, 8))
		w.NoError(err)
		w.Equal(1, n)
		_, _, err = extraapi.RecvFromZeroCopy(w.socket(ring.KindDatagram), make([]ring.Completion, 1), 0, 0)
		w.ErrorIs(err, ring.ErrMode)
		unbound := w.socket(ring.KindDatagram)
		w.pull(unbound)
		_, _, err = extraapi.RecvFromZeroCopy(unbound, make([]ring.Completion, 1), 0, 0)
		w.ErrorIs(err, ring.ErrState)
		w.NoError(extraapi.SetPull(unbound, false), "not fixed yet")
	})
}

func TestEndOfStream(t *testing.T) {
	onEach(t, kernelKinds, func(w *world) {
		s, peer := w.pair(w.listen(w.pull))
		w.arrive(s, peer, "the end")
		w.NoError(peer.CloseWrite())
		w.until("FIN", func() bool { w.poll(); return len(w.kept) > 0 && w.kept[len(w.kept)-1].Events.Has(ring.EventRdHup) })
		w.kept = nil
		dst := make([]ring.Completion, 2)
		n, _, err := extraapi.RecvFromZeroCopy(s, dst, 0, 0)
		w.NoError(err)
		w.Equal(1, n)
		_, err = extraapi.FreeCompletions(s, dst)
		w.NoError(err)
		for range 3 {
			_, _, err = extraapi.RecvFromZeroCopy(s, dst, 0, 0)
			w.Equal(io.EOF, err)
			_, _, err = extraapi.Recv(s, make([]byte, 1))
			w.Equal(io.EOF, err)
		}

		s, peer = w.pair(w.listen(w.pull))
		w.NoError(peer.SetLinger(0))
		w.NoError(peer.Close())
		w.of(s)
		for range 2 { // not once and then an end of stream, as in VMA
			_, _, err = extraapi.RecvFromZeroCopy(s, dst, 0, 0)
			w.ErrorIs(err, unix.ECONNRESET)
		}
	})
}

// Of a datagram nothing is left for a second call.
func TestRecvOfDatagrams(t *testing.T) {
	onEach(t, everyKind, func(w *world) {
		s, p := w.udp(w.pull), w.peer()
		for _, b := range []string{"first", "", "second"} {
			p.write([]byte(b), s.LocalAddr())
		}
		w.until("three", func() bool { n, _ := s.Waiting(); return n == 3 })
		b := make([]byte, 3)
		n, from, err := extraapi.Recv(s, b)
		w.ErrorIs(err, ring.ErrTruncated)
		w.Equal("fir", string(b[:n]))
		w.Equal(p.addr(), from)
		n, _, err = extraapi.Recv(s, b)
		w.NoError(err)
		w.Zero(n)
		b = make([]byte, 6)
		n, _, err = extraapi.Recv(s, b)
		w.NoError(err)
		w.Equal("second", string(b[:n]))
		_, waiting := s.Waiting()
		w.Zero(waiting)
		w.Zero(s.Ring().Ledger().Received)
	})
}

// A packet that the callback retained is read whole, or not at all: its holder would lose the bytes too.
func TestPartialReadOfASharedPacket(t *testing.T) {
	onEach(t, kernelKinds, func(w *world) {
		var shared buffers.Packet
		s, peer := w.pair(w.listen(w.pull, w.with(func(_ extraapi.Info, p buffers.Packet) ring.Verdict {
			if shared.IsZero() {
				w.NoError(p.Retain())
				shared = p
			}
			return extraapi.PacketRecv
		})))
		w.arrive(s, peer, "shared", "alone")
		n, _, err := extraapi.Recv(s, make([]byte, 3))
		w.Zero(n)
		w.ErrorIs(err, buffers.ErrShared)
		_, waiting := s.Waiting()
		w.Equal(11, waiting)
		b := make([]byte, 8)
		n, _, err = extraapi.Recv(s, b)
		w.NoError(err)
		w.Equal("sharedal", string(b[:n]))
		w.Equal("shared", string(shared.Bytes()))
		_, err = extraapi.FreePackets(s, shared)
		w.NoError(err)
	})
}

// What waits when a socket is closed goes back, partly read or not.
func TestCloseWithWaiting(t *testing.T) {
	onEach(t, kernelKinds, func(w *world) {
		s, peer := w.pair(w.listen(w.pull))
		w.arrive(s, peer, "abc", "def")
		_, _, err := extraapi.Recv(s, make([]byte, 2))
		w.NoError(err)
		w.closed(s)
		packets, bytes := s.Waiting()
		w.Zero(packets)
		w.Zero(bytes)
		l := w.pool.Ledger()
		w.Zero(l.Received + l.Held)
	})
}
