package simnet

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// A kernel scenario is a machine with a kernel, two interfaces and one or two rings, peers on the network of each interface, and other
// programs on the machine. Faults end after kernelFaults; at kernelFinal all must be as if there had been none.

const (
	kernelFaults = 20 * time.Second
	kernelFinal  = 65 * time.Second
	kernelEnd    = 70 * time.Second
)

// The slots of a ring's sockets. Ports are 7000 + slot, and 20 more on the second ring, but for the shared group.
const (
	kWildcard  = iota // 0.0.0.0
	kBound            // the address of eth0
	kSecond           // the address of eth1
	kConnected        // to the same port of the first peer
	kMember           // bound to the first group, member on eth0: on both rings, and of another program at times
	kWanderer         // 0.0.0.0, member of the second group, on eth1
	kMany             // 0.0.0.0, member of 25 groups on eth0, others on each ring: more than one descriptor may have
	kReuse            // 0.0.0.0 with SO_REUSEPORT: another program has the port at times
	kSlots
)

// The slots of sockets of other programs.
const (
	kOther       = iota // 10.0.0.1:7100
	kOtherMember        // 0.0.0.0:7004, member of the first group on eth0
	kOtherReuse         // the address of eth0, port of kReuse
	kOthers
)

var kernelGroups = [2]netip.Addr{netip.MustParseAddr("239.1.1.1"), netip.MustParseAddr("239.1.2.1")}

// manyGroup is one of the 25 groups of a ring's socket, or, from 25 on, one of the other ring's alone.
func manyGroup(ring, i int) netip.Addr {
	return netip.AddrFrom4([4]byte{239, 1, 3, byte((i+20*ring)%45 + 1)})
}

func kernelPort(ring, slot int) uint16 {
	if slot == kMember {
		ring = 0
	}
	return uint16(7000 + 20*ring + slot)
}

type kverb uint8

const (
	kOpen kverb = iota
	kClose
	kOpenOther
	kCloseOther
	kSend      // from a peer
	kSendBack  // from a ring's socket to a peer
	kSendGroup // from a ring's socket to a group
	kSendOther // from another program to a ring's socket
	kToOther   // from a peer to another program
	kDown      // for a time
	kNoCarrier
	kTakeOff
	kForeign
	kDelete
	kAddress // taken away
	kFlush   // neighbours
	kPause
	kSuspend
	kJoin
	kMTU
	numKverbs
)

var kverbs = [...]string{"open", "close", "open other", "close other", "send", "send back", "send to group", "send from other",
	"send to other", "down", "no carrier",
	"take program off", "foreign program", "delete", "take address", "flush neighbours", "pause", "suspend", "join or leave", "MTU"}

// kop is one operation; what it refers to may not be there.
type kop struct {
	at         time.Duration
	do         kverb
	ring, slot int
	nic, peer  int
	n          int
	d          time.Duration
}

func (o kop) String() string {
	return fmt.Sprintf("%9.3fs %s ring %d slot %d, eth%d, peer %d: %d, %v", o.at.Seconds(), kverbs[o.do], o.ring, o.slot, o.nic, o.peer, o.n, o.d)
}

func ringsOf(seed uint64) int { return 1 + int(randomStream(seed, "rings").Uint64()%2) }

// generateKernel draws the operations of a seed.
func generateKernel(seed uint64, r *rand.Rand) (ops []kop) {
	rings := ringsOf(seed)
	add := func(o kop) { ops = append(ops, o) }
	when := func() time.Duration { return time.Second + time.Duration(r.Int64N(int64(kernelFaults-2*time.Second))) }
	for ring := range rings {
		for slot := range kSlots {
			add(kop{do: kOpen, ring: ring, slot: slot})
		}
	}
	add(kop{do: kOpenOther, slot: kOther})
	some := func(do kverb, count int, longest time.Duration) {
		for range count {
			add(kop{at: when(), do: do, ring: r.IntN(rings), slot: r.IntN(kSlots), nic: r.IntN(2), peer: r.IntN(3), n: 1 + r.IntN(20),
				d: time.Millisecond + time.Duration(r.Int64N(int64(longest)))})
		}
	}
	some(kSend, 300, time.Second)
	some(kSendBack, 120, time.Second)
	some(kSendGroup, 20, time.Second)
	some(kSendOther, 20, time.Second)
	some(kToOther, 20, time.Second)
	some(kPause, 3, 500*time.Millisecond)
	some(kSuspend, 4, 500*time.Millisecond)
	some(kFlush, 4, time.Second)
	some(kJoin, 6, time.Second)
	for range 6 {
		slot, ring, at := r.IntN(kSlots), r.IntN(rings), when()
		add(kop{at: at, do: kClose, ring: ring, slot: slot})
		add(kop{at: at + time.Duration(r.Int64N(int64(time.Second))), do: kOpen, ring: ring, slot: slot})
	}
	for range 4 {
		slot, at := r.IntN(kOthers), when()
		add(kop{at: at, do: kOpenOther, slot: slot})
		add(kop{at: at + time.Duration(r.Int64N(int64(4*time.Second))), do: kCloseOther, slot: slot})
	}
	for _, do := range []kverb{kDown, kNoCarrier, kTakeOff, kForeign, kDelete, kAddress} {
		some(do, r.IntN(3), 2*time.Second)
	}
	for _, o := range slices.Clone(ops) { // each fault meets traffic both ways
		if o.do < kDown || o.do == kSuspend || o.do == kPause {
			continue
		}
		for range 12 {
			at := o.at - 5*time.Millisecond + time.Duration(r.Int64N(int64(20*time.Millisecond)))
			if r.IntN(2) == 0 {
				at = o.at + time.Duration(r.Int64N(int64(time.Millisecond))) // before the mirror has it
			}
			if r.IntN(2) == 0 {
				at += o.d
			}
			add(kop{at: at, do: []kverb{kSend, kSend, kSendBack}[r.IntN(3)], ring: r.IntN(rings), slot: r.IntN(kSlots), nic: o.nic,
				peer: r.IntN(3), n: 1 + r.IntN(20)})
		}
	}
	slices.SortStableFunc(ops, func(a, b kop) int { return int(a.at - b.at) })
	return ops
}
