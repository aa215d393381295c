package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/why"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// victim is a receiver to which things are done that lose packets, and its peer over a veth.
type victim struct {
	*require.Assertions
	t      *testing.T
	net    *testnet.Net
	dir    string
	engine *xtreme.Engine
	poller *xtreme.Poller
	s      *xtreme.Socket
	peer   *net.UDPConn
	file   *stats.Reader
	hold   bool // packets are not released
	held   []xtreme.Packet
	got    int
	sent   int
	done   [256]xtreme.Completion
}

// lineGroup is the group that the socket is a member of.
var lineGroup = netip.MustParseAddr("233.252.0.9")

func newVictim(t *testing.T, kind conf.RingKind, c xtreme.UDPConfig, change ...func(*conf.Settings)) *victim {
	v := &victim{Assertions: require.New(t), t: t, net: testnet.New(t, testnet.Pair{}), dir: filepath.Join(t.TempDir(), "stats")}
	s := conf.Default()
	s.Ring, s.StatsDirectory, s.SmallBuffers, s.LargeBuffers = kind, v.dir, 1024, 16
	for _, f := range change {
		f(&s)
	}
	var err error
	v.engine, err = xtreme.New(s)
	v.NoError(err)
	v.poller, err = v.engine.NewPoller("feed", xtreme.PollerConfig{})
	v.NoError(err)
	v.s, err = v.poller.OpenUDP(netip.AddrPortFrom(v.net.Local(0), 0), c)
	v.NoError(err)
	v.peer = v.net.Dial(v.s.LocalAddr())
	t.Cleanup(func() {
		for _, p := range v.held {
			_ = p.Release()
		}
		require.NoError(t, v.poller.Close())
		require.NoError(t, v.engine.Close())
	})
	v.flowSamples(1) // a sample without loss is there
	v.NotZero(v.got)
	return v
}

// samples is how many samples were taken.
func (v *victim) samples() int { return len(v.reader().Samples()) }

// flowSamples has the feed flow quietly until so many more samples were taken.
func (v *victim) flowSamples(n int) {
	for end, until := time.Now().Add(30*time.Second), v.samples()+n; v.samples() < until; {
		v.True(time.Now().Before(end), "no samples are taken")
		v.flow(50 * time.Millisecond)
	}
}

func (v *victim) send(n int) {
	for range n {
		_, err := v.peer.Write([]byte(feedText))
		v.sent++
		if err != nil {
			v.ErrorIs(err, unix.ECONNREFUSED) // answers to datagrams of before
		}
	}
}

func (v *victim) poll() {
	n, err := v.poller.Poll(v.done[:])
	v.NoError(err)
	for i := range v.done[:n] {
		c := &v.done[i]
		if !c.Packet.Valid() {
			continue
		}
		v.got++
		if v.hold {
			v.held = append(v.held, c.Packet)
		} else {
			v.NoError(c.Packet.Release())
		}
	}
}

// flow has the feed flow quietly.
func (v *victim) flow(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		v.send(1)
		v.pollFor(5 * time.Millisecond)
	}
}

func (v *victim) pollFor(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		v.poll()
		v.NoError(v.poller.WaitFor(time.Millisecond))
	}
}

// until polls until a counter of the section has grown to at least n, and returns it.
func (v *victim) until(section, counter string, n uint64) (value uint64) {
	for end := time.Now().Add(20 * time.Second); ; v.poll() {
		if value = v.total(section, counter); value >= n {
			return value
		}
		v.True(time.Now().Before(end), "%s is %d", counter, value)
	}
}

// total is a counter of the section, added up.
func (v *victim) total(section, counter string) (value uint64) {
	for _, b := range v.reader().Blocks(section) {
		for name, x := range b.Totals {
			if name == counter || strings.HasSuffix(name, "."+counter) {
				value += x
			}
		}
	}
	return value
}

func (v *victim) reader() *stats.Reader {
	if v.file == nil {
		list, err := stats.List(v.dir)
		v.NoError(err)
		v.file, err = stats.Open(list[0].Path)
		v.NoError(err)
		v.t.Cleanup(func() { _ = v.file.Close() })
	}
	return v.file
}

