package simnet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/socketxtreme/socketxtreme/ring"
)

// kjudge holds the invariants of a machine with a kernel. It sees each frame where it arrives and where it leaves, and works out by the kernel's
// rules, not the library's, which sockets it is for.
//
//	content    a datagram is what was sent
//	target     a socket receives what is for it only
//	duplicate  once
//	losses     and nothing else is missing, but what is counted
//	stolen     what sockets of other programs should have is not redirected
//	late       no datagram leaves by a ring after an outage that was accepted before its end
//	paths      each change of a path is told by an event
//	path       the path returns
type kjudge struct {
	w        *World
	k        *Kernel
	places   [2][kSlots]*ksock
	all      []*ksock
	others   [kOthers]*KernelSocket
	posted   []kposted
	accepted uint64
	leftSum  uint64
	quiet    int64            // all rings are polled from here on
	ports    map[uint16]int64 // when sockets with a port have changed
	faults   [2]int64         // when an interface was touched last
	outages  [2][][2]int64    // when an interface did not carry
	byOthers uint64
	missing  uint64
}

type kposted struct {
	by      *ksock // of a ring; nil: another sender
	to      netip.AddrPort
	at      int64
	left    bool
	refused bool
	where   string
	queued  int64 // when it came to a ring's queue; 0: it did not
}

// ksock is a ring's socket.
type ksock struct {
	s             *ring.Socket
	ring, slot    int
	local, remote netip.AddrPort
	groups        map[netip.Addr]bool
	since         int64 // it was opened, or has joined its groups
	must, may     map[uint32]bool
	done          map[uint32]bool
	closing       bool
	byRing        int
	byKernel      int
	paths         int // events
	seenPaths     int
	path          string // as the application knows it
	differs       int64  // since when the path is another one, without an event
}

func (k *ksock) String() string { return fmt.Sprintf("ring %d slot %d (%v)", k.ring, k.slot, k.local) }

// nic is the interface that the socket's datagrams come by in the end.
func (k *ksock) nic() int {
	if k.slot == kSecond || k.slot == kWanderer {
		return 1
	}
	return 0
}

// pathOf is a socket's path: its tier and the codes of its reasons, but for the one that comes with the socket's own first send to a group.
func pathOf(s *ring.Socket) string {
	p := s.Path()
	list := []string{p.Tier}
	for _, r := range p.Reasons {
		if r.Code != "mcast.loop" && !slices.Contains(list, r.Code) {
			list = append(list, r.Code)
		}
	}
	slices.Sort(list[1:])
	return strings.Join(list, " ")
}

func (k *ksock) samePath() { k.path, k.differs = pathOf(k.s), 0 }

func newKJudge(w *World, k *Kernel) *kjudge {
	return &kjudge{w: w, k: k, ports: map[uint16]int64{}}
}

func (j *kjudge) fail(what, format string, args ...any) {
	j.w.Fail(fmt.Errorf("%s: "+format, append([]any{what}, args...)...))
}

func (j *kjudge) at(r, slot int) *ksock {
	if k := j.places[r][slot]; k != nil && !k.closing {
		return k
	}
	return nil
}

func (j *kjudge) live() (list []*ksock) {
	for _, k := range j.all {
		if !k.closing {
			list = append(list, k)
		}
	}
	return list
}

func (j *kjudge) opened(r, slot int, s *ring.Socket) {
	k := &ksock{s: s, ring: r, slot: slot, local: s.LocalAddr(), remote: s.RemoteAddr(), groups: map[netip.Addr]bool{}, since: j.w.now,
		must: map[uint32]bool{}, may: map[uint32]bool{}, done: map[uint32]bool{}}
	s.SetUserData(uint64(len(j.all)))
	j.all = append(j.all, k)
	j.places[r][slot] = k
	j.changed(k.local.Port())
	k.samePath()
}

func (j *kjudge) changed(port uint16) { j.ports[port] = j.w.now }

// faulted notes that something was done to an interface.
func (j *kjudge) faulted(n *KernelNIC) {
	i := slices.Index(j.k.nics, n)
	j.faults[i] = j.w.now
	list := j.outages[i]
	switch open := len(list) > 0 && list[len(list)-1][1] == 0; {
	case !open && !n.carries():
		j.outages[i] = append(list, [2]int64{j.w.now, 0})
	case open && n.carries():
		list[len(list)-1][1] = j.w.now
	}
}

// isFaulty reports whether an interface is not whole now.
func (j *kjudge) isFaulty() bool {
	return slices.ContainsFunc(j.k.nics, func(n *KernelNIC) bool { return !n.carries() || len(n.addrs) == 0 }) ||
		j.w.now-max(j.faults[0], j.faults[1]) < int64(time.Second)
}

// post makes a datagram.
func (j *kjudge) post(by *ksock, to netip.AddrPort) []byte {
	b := make([]byte, 64)
	content(b, len(j.posted))
	j.posted = append(j.posted, kposted{by: by, to: to, at: j.w.now})
	return b
}

