package simnet

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/socketxtreme/socketxtreme/ring"
)

// kplant is a fault put into a world for a test of the invariants.
type kplant struct {
	host   func(c *HostConfig)
	kernel func(c *KernelConfig)
}

// ktotals are what happened over many runs.
type ktotals struct {
	byRing, byKernel, paths, down, overflow, strayed, sent, byOthers, missing uint64
}

// kscenario is one run.
type kscenario struct {
	*kjudge
	w     *World
	k     *Kernel
	rings []*Host
	peers []*Host
	socks [][2]*ring.Socket // of the peers: ports 7000 and kConnected's
}

var (
	eth0Addr = netip.MustParsePrefix("10.0.0.1/24")
	eth1Addr = netip.MustParsePrefix("10.0.1.1/24")
)

func peerAddr(i int) netip.Addr {
	return [...]netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3"), netip.MustParseAddr("10.0.1.2")}[i]
}

func peerNIC(i int) int { return i / 2 }

// playKernel runs the operations in the world of a seed.
func playKernel(seed uint64, ops []kop, p kplant) (t ktotals, trace uint64, err error) {
	w := New(seed)
	s := &kscenario{w: w}
	if err = s.build(seed, p); err == nil {
		err = s.run(ops)
		s.count(&t)
	}
	trace = w.Hash()
	if e := w.Close(); err == nil {
		err = e
	}
	return t, trace, err
}

func (s *kscenario) build(seed uint64, p kplant) (err error) {
	w, rings := s.w, ringsOf(seed)
	r := randomStream(seed, "kernel world")
	c := KernelConfig{Addrs: []netip.Prefix{eth0Addr, eth1Addr}, Queues: rings + r.IntN(2)}
	if p.kernel != nil {
		p.kernel(&c)
	}
	if s.k, err = w.Kernel("k", c); err != nil {
		return err
	}
	s.kjudge = newKJudge(w, s.k)
	s.k.watcher = s.kjudge
	for i := range rings {
		hc := HostConfig{Latency: time.Duration(r.IntN(200)) * time.Microsecond}
		if p.host != nil {
			p.host(&hc)
		}
		var queues []int
		if rings > 1 {
			queues = []int{i}
		}
		h, err := s.k.Host(fmt.Sprintf("r%d", i), queues, hc)
		if err != nil {
			return err
		}
		s.rings = append(s.rings, h)
		h.Handle(func(c *ring.Completion) { s.completion(i, c) })
	}
	lans := []*Switch{w.Switch("lan0"), w.Switch("lan1")}
	for i, lan := range lans {
		if _, err := w.Connect(s.k.NIC(i), lan); err != nil {
			return err
		}
	}
	for i := range 3 {
		h, err := w.Host(string(rune('a'+i)), HostConfig{Addrs: []netip.Prefix{netip.PrefixFrom(peerAddr(i), 24)}})
		if err != nil {
			return err
		}
		s.peers = append(s.peers, h)
		h.Handle(func(c *ring.Completion) { _ = c.Packet.Release() }) // what arrives is judged where it leaves
		if _, err := w.Connect(h.NIC(0), lans[peerNIC(i)]); err != nil {
			return err
		}
		var pair [2]*ring.Socket
		for j, port := range []uint16{7000, 7000 + kConnected} {
			if pair[j], err = h.OpenUDP(netip.AddrPortFrom(peerAddr(i), port), ring.Config{}); err != nil {
				return err
			}
		}
		s.socks = append(s.socks, pair)
	}
	for _, l := range w.Lines() {
		if err := l.Set(Impairment{Delay: time.Duration(10+r.IntN(500)) * time.Microsecond}); err != nil {
			return err
		}
	}
	return nil
}

