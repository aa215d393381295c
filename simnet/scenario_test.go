package simnet

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/socketxtreme/socketxtreme/ring"
)

// plant is a bug put into a world: before a host is made, and when all are there.
type plant struct {
	host  func(c *HostConfig)
	world func(w *World)
}

// totals are what happened over many runs, to see that it did.
type totals struct {
	datagrams, received, refused, blocked, kept, resumed uint64
	lost                                                 [NumCauses]uint64
	duplicated, reordered, corrupted, shortened          uint64
	rings, drops, waiting                                uint64
}

// scenario is one run.
type scenario struct {
	*judge
	w     *World
	hosts []*Host
	base  []Impairment
	lan   *Switch
}

// play runs the operations in the world of a seed.
func play(seed uint64, ops []op, p plant) (t totals, trace uint64, err error) {
	w := New(seed)
	s := &scenario{w: w}
	if err = s.build(seed, p); err == nil {
		if p.world != nil {
			p.world(w)
		}
		err = s.run(ops)
	}
	trace = w.Hash()
	s.count(&t)
	if e := w.Close(); err == nil {
		err = e
	}
	return t, trace, err
}

func (s *scenario) build(seed uint64, p plant) error {
	w, n := s.w, hostsOf(seed)
	r := randomStream(seed, "delays")
	s.judge = newJudge(w, n)
	w.watch = s.judge
	s.lan = w.Switch("lan")
	other := s.lan
	if n > 3 {
		other = w.Switch("attic")
		if _, err := w.Connect(s.lan, other); err != nil {
			return err
		}
	}
	for i := range n {
		c := HostConfig{Addrs: []netip.Prefix{netip.PrefixFrom(addrOf(i), 24)}}
		if i%2 == 1 {
			c.Latency = time.Duration(r.IntN(2000)) * time.Microsecond
		}
		if p.host != nil {
			p.host(&c)
		}
		h, err := w.Host(string(rune('a'+i)), c)
		if err != nil {
			return err
		}
		s.hosts = append(s.hosts, h)
		h.Handle(func(c *ring.Completion) { s.completion(i, c) })
		at := s.lan
		if i >= 3 {
			at = other
		}
		if _, err := w.Connect(h.NIC(0), at); err != nil {
			return err
		}
	}
	for _, l := range w.Lines() {
		m := Impairment{Delay: time.Duration(20+r.IntN(2000)) * time.Microsecond}
		s.base = append(s.base, m)
		if err := l.Set(m); err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) run(ops []op) error {
	for _, o := range ops {
		f := func() { s.do(&o) }
		switch o.do {
		case doImpair, doClear, doPartition, doQuery:
			s.w.At(o.at, f)
		default:
			s.hosts[o.host].After(o.at, f)
		}
	}
	if err := s.w.Run(worldTime); err != nil {
		return err
	}
	for i, l := range s.w.Lines() {
		if err := l.Set(s.base[i]); err != nil {
			return err
		}
	}
	for h := range s.hosts {
		s.release(h)
		for k := range slots {
			s.resume(h, k)
		}
	}
	if err := s.w.Run(worldTime + 10*time.Second); err != nil {
		return err
	}
	if err := s.compare(); err != nil {
		return err
	}
	if err := s.alive(worldTime + 3*time.Minute); err != nil {
		return err
	}
	for h := range s.hosts {
		for k := range slots {
			s.close(h, k)
		}
	}
	if err := s.w.Run(worldTime + 4*time.Minute); err != nil {
		return err
	}
	return s.gone()
}

// alive makes sure that nothing is stuck: on lines that are whole again, when what a corrupt answer had put into a neighbour table is
// forgotten (60 s), every host reaches the next one.
func (s *scenario) alive(at time.Duration) error {
	for h := range s.hosts {
		s.open(h, wildcard)
	}
	if err := s.w.Run(at); err != nil {
		return err
	}
	var before []account
	for h := range s.hosts {
		to := netip.AddrPortFrom(addrOf((h+1)%len(s.hosts)), portOf(wildcard))
		before = append(before, s.judge.hosts[h])
		s.hosts[h].After(0, func() { s.do(&op{do: doSend, host: h, slot: wildcard, to: to, n: 3, size: 100}) })
	}
	if err := s.w.Run(at + 5*time.Second); err != nil {
		return err
	}
	for h := range s.hosts {
		if got := s.judge.hosts[h].delivered - before[h].delivered; got != 3 {
			return fmt.Errorf("liveness: host %d got %d of 3 datagrams over lines that are whole", h, got)
		}
	}
	return nil
}

func (s *scenario) do(o *op) {
	switch o.do {
	case doOpen:
		s.open(o.host, o.slot)
	case doClose:
		s.close(o.host, o.slot)
	case doSend:
		for range o.n {
			s.send(o)
		}
	case doImpair:
		m := o.m
		m.Delay = s.base[o.n].Delay
		s.must(s.w.Lines()[o.n].Set(m))
	case doClear:
		s.must(s.w.Lines()[o.n].Set(s.base[o.n]))
	case doPartition:
		s.partition(o.host, true)
		s.w.After(o.d, func() { s.partition(o.host, false) })
	case doMTU:
		s.must(s.hosts[o.host].SetMTU(0, o.n))
	case doPause:
		s.hosts[o.host].Pause(o.d)
	case doSuspend:
		if k := s.at(o.host, o.slot); k != nil {
			s.must(k.s.Suspend())
		}
	case doResume:
		s.resume(o.host, o.slot)
	case doHold:
		s.hold[o.host] += o.n
	case doRelease:
		s.release(o.host)
	case doJoin:
		s.join(o.host, o.slot)
	case doQuery:
		s.must(s.lan.Query(o.d))
	}
}

// partition cuts a host off, or joins it again.
func (s *scenario) partition(host int, down bool) {
	nic := s.hosts[host].nics[0]
	for _, l := range s.w.Lines() {
		if l == nic.out || l.to.nic == nic {
			m := l.Impairment()
			m.Down = down
			s.must(l.Set(m))
		}
	}
}

func (s *scenario) must(err error) {
	if err != nil {
		s.w.Fail(fmt.Errorf("scenario: %w", err))
	}
}

func (s *scenario) open(h, slot int) {
	if s.at(h, slot) != nil {
		return
	}
	next := addrOf((h + 1) % len(s.hosts))
	c := ring.Config{LargestDatagram: 2048, Timestamps: true, HardwareTimestamps: ring.HardwareTimestampsSync}
	local := netip.AddrPortFrom(addrOf(h), portOf(slot))
	var remote netip.AddrPort
	switch slot {
	case wildcard, wanderer:
		local = netip.AddrPortFrom(netip.IPv4Unspecified(), local.Port())
	case bound:
		c.SendQueue, c.Budget = 16, 32<<10
	case connected:
		remote = netip.AddrPortFrom(next, portOf(connected))
	case member, member2:
		local = netip.AddrPortFrom(groups[0], local.Port())
	case refused:
		remote = netip.AddrPortFrom(next, nobody)
	}
	k, err := s.hosts[h].set.NewSocket(ring.KindDatagram, ring.IPv4, c)
	if err == nil {
		err = errors.Join(k.SetReuseAddr(true), k.SetMulticastAll(false), k.SetMulticastLoop(slot%2 == 0), k.SetReceiveBuffer(8<<10),
			k.Bind(local))
	}
	if err == nil && remote.IsValid() {
		err = k.Connect(remote)
	}
	if err != nil {
		s.must(fmt.Errorf("open host %d slot %d: %w", h, slot, err))
		return
	}
	st := s.opened(h, slot, k)
	st.loop = slot%2 == 0
	if slot == member || slot == member2 {
		s.join(h, slot)
	}
}

// join makes a member of a socket, or takes the membership away.
func (s *scenario) join(h, slot int) {
	k := s.at(h, slot)
	if k == nil {
		return
	}
	g := groups[0]
	if slot == wanderer {
		g = groups[1]
	}
	if k.group == g {
		s.must(k.s.LeaveGroup(g, "eth0", netip.Addr{}))
		k.group = netip.Addr{}
		return
	}
	s.must(k.s.JoinGroup(g, "", netip.Addr{}))
	k.group = g
}

func (s *scenario) close(h, slot int) {
	if k := s.at(h, slot); k != nil {
		k.closing = true
		s.places[h][slot] = nil
		if len(k.tokens) > 0 {
			s.lingering[h] = append(s.lingering[h], k)
		}
		s.must(k.s.Close())
	}
}

func (s *scenario) resume(h, slot int) {
	if k := s.at(h, slot); k != nil {
		s.must(k.s.Resume())
	}
}
