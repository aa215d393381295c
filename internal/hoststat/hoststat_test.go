package hoststat

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// value is a counter of the list; -1: it is not there.
func value(list []Counter, name string) int64 {
	for _, c := range list {
		if c.Name == name {
			return int64(c.Value)
		}
	}
	return -1
}

// A reader counts what happens in the namespace that it was opened in: exactly, and also when another thread reads.
func TestCountersOfTheNamespace(t *testing.T) {
	n := testnet.New(t, testnet.Pair{})
	r, err := Open()
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: n.Local(0).AsSlice()})
	require.NoError(t, err)
	defer c.Close()
	peer := n.Dial(c.LocalAddr().(*net.UDPAddr).AddrPort())
	defer peer.Close()
	read := func() (list []Counter) {
		done := make(chan struct{})
		go func() { list = r.Read(); close(done) }()
		<-done
		return append([]Counter(nil), list...)
	}
	before := read()
	for range 7 {
		_, err := peer.Write([]byte("text"))
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 16)) // the kernel counts a datagram when it is read
		require.NoError(t, err)
	}
	after := read()
	// Counters of interfaces that are 0 have no name yet.
	grown := func(name string) int64 { return value(after, name) - max(value(before, name), 0) }
	require.GreaterOrEqual(t, grown("v0.rx_packets"), int64(7))
	require.EqualValues(t, 7, grown("udp.InDatagrams"))
	require.EqualValues(t, 7, grown("ip.InReceives"))
	require.EqualValues(t, 7, grown("ip.InDelivers"))
	require.Zero(t, grown("udp.RcvbufErrors"))
	for _, name := range []string{"softnet.processed", "process.run_delay", "process.cpu_time", "process.page_faults", "process.gc_cycles", "cpu.steal",
		"v0.groups", "tcp.InSegs"} {
		require.GreaterOrEqual(t, value(after, name), int64(0), name)
	}
	for _, c := range after {
		require.False(t, strings.HasPrefix(c.Name, "eth"), "%s is of another namespace", c.Name)
	}
}

func TestLinksAreNoticed(t *testing.T) {
	n := testnet.New(t, testnet.Pair{})
	l, err := OpenLinks()
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	var seen []LinkChange
	look := func() []LinkChange {
		seen = nil
		l.Changes(func(c LinkChange) { seen = append(seen, c) })
		return seen
	}
	require.Empty(t, look())
	v, err := netlink.LinkByName("v0")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetDown(v))
	require.Contains(t, look(), LinkChange{"v0", LinkDown, "v0: the interface was set down"})
	require.NoError(t, netlink.LinkSetUp(v))
	require.Contains(t, look(), LinkChange{"v0", LinkUp, "v0: the interface was set up"})
	require.NoError(t, netlink.LinkSetMTU(v, 1400))
	require.Contains(t, look(), LinkChange{"v0", LinkMTU, "v0: the MTU was 1500 and is 1400"})
	require.NoError(t, netlink.LinkDel(v))
	require.Contains(t, look(), LinkChange{"v0", LinkDeleted, "v0: the interface was deleted, or moved to another namespace"})
	n.Again(0)
	require.Contains(t, look(), LinkChange{"v0", LinkCame, "v0: the interface came"})
}

// What a card counts of itself is there, where it has names for it: veth counts drops of each queue.
func TestCardsAreAsked(t *testing.T) {
	testnet.New(t, testnet.Pair{})
	r, err := Open()
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	found := 0
	r.cards.begin()
	r.cards.read([]byte("v0"), func(_ []byte, counter string, _ uint64) {
		found++
		require.Regexp(t, losses, counter)
	})
	require.NotZero(t, found)
}

// What the host has taken is counted since the last reading, of all processors together.
func TestStealSince(t *testing.T) {
	stat, err := os.CreateTemp(t.TempDir(), "stat")
	require.NoError(t, err)
	defer stat.Close()
	r := &Reader{stat: stat, text: make([]byte, 4096)}
	for _, x := range []struct {
		ticks int
		want  time.Duration
	}{{100, time.Second}, {100, 0}, {103, 30 * time.Millisecond}, {90, 0}, {91, 10 * time.Millisecond}} { // 90: it went back
		_, err := stat.WriteAt(fmt.Appendf(nil, "cpu  1 2 3 4 5 6 7 %d 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n%80s", x.ticks, ""), 0)
		require.NoError(t, err)
		require.Equal(t, x.want, r.StealSince(), "%d", x.ticks)
	}
}

