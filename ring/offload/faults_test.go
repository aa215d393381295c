package offload_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/internal/wire/malformed"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
)

// An interface that goes down: sends say ENETUNREACH, what was on its way is counted, the socket's path says why it is the kernel's; up again
// everything flows as before, without a call.
func TestDownAndUp(t *testing.T) {
	n := testnet.New(t, testnet.Pair{})
	f := newFaulty(t, faultConfig{device: "v0"})
	s := f.bind("10.0.0.1:7000", ring.Config{})
	peer := n.Dial(s.LocalAddr())
	for round := range 3 {
		text := fmt.Sprint("before ", round)
		write(t, peer, text)
		got, os := f.next(s)
		f.Equal(text, got)
		f.False(os)
		f.NoError(f.send(s, addrOf(peer), text))
		f.Equal(text, reads(t, peer))

		// The news come one by one: the interface cannot send, the neighbour is gone, the route is gone.
		met := func() uint64 {
			return f.counter("offload.flush_failures") + f.counter("offload.lost_sends") + f.counter("stack.waited_for_neighbour") +
				f.counter("stack.lost")
		}
		before := met()
		_, err := s.SendTo([]byte("on its way"), addrOf(peer))
		f.NoError(err)
		f.NoError(netlink.LinkSetDown(linkOf(t, "v0")))
		f.poll()
		f.until("no route", func() bool { err = s.Prepare(addrOf(peer)); return err != nil })
		f.ErrorIs(err, unix.ENETUNREACH)
		f.ErrorIs(f.send(s, addrOf(peer), "down"), unix.ENETUNREACH)
		f.Greater(met(), before)
		for _, err := range f.errs {
			f.ErrorIs(err, unix.ENETDOWN)
			f.ErrorContains(err, "v0")
		}
		f.LessOrEqual(len(f.errs), round+1, "said once")
		f.until("the loss in the path", func() bool { return s.Path().Tier == "kernel" })
		f.Contains(s.Path().Explain(), "[link.down]")

		f.NoError(netlink.LinkSetUp(linkOf(t, "v0")))
		for _, text := range f.mark(s, peer, fmt.Sprint("up ", round)) {
			f.Equal("on its way", text)
		}
		f.until("all sent", func() bool { return f.ring.Ledger().Transmitting == 0 })
		f.until("the way back", func() bool { return s.Path().Tier == "bypass" })
	}
}

// An interface that is deleted is lost for good: the sockets say so, their sends fail, and everything can be closed.
func TestInterfaceDeleted(t *testing.T) {
	n := testnet.New(t, testnet.Pair{})
	f := newFaulty(t, faultConfig{device: "v0"})
	s := f.bind("10.0.0.1:7000", ring.Config{})
	peer := n.Dial(s.LocalAddr())
	write(t, peer, "x")
	f.next(s)
	p, err := f.pool.Alloc(1)
	f.NoError(err)
	f.NoError(netlink.LinkDel(linkOf(t, "v0")))
	// That the program is off may be known before the interface is.
	f.until("the loss noticed", func() bool { return strings.Contains(s.Path().Explain(), "[link.gone]") })
	f.Equal("kernel", s.Path().Tier)
	f.until("no address", func() bool { err = s.Prepare(addrOf(peer)); return err != nil })
	f.ErrorIs(err, unix.EADDRNOTAVAIL, "it went with the interface")
	f.ErrorIs(f.send(s, addrOf(peer), "x"), unix.EADDRNOTAVAIL)
	f.NoError(s.SendPacket(p, addrOf(peer), 5))
	f.until("SENT with its error", func() bool {
		for _, c := range f.kept {
			if c.Events.Has(ring.EventSent) {
				f.ErrorIs(c.Err, unix.EADDRNOTAVAIL)
				return true
			}
		}
		return false
	})
	for _, err := range f.errs {
		f.ErrorContains(err, "v0")
	}
}