// why lets two more samples be taken, and asks xtstat for what happened around a time.
func (v *victim) why(at time.Time) (list []why.Finding) {
	v.hold = false
	for end, until := time.Now().Add(30*time.Second), v.samples()+2; v.samples() < until; {
		v.True(time.Now().Before(end), "no samples are taken")
		v.pollFor(50 * time.Millisecond)
	}
	var out, errs bytes.Buffer
	code := Run([]string{"why", "-k", v.dir, "--json", "--at", at.Format(time.RFC3339Nano), "--window", "2s"}, &out, &errs)
	v.Zero(code, errs.String())
	for d := json.NewDecoder(&out); d.More(); {
		var f why.Finding
		v.NoError(d.Decode(&f))
		list = append(list, f)
	}
	var text bytes.Buffer
	v.Zero(Run([]string{"why", "-k", v.dir, "--at", at.Format(time.RFC3339Nano), "--window", "2s"}, &text, &errs))
	v.t.Log(text.String())
	return list
}

// one is the finding whose cause has a text; there must be one, at the place, and unless the place is upstream nothing may be called so.
func (v *victim) one(list []why.Finding, place why.Place, cause string) why.Finding {
	v.t.Helper()
	var found []why.Finding
	for _, f := range list {
		if strings.Contains(f.Cause, cause) {
			found = append(found, f)
		}
		v.Falsef(f.Place == why.Upstream && place != why.Upstream, "%+v", f)
		v.Falsef(f.Lost() && place == why.Upstream, "a loss upstream is never called local: %+v", f)
	}
	v.Len(found, 1, "%+v", list)
	places := []why.Place{place}
	if strings.Contains(found[0].Cause, "the loop did not poll for") && place != why.Upstream {
		places = append(places, why.Application, why.Kernel) // on a busy machine the gap has a cause of its own, which goes first
	}
	v.Contains(places, found[0].Place, found[0].Cause)
	v.NotEmpty(found[0].Evidence)
	return found[0]
}

// Losses of all kinds at once: each is named, with its place and its count, and what is upstream is called so alone. The tests below have each
// cause by itself, with SOCKETXTREME_LONG: a second or two pass until samples are there.
func TestWhyMany(t *testing.T) {
	t.Run("offload", func(t *testing.T) {
		v := newVictim(t, conf.RingOffload, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{Budget: 1 << 14}})
		v.NoError(v.s.JoinGroup(lineGroup, v.net.Device(0), netip.Addr{}))
		at := time.Now()
		v.spendBudget()
		const damaged = 7
		v.damage(damaged)
		v.fillRing()
		v.NoError(v.s.LeaveGroup(lineGroup, v.net.Device(0), netip.Addr{}))
		list := v.why(at)
		v.Equal(v.s.Stats().Drops, v.sum(list, "udp.budget", why.Socket), "also of what filled the ring")
		v.EqualValues(damaged, v.sum(list, "udp.sum", why.Upstream))
		v.Equal(v.total(stats.Drivers, "xdp.rx_dropped"), v.sum(list, "the ring was full", why.Ring, why.Application, why.Kernel))
		v.sum(list, "left a group: "+lineGroup.String(), why.Application)
	})
	t.Run("epoll", func(t *testing.T) {
		v := newVictim(t, conf.RingEpoll, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReceiveBuffer: 4096}})
		at := time.Now()
		v.poll()
		v.send(500)
		lost := v.until(stats.Sockets, "drops", 1)
		v.flapLink()
		list := v.why(at)
		v.Equal(lost, v.sum(list, "receive buffer", why.Socket, why.Application, why.Kernel))
		v.sum(list, "was set down", why.Card)
	})
}

// sum is how much the findings whose cause has a text have lost; there must be one, and all must be at one of the places.
func (v *victim) sum(list []why.Finding, cause string, places ...why.Place) (n uint64) {
	v.t.Helper()
	found := false
	for _, f := range list {
		if strings.Contains(f.Cause, cause) {
			found = true
			v.Contains(places, f.Place, f.Cause)
			n += f.Count
		}
	}
	v.True(found, "%q: %+v", cause, list)
	return n
}

// long skips a test whose cause TestWhyMany has too.
func long(t *testing.T) {
	if os.Getenv("SOCKETXTREME_LONG") == "" {
		t.Skip("TestWhyMany has this cause; by itself with SOCKETXTREME_LONG")
	}
}

