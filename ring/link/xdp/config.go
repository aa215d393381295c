package xdp

import (
	"fmt"
	"math/bits"
	"time"
)

// Mode is where the steering program runs.
type Mode uint8

// The modes.
const (
	ModeAuto    Mode = iota // what is best for the kind of interface
	ModeNative              // in the driver, before the kernel makes a socket buffer of the frame
	ModeGeneric             // behind the driver
)

// String is the value in words.
func (m Mode) String() string {
	switch m {
	case ModeAuto:
		return "auto"
	case ModeNative:
		return "native"
	case ModeGeneric:
		return "generic"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Copy is whether the card may read and write the pool's buffers itself.
type Copy uint8

// The ways of copying. No driver can read and write buffers that cross pages, but where the pool is contiguous (DriverPool.SetContiguous).
const (
	CopyAuto   Copy = iota // zero-copy if driver and memory allow it
	CopyAlways             // the kernel copies
	CopyNever              // zero-copy, or no link
)

// Time is what stamps received frames.
type Time uint8

// The sources of stamps.
const (
	TimeOff      Time = iota
	TimePoll          // the ring does, with the time of its poll: nothing for a link to do
	TimeXDP           // the steering program
	TimeHardware      // the network card; TimeXDP, with a reason, where it cannot
)

// String is the value in words.
func (t Time) String() string {
	if int(t) < len(timeNames) {
		return timeNames[t]
	}
	return fmt.Sprintf("Time(%d)", uint8(t))
}

var timeNames = [...]string{"off", "poll", "xdp", "hw"}

// Config is how an interface is opened. The zero value but for Interface is good.
type Config struct {
	Interface string
	Mode      Mode
	Copy      Copy
	Time      Time
	Queues    []int // which of the interface's queues; nil: all that frames can arrive on
	TCP       bool  // flows of TCP can be claimed too
	Flows     int   // most claims; 0 means 4,096

	// Rules lets Device.Steer put receive rules into the card, so that Queues can be dedicated ones. Rules of processes that crashed are
	// removed by Open; what each process has inserted is noted in RulesDir ("/run/socketxtreme/rules"). Unproven on hardware.
	Rules    bool
	RulesDir string

	// Entries of the four rings of each queue, powers of two. RxRing is how many frames may wait for a poll; 0: as many as buffers lie ready for
	// the card, 2,048 at the least. TxRing (2,048) is how many may be on the way out. Fill (16,384) is the most buffers that lie ready for the
	// card: how many do, says who opens a queue. A goroutine that does not poll for a while loses no frame as long as there is one for each.
	RxRing, TxRing, Fill int

	// BusyPoll makes each Receive that finds nothing run the driver's poll itself (SO_PREFER_BUSY_POLL, Linux 5.11): one system call more a
	// turn. Where the kernel refuses it, or knows no queue to poll for the socket after its first frames (SO_INCOMING_NAPI_ID is 0: a veth
	// on 6.18, in copy mode), the path has ReasonNoBusyPoll and no call is made. Not tested on a NIC. It does not touch
	// napi_defer_hard_irqs and gro_flush_timeout, which are the administrator's: on a veth they make every packet wait for a timer.
	BusyPoll bool

	// Retry is how long EBUSY is tried again: the kernel unbinds a queue only some time after its socket was closed. 0 means 100
	// milliseconds, negative not at all. Whatever it is, a queue that this process closed in the last three seconds is tried until they are
	// over.
	Retry time.Duration
}

// defaults replaces the zero values of fields for which 0 means a default. RxRing stays 0: entries sets it for each queue.
func (c *Config) defaults() {
	for _, d := range []struct {
		at    *int
		value int
	}{{&c.Flows, 4096}, {&c.TxRing, 2048}, {&c.Fill, 16384}} {
		if *d.at == 0 {
			*d.at = d.value
		}
	}
	if c.RulesDir == "" {
		c.RulesDir = "/run/socketxtreme/rules"
	}
	if c.Retry == 0 {
		c.Retry = 100 * time.Millisecond
	}
}

// entries is the configuration with the ring lengths of a queue that keeps fill buffers ready for the card: Fill becomes the next power of
// two, at least 2,048 and at most the configured Fill; RxRing, if it is 0, becomes as long. TxRing stays.
func (c Config) entries(fill int) Config {
	const least = 2048
	longest := c.Fill
	c.Fill = min(max(least, 1<<bits.Len(uint(fill-1))), longest)
	if c.RxRing == 0 {
		c.RxRing = max(least, c.Fill)
	}
	return c
}

// validate checks the fields after defaults. The error names the first field that is out of its range.
func (c *Config) validate() error {
	const maxEntries = 1 << 20
	for _, f := range []struct {
		name  string
		value int
	}{{"RxRing", c.RxRing}, {"TxRing", c.TxRing}, {"Fill", c.Fill}} {
		if f.name == "RxRing" && f.value == 0 {
			continue // as long as is needed
		}
		if f.value < 8 || f.value > maxEntries || f.value&(f.value-1) != 0 {
			return fmt.Errorf("xdp: %s is %d, must be a power of two from 8 to %d", f.name, f.value, maxEntries)
		}
	}
	switch {
	case c.Interface == "":
		return fmt.Errorf("xdp: Interface is empty")
	case c.Flows < 1 || c.Flows > 1<<24:
		return fmt.Errorf("xdp: Flows is %d, must be 1 to %d", c.Flows, 1<<24)
	case c.Mode > ModeGeneric:
		return fmt.Errorf("xdp: Mode is %d, must be 0 to %d", c.Mode, ModeGeneric)
	case c.Copy > CopyNever:
		return fmt.Errorf("xdp: Copy is %d, must be 0 to %d", c.Copy, CopyNever)
	case c.Time > TimeHardware:
		return fmt.Errorf("xdp: Time is %d, must be 0 to %d", c.Time, TimeHardware)
	}
	return nil
}