func (s *kscenario) run(ops []kop) error {
	for _, o := range ops {
		switch o.do {
		case kSend, kToOther:
			s.peers[o.peer].After(o.at, func() { s.do(&o) })
		case kOpen, kClose, kSendBack, kSendGroup, kSuspend, kJoin:
			if o.ring < len(s.rings) {
				s.rings[o.ring].After(o.at, func() { s.do(&o) })
			}
		default:
			s.w.At(o.at, func() { s.do(&o) })
		}
	}
	for at := time.Duration(0); at < kernelEnd; at += 50 * time.Millisecond {
		s.w.At(at, s.watchPaths)
	}
	if err := s.w.Run(kernelFinal); err != nil {
		return err
	}
	if err := s.final(); err != nil {
		return fmt.Errorf("at %v: %w", s.w.Now(), err)
	}
	for ring := range s.rings {
		for slot := range kSlots {
			s.close(ring, slot)
		}
	}
	if err := s.w.Run(kernelEnd + time.Second); err != nil {
		return err
	}
	for _, n := range s.k.nics {
		if d := n.device; d == nil || len(d.claims) > 0 {
			return fmt.Errorf("leak: %s: claims are left without sockets: %v", n.name, d)
		}
	}
	for _, x := range s.k.allSockets() {
		if x.ours {
			return fmt.Errorf("leak: descriptor %d, %v, is open without sockets", x.fd, x.local)
		}
	}
	return nil
}

// final is what must hold when the faults have ended: every socket has the path that it had, and receives by it.
func (s *kscenario) final() error {
	for slot := range kOthers {
		s.closeOther(slot)
	}
	for ring := range s.rings {
		for slot := range kSlots {
			s.open(ring, slot)
			if k := s.at(ring, slot); k != nil {
				s.setMemberships(k, func(netip.Addr) bool { return true })
			}
		}
	}
	if err := s.w.Run(kernelFinal + 2*time.Second); err != nil {
		return err
	}
	before := map[*ksock]int{}
	for _, k := range s.live() {
		if p := k.s.Path(); p.Tier != "bypass" {
			return fmt.Errorf("path: %v has not its path back: %v", k, p)
		}
		before[k] = s.byPath(k)
	}
	for _, k := range s.live() {
		if k.slot == kMember && k.ring > 0 {
			continue // receives what is sent to the other's
		}
		peer := 0
		if k.nic() == 1 {
			peer = 2
		}
		s.peers[peer].After(0, func() { s.sendFrom(peer, k.ring, k.slot, 3) })
	}
	if err := s.w.Run(kernelEnd); err != nil {
		return err
	}
	for _, k := range s.live() {
		if got := s.byPath(k) - before[k]; got != 3 {
			return fmt.Errorf("path: %v received %d of 3 datagrams by its path: %v", k, got, k.s.Path())
		}
	}
	return s.compare()
}

// byPath is how many datagrams came by a socket's path. Those of queues that no ring serves come by the kernel.
func (s *kscenario) byPath(k *ksock) int {
	if len(s.k.nics[0].queues) > len(s.rings) && len(s.rings) > 1 {
		return k.byRing + k.byKernel
	}
	return k.byRing
}

func (s *kscenario) must(err error) {
	if err != nil {
		s.w.Fail(fmt.Errorf("scenario: %w", err))
	}
}

func (s *kscenario) do(o *kop) {
	n := s.k.NIC(o.nic)
	switch o.do {
	case kOpen:
		s.open(o.ring, o.slot)
	case kClose:
		s.close(o.ring, o.slot)
	case kOpenOther:
		s.openOther(o.slot % kOthers)
	case kCloseOther:
		s.closeOther(o.slot % kOthers)
	case kSend:
		s.sendFrom(o.peer, o.ring, o.slot, o.n)
	case kSendBack:
		s.sendBack(o)
	case kSendGroup:
		s.sendGroup(o)
	case kSendOther:
		s.sendOther(o)
	case kToOther:
		if peerNIC(o.peer) == 0 {
			for range o.n {
				to := netip.AddrPortFrom(eth0Addr.Addr(), 7100)
				_, _ = s.socks[o.peer][0].SendTo(s.post(nil, to), to) // what a peer cannot send is not judged
			}
		}
	case kDown:
		n.SetUp(false)
		s.faulted(n)
		s.w.After(o.d, func() { n.SetUp(true); s.faulted(n) })
	case kNoCarrier:
		n.SetCarrier(false)
		s.faulted(n)
		s.w.After(o.d, func() { n.SetCarrier(true); s.faulted(n) })
	case kTakeOff:
		n.TakeOffProgram()
		s.faulted(n)
	case kForeign:
		n.SetProgram(true)
		s.faulted(n)
		s.w.After(o.d, func() { n.SetProgram(false); s.faulted(n) })
	case kDelete:
		n.Delete()
		s.faulted(n)
		s.w.After(o.d, func() { n.Make(); s.faulted(n) })
	case kAddress:
		n.SetAddrs()
		s.faulted(n)
		s.w.After(o.d, func() { n.SetAddrs(s.k.config.Addrs[o.nic]); s.faulted(n) })
	case kFlush:
		n.forgetNeighbours()
	case kPause:
		if o.ring < len(s.rings) {
			s.rings[o.ring].Pause(o.d)
			s.quiet = max(s.quiet, s.w.now+int64(o.d))
		}
	case kSuspend:
		if k := s.at(o.ring, o.slot); k != nil {
			s.must(k.s.Suspend())
			s.rings[o.ring].After(o.d, func() {
				if !k.closing {
					s.must(k.s.Resume())
				}
			})
		}
	case kJoin:
		s.join(o.ring, o.slot)
	case kMTU:
		n.SetMTU(1400)
	}
}

