package torture

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// trial is what a seed says.
type trial struct {
	Seed uint64
	MTU  int
	impairments
	Flows   []flow
	Ours    tcp.Settings // of our end
	Kernels [2]kernelTCP // of the kernels: of the first run's near end, and of the far end
}

// flow is one connection: which side opens it, and how many bytes each side sends.
type flow struct {
	From  int // near or far
	Bytes [2]int
	Slow  [2]bool // that side reads slowly
}

// kernelTCP is how a kernel's TCP is set.
type kernelTCP struct {
	Control               string // congestion control
	SACK, Stamps, Scaling bool
	ECN                   bool
	Buffer, SendBuffer    int // SO_RCVBUF and SO_SNDBUF; 0: the kernel's choice
}

// sysctls are the settings that a namespace has; others are options of sockets.
func (k kernelTCP) sysctls() map[string]string {
	bit := func(b bool) string { return strconv.Itoa(map[bool]int{true: 1}[b]) }
	return map[string]string{"tcp_sack": bit(k.SACK), "tcp_timestamps": bit(k.Stamps), "tcp_window_scaling": bit(k.Scaling), "tcp_ecn": bit(k.ECN),
		"tcp_rto_max_ms": strconv.Itoa(int(rtoMax / time.Millisecond)), "tcp_retries2": "60", "tcp_orphan_retries": "60", "tcp_syn_retries": "30", "tcp_synack_retries": "30"}
}

// rtoMax bounds the back-off, at both ends of both runs: without it the time that a trial with many losses takes has no mean. Kernels before
// Linux 6.15 have no such setting.
const rtoMax = 2 * time.Second

var boundsRTO = func() bool {
	_, err := os.Stat("/proc/sys/net/ipv4/tcp_rto_max_ms")
	return err == nil
}()

// controls are the congestion controls that the kernel has, of those that a peer may use.
var controls = func() []string {
	text, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	return slices.DeleteFunc(strings.Fields(string(text)), func(s string) bool { return !slices.Contains([]string{"reno", "cubic", "bbr"}, s) })
}()

// losses and what a stream may have of bytes at most: what the kernel carries in some seconds.
var losses = []struct {
	share float64
	bytes int
}{{0, 3 << 20}, {0.001, 2 << 20}, {0.01, 600 << 10}, {0.05, 150 << 10}, {0.1, 60 << 10}, {0.2, 24 << 10}, {0.3, 8 << 10}}

func draw(seed uint64) *trial {
	r := rand.New(rand.NewPCG(seed, 3))
	one := func(n int) bool { return r.IntN(n) == 0 }
	share := func(n int, list ...float64) float64 {
		if one(n) {
			return list[r.IntN(len(list))]
		}
		return 0
	}
	x := &trial{Seed: seed, MTU: []int{576, 1500, 1500, 3498}[r.IntN(4)]}
	loss := losses[seed%uint64(len(losses))] // each as often as the others
	x.Loss = loss.share
	x.Duplicate, x.Reorder, x.Corrupt = share(3, 0.01, 0.1), share(3, 0.01, 0.1), share(3, 0.002, 0.02)
	x.Truncate, x.Mark = share(5, 0.005), share(4, 0.01, 0.05)
	x.Delay = []time.Duration{0, 500 * time.Microsecond, 5 * time.Millisecond, 20 * time.Millisecond}[r.IntN(4)]
	if one(3) {
		x.Jitter = x.Delay/2 + 500*time.Microsecond
	}
	if one(4) {
		x.Rate = []int{250_000, 1_250_000, 12_500_000}[r.IntN(3)]
		x.Queue = max(10*x.MTU, x.Rate/50)
	}

	s := tcp.DefaultSettings()
	s.SACK, s.Timestamps, s.ECN, s.NoDelay, s.QuickAck = !one(4), !one(4), one(2), one(2), one(6)
	s.WindowScale = []int8{7, 7, 0, -1}[r.IntN(4)]
	s.Congestion = []tcp.Congestion{tcp.CUBIC, tcp.CUBIC, tcp.NewReno, tcp.NoCongestionControl}[r.IntN(4)]
	s.ReceiveBuffer = []int{256 << 10, 256 << 10, 64 << 10, 4000, 1500}[r.IntN(5)]
	s.SendBuffer = []int{256 << 10, 64 << 10, 8 << 10}[r.IntN(3)]
	s.Retries, s.SynRetries = 60, 30
	if boundsRTO {
		s.RTOMax = clock.Duration(rtoMax)
	}
	x.Ours = s
	for i := range x.Kernels {
		k := kernelTCP{Control: "reno", SACK: !one(4), Stamps: !one(4), Scaling: !one(4), ECN: one(2), Buffer: []int{0, 0, 0, 16 << 10, 4 << 10}[r.IntN(5)]}
		if len(controls) > 0 {
			k.Control = controls[r.IntN(len(controls))]
		}
		x.Kernels[i] = k
	}
	// The kernel of the first run has what our end has.
	k := &x.Kernels[near]
	k.SACK, k.Stamps, k.Scaling, k.ECN, k.Buffer = s.SACK, s.Timestamps, s.WindowScale > 0, s.ECN, min(2*s.ReceiveBuffer, 256<<10)
	k.SendBuffer = 2 * s.SendBuffer // as the kernel counts: half of it is for what is not payload

	window := min(s.ReceiveBuffer, s.SendBuffer)
	if b := x.Kernels[far].Buffer; b > 0 {
		window = min(window, b)
	}
	// A small window carries one of it in a round trip, and waits for acknowledgements that are delayed.
	most := min(loss.bytes, int(3*float64(window)/(2*x.Delay+x.Jitter+40*time.Millisecond).Seconds()))
	if x.Rate > 0 {
		most = min(most, 2*x.Rate)
	}
	flows := []int{1, 1, 2, 4, 16}[r.IntN(5)]
	for range flows {
		f := flow{From: r.IntN(2), Slow: [2]bool{one(8), one(8)}}
		for i := range f.Bytes {
			if !one(6) {
				f.Bytes[i] = 1 + r.IntN(max(1, most/flows))
			}
		}
		x.Flows = append(x.Flows, f)
	}
	return x
}

// kernel is how the kernel of a side is set.
func (x *trial) kernel(side int) kernelTCP { return x.Kernels[side] }

// text is what a side sends on a flow.
func (x *trial) text(side, number int) []byte {
	b := make([]byte, x.Flows[number].Bytes[side])
	r := rand.NewChaCha8([32]byte{byte(x.Seed), byte(x.Seed >> 8), byte(x.Seed >> 16), byte(side), byte(number)})
	_, _ = r.Read(b)
	return b
}
