package offload_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	streams "github.com/socketxtreme/socketxtreme/ring/transport/stream"
)

// twoHosts are both ends of a memory link, polled by the test, and a connection between them.
type twoHosts struct {
	*require.Assertions
	t     *testing.T
	pools [2]*buffers.DriverPool
	sets  [2]*ring.Set
	rings [2]*ring.Ring
	s     [2]*ring.Socket // the one that was accepted, the one that connected
	dst   []ring.Completion
	// seen is called for each completion of the two sockets; it releases packets.
	seen func(end int, c *ring.Completion)
}

func newTwoHosts(t *testing.T, faults [2]memory.Fault, o *streams.Options) *twoHosts {
	w := &twoHosts{Assertions: require.New(t), t: t, dst: make([]ring.Completion, 64)}
	for i := range w.pools {
		w.pools[i] = newPool(t, buffers.Layout{SmallSize: 2048, SmallCount: 2048, LargeSize: 65536, LargeCount: 8, Headroom: 192})
	}
	ours, theirs, err := memory.Pair(w.pools[0], w.pools[1], memory.Config{Names: [2]string{"mem0", "mem1"}, Addrs: macs, Slots: 256, Faults: faults})
	w.NoError(err)
	ends := [2]*memory.End{ours, theirs}
	for i := range w.sets {
		c := ring.SetConfig{Pool: w.pools[i]}
		streamSide(t, i, ends[i], 1500, o, &c)
		w.sets[i], err = ring.NewSet(c)
		w.NoError(err)
		w.rings[i], err = w.sets[i].NewRing()
		w.NoError(err)
		t.Cleanup(func() { _ = w.sets[i].Close() })
	}
	l, err := w.sets[0].NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	w.NoError(err)
	w.NoError(l.Bind(netip.AddrPortFrom(subnets[0][0].Addr(), 0)))
	w.NoError(l.Listen(8))
	w.s[1], err = w.sets[1].NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	w.NoError(err)
	w.NoError(w.s[1].Connect(l.LocalAddr()))
	connected := false
	w.seen = func(end int, c *ring.Completion) {
		if c.Events.Has(ring.EventNewConnection) {
			w.s[0] = c.Socket
		}
		connected = connected || end == 1 && c.Events == ring.EventOut
	}
	w.until("connected", func() bool { return connected && w.s[0] != nil })
	return w
}

func (w *twoHosts) turn() {
	for i, r := range w.rings {
		n, err := r.Poll(w.dst)
		if err != nil {
			w.NoError(err)
		}
		for k := range w.dst[:n] {
			w.seen(i, &w.dst[k])
		}
	}
}

func (w *twoHosts) until(what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(6 * patience); !holds(); w.turn() {
		if time.Now().After(end) {
			w.FailNow("timed out: "+what, "%v\n%v", w.rings[0].Stats().Driver, w.rings[1].Stats().Driver)
		}
	}
}

// counter is a count of an end's driver.
func (w *twoHosts) counter(end int, name string) uint64 {
	for _, c := range w.rings[end].Stats().Driver {
		if c.Name == name {
			return c.Value
		}
	}
	w.FailNow("no counter " + name)
	return 0
}

// exchange sends n bytes in each direction, and FIN, and compares what arrives.
func (w *twoHosts) exchange(n int) {
	w.t.Helper()
	random := rand.NewChaCha8([32]byte{1})
	var text [2][]byte
	for i := range text {
		text[i] = make([]byte, n)
		_, _ = random.Read(text[i])
	}
	sums := [2]interface {
		Write([]byte) (int, error)
		Sum([]byte) []byte
	}{sha256.New(), sha256.New()}
	var sent, got [2]int
	var shut, ended [2]bool
	w.seen = func(end int, c *ring.Completion) {
		if c.Events.Has(ring.EventPacket) {
			for b := range c.Packet.Segments() {
				_, _ = sums[end].Write(b)
				got[end] += len(b)
			}
			w.NoError(c.Packet.Release())
		}
		if c.Events.Has(ring.EventRdHup) {
			w.NoError(c.Err)
			ended[end] = true
		}
	}
	w.until("both streams", func() bool {
		for i, s := range w.s {
			if sent[i] < n {
				k, err := s.Send(text[i][sent[i]:min(n, sent[i]+64<<10)])
				if sent[i] += k; err != nil {
					w.ErrorIs(err, ring.ErrWouldBlock)
				}
			} else if !shut[i] {
				shut[i] = true
				w.NoError(s.CloseWrite())
			}
		}
		return ended[0] && ended[1]
	})
	for i := range got {
		w.Equal(n, got[i])
		want := sha256.Sum256(text[1-i])
		w.True(bytes.Equal(want[:], sums[i].Sum(nil)))
	}
}

// On a clean wire nearly each byte is copied once, by Send: its buffer is what leaves. A window may cut a segment, a probe may send one again.
func TestStreamsAreCopiedOnce(t *testing.T) {
	w := newTwoHosts(t, [2]memory.Fault{}, quickTCP(false))
	w.exchange(2 << 20)
	for i := range w.rings {
		w.Greater(w.counter(i, "tcp.sent_in_place"), 20*w.counter(i, "tcp.sent_copied"))
	}
	w.Equal(ring.TierBypass, w.s[0].Path().Tier)
	w.Len(w.s[0].Path().Links, 1)
}

