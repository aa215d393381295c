package harness

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// Meter is c/meter.h for clients written in Go: the same phases, the same histogram, the same windows.
type Meter struct {
	reading Reading

	Last             clock.Time // when the clock was read last
	next, begin, end clock.Time
	length, warmup   time.Duration
	Finished         bool // the span is over
	Itself           bool // the client calls Record itself; answers are not recorded
	measuring        bool
	gaps             time.Duration

	latency   histogram
	window    time.Duration
	windowEnd clock.Time
	inWindow  uint64
	rates     []float64

	serverPID, serverCPU         int // 0 and -1: not known
	serverUsed, clientUsed, busy float64
}

// gapLimit apart are two readings of the clock only when the host ran something else between them.
const gapLimit = 100 * time.Microsecond

// NewMeter begins with the warm-up. serverPID and serverCPU are 0 and -1 where they are not known.
func NewMeter(mode Mode, warmup, length time.Duration, serverPID, serverCPU int) *Meter {
	m := &Meter{length: length, warmup: warmup, window: time.Second, serverPID: serverPID, serverCPU: serverCPU,
		rates: make([]float64, 0, 4096)}
	m.reading.Mode = mode
	if length < time.Second {
		m.window = 100 * time.Millisecond
	}
	m.Last = clock.Now()
	m.next = m.Last.Add(warmup)
	return m
}

// Tick reads the clock, notices gaps, and changes the phase when it is due.
func (m *Meter) Tick() clock.Time {
	t := clock.Now()
	if m.measuring && t.Sub(m.Last) > gapLimit {
		m.gaps += t.Sub(m.Last)
	}
	m.Last = t
	if t >= m.next {
		m.turn(t)
	}
	return t
}

// turn goes from warm-up to measuring, from measuring to finished.
func (m *Meter) turn(t clock.Time) {
	r := &m.reading
	if m.measuring {
		m.windows(m.next)
		m.end, m.measuring, m.Finished, m.next = t, false, true, clock.Never
		r.ClientCPUSeconds = processCPU(os.Getpid()) - m.clientUsed
		if m.serverPID > 0 {
			r.ServerCPUSeconds = processCPU(m.serverPID) - m.serverUsed
			if m.serverCPU >= 0 {
				r.ForeignFraction = max(busySeconds(m.serverCPU)-m.busy-r.ServerCPUSeconds, 0) / m.end.Sub(m.begin).Seconds()
			}
		}
		return
	}
	m.measuring = true
	m.clientUsed = processCPU(os.Getpid())
	if m.serverPID > 0 {
		if m.serverCPU >= 0 {
			m.busy = busySeconds(m.serverCPU)
		}
		m.serverUsed = processCPU(m.serverPID)
	}
	m.begin = clock.Now()
	m.Last, m.next, m.windowEnd = m.begin, m.begin.Add(m.length), m.begin.Add(m.window)
}

// windows closes the windows that ended before t.
func (m *Meter) windows(t clock.Time) {
	for t >= m.windowEnd {
		if len(m.rates) < cap(m.rates) {
			m.rates = append(m.rates, float64(m.inWindow)/m.window.Seconds())
		}
		m.inWindow = 0
		m.windowEnd = m.windowEnd.Add(m.window)
	}
}

// answer records a request that was sent and answered.
func (m *Meter) answer(sent, t clock.Time) {
	if !m.Itself {
		m.Record(sent, t)
	}
}

// Record counts one sample of the span.
func (m *Meter) Record(sent, t clock.Time) {
	if !m.measuring {
		return
	}
	m.windows(t)
	m.latency.add(uint64(t - sent))
	m.reading.N++
	m.inWindow++
}

// Result is the reading, when all is over.
func (m *Meter) Result() Reading {
	r := m.reading
	r.Seconds = m.end.Sub(m.begin).Seconds()
	at := func(q float64) float64 { return float64(m.latency.at(q)) }
	r.P10, r.P25, r.P50, r.P75, r.P90, r.P99, r.P999 = at(0.1), at(0.25), at(0.5), at(0.75), at(0.9), at(0.99), at(0.999)
	r.Max = float64(m.latency.max)
	r.Rate = float64(r.N) / r.Seconds
	if r.Windows = len(m.rates); r.Windows > 0 {
		r.WindowMS = uint64(m.window.Milliseconds())
		r.MedianWindowRate, r.BestWindowRate = Median(m.rates), Quantile(m.rates, 1)
	}
	r.HostLostFraction = m.gaps.Seconds() / r.Seconds
	return r
}

// processCPU is the CPU time of a process in seconds, as the kernel counts it in nanoseconds.
func processCPU(pid int) float64 {
	const scheduled = 2 // CPUCLOCK_SCHED of the kernel's clock numbers: ~pid in the upper bits (clock_getcpuclockid(3))
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		panic(fmt.Sprintf("CPU clock of process %d: %v", pid, err)) // it has ended: so has the measurement
	}
	return float64(t.Sec) + float64(t.Nsec)/1e9
}

// busySeconds is how long a CPU has been doing anything at all, for anybody.
func busySeconds(cpu int) float64 {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		panic(fmt.Sprintf("/proc/stat: %v", err)) // every Linux has it
	}
	name := fmt.Sprintf("cpu%d ", cpu)
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		var user, nice, system, idle, wait, irq, softirq, steal float64
		if _, err := fmt.Sscan(rest, &user, &nice, &system, &idle, &wait, &irq, &softirq, &steal); err == nil {
			const perSecond = 100 // USER_HZ on every architecture that Go knows
			return (user + nice + system + irq + softirq + steal) / perSecond
		}
	}
	return 0
}
