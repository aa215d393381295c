package tcptest

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/socketxtreme/socketxtreme/simnet"
	"github.com/socketxtreme/socketxtreme/tcp"
)

const numSettings = 6

// settingsOf draws the settings of the world's sockets: the first are those of the listeners.
func settingsOf(seed uint64) []tcp.Settings {
	r := rand.New(rand.NewPCG(seed, 77))
	list := make([]tcp.Settings, numSettings)
	one := func(n int) bool { return r.IntN(n) == 0 }
	path := !one(5)
	for i := range list {
		s := tcp.DefaultSettings()
		s.NoDelay = one(2)
		s.QuickAck = one(4)
		s.SACK = !one(3)
		s.Timestamps = !one(3)
		s.ECN = one(3)
		s.Congestion = []tcp.Congestion{tcp.CUBIC, tcp.CUBIC, tcp.NewReno, tcp.NoCongestionControl}[r.IntN(4)]
		s.WindowScale = []int8{7, 7, 0, 2, -1}[r.IntN(5)]
		s.ReceiveBuffer = []int{256 << 10, 64 << 10, 20000, 4000, 1000}[r.IntN(5)]
		s.SendBuffer = []int{256 << 10, 64 << 10, 8000, 1500}[r.IntN(4)]
		if one(4) {
			s.MaxSegment = uint16(88 + r.IntN(1400))
		}
		if one(4) {
			s.RTOMin = 20 * time.Millisecond
		}
		if one(5) {
			s.DelayedAck = 200 * time.Millisecond
		}
		s.PathMTU = path
		s.KeepAlive, s.KeepIdle, s.KeepInterval, s.KeepCount = true, time.Minute, 10*time.Second, 5 // a peer that has crashed says nothing
		list[i] = s
	}
	return list
}

// generate draws the operations of a seed. One in eight worlds loses nothing.
func generate(_ uint64, r *rand.Rand) []op {
	var ops []op
	one := func(n int) bool { return r.IntN(n) == 0 }
	quiet := one(8)
	for range 2 + r.IntN(10) {
		ops = append(ops, op{at: time.Duration(r.Int64N(int64(20 * time.Second))), do: doFlow, flow: drawFlow(r, quiet)})
		if one(4) { // many at once
			again := ops[len(ops)-1]
			for range r.IntN(12) {
				again.at += time.Duration(r.Int64N(int64(time.Millisecond)))
				again.flow.from = 0
				again.flow.both = false
				again.flow.haste = noHaste
				again.flow.port = firstPort + again.flow.settings%numListeners
				ops = append(ops, again)
			}
		}
	}
	if !quiet {
		ops = append(ops, drawTrouble(r)...)
	}
	for i := range ops {
		ops[i].node = r.IntN(numNodes)
	}
	slices.SortStableFunc(ops, func(a, b op) int { return cmp.Compare(a.at, b.at) })
	return ops
}

func drawFlow(r *rand.Rand, quiet bool) flowPlan {
	one := func(n int) bool { return r.IntN(n) == 0 }
	p := flowPlan{client: r.IntN(numNodes), port: firstPort + r.IntN(numListeners), first: r.IntN(3), settings: r.IntN(numSettings)}
	p.server = (p.client + 1 + r.IntN(numNodes-1)) % numNodes
	if one(2) {
		p.from = 2000 + r.IntN(20) // ports are used again
	}
	if one(12) && !quiet {
		p.both, p.from = true, 3000+r.IntN(1000)
	}
	if one(20) && !quiet {
		p.port = closedPort
	}
	if one(20) && !quiet || p.both && one(2) {
		p.haste = []haste{hasteCloses, hasteAborts, hasteCloseWrites}[r.IntN(3)]
		if p.hasteIn = tcp.SynSent; p.both {
			p.hasteIn = tcp.SynReceived
		}
	}
	for i := range p.sides {
		p.sides[i] = drawSide(r, quiet)
	}
	if p.haste == hasteCloseWrites {
		p.sides[0].bytes = 0
	}
	return p
}