// The sender skips messages: nothing on this host has lost any.
func TestWhySenderSkips(t *testing.T) {
	kinds := []conf.RingKind{conf.RingOffload}
	if os.Getenv("SOCKETXTREME_LONG") != "" {
		kinds = append(kinds, conf.RingEpoll)
	}
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			for range 4 {
				v := newVictim(t, kind, xtreme.UDPConfig{})
				at := time.Now()
				v.engine.Note(xtreme.NoteFeedGap, 3, "deep 100-102 missing on 233.252.0.9:14340@v0")
				noted := time.Now()
				v.flow(100 * time.Millisecond)
				list := v.why(at)
				if machineLost(list) {
					continue
				}
				f := v.one(list, why.Upstream, "deep 100-102")
				v.EqualValues(3, f.Count)
				v.between(at, f.Time, noted)
				return
			}
			t.Skip("the machine's backlog was full each time (softnet.dropped), for other programs")
		})
	}
}

// machineLost reports whether packets were lost that the kernel counts for the whole machine: they can be those of any program and namespace.
func machineLost(list []why.Finding) bool {
	return slices.ContainsFunc(list, func(f why.Finding) bool {
		return slices.ContainsFunc(f.Evidence, func(s string) bool { return strings.HasPrefix(s, "softnet.dropped") })
	})
}

// The loop does not poll, and the ring becomes full.
func TestWhyRingFull(t *testing.T) {
	long(t)
	v := newVictim(t, conf.RingOffload, xtreme.UDPConfig{})
	at := time.Now()
	v.fillRing()
	noted := time.Now()
	list := v.why(at)
	v.Equal(v.total(stats.Drivers, "xdp.rx_dropped"), v.sum(list, "the loop did not poll for", why.Ring, why.Application, why.Kernel))
	v.between(at.Add(-exact), list[0].Time, noted)
}

// fillRing has more frames come than the ring has room for, until it is counted.
func (v *victim) fillRing() {
	v.poll()
	v.send(5000)
	v.poll()
	v.poll()
	v.until(stats.Drivers, "xdp.rx_dropped", 1)
}

// The receive buffer of a kernel's socket becomes full.
func TestWhySocketFull(t *testing.T) {
	long(t)
	v := newVictim(t, conf.RingEpoll, xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReceiveBuffer: 4096}})
	at := time.Now()
	v.poll()
	v.send(500)
	lost := v.until(stats.Sockets, "drops", 1)
	f := v.one(v.why(at), why.Socket, "receive buffer")
	v.Equal(lost, f.Count)
}

// The socket's budget is spent.
func TestWhyBudget(t *testing.T) {
	long(t)
	v := newVictim(t, conf.RingOffload, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{Budget: 1 << 14}})
	at := time.Now()
	v.spendBudget()
	noted := time.Now()
	list := v.why(at)
	v.Equal(v.s.Stats().Drops, v.sum(list, "udp.budget", why.Socket))
	v.between(at.Add(-exact), list[0].Time, noted.Add(time.Second))
}

// spendBudget holds packets until ten were dropped, and releases them.
func (v *victim) spendBudget() {
	v.hold = true
	for i := 0; v.s.Stats().Drops < 10; i++ {
		v.Less(i, 10_000)
		v.send(1)
		v.poll()
	}
	v.hold = false
	for _, p := range v.held {
		v.NoError(p.Release())
	}
	v.held = nil
}

// The sender, or the network, damages datagrams.
func TestWhyChecksum(t *testing.T) {
	long(t)
	v := newVictim(t, conf.RingOffload, xtreme.UDPConfig{})
	at := time.Now()
	const n = 7
	v.damage(n)
	f := v.one(v.why(at), why.Upstream, "udp.sum")
	v.EqualValues(n, f.Count)
}

// damage sends datagrams with a wrong checksum, until they are counted.
func (v *victim) damage(n uint64) {
	for range n {
		v.inject(func(datagram []byte) { datagram[len(datagram)-1] ^= 1 })
	}
	v.until(stats.Drops, "udp.sum", n)
}

// inject sends a datagram from the peer as it is after change.
func (v *victim) inject(change func(datagram []byte)) {
	v.net.InPeer(func() {
		p, err := netlink.LinkByName("p0")
		v.NoError(err)
		var mac wire.MAC
		list, err := netlink.NeighList(p.Attrs().Index, unix.AF_INET)
		v.NoError(err)
		for _, n := range list {
			if n.IP.Equal(v.net.Local(0).AsSlice()) {
				copy(mac[:], n.HardwareAddr)
			}
		}
		e := wire.EthernetFields{Target: mac, Source: wire.MAC(p.Attrs().HardwareAddr), Type: wire.TypeIPv4}
		u := wire.UDPFields{SourcePort: 9, TargetPort: v.s.LocalAddr().Port()}
		from, to := v.net.Peer(0).As4(), v.net.Local(0).As4()
		datagram, err := u.Append(nil, from, to, []byte("damaged"))
		v.NoError(err)
		change(datagram)
		h := wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolUDP, Source: from, Target: to}
		frame, err := h.Append(e.Append(nil), len(datagram))
		v.NoError(err)
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		v.NoError(err)
		defer unix.Close(fd)
		v.NoError(unix.Sendto(fd, append(frame, datagram...), 0, &unix.SockaddrLinklayer{Ifindex: p.Attrs().Index}))
	})
}