// open opens a ring's socket. What cannot be had because of a fault (an interface without its address) is not had.
func (s *kscenario) open(r, slot int) {
	if s.at(r, slot) != nil {
		return
	}
	local := netip.AddrPortFrom(netip.IPv4Unspecified(), kernelPort(r, slot))
	switch slot {
	case kBound, kConnected:
		local = netip.AddrPortFrom(eth0Addr.Addr(), local.Port())
	case kSecond:
		local = netip.AddrPortFrom(eth1Addr.Addr(), local.Port())
	case kMember:
		local = netip.AddrPortFrom(kernelGroups[0], local.Port())
	}
	k, err := s.rings[r].set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{})
	if err == nil {
		err = errors.Join(k.SetMulticastAll(false), k.SetReuseAddr(true))
		if slot == kReuse {
			err = errors.Join(err, k.SetReusePort(true))
		}
	}
	if err == nil {
		err = k.Bind(local)
	}
	if err == nil && slot == kConnected {
		err = k.Connect(netip.AddrPortFrom(peerAddr(0), 7000+kConnected))
	}
	if err != nil {
		if !s.isFaulty() {
			s.must(fmt.Errorf("open ring %d slot %d: %w", r, slot, err))
		}
		if k != nil {
			_ = k.Discard() // it is not on a ring
		}
		return
	}
	s.opened(r, slot, k)
	if slot == kMember || slot == kWanderer || slot == kMany {
		s.join(r, slot)
	}
}

// join makes a member of a socket, or takes its memberships away.
func (s *kscenario) join(r, slot int) {
	k := s.at(r, slot)
	if k == nil {
		return
	}
	s.setMemberships(k, func(g netip.Addr) bool { return !k.groups[g] })
}

// setMemberships joins the socket's groups, or leaves them.
func (s *kscenario) setMemberships(k *ksock, isMember func(netip.Addr) bool) {
	groups, name := []netip.Addr(nil), "eth0"
	switch k.slot {
	case kMember:
		groups = kernelGroups[:1]
	case kWanderer:
		groups, name = kernelGroups[1:], "eth1"
	case kMany:
		for i := range 25 {
			groups = append(groups, manyGroup(k.ring, i))
		}
	}
	s.changed(k.local.Port())
	k.since = s.w.now
	for _, g := range groups {
		var err error
		switch want := isMember(g); {
		case want == k.groups[g]:
		case want:
			if err = k.s.JoinGroup(g, name, netip.Addr{}); err == nil {
				k.groups[g] = true
			}
		default:
			if err = k.s.LeaveGroup(g, name, netip.Addr{}); err == nil {
				delete(k.groups, g)
			}
		}
		if err != nil && !s.isFaulty() {
			s.must(fmt.Errorf("join %v: %w", k, err))
		}
	}
	k.samePath()
}

func (s *kscenario) close(r, slot int) {
	if k := s.at(r, slot); k != nil {
		k.closing = true
		s.changed(k.local.Port())
		s.must(k.s.Close())
	}
}