// An interface that gets more queues has more counters: those of the new queues are read too. Most kernels write all values without regard to
// the number that the caller has room for, so an old number is never used.
func TestACardThatGetsMoreCounters(t *testing.T) {
	testnet.New(t, testnet.Pair{Queues: 4})
	c, err := openCards()
	require.NoError(t, err)
	defer func() { require.NoError(t, c.close()) }()
	queues := func(n uint32) {
		// struct ethtool_channels, ETHTOOL_SCHANNELS
		channels := struct{ cmd, maxRx, maxTx, maxOther, maxCombined, rx, tx, other, combined uint32 }{cmd: 0x3d, rx: n, tx: n}
		if e := c.call([]byte("v0"), unsafe.Pointer(&channels)); e != 0 {
			testnet.Missing(t, "queues", fmt.Sprintf("another number for a veth interface: %v", e))
		}
	}
	queues(1)
	read := func() (names []string) {
		c.begin()
		c.read([]byte("v0"), func(_ []byte, counter string, _ uint64) { names = append(names, counter) })
		return names
	}
	require.Contains(t, read(), "ethtool.rx_queue_0_drops")
	queues(4)
	require.Contains(t, read(), "ethtool.rx_queue_3_drops")
	queues(1)
	require.NotContains(t, read(), "ethtool.rx_queue_3_drops")
}

func TestFieldsOfFiles(t *testing.T) {
	r := &Reader{names: map[key]string{}, ofInterfaces: map[string]*interfaceNames{}, cards: &cards{fd: -1, of: map[string]*card{}}}
	r.interfaces([]byte("Inter-|   Receive\n face |bytes packets\n  eth0.5: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"))
	require.Equal(t, []Counter{{"eth0.5.rx_bytes", 1}, {"eth0.5.rx_packets", 2}, {"eth0.5.rx_errors", 3}, {"eth0.5.rx_dropped", 4},
		{"eth0.5.rx_fifo_errors", 5}, {"eth0.5.rx_frame_errors", 6}, {"eth0.5.multicast", 8}, {"eth0.5.tx_bytes", 9}, {"eth0.5.tx_packets", 10},
		{"eth0.5.tx_errors", 11}, {"eth0.5.tx_dropped", 12}, {"eth0.5.tx_fifo_errors", 13}, {"eth0.5.tx_carrier_errors", 15}}, r.list)
	r.list = nil
	r.softirq([]byte("0000000a 00000001 00000002 0\n0000000b 00000003 00000000 0\n"))
	require.Equal(t, []Counter{{"softnet.processed", 21}, {"softnet.dropped", 4}, {"softnet.time_squeeze", 2}}, r.list)
	r.list = nil
	r.protocols([]byte("Tcp: InSegs MaxConn InErrs\nTcp: 5 -1 6\nUdp: RcvbufErrors\nUdp: 9\nOdd: x\nOdd: 1\n"))
	require.Equal(t, []Counter{{"tcp.InSegs", 5}, {"tcp.InErrs", 6}, {"udp.RcvbufErrors", 9}}, r.list)
	r.list = nil
	r.processors([]byte("cpu  1 2 3 4 5 6 7 8 9 10\n"))
	require.Equal(t, []Counter{{"cpu.softirq", 7e7}, {"cpu.steal", 8e7}}, r.list)
	r.list = nil
	r.groups([]byte("Idx\tDevice    : Count Querier\tGroup\n2\tv0        :     3      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n" +
		"3\tenp129s0f0:     2      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n")) // the kernel pads names to ten characters
	require.Equal(t, []Counter{{"v0.groups", 3}, {"enp129s0f0.groups", 2}}, r.list)
}

// Reading makes little garbage: beside the names of threads, which change.
func TestReadingAllocatesLittle(t *testing.T) {
	r, err := Open()
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	require.NoError(t, r.tasks.Close())
	r.tasks = nil
	defer func() { r.tasks, _ = os.Open("/proc/self/task") }()
	r.Read()
	require.LessOrEqual(t, testing.AllocsPerRun(50, func() { r.Read() }), 12.0)
}

// The names of a card's counters are asked for with room for more than any card has. That room is not taken from the Go heap: half a megabyte
// for each interface would begin a collection in a process that has little.
func TestNamesOfCardsMakeLittleGarbage(t *testing.T) {
	if raceEnabled {
		t.Skip("a sync.Pool forgets at random with the race detector, and package regexp keeps its state in one")
	}
	testnet.New(t, testnet.Pair{})
	c, err := openCards()
	require.NoError(t, err)
	defer func() { require.NoError(t, c.close()) }()
	n := c.countOf([]byte("v0"))
	require.NotZero(t, n)
	require.NotEmpty(t, c.open([]byte("v0"), n).kept) // the first one makes the request of all
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.NotEmpty(t, c.open([]byte("v0"), n).kept)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10))
}