// The program leaves the group.
func TestWhyMembershipLeft(t *testing.T) {
	long(t)
	for _, kind := range []conf.RingKind{conf.RingEpoll, conf.RingOffload} {
		t.Run(string(kind), func(t *testing.T) {
			v := newVictim(t, kind, xtreme.UDPConfig{})
			v.NoError(v.s.JoinGroup(lineGroup, v.net.Device(0), netip.Addr{}))
			v.flowSamples(1)
			at := time.Now()
			v.NoError(v.s.LeaveGroup(lineGroup, v.net.Device(0), netip.Addr{}))
			left := time.Now()
			f := v.one(v.why(at), why.Application, "left a group: "+lineGroup.String())
			v.between(at, f.Time, left)
		})
	}
}

// The interface goes down and comes back.
func TestWhyLinkFlap(t *testing.T) {
	long(t)
	for _, kind := range []conf.RingKind{conf.RingEpoll, conf.RingOffload} {
		t.Run(string(kind), func(t *testing.T) {
			v := newVictim(t, kind, xtreme.UDPConfig{})
			at := time.Now()
			v.flapLink()
			noted := time.Now()
			f := v.one(v.why(at), why.Card, "was set down")
			v.between(at, f.Time, noted)
		})
	}
}

// flapLink sets the interface down and up again, and waits until the journal has it.
func (v *victim) flapLink() {
	l, err := netlink.LinkByName(v.net.Device(0))
	v.NoError(err)
	v.NoError(netlink.LinkSetDown(l))
	v.pollUntilNoted("was set down")
	v.NoError(netlink.LinkSetUp(l))
	v.pollUntilNoted("was set up")
}

// pollUntilNoted polls until the journal has an event with a text.
func (v *victim) pollUntilNoted(text string) {
	for end := time.Now().Add(20 * time.Second); ; v.pollFor(5 * time.Millisecond) {
		for _, e := range v.reader().Events() {
			if strings.Contains(e.Text, text) {
				return
			}
		}
		v.True(time.Now().Before(end), "the journal has no %q", text)
	}
}

// exact is by how much the time of a loss may be early: the middle of two looks of the statistics' goroutine.
const exact = 20 * time.Millisecond

// between: x must not lie outside of two times.
func (v *victim) between(from, x, to time.Time) {
	v.t.Helper()
	v.False(x.Before(from) || x.After(to), "%v is not between %v and %v", x, from, to)
}

// The steering program is taken off the interface by somebody else.
func TestWhyProgramDisplaced(t *testing.T) {
	v := newVictim(t, conf.RingOffload, xtreme.UDPConfig{})
	l, err := netlink.LinkByName(v.net.Device(0))
	v.NoError(err)
	at := time.Now()
	all := new(link.Iterator)
	defer all.Close()
	detached := false
	for all.Next() {
		info, err := all.Link.Info()
		if err != nil || info.XDP() == nil || int(info.XDP().Ifindex) != l.Attrs().Index {
			continue
		}
		if program := l.Attrs().Xdp; program != nil && uint32(info.Program) == program.ProgId { // an index is unique in its namespace only
			v.NoError(all.Link.Detach())
			detached = true
		}
	}
	v.True(detached)
	off := time.Now()
	v.flow(300 * time.Millisecond)
	noted := time.Now()
	e := v.reader().Events()
	i := slices.IndexFunc(e, func(e stats.Event) bool { return e.Kind == stats.EventLink.String() && e.Code == "link.detached" })
	v.GreaterOrEqual(i, 0, "it is noticed at once: %+v", e)
	v.WithinDuration(off, e[i].Time, 150*time.Millisecond)
	list := v.why(at)
	var found bool
	for _, f := range list {
		v.NotEqual(why.Upstream, f.Place, "%+v", f)
		if strings.Contains(f.Cause, "the steering program was displaced") {
			found = true
			v.Equal(why.Kernel, f.Place)
			v.between(at.Add(-exact), f.Time, noted.Add(time.Second))
		}
	}
	v.True(found, "%+v", list)
}