func datagramOf(b []byte) (id int, from, to netip.AddrPort, ok bool) {
	if len(b) < 58 || kindOf(b)&(Unicast|Multicast) == 0 {
		return 0, from, to, false
	}
	id, ok = idOf(b[42:])
	from = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[26:30])), binary.BigEndian.Uint16(b[34:]))
	to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[30:34])), binary.BigEndian.Uint16(b[36:]))
	return id, from, to, ok
}

// arrived works out which sockets a frame is for.
func (j *kjudge) arrived(n *KernelNIC, f *frame, at arrivedAt) {
	id, from, to, ok := datagramOf(f.b)
	if !ok || at == atDown {
		return
	}
	j.posted[id].where = fmt.Sprintf("%s at %v: %d", n.name, j.w.Now(), at)
	if at == atQueueFull {
		return
	}
	if at == atQueue {
		j.posted[id].queued = j.w.now
	}
	if to.Addr().IsMulticast() {
		j.group(n, id, from, to, at)
		return
	}
	if _, ours := j.k.snapshot.Local(to.Addr()); !ours {
		if at == atQueue {
			j.mayAll(id, to)
		}
		return
	}
	list := j.k.receivers(from, to, n.index)
	if len(list) == 0 {
		return
	}
	if s := list[0]; !s.ours {
		if at == atQueue {
			j.stolen(id, to)
		}
	} else if k := j.of(s); k != nil {
		k.must[uint32(id)] = true
	}
}

func (j *kjudge) mayAll(id int, to netip.AddrPort) {
	for _, k := range j.live() {
		if k.local.Port() == to.Port() {
			k.may[uint32(id)] = true
		}
	}
}

func (j *kjudge) group(n *KernelNIC, id int, from, to netip.AddrPort, at arrivedAt) {
	member := j.k.isMember(to.Addr(), from.Addr(), n.index)
	for _, k := range j.live() {
		if k.local.Port() != to.Port() || !k.groups[to.Addr()] || j.k.nics[k.nic()] != n {
			continue
		}
		if j.w.now-j.faults[k.nic()] < int64(3*time.Second) || !member {
			k.may[uint32(id)] = true // its membership may be made again just now
		} else {
			k.must[uint32(id)] = true
		}
	}
	if at != atQueue {
		return
	}
	// Sockets that have not joined, and receive what others have (IP_MULTICAST_ALL), are not looked for.
	for _, s := range j.k.receivers(from, to, n.index) {
		if !s.ours && slices.ContainsFunc(s.groups, func(g kgroup) bool { return g.group == to.Addr() && g.index == n.index }) {
			j.stolen(id, to)
		}
	}
}

// stolen is for a datagram that was redirected though another program's socket should have it: allowed until the rings can know.
func (j *kjudge) stolen(id int, to netip.AddrPort) {
	since := max(j.ports[to.Port()], j.quiet, j.faults[0], j.faults[1])
	if j.w.now-since > int64(time.Second) {
		j.fail("stolen", "datagram %d to %v was redirected, and is for a socket of another program since %v", id, to, time.Duration(since))
	}
	j.mayAll(id, to)
}

// of is the socket that a kernel's socket is the shadow of.
func (j *kjudge) of(s *ksocket) *ksock {
	for _, k := range j.live() {
		if int(ring.HandleOf(k.s).Conn) == s.fd {
			return k
		}
	}
	return nil
}

// expectLocal is a datagram of another program on the machine.
func (j *kjudge) expectLocal(to netip.AddrPort, b []byte) {
	id, _ := idOf(b)
	if _, here := j.k.snapshot.Local(to.Addr()); !here {
		return
	}
	if list := j.k.receivers(netip.AddrPortFrom(to.Addr(), 7100), to, j.k.nics[0].index); len(list) > 0 {
		if k := j.of(list[0]); k != nil {
			k.must[uint32(id)] = true
		}
	}
}

// lost takes back what was expected: it is counted by the kernel.
func (j *kjudge) lost(payload []byte) {
	if id, ok := idOf(payload); ok {
		for _, k := range j.all {
			if k.must[uint32(id)] {
				delete(k.must, uint32(id))
				k.may[uint32(id)] = true
			}
		}
	}
}

func (j *kjudge) otherReceived(slot int, b []byte) {
	if id, ok := idOf(b); !ok || id >= len(j.posted) {
		j.fail("content", "other %d receives %d bytes that nobody sent", slot, len(b))
	}
	j.byOthers++
}

