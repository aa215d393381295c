package offload_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
)

// flood sends numbered datagrams from the peer's namespace, by threads of its own and many with one system call.
type flood struct {
	next    atomic.Uint64 // number of the next one
	sent    atomic.Uint64 // that the peer's kernel took
	stop    atomic.Bool
	wg      sync.WaitGroup
	started time.Time
	took    time.Duration
}

// idleLook is after how many turns without a frame the shadow is looked at (idleEvery of the package).
const idleLook = 16

const (
	floodBatch   = 32
	floodThreads = 2
	floodMost    = 1 << 23 // datagrams: it ends by itself
)

// flood starts to send rate datagrams a second.
func (c *cable) flood(to netip.AddrPort, rate int) *flood {
	f := &flood{started: time.Now()}
	for range floodThreads {
		var conn *net.UDPConn
		c.InPeer(func() {
			var err error
			conn, err = net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(to))
			require.NoError(c.t, err)
		})
		f.wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			defer conn.Close()
			f.run(c.t, ipv4.NewPacketConn(conn), time.Duration(floodThreads*floodBatch*int(time.Second)/rate))
		})
	}
	return f
}

// run sends a batch every so often; what it is late by is made up for, up to 10 ms.
func (f *flood) run(t testing.TB, p *ipv4.PacketConn, every time.Duration) {
	list := make([]ipv4.Message, floodBatch)
	for i := range list {
		list[i].Buffers = [][]byte{make([]byte, 8)}
	}
	for at := time.Now(); !f.stop.Load() && f.next.Load() < floodMost; at = at.Add(every) {
		if late := time.Since(at); late < 0 {
			time.Sleep(-late)
		} else if late > 10*time.Millisecond {
			at = time.Now()
		}
		first := f.next.Add(floodBatch) - floodBatch
		for i := range list {
			binary.LittleEndian.PutUint64(list[i].Buffers[0], first+uint64(i))
		}
		for left := list; len(left) > 0; {
			n, err := p.WriteBatch(left, 0)
			if err != nil {
				t.Errorf("the sender: %v", err)
				return
			}
			f.sent.Add(uint64(n))
			left = left[n:]
		}
	}
}

func (f *flood) end() {
	f.stop.Store(true)
	f.wg.Wait()
	f.took = time.Since(f.started)
}

// bookkeeper polls without a sleep and keeps books: each number once, by which way, and for how long it was away from polling.
type bookkeeper struct {
	t        *testing.T
	s        *ring.Socket
	dst      []ring.Completion
	seen     []uint64 // a bit for each number
	fast, os uint64
	flood    *flood
	sent     uint64 // by the flood, at the last Poll
	empty    int    // Polls in a row that brought nothing
	last     time.Time
	inPoll   time.Duration // the longest Poll
	long     int           // Polls of more than 5 ms
	blocked  int           // and those of them in which the thread waited for something, rather than for a processor
	cycle    time.Duration // and the longest time from the end of one to the end of the next
	behind   uint64        // datagrams that may be waiting: sent and not received since there was nothing
	most     uint64        // of them ever
}

func (r *bookkeeper) poll() {
	before := switches(r.t)
	start := time.Now()
	n, err := r.s.Ring().Poll(r.dst)
	require.NoError(r.t, err)
	now := time.Now()
	if now.Sub(start) > 5*time.Millisecond {
		if r.long++; switches(r.t) != before {
			r.blocked++
		}
	}
	if !r.last.IsZero() && r.flood != nil {
		cycle := now.Sub(r.last)
		r.inPoll, r.cycle = max(r.inPoll, now.Sub(start)), max(r.cycle, cycle)
		sent := r.flood.sent.Load()
		r.behind += sent - r.sent
		r.sent = sent
		r.most = max(r.most, r.behind)
	}
	r.last = now
	r.behind -= min(r.behind, uint64(n))
	if r.empty++; n > 0 {
		r.empty = 0
	} else if r.empty > 2*idleLook {
		r.behind = 0
	}
	for i := range r.dst[:n] {
		c := &r.dst[i]
		if !c.Events.Has(ring.EventPacket) {
			continue
		}
		number := binary.LittleEndian.Uint64(c.Packet.Bytes())
		if bit := uint64(1) << (number % 64); r.seen[number/64]&bit != 0 {
			require.Fail(r.t, "twice", "datagram %d", number)
		} else {
			r.seen[number/64] |= bit
		}
		if c.ViaKernel {
			r.os++
		} else {
			r.fast++
		}
		if err := c.Packet.Release(); err != nil {
			require.NoError(r.t, err)
		}
	}
}

// switches is how often the thread has given its processor up by itself. The test's goroutine keeps its thread.
func switches(t testing.TB) int64 {
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &u))
	return u.Nvcsw
}