// The application holds every buffer there is: what comes then is kept as far as the socket's receive buffer goes, and counted beyond. Once
// it gives them back all flows again, in order.
func TestBufferExhaustion(t *testing.T) { bufferExhaustion(t, faultConfig{device: "v0"}) }

func bufferExhaustion(t *testing.T, c faultConfig) {
	n := testnet.New(t, testnet.Pair{})
	c.xdp = xdp.Config{Fill: 64, RxRing: 64}
	c.layout = buffers.Layout{SmallSize: 2048, SmallCount: 256, LargeSize: 4096, LargeCount: 2, Headroom: 192}
	f := newFaulty(t, c)
	s := f.bind("10.0.0.1:7000", ring.Config{}, func(s *ring.Socket) error { return s.SetReceiveBuffer(8192) })
	peer := n.Dial(s.LocalAddr())
	write(t, peer, "x")
	f.next(s)
	var all []buffers.Packet
	for _, size := range []int{4096, 2048} {
		for {
			p, err := f.pool.Alloc(size)
			if err != nil {
				break
			}
			all = append(all, p)
		}
	}
	_, err := s.SendTo([]byte("x"), addrOf(peer))
	f.ErrorIs(err, ring.ErrWouldBlock)
	const sent = 1000
	for i := range sent {
		write(t, peer, fmt.Sprint(i))
		if i%8 == 7 {
			f.poll()
		}
	}
	lost := func() int { return int(f.counter("udp.budget") + f.counter("v0.rx_lost")) }
	packets := func() (n int) { // the completion that says a send may succeed again is none
		for i := range f.kept {
			if f.kept[i].Events.Has(ring.EventPacket) {
				n++
			}
		}
		return n
	}
	f.until("all accounted for", func() bool { return packets()+int(f.counter("stack.kept"))+lost() == sent })
	f.NotEmpty(f.kept)
	f.NotZero(f.counter("v0.xdp.no_buffer"))
	f.NotZero(f.counter("stack.kept"))
	f.NotZero(f.counter("udp.budget"))
	f.Equal(f.counter("udp.budget"), s.Stats().Drops)

	for _, p := range all {
		f.NoError(p.Release())
	}
	last, got := -1, 0
	for want := sent - lost(); got < want; got++ {
		text, _ := f.next(s)
		var i int
		_, err := fmt.Sscan(text, &i)
		f.NoError(err)
		f.Greater(i, last, "in order")
		last = i
	}
	f.until("OUT", func() bool { return f.send(s, addrOf(peer), "again") == nil })
	f.Equal("again", reads(t, peer))
	for i := range 500 {
		write(t, peer, fmt.Sprint(i))
		text, os := f.next(s)
		f.Equal(fmt.Sprint(i), text)
		f.False(os)
	}
	f.Equal(sent-got, lost(), "nothing was lost after they were given back")
	f.Empty(f.errs)
}

// A socket whose application holds what it got loses its own datagrams beyond its receive buffer, with a count, and nobody else's.
func TestSlowConsumer(t *testing.T) { slowConsumer(t, faultConfig{device: "v0"}) }