// Nothing is wrong here.
func TestWhyNothingLost(t *testing.T) {
	long(t)
	v := newVictim(t, conf.RingEpoll, xtreme.UDPConfig{})
	f := v.one(v.why(time.Now()), why.Upstream, "nothing was lost on this host")
	v.Zero(f.Count)
}

// Where the begin of a loss is not known to 1 ms it is said between which times it was: buffers were held, and the loop looked seldom.
func TestBoundsOfTheBegin(t *testing.T) {
	at := time.Date(2026, 3, 2, 12, 0, 0, 0, time.Local)
	ms := func(n int) time.Time { return at.Add(time.Duration(n) * time.Millisecond) }
	text := func(earliest int) string {
		drop := stats.Event{Number: 1, Time: ms(160), Kind: stats.EventDrop.String(), Count: 9, Name: "v0/0", Code: "xdp.rx_dropped", Text: "v0/0.xdp.rx_dropped",
			Earliest: ms(earliest), Latest: ms(160), End: ms(160)}
		levels := map[string]uint64{"poller.buffers": 1000, "poller.buffers_used_peak": 900}
		samples := []stats.Sample{{Time: at, Interval: time.Second, Values: levels}, {Time: ms(1000), Interval: time.Second, Values: levels}}
		var b bytes.Buffer
		writeFindings(&b, why.Explain(why.Gather(samples, []stats.Event{drop}, at, ms(1000))), nil, at, ms(1000))
		return b.String()
	}
	require.Contains(t, text(100), "1. application: 12:00:00.160 (begun after .100) 9 frames: no buffer lay ready")
	require.Contains(t, text(152), "1. application: 12:00:00.160 (begun after .152) 9 frames: no buffer lay ready")
}

// The sockets that have dropped datagrams are named with the lines of feeds that they are. A gap in such a feed follows from it, one in a feed
// whose sockets have dropped nothing does not.
func TestBudgetNamesTheFeed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stats")
	f, err := stats.Create(stats.Config{Directory: dir, Sockets: 4})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	for _, x := range []struct {
		feed string
		id   uint64
	}{{"deep", 9}, {"tops", 10}} {
		f.Open(stats.Lines, f.Open(stats.Feeds, nil, 0), 0).SetInfo(fmt.Sprintf("feed=%s\nline=A@eth1\nsocket=%d\n", x.feed, x.id))
	}
	s, other := f.Open(stats.Sockets, nil, 9), f.Open(stats.Sockets, nil, 10)
	s.SetInfo("local=233.252.0.1:14340\n")
	other.SetInfo("local=233.252.0.2:14340\n")
	at := time.Now().Add(2 * time.Second)
	write := func(ms int, x stats.JournalEntry) {
		x.Time = at.Add(time.Duration(ms) * time.Millisecond).UnixNano()
		f.Write(&x)
	}
	gap := func(feed string) {
		write(12, stats.JournalEntry{Kind: stats.EventFeedGap, Count: 279, Name: feed, Text: feed + " 1-279 missing on A@eth1: no recovery", Earliest: at.UnixNano()})
	}
	write(5, stats.JournalEntry{Kind: stats.EventDrop, Of: f.Open(stats.Drops, nil, 0), Count: 93, Code: "udp.budget", Text: "udp.budget"})
	gap("deep")
	gap("tops")
	write(200, stats.JournalEntry{Kind: stats.EventDrop, Of: s, Count: 93, Code: "drops", Text: "drops"})
	list, err := stats.List(dir)
	require.NoError(t, err)
	r, err := stats.Open(list[0].Path)
	require.NoError(t, err)
	defer r.Close()
	samples := []stats.Sample{{Time: at, Interval: time.Second}, {Time: at.Add(time.Second), Interval: time.Second}}
	var b bytes.Buffer
	found, elsewhere := findings(r, samples, at.Add(-time.Second), at.Add(time.Second))
	writeFindings(&b, found, elsewhere, at, at)
	require.Contains(t, b.String(), "socket fd=9 233.252.0.1:14340: drops +93 (line A@eth1 of feed deep)")
	require.Regexp(t, `because of 1, socket: [^\n]*deep 1-279`, b.String())
	require.Regexp(t, `\n\d. upstream: [^\n]*tops 1-279`, b.String())
}