// Changes is called a hundred times a second: it allocates nothing while no interface changes.
func TestNoChangesAllocateNothing(t *testing.T) {
	testnet.New(t) // in which nobody else changes interfaces
	l, err := OpenLinks()
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	l.Changes(func(LinkChange) {})
	require.Zero(t, testing.AllocsPerRun(50, func() { l.Changes(func(LinkChange) {}) }))
}

func BenchmarkRead(b *testing.B) {
	r, err := Open()
	require.NoError(b, err)
	defer func() { _ = r.Close() }()
	for b.Loop() {
		r.Read()
	}
}

// A collection that the program asks for is counted as such, and its pauses belong to the time in which it ended.
func TestCollections(t *testing.T) {
	var c Collections
	before, begin := c.Read(), time.Now()
	runtime.GC()
	end, after := time.Now(), c.Read()
	require.Greater(t, after.Pauses, before.Pauses)
	require.Greater(t, after.Cycles, before.Cycles)
	require.Greater(t, after.Forced, before.Forced)
	require.LessOrEqual(t, after.Forced-before.Forced, after.Cycles-before.Cycles)
	stopped := c.Stopped(begin, end)
	require.Positive(t, stopped)
	require.Less(t, stopped, end.Sub(begin))
	require.Zero(t, c.Stopped(begin.Add(-time.Hour), begin.Add(-59*time.Minute)), "before the process began")
	require.Zero(t, c.Stopped(end.Add(time.Hour), end.Add(2*time.Hour)))
}

func BenchmarkCollections(b *testing.B) {
	var c Collections
	b.ReportAllocs()
	for b.Loop() {
		c.Read()
	}
}

// Frames with a tag for which there is no interface, which the kernel counts in no file, are counted for the interface by which they came.
func TestFramesWithAForeignTag(t *testing.T) {
	n := testnet.New(t, testnet.Pair{})
	r, err := Open()
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	v, err := netlink.LinkByName("v0")
	require.NoError(t, err)
	require.EqualValues(t, -1, value(r.Read(), "v0.rx_otherhost_dropped"), "a counter of 0 takes no room")
	n.InPeer(func() {
		p, err := netlink.LinkByName("p0")
		require.NoError(t, err)
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		e := wire.EthernetFields{Target: wire.MAC(v.Attrs().HardwareAddr), Source: wire.MAC(p.Attrs().HardwareAddr), Tag: 42, Type: wire.TypeIPv4}
		u := wire.UDPFields{SourcePort: 9, TargetPort: 10}
		from, to := n.Peer(0).As4(), n.Local(0).As4()
		datagram, err := u.Append(nil, from, to, []byte("tagged"))
		require.NoError(t, err)
		h := wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolUDP, Source: from, Target: to}
		frame, err := h.Append(e.Append(nil), len(datagram))
		require.NoError(t, err)
		for range 5 {
			require.NoError(t, unix.Sendto(fd, append(frame, datagram...), 0, &unix.SockaddrLinklayer{Ifindex: p.Attrs().Index}))
		}
	})
	if value(r.Read(), "v0.rx_otherhost_dropped") < 0 && value(r.Read(), "v0.rx_packets") >= 5 {
		testnet.Missing(t, "rx_otherhost_dropped", "Linux 5.19")
	}
	require.EqualValues(t, 5, value(r.Read(), "v0.rx_otherhost_dropped"))
}

// Each engine of a process has a reader, which its own goroutine asks.
func TestReadersOfTwoGoroutines(t *testing.T) {
	var readers sync.WaitGroup
	for range 2 {
		r, err := Open()
		require.NoError(t, err)
		readers.Go(func() {
			for range 20 {
				assert.NotEmpty(t, r.Read())
			}
			assert.NoError(t, r.Close())
		})
	}
	readers.Wait()
}

// The times of threads that have ended stay in the totals: a total never falls.
func TestTimesOfThreadsThatHaveEnded(t *testing.T) {
	r, err := Open()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	total := func() uint64 {
		r.list = r.list[:0]
		r.process()
		for _, c := range r.list {
			if c.Name == "process.cpu_time" {
				return c.Value
			}
		}
		t.Fatal("there is no process.cpu_time")
		return 0
	}
	worked, end := make(chan struct{}), make(chan struct{})
	done := make(chan string)
	var work func()
	work = func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		thread := Thread()
		if unix.Gettid() == unix.Getpid() { // the runtime keeps the first thread
			go work()
			<-end
			return
		}
		for begun := time.Now(); time.Since(begun) < 300*time.Millisecond; {
		}
		close(worked)
		<-end
		done <- thread
	}
	go work()
	<-worked
	with := total()
	close(end)
	thread := <-done
	require.Eventually(t, func() bool { _, err := ThreadSchedule(thread); return err != nil }, 20*time.Second, time.Millisecond)
	require.GreaterOrEqual(t, total(), with)
}