func (r *bookkeeper) until(what string, done func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !done(); r.poll() {
		require.True(r.t, time.Now().Before(end), "%s; %v\n%v", what, r.s.Path(), r.s.Ring().Stats().Driver)
	}
}

// statistics are what the kernel counts of an interface of the thread's namespace.
func statistics(t testing.TB, name string) netlink.LinkStatistics {
	l, err := netlink.LinkByName(name)
	require.NoError(t, err)
	return *l.Attrs().Statistics
}

// Somebody takes the steering program off, under 100,000 datagrams a second, again and again: what the rings held is lost and no more.
// SOCKETXTREME_LONG set to anything makes it twenty times; the log has the rate that the machine gave the sender, and the account.
// Every datagram is accounted for: received by the link, received by the shadow, dropped at the shadow because its owner was kept from polling,
// dropped by the link under a name, or in a ring when that was closed.
func TestProgramTakenOffUnderLoad(t *testing.T) {
	s, detach := detachable(t)
	set, _ := s.set(nil)
	r := &bookkeeper{t: t, s: s.open(set, "10.0.0.1:7000"), dst: make([]ring.Completion, 64), seen: make([]uint64, floodMost/64+floodBatch)}
	room, err := unix.GetsockoptInt(r.s.ID(), unix.SOL_SOCKET, unix.SO_RCVBUF)
	require.NoError(t, err)
	require.GreaterOrEqual(t, room, 8<<20, "the shadow has room without being told to")
	r.until("ready", func() bool { return r.s.Path().Tier == "bypass" })

	rounds := 3
	switch {
	case raceEnabled:
		rounds = 1
	case os.Getenv("SOCKETXTREME_LONG") != "":
		rounds = 20
	}
	const rate = 160_000 // asked for, so that a machine with other work reaches 100,000
	f := s.flood(r.s.LocalAddr(), rate)
	r.flood = f
	defer f.end()
	for range rounds {
		fast := r.fast
		r.until("by the link", func() bool { return r.fast > fast+5000 })
		byKernel, told := r.os, counter(r.s.Ring(), "offload.path_changes")
		detach()
		r.until("by the shadow", func() bool { return r.os > byKernel+100 }) // more than that may not come: the way back opens soon
		r.until("the path said so", func() bool { return counter(r.s.Ring(), "offload.path_changes") > told })
		r.until("back", func() bool { return r.s.Path().Tier == "bypass" })
	}
	f.end()

	sent := f.sent.Load()
	shadowDrops := func() uint64 {
		n, err := sys.Drops(r.s.ID())
		require.NoError(t, err)
		return uint64(n)
	}
	// Both rings of the kernel that lose what they hold without counting it: the socket's, of as many frames as buffers lie ready for it, and
	// the one that a veth has while a program is on it (VETH_RING_SIZE in drivers/net/veth.c), each once for a round.
	const vethRing = 256
	held := uint64(rounds * (1024 + vethRing))
	for quiet, last := time.Now(), uint64(0); time.Since(quiet) < 200*time.Millisecond; r.poll() { // until nothing more comes
		if r.fast+r.os != last {
			quiet, last = time.Now(), r.fast+r.os
		}
	}
	drops := shadowDrops()
	// What the AF_XDP socket has no room for is counted twice: by the socket, and by the veth that offered it.
	noRoom, veth := counter(r.s.Ring(), "v0.rx_lost"), statistics(t, "v0").RxDropped
	var queue uint64
	s.InPeer(func() { queue = statistics(t, "p0").TxDropped })
	known := r.fast + r.os + drops + max(noRoom, veth) + queue
	lost := sent - min(sent, known)
	reached := float64(sent) / f.took.Seconds()
	t.Logf("taken off %d times; sent %d at %.0f a second: by the link %d, by the shadow %d, dropped at the shadow %d, by the AF_XDP socket %d, "+
		"by v0 %d (those included), by p0 %d, in rings %d (%d fit)", rounds, sent, reached, r.fast, r.os, drops, noRoom, veth, queue, lost, held)
	t.Logf("the longest Poll %v, the longest time between two %v; of %d Polls that took more than 5 ms %d waited for something but a processor; "+
		"up to %d datagrams may have waited", r.inPoll, r.cycle, r.long, r.blocked, r.most)
	if reached < 100_000 {
		t.Logf("this machine gave the sender less than the 100,000 a second that were to be: run it alone")
	}
	require.LessOrEqual(t, lost, held)
	// A short datagram takes at most 1,280 bytes of the shadow's room (its truesize).
	if uint64(room)/1280 > r.most {
		require.Zero(t, drops, "dropped at the shadow of an owner that polled")
	}
}
