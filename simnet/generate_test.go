package simnet

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// A scenario is a switched network of three to five hosts with seven places for sockets on each, and a list of operations on them.

const (
	slots     = 7
	basePort  = 7000
	nobody    = 9 // a port that nobody has
	worldTime = 62 * time.Second
)

// What the slots are: one socket each, opened and closed as the operations say.
const (
	wildcard  = iota // 0.0.0.0
	bound            // the host's address; small send queue, small budget
	connected        // to the same slot of the next host
	member           // bound to the first group
	wanderer         // wildcard; member of the second group at times
	refused          // connected to a port of the next host that nobody has
	member2          // as member, on the same port
)

var groups = [2]netip.Addr{netip.MustParseAddr("233.252.0.1"), netip.MustParseAddr("233.252.0.2")}

func portOf(slot int) uint16 {
	if slot == member2 {
		slot = member
	}
	return basePort + uint16(slot)
}

type verb uint8

const (
	doOpen verb = iota
	doClose
	doSend
	doImpair
	doClear
	doPartition
	doMTU
	doPause
	doSuspend
	doResume
	doHold
	doRelease
	doJoin
	doQuery
)

var verbs = [...]string{"open", "close", "send", "impair", "clear", "partition", "MTU", "pause", "suspend", "resume", "hold", "release",
	"join or leave", "query"}

// Ways to send.
const (
	bySend   = iota // Send where the socket is connected, else SendTo
	byPacket        // SendPacket
	byVector        // SendVector
)

// op is one operation; what it refers to may not be there.
type op struct {
	at         time.Duration
	do         verb
	host, slot int
	to         netip.AddrPort
	n, size    int
	how        int
	m          Impairment
	d          time.Duration
}

func (o op) String() string {
	s := fmt.Sprintf("%9.3fs %s", o.at.Seconds(), verbs[o.do])
	switch o.do {
	case doSend:
		return s + fmt.Sprintf(" host %d slot %d: %d datagrams of %d bytes to %v, way %d", o.host, o.slot, o.n, o.size, o.to, o.how)
	case doImpair:
		return s + fmt.Sprintf(" line %d: %v", o.n, o.m)
	case doClear:
		return s + fmt.Sprintf(" line %d", o.n)
	case doOpen, doClose, doSuspend, doResume, doJoin:
		return s + fmt.Sprintf(" host %d slot %d", o.host, o.slot)
	}
	return s + fmt.Sprintf(" host %d: %d, %v", o.host, o.n, o.d)
}

// hostsOf is how many hosts the world of a seed has.
func hostsOf(seed uint64) int { return 3 + int(randomStream(seed, "topology").Uint64()%3) }

func addrOf(host int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(host + 1)}) }

// generate draws the operations: every impairment on some line for a while, sockets that come and go, and at least 10,000 datagrams.
func generate(seed uint64, r *rand.Rand) (ops []op) {
	hosts := hostsOf(seed)
	lines := 2 * hosts
	if hosts > 3 {
		lines += 2
	}
	add := func(o op) { ops = append(ops, o) }
	when := func(from, to int) time.Duration {
		return time.Duration(from)*time.Second + time.Duration(r.Int64N(int64(to-from)*int64(time.Second)))
	}
	for h := range hosts {
		for s := range slots {
			add(op{do: doOpen, host: h, slot: s})
		}
	}
	for _, m := range []Impairment{
		{Jitter: 5 * time.Millisecond}, {Rate: 2_000_000, Queue: 20_000}, {Loss: 0.05}, {BurstBegin: 0.01, BurstEnd: 0.1, BurstLoss: 0.9},
		{Nth: 13}, {Lose: Multicast}, {Lose: ARP}, {Loss: 0.5, Kinds: ICMP | IGMP}, {Duplicate: 0.1},
		{Reorder: 0.1, ReorderBy: 3 * time.Millisecond}, {Corrupt: 0.1}, {Truncate: 0.05}, {MTU: 300}, {Down: true},
		{Loss: 0.02, Duplicate: 0.02, Reorder: 0.02, Corrupt: 0.02, Truncate: 0.02, Jitter: time.Millisecond},
	} {
		at, line := when(1, 40), r.IntN(lines)
		add(op{at: at, do: doImpair, n: line, m: m})
		add(op{at: at + when(4, 15), do: doClear, n: line})
	}
	for range 4 {
		h := r.IntN(hosts)
		at := when(1, 45)
		add(op{at: at, do: doPartition, host: h, d: when(1, 4)})
		add(op{at: when(1, 50), do: doMTU, host: r.IntN(hosts), n: 300 + r.IntN(1200)})
		add(op{at: when(1, 50), do: doPause, host: r.IntN(hosts), d: when(0, 2)})
		add(op{at: when(1, 50), do: doHold, host: r.IntN(hosts), n: 1 + r.IntN(300)})
		add(op{at: when(1, 55), do: doRelease, host: r.IntN(hosts)})
		add(op{at: when(1, 50), do: doQuery, d: when(0, 2)})
	}
	for range 12 {
		h, s, at := r.IntN(hosts), r.IntN(slots), when(1, 50)
		add(op{at: at, do: doSuspend, host: h, slot: s})
		add(op{at: at + when(0, 3), do: doResume, host: h, slot: s})
		h, s, at = r.IntN(hosts), r.IntN(slots), when(1, 50)
		add(op{at: at, do: doClose, host: h, slot: s})
		add(op{at: at + when(0, 3), do: doOpen, host: h, slot: s})
		add(op{at: when(1, 55), do: doJoin, host: r.IntN(hosts), slot: wanderer})
	}
	for sum := 0; sum < 14_000; {
		o := op{at: when(1, 58), do: doSend, host: r.IntN(hosts), slot: r.IntN(slots), n: 1 + r.IntN(48), size: 16 + r.IntN(120),
			how: r.IntN(3)}
		if r.IntN(8) == 0 {
			o.size = 16 + r.IntN(1457)
		}
		switch r.IntN(16) {
		case 0:
			o.to = netip.AddrPortFrom(netip.MustParseAddr("10.0.0.200"), basePort)
		case 1:
			o.to = netip.AddrPortFrom(addrOf(r.IntN(hosts)), nobody)
		case 2, 3, 4:
			o.to = netip.AddrPortFrom(groups[0], portOf(member))
		case 5:
			o.to = netip.AddrPortFrom(groups[1], portOf(wanderer))
		default:
			o.to = netip.AddrPortFrom(addrOf(r.IntN(hosts)), portOf(r.IntN(3)))
		}
		sum += o.n
		add(o)
	}
	slices.SortStableFunc(ops, func(a, b op) int { return int(a.at - b.at) })
	return ops
}
