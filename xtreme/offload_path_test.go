package xtreme_test

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// An interface that goes takes the fast path with it and leaves the socket to the kernel; it is told, and told again when it is back. A
// loop that sleeps is woken.
func TestPathGoesAndReturns(t *testing.T) {
	w := newCabled(t, testnet.Pair{}, testnet.Pair{})
	s := w.udp(w.at(0))
	other := w.udp(w.at(1))
	l, err := netlink.LinkByName("v0")
	w.NoError(err)
	told := func(tier, code string) {
		t.Helper()
		for end := time.Now().Add(patience); ; {
			for i := range w.kept {
				w.NotEqual(other.LocalAddr(), w.kept[i].Socket.LocalAddr(), "v1 stays as it was")
				w.Equal(xtreme.EventPath, w.kept[i].Events)
			}
			w.kept = nil
			if p := s.Path(); p.Tier == tier && (code == "" || has(p, code)) {
				return
			}
			w.True(time.Now().Before(end), "%v", s.Path())
			w.NoError(w.poller.WaitFor(patience))
			w.poll()
		}
	}
	w.NoError(netlink.LinkSetDown(l))
	told("kernel", "link.down")
	w.NoError(netlink.LinkSetUp(l))
	told("bypass", "")
	peer := w.net.Dial(s.LocalAddr())
	// The peer's end has its carrier a little later, and drops what it sends until then.
	var sent time.Time
	w.until("a datagram of the peer", func() bool {
		if time.Since(sent) > 50*time.Millisecond {
			w.write(peer, "again")
			sent = time.Now()
		}
		return len(w.kept) > 0
	})
	text, from := fast(w.world, s)
	w.Equal("again", text)
	_, err = s.SendTo([]byte("answer"), from) // waits for the neighbour, whom the kernel forgot with the interface
	w.NoError(err)
	b := make([]byte, 16)
	for end := time.Now().Add(patience); ; w.poll() {
		w.True(time.Now().Before(end), "%v", s.Ring().Stats().Driver)
		w.NoError(peer.SetReadDeadline(time.Now().Add(time.Millisecond)))
		if n, err := peer.Read(b); err == nil {
			w.Equal("answer", string(b[:n]))
			break
		}
	}
	answers(w.world, other, w.net.Dial(other.LocalAddr()))
}

func has(p xtreme.Path, code string) bool {
	for _, c := range codes(p) {
		if c == code {
			return true
		}
	}
	return false
}

// Polling two rings, receiving and answering on both, allocates nothing.
func TestBothRingsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	w := newCabled(t)
	udp := w.udp(w.at(0))
	local := w.udp(loopback)
	peer, near := w.net.Dial(udp.LocalAddr()), w.peer(local.LocalAddr())
	message, answer := []byte("message"), make([]byte, 64)
	dst := make([]xtreme.Completion, 8)
	var failed error
	round := func() {
		if _, err := peer.Write(message); err != nil {
			failed = err
		}
		if _, err := near.Write(message); err != nil {
			failed = err
		}
		for got := 0; got < 2; {
			n, err := w.poller.Poll(dst)
			if err != nil {
				failed = err
			}
			for i := range dst[:n] {
				c := &dst[i]
				if _, err := c.Socket.SendTo(c.Packet.Bytes(), c.Source); err != nil {
					failed = err
				}
				if err := c.Packet.Release(); err != nil {
					failed = err
				}
			}
			got += n
		}
		if err := w.poller.Flush(); err != nil {
			failed = err
		}
		for _, c := range []interface{ Read([]byte) (int, error) }{peer, near} {
			if _, err := c.Read(answer); err != nil {
				failed = err
			}
		}
	}
	for range 100 {
		round()
	}
	w.NoError(failed)
	w.Zero(testnet.LeastAllocs(500, round)) // the peer's Read and Write allocate nothing either
	w.NoError(failed)
	w.Len(w.poller.Rings(), 2)
}