func slowConsumer(t *testing.T, c faultConfig) {
	n := testnet.New(t, testnet.Pair{})
	f := newFaulty(t, c)
	slow := f.bind("10.0.0.1:7000", ring.Config{Budget: 16 * 2304}, func(s *ring.Socket) error { return s.SetReceiveBuffer(4096) })
	quick := f.bind("10.0.0.1:7001", ring.Config{})
	toSlow, toQuick := n.Dial(slow.LocalAddr()), n.Dial(quick.LocalAddr())
	const each = 2000
	var held []ring.Completion
	hold := func() {
		for {
			c, ok := f.take(slow)
			if !ok {
				return
			}
			held = append(held, c)
		}
	}
	for i := range each {
		write(t, toSlow, fmt.Sprint(i))
		write(t, toQuick, fmt.Sprint(i))
		text, os := f.next(quick)
		f.Equal(fmt.Sprint(i), text)
		f.False(os)
		hold()
	}
	kept := func() int { return int(f.counter("stack.kept")) }
	f.until("all accounted for", func() bool {
		hold()
		return len(held)+kept()+int(f.counter("udp.budget")) == each
	})
	f.True(slow.OverBudget())
	f.Less(len(held), 64+17, "the budget, and a burst")
	f.NotZero(kept())
	f.Equal(f.counter("udp.budget"), slow.Stats().Drops)
	f.Zero(quick.Stats().Drops)
	f.Zero(f.counter("v0.rx_lost"))

	for i := range held {
		f.Equal(fmt.Sprint(i), string(held[i].Packet.Bytes()), "held memory is nobody else's")
		f.NoError(held[i].Packet.Release())
	}
	for i := range kept() {
		text, _ := f.next(slow)
		f.Equal(fmt.Sprint(len(held)+i), text, "what was kept comes first, in order")
	}
	for i := range 200 {
		write(t, toSlow, fmt.Sprint("live ", i))
		text, _ := f.next(slow)
		f.Equal(fmt.Sprint("live ", i), text)
	}
	f.Empty(f.errs)
}

// The malformed frames over AF_XDP: what the steering program leaves to the kernel it counts, what it takes the stack drops and counts; both
// together are all that came, and no datagram comes of them.
func TestMalformedFramesOverVeth(t *testing.T) { malformedFramesOverVeth(t, faultConfig{device: "v0"}) }

func malformedFramesOverVeth(t *testing.T, c faultConfig) {
	n := testnet.New(t, testnet.Pair{})
	f := newFaulty(t, c)
	s := f.bind("10.0.0.1:7000", ring.Config{})
	frames := newFrameSocket(t, n)
	from := malformed.Station{Addr: n.Peer(0).As4(), Port: 9}
	to := malformed.Station{Addr: n.Local(0).As4(), Port: 7000}
	copy(to.MAC[:], linkOf(t, "v0").Attrs().HardwareAddr)
	n.InPeer(func() { copy(from.MAC[:], linkOf(t, "p0").Attrs().HardwareAddr) })
	passed := func() (n uint64) {
		for _, c := range f.dev.Counters(nil) {
			if strings.HasPrefix(c.Name, "steer.") && c.Name != "steer.hit" {
				n += c.Value
			}
		}
		return n
	}
	peer := n.Dial(s.LocalAddr())
	for _, x := range malformed.Frames(from, to) {
		if len(x.Bytes) < 15 {
			continue // the kernel does not send these
		}
		name := x.Class + "/" + x.Name
		taken, left, dropped := f.counter("v0.rx_frames"), passed(), uint64(0)
		if isDrop[x.Want.String()] {
			dropped = f.counter(x.Want.String())
		}
		f.NoError(frames.write(x.Bytes), name)
		write(t, peer, name) // behind it on the same wire: strays of the kernel's own may pass at any time
		if x.Payload != "" {
			text, os := f.next(s)
			f.Equal(x.Payload, text, name)
			f.False(os, name)
		}
		text, _ := f.next(s)
		f.Equal(name, text)
		f.until(name, func() bool { return f.counter("v0.rx_frames") > taken+1 || passed() > left })
		if f.counter("v0.rx_frames") > taken+1 && x.Payload == "" {
			f.Equal(dropped+1, f.counter(x.Want.String()), name)
		}
		f.Empty(f.kept, name)
	}
	// Whatever the kernel made of its share, the socket got none of it.
	f.NoError(frames.write(malformed.Frames(from, to)[len(malformed.Frames(from, to))-1].Bytes))
	write(t, peer, "mark")
	text, _ := f.next(s)
	f.Equal("mark", text)
	f.Zero(f.counter("offload.os_packets"))
	f.Empty(f.errs)
}