// Frames are lost, doubled and spoiled in both directions: what arrives is what was sent.
func TestStreamsOverABadWire(t *testing.T) {
	var faults [2]memory.Fault
	for i := range faults {
		random := rand.New(rand.NewPCG(uint64(i), 2))
		faults[i] = func(frame []byte) ([]byte, int) {
			switch random.IntN(100) {
			case 0, 1:
				return frame, 0
			case 2:
				return frame, 2
			case 3:
				frame[random.IntN(len(frame)-14)+14] ^= 1 << random.IntN(8)
			}
			return frame, 1
		}
	}
	w := newTwoHosts(t, faults, quickTCP(false))
	w.exchange(1 << 20)
	w.Positive(w.counter(0, "tcp.retransmitted"))
	w.Positive(w.counter(1, "tcp.sum"))
}

// No allocation for a segment, in either direction, once the lists have grown.
func TestStreamsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	w := newTwoHosts(t, [2]memory.Fault{}, quickTCP(false))
	for _, s := range w.s {
		w.NoError(s.SetNoDelay(true))
	}
	message, got := make([]byte, 700), [2]int{}
	w.seen = func(end int, c *ring.Completion) {
		if c.Events.Has(ring.EventPacket) {
			got[end] += c.Packet.Len()
			_ = c.Packet.Release()
		}
	}
	round := func() {
		for end := range w.s {
			want := got[1-end] + 3*len(message)
			for range 3 {
				if _, err := w.s[end].Send(message); err != nil {
					t.Fatal(err)
				}
			}
			for got[1-end] < want {
				w.turn()
			}
		}
	}
	for range 2000 {
		round()
	}
	w.Zero(testing.AllocsPerRun(2000, round))
	w.Less(w.counter(0, "tcp.segments_out"), w.counter(0, "tcp.sent_in_place")*3/2, "acknowledgements go with answers")
}

// The same where frames are lost, doubled and overtaken: what waits beyond gaps, and what is sent again, allocates nothing either.
func TestStreamsAllocateNothingOverABadWire(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	var faults [2]memory.Fault
	for i := range faults {
		n := 0
		faults[i] = func(frame []byte) ([]byte, int) {
			n++
			switch {
			case n%61 == 0:
				return frame, 0
			case n%37 == 0:
				return frame, 2
			}
			return frame, 1
		}
	}
	w := newTwoHosts(t, faults, quickTCP(false))
	bulk, sent, got := make([]byte, 16<<10), [2]int{}, [2]int{}
	w.seen = func(end int, c *ring.Completion) {
		if c.Events.Has(ring.EventPacket) {
			got[end] += c.Packet.Len()
			_ = c.Packet.Release()
		}
	}
	round := func() {
		for end, s := range w.s {
			n, err := s.Send(bulk)
			if sent[end] += n; err != nil && !errors.Is(err, ring.ErrWouldBlock) {
				t.Fatal(err)
			}
		}
		for end := time.Now().Add(patience); got[0] < sent[1] || got[1] < sent[0]; w.turn() {
			if time.Now().After(end) {
				t.Fatal("it does not go on")
			}
		}
	}
	for range 300 {
		round()
	}
	before := w.counter(0, "tcp.retransmitted")
	w.Zero(testing.AllocsPerRun(100, round))
	w.Greater(w.counter(0, "tcp.retransmitted"), before)
	w.Positive(w.counter(0, "tcp.out_of_order"))
}

// A ring that is closed resets the peer of a socket that was closed before, if that has not acknowledged everything; if it has, its connection
// stays half closed.
func TestClosingARingResetsPeers(t *testing.T) {
	for _, finished := range []bool{false, true} {
		w := newTwoHosts(t, [2]memory.Fault{}, quickTCP(false))
		var failure error
		ended := false
		w.seen = func(end int, c *ring.Completion) {
			if c.Err != nil {
				failure = c.Err
			}
			ended = ended || end == 1 && c.Events.Has(ring.EventRdHup)
		}
		w.NoError(w.s[0].Close())
		if finished {
			w.until("the end", func() bool { return ended })
			for range 100 {
				w.turn()
			}
			w.NoError(failure)
		}
		w.NoError(w.sets[0].Close())
		w.rings[0] = w.rings[1]
		if finished {
			for range 1000 {
				w.turn()
			}
			w.NoError(failure)
			continue
		}
		w.until("the reset", func() bool { return failure != nil })
		w.True(errors.Is(failure, syscall.ECONNRESET))
	}
}

// A host without a kernel connects to itself as well.
func TestStreamToOneself(t *testing.T) {
	w := newTwoHosts(t, [2]memory.Fault{}, quickTCP(false))
	l, err := w.sets[0].NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	w.NoError(err)
	w.NoError(l.Bind(netip.AddrPortFrom(subnets[0][0].Addr(), 0)))
	w.NoError(l.Listen(8))
	c, err := w.sets[0].NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	w.NoError(err)
	w.NoError(c.Connect(l.LocalAddr()))
	text := ""
	w.seen = func(_ int, x *ring.Completion) {
		if x.Events.Has(ring.EventPacket) {
			text += string(x.Packet.Bytes())
			w.NoError(x.Packet.Release())
		}
		if x.Socket == c && x.Events.Has(ring.EventOut) {
			_, err := c.Send([]byte("hello"))
			w.NoError(err)
		}
	}
	w.until("the text", func() bool { return text == "hello" })
}