func drawSide(r *rand.Rand, quiet bool) sidePlan {
	one := func(n int) bool { return r.IntN(n) == 0 }
	p := sidePlan{bytes: []int{0, 1, 100, 5000, 60000, 300000}[r.IntN(6)], chunk: []int{1 << 16, 16384, 1460, 100}[r.IntN(4)]}
	if p.bytes > 0 {
		p.bytes += r.IntN(p.bytes)
	}
	if p.bytes > 10000 {
		p.chunk = max(p.chunk, 1000)
	}
	if one(5) {
		p.pause = time.Duration(1 + r.Int64N(int64(50*time.Millisecond)))
		p.bytes = min(p.bytes, 200*p.chunk)
	}
	p.more = one(6)
	if one(6) {
		p.stays = time.Duration(1 + r.Int64N(int64(2*time.Second)))
	}
	if quiet {
		return p
	}
	if one(5) {
		p.pace = 200 + r.IntN(3000)
		p.rest = time.Duration(1 + r.Int64N(int64(20*time.Millisecond)))
		p.bytes = min(p.bytes, 100000)
	}
	if one(8) {
		p.late = time.Duration(r.Int64N(int64(20 * time.Second)))
	}
	p.rude = one(12)
	if one(15) {
		p.aborts = 1 + r.IntN(50000)
	}
	return p
}

// drawTrouble draws what goes wrong until the world is healed.
func drawTrouble(r *rand.Rand) (ops []op) {
	one := func(n int) bool { return r.IntN(n) == 0 }
	at := func() time.Duration { return time.Duration(r.Int64N(int64(healed))) }
	for range 1 + r.IntN(8) {
		o := op{at: at(), do: doImpair, back: one(2), m: drawImpairment(r)}
		if !o.back {
			o.m.Corrupt = 0 // two flipped bits may cancel each other out in the checksum: a packet gets one on its way
		}
		ops = append(ops, o)
	}
	if one(3) {
		ops = append(ops, op{at: at(), do: doMTU, n: 600 + r.IntN(800), back: one(2)})
	}
	if one(3) {
		ops = append(ops, op{at: at(), do: doMark, p: r.Float64() / 4})
	}
	if one(8) {
		ops = append(ops, op{at: at(), do: doCrash, d: time.Duration(r.Int64N(int64(5 * time.Second)))})
	}
	if one(8) {
		ops = append(ops, op{at: at(), do: doFlood, n: 1 + r.IntN(60)})
	}
	if one(3) {
		ops = append(ops, op{at: at(), do: doForge, n: 1 + r.IntN(100)})
	}
	if one(3) { // for a while, so that there is something
		for from, i := at(), 0; i < 50; i++ {
			ops = append(ops, op{at: from + time.Duration(i)*20*time.Millisecond, do: doRenege, n: 1 + r.IntN(20_000)})
		}
	}
	if one(4) {
		ops = append(ops, op{at: at(), do: doPause, d: time.Duration(r.Int64N(int64(2 * time.Second)))})
	}
	return ops
}

func drawImpairment(r *rand.Rand) simnet.Impairment {
	one := func(n int) bool { return r.IntN(n) == 0 }
	m := simnet.Impairment{Delay: time.Duration(r.Int64N(int64(50 * time.Millisecond)))}
	if one(2) {
		m.Jitter = time.Duration(r.Int64N(int64(10 * time.Millisecond)))
	}
	switch r.IntN(6) {
	case 0:
		m.Loss = r.Float64() * 0.3
	case 1:
		m.BurstBegin, m.BurstEnd, m.BurstLoss = r.Float64()*0.05, 0.05+r.Float64()*0.5, 0.5+r.Float64()/2
	case 2:
		m.Nth = uint64(2 + r.IntN(50))
	case 3:
		if m.Kinds = simnet.Kind(simnet.TCPSyn) << r.IntN(5); one(2) {
			m.Lose, m.Kinds = m.Kinds, 0
		} else {
			m.Loss = r.Float64()
		}
	case 4:
		m.Down = one(2)
	}
	if one(4) {
		m.Duplicate = r.Float64() * 0.3
	}
	if one(3) {
		m.Reorder, m.ReorderBy = r.Float64()*0.3, time.Duration(1+r.Int64N(int64(30*time.Millisecond)))
	}
	if one(4) {
		m.Corrupt = r.Float64() * 0.1
	}
	if one(8) {
		m.Truncate = r.Float64() * 0.1
	}
	if one(3) {
		m.Rate = 100_000 + r.Int64N(50_000_000)
		m.Queue = 3000 + r.IntN(100_000)
	}
	if one(20) {
		m.MTU = 600 + r.IntN(900)
	}
	return m
}