func (s *kscenario) openOther(slot int) {
	if s.others[slot] != nil {
		return
	}
	local := [...]netip.AddrPort{
		kOther:       netip.AddrPortFrom(eth0Addr.Addr(), 7100),
		kOtherMember: netip.AddrPortFrom(netip.IPv4Unspecified(), kernelPort(0, kMember)),
		kOtherReuse:  netip.AddrPortFrom(eth0Addr.Addr(), kernelPort(0, kReuse))}[slot]
	x, err := s.k.OpenUDP(local, func(_ netip.AddrPort, b []byte) { s.otherReceived(slot, b) })
	if err == nil && slot == kOtherMember {
		err = x.JoinGroup(kernelGroups[0], 0)
	}
	if err != nil {
		if !s.isFaulty() {
			s.must(fmt.Errorf("open other %d: %w", slot, err))
		}
		if x != nil {
			_ = x.Close()
		}
		return
	}
	s.changed(local.Port())
	s.others[slot] = x
}

func (s *kscenario) closeOther(slot int) {
	if x := s.others[slot]; x != nil {
		s.changed(x.s.local.Port())
		s.must(x.Close())
		s.others[slot] = nil
	}
}

// target is where datagrams for a ring's slot are sent.
func (s *kscenario) target(peer, r, slot, i int) netip.AddrPort {
	a := eth0Addr.Addr()
	switch slot {
	case kMember:
		a = kernelGroups[0]
	case kWanderer:
		a = kernelGroups[1]
	case kMany:
		a = manyGroup(r, i*7%45)
	case kSecond:
		a = eth1Addr.Addr()
	default:
		if peerNIC(peer) == 1 {
			a = eth1Addr.Addr()
		}
	}
	return netip.AddrPortFrom(a, kernelPort(r, slot))
}

// sendFrom sends datagrams from a peer to a slot.
func (s *kscenario) sendFrom(peer, r, slot, n int) {
	from := s.socks[peer][0]
	if slot == kConnected {
		from = s.socks[peer][1]
	}
	for i := range n {
		to := s.target(peer, r, slot, i)
		if to.Addr() == eth0Addr.Addr() && peerNIC(peer) == 1 || to.Addr() == eth1Addr.Addr() && peerNIC(peer) == 0 {
			return // of another network
		}
		b := s.post(nil, to)
		_, _ = from.SendTo(b, to) // what a peer cannot send is not judged
	}
}

// sendBack sends datagrams from a ring's socket to a peer.
func (s *kscenario) sendBack(o *kop) {
	k := s.at(o.ring, o.slot)
	if k == nil || o.slot == kMember {
		return
	}
	to := netip.AddrPortFrom(peerAddr(o.peer), 7000)
	if o.slot == kConnected {
		to = k.remote
	}
	if k.local.Addr() == eth1Addr.Addr() && peerNIC(o.peer) == 0 || k.local.Addr() == eth0Addr.Addr() && peerNIC(o.peer) == 1 {
		return // there is no route back
	}
	for range o.n {
		s.sendBy(k, to)
	}
}

func (s *kscenario) sendBy(k *ksock, to netip.AddrPort) {
	b := s.post(k, to)
	if to.Addr().IsMulticast() {
		s.mayAll(len(s.posted)-1, to) // members on the machine
	}
	if _, err := k.s.SendTo(b, to); err == nil {
		s.accepted++
	} else {
		s.posted[len(s.posted)-1].refused = true
	}
}

// sendGroup sends datagrams from a ring's socket to the first group: members on the machine receive them too.
func (s *kscenario) sendGroup(o *kop) {
	k := s.at(o.ring, kWildcard)
	if k == nil {
		return
	}
	if err := k.s.SetMulticastInterface("eth0"); err != nil {
		return // it is gone
	}
	for range o.n {
		s.sendBy(k, netip.AddrPortFrom(kernelGroups[0], kernelPort(0, kMember)))
	}
}

// sendOther sends datagrams from another program of the machine to a ring's socket.
func (s *kscenario) sendOther(o *kop) {
	x, k := s.others[kOther], s.at(o.ring, o.slot)
	if x == nil || k == nil || o.slot != kBound && o.slot != kWildcard {
		return
	}
	to := netip.AddrPortFrom(eth0Addr.Addr(), k.local.Port())
	for range o.n {
		b := s.post(nil, to)
		s.expectLocal(to, b)
		if x.SendTo(b, to) != nil { // without an address, for instance
			s.lost(b)
		}
	}
}