// left is a frame that leaves the machine.
func (j *kjudge) left(n *KernelNIC, b []byte, byRing bool) {
	id, _, to, ok := datagramOf(b)
	if !ok {
		return
	}
	d := &j.posted[id]
	if d.by == nil {
		return // of another program
	}
	switch {
	case d.to != to:
		j.fail("content", "datagram %d to %v leaves to %v", id, d.to, to)
	case d.left:
		j.fail("duplicate", "datagram %d leaves twice, by the ring: %v", id, byRing)
	}
	d.left = true
	j.leftSum++
	for _, o := range j.outages[slices.Index(j.k.nics, n)] {
		if byRing && o[1] != 0 && d.at < o[1]-int64(100*time.Millisecond) {
			j.fail("late", "datagram %d of %v was accepted at %v and leaves %s after an outage from %v to %v", id, d.by, time.Duration(d.at), n.name,
				time.Duration(o[0]), time.Duration(o[1]))
		}
	}
}

// completion is what a ring's application gets.
func (j *kjudge) completion(r int, c *ring.Completion) {
	k := j.all[c.UserData]
	if k.s != c.Socket || k.ring != r {
		j.fail("completion", "%v's user data comes with another socket", k)
	}
	if c.Events.Has(ring.EventPath) {
		k.paths++
	}
	if c.Packet.IsZero() {
		return
	}
	b := c.Packet.Bytes()
	id, ok := idOf(b)
	want := make([]byte, len(b))
	if ok && id < len(j.posted) && len(b) == 64 {
		content(want, id)
	}
	switch u := uint32(id); {
	case string(want) != string(b):
		j.fail("content", "%v receives %d bytes that nobody sent", k, len(b))
	case k.done[u]:
		j.fail("duplicate", "%v receives datagram %d twice; it came by %s", k, id, j.posted[id].where)
	case c.Destination != j.posted[id].to:
		j.fail("target", "%v receives datagram %d to %v as to %v", k, id, j.posted[id].to, c.Destination)
	case !k.must[u] && !k.may[u] && !j.posted[id].waitedFor(k):
		j.fail("target", "%v receives datagram %d to %v, which is not for it; it came by %s", k, id, j.posted[id].to, j.posted[id].where)
	default:
		delete(k.must, u)
		k.done[u] = true
	}
	if c.ViaKernel {
		k.byKernel++
	} else {
		k.byRing++
	}
	_ = c.Packet.Release()
}

// waitedFor reports whether a datagram waited at a queue when the socket was opened: a ring that stood still looks up its socket later.
func (d *kposted) waitedFor(k *ksock) bool {
	return d.queued != 0 && d.queued < k.since && d.to.Port() == k.local.Port() && (!d.to.Addr().IsMulticast() || k.groups[d.to.Addr()])
}

// watchPaths checks that each change of a path is told.
func (j *kjudge) watchPaths() {
	for _, k := range j.live() {
		path := pathOf(k.s)
		if k.paths > k.seenPaths {
			k.seenPaths, k.path, k.differs = k.paths, path, 0
			continue
		}
		switch {
		case path == k.path:
			k.differs = 0
		case k.differs == 0:
			k.differs = j.w.now
		case j.w.now-max(k.differs, j.quiet) > int64(time.Second):
			j.fail("paths", "%v has gone from %s to %s without an event", k, k.path, path)
		}
	}
}

// compare compares what is missing with what is counted.
func (j *kjudge) compare() error {
	var first string
	for _, k := range j.live() {
		for id := range k.must {
			j.missing++
			if x := fmt.Sprintf("%v: datagram %d, %s", k, id, j.posted[id].where); first == "" || x < first {
				first = x
			}
		}
	}
	var counted, unsent uint64
	for _, h := range j.k.hosts {
		for _, c := range h.ring.Stats().Driver {
			switch prefix, rest, _ := strings.Cut(c.Name, "."); {
			case prefix == "eth", prefix == "ipv4", prefix == "udp", c.Name == "stack.discarded", c.Name == "stack.no_buffer",
				c.Name == "handover.full", c.Name == "handover.closed", c.Name == "handover.no_socket":
				counted += c.Value
			case prefix == "neighbour", c.Name == "stack.lost", c.Name == "offload.lost_sends", rest == "tx_lost":
				unsent += c.Value
			}
		}
		counted += h.ring.Stats().ClosedDrops
	}
	if j.missing > counted {
		return fmt.Errorf("losses: %d datagrams missed their sockets, %d are counted; such as %s", j.missing, counted, first)
	}
	unsent += j.k.stats.Unresolved + j.k.stats.LostDown
	if j.accepted > j.leftSum+unsent {
		return fmt.Errorf("losses: %d datagrams were accepted, %d left, %d are counted as lost", j.accepted, j.leftSum, unsent)
	}
	return nil
}

func (j *kjudge) count(t *ktotals) {
	for _, k := range j.all {
		t.byRing += uint64(k.byRing)
		t.byKernel += uint64(k.byKernel)
		t.paths += uint64(k.paths)
	}
	x := j.k.stats
	t.down, t.overflow, t.strayed, t.sent = x.LostDown, x.RcvbufFull, x.Strayed, j.leftSum
	t.byOthers, t.missing = j.byOthers, j.missing
}