// A kernel ring with nothing to do costs a poller no system call; what is posted to it is done at the next Poll all the same.
func TestIdleKernelRingIsPassedOver(t *testing.T) {
	w := newCabled(t)
	s := w.udp(w.at(0))
	kernel := w.poller.Rings()[0]
	w.Equal("offload", s.Ring().Kind())
	w.poll()
	before := kernel.Stats().Polls
	for range 100 {
		w.poll()
	}
	w.Equal(before, kernel.Stats().Polls)
	ran := false
	w.NoError(w.poller.Post(func() { ran = true }))
	w.poll()
	w.True(ran)
	var done [1]xtreme.Completion
	_, err := w.poller.Poll(done[:0])
	w.ErrorIs(err, ring.ErrNoSlice)
	l, err := w.poller.ListenTCP(netip.MustParseAddrPort("127.0.0.1:0"), xtreme.ListenConfig{})
	w.NoError(err)
	_ = w.dial(l.LocalAddr())
	w.accept(l)
}

// The path of a closed connection of the kernel's on an offloaded ring is still the kernel's.
func TestPathOfAClosedConnectionOfTheKernel(t *testing.T) {
	w := newTCPCabled(t, unchanged)
	l := w.listenTCP(w.world, w.at(0))
	local, err := w.poller.DialTCP(l.LocalAddr(), xtreme.DialConfig{})
	w.NoError(err)
	w.event(local, xtreme.EventOut)
	c := w.accept(l)
	w.Equal("kernel", c.Path().Tier)
	w.NoError(c.Close())
	w.Equal("kernel", c.Path().Tier, "closing: %s", c.Path().Explain())
	w.event(c, xtreme.EventClosed)
	w.Equal("kernel", c.Path().Tier, "closed: %s", c.Path().Explain())
	w.close(local)
}

// An interface that is down when a wildcard socket is opened is not said to be down when it is up, nor named at all when the ring has it, which
// EventPath tells.
func TestThePathForgetsAnInterfaceThatWasDown(t *testing.T) {
	w := newCabled(t, testnet.Pair{}, testnet.Pair{})
	link, err := netlink.LinkByName(w.net.Device(1))
	w.NoError(err)
	w.NoError(netlink.LinkSetDown(link))
	wild := w.udp(netip.AddrPortFrom(netip.IPv4Unspecified(), 0))
	w.Contains(reason(t, wild, "link.down"), w.net.Device(1))
	w.NoError(netlink.LinkSetUp(link))
	var near *xtreme.Socket
	w.until("the interface is up and the ring has it", func() bool {
		if near != nil {
			w.close(near)
		}
		w.NotContains(wild.Path().Explain(), w.net.Device(1)+" is down")
		near = w.udp(w.at(1))
		return near.Path().Tier == "bypass"
	})
	w.NotContains(codes(wild.Path()), "link.down", wild.Path().Explain())
	w.Len(wild.Path().Links, 2, wild.Path().Explain())
	w.event(wild, xtreme.EventPath)
	w.write(w.net.Dial(netip.AddrPortFrom(w.net.Local(1), wild.LocalAddr().Port())), "over the link")
	got, _ := fast(w.world, wild)
	w.Equal("over the link", got)
}

// A socket on an address that was added just before is offloaded: what follows the kernel's tables may be behind, and the socket would be the
// kernel's for good.
func TestAnAddressIsKnownAtOnce(t *testing.T) {
	w := newCabled(t)
	w.engine = w.newEngine(func(s *conf.Settings) { s.Offload.Fill = 16 }) // buffers for all interfaces
	w.poller = w.newPoller("new addresses")
	w.close(w.udp(w.at(0))) // the tables were read before
	for i := range 10 {
		at := netip.AddrFrom4([4]byte{10, 8, byte(i), 1})
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprint("new", i)}, PeerName: fmt.Sprint("far", i)}
		w.NoError(netlink.LinkAdd(veth))
		far, err := netlink.LinkByName(veth.PeerName)
		w.NoError(err)
		w.NoError(netlink.LinkSetUp(far))
		w.NoError(netlink.LinkSetUp(veth))
		w.NoError(netlink.AddrAdd(veth, &netlink.Addr{IPNet: &net.IPNet{IP: at.AsSlice(), Mask: net.CIDRMask(24, 32)}}))
		s := w.udp(netip.AddrPortFrom(at, 0))
		w.Equal("bypass", s.Path().Tier, s.Path().Explain())
		w.close(s)
	}
}
