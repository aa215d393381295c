package conf

import (
	"fmt"
	"log/slog"
	"time"
)

// RingKind is the kind of ring a poller polls.
type RingKind string

// The kinds of ring.
const (
	RingAuto  RingKind = "auto"  // the best that works here, with the reasons why not better
	RingUring RingKind = "uring" // kernel sockets through io_uring
	RingEpoll RingKind = "epoll" // kernel sockets through epoll
)

// ParseRingKind reads a kind by its name.
func ParseRingKind(s string) (RingKind, error) {
	switch k := RingKind(s); k {
	case RingAuto, RingUring, RingEpoll, RingOffload:
		return k, nil
	}
	return "", fmt.Errorf("ring kind %q: want auto, uring, epoll or offload", s)
}

// RxPollAuto and SelectPollAuto are the values of Settings.RxPoll and Settings.SelectPoll that nobody has given: each kind of reactor takes its
// own. Any other value is meant, wherever it is given. docs/settings.md has the table.
const (
	RxPollAuto                   = -2
	SelectPollAuto time.Duration = -2
)

// StatsDirectoryAuto is /run/socketxtreme for root, else a directory in $XDG_RUNTIME_DIR, or in $TMPDIR or /tmp with the
// user's number.
const StatsDirectoryAuto = "auto"

// Settings is the configuration of an engine.
type Settings struct {
	// Ring is the kind of ring (SX_RING).
	Ring RingKind
	// Offload is what concerns offloaded rings only.
	Offload Offload
	// OwnTCP is what concerns TCP by our own stack only.
	OwnTCP OwnTCP
	// RingLogic says which sockets of a poller share a ring: 0, 1, 10, 20, 30 or 31 (VMA_RING_ALLOCATION_LOGIC_RX).
	RingLogic int
	// RingLimit is the most rings per interface within one poller; 0 is no limit (VMA_RING_LIMIT_PER_INTERFACE).
	RingLimit int
	// SmallBuffers and LargeBuffers are the buffers of each poller: about 2 KiB and 64 KiB (VMA_RX_BUFS, SX_LARGE_BUFS).
	SmallBuffers, LargeBuffers int
	// HugePages asks for huge pages under the buffers (VMA_MEM_ALLOC_TYPE=2).
	HugePages bool
	// BufferDebug records who holds each buffer and panics when one is released twice (SX_BUFFER_DEBUG).
	BufferDebug bool
	// RxPoll is how many empty turns a reactor spins before it sleeps, unless SelectPoll ends that sooner; -1 spins for ever, 0 looks once and
	// sleeps, RxPollAuto, the default, leaves the number to the reactor (VMA_RX_POLL). A Config that leaves its RxPoll at 0 gets this, see
	// reactor.Config.
	RxPoll int
	// SelectPoll bounds the same by time; -1 spins for ever, SelectPollAuto, the default, leaves the time to the reactor
	// (VMA_SELECT_POLL, microseconds).
	SelectPoll time.Duration
	// OSRatio: a reactor looks at external descriptors on every OSRatio-th turn; 0 only while sleeping (VMA_SELECT_POLL_OS_RATIO).
	OSRatio int

	// KernelOnly leaves every socket to the kernel, whatever the rules say (VMA_OFFLOADED_SOCKETS=0).
	KernelOnly bool
	// RingEntries is the size of the queue that a ring sends by: the transmit ring of each queue of an offloaded interface, the
	// submission queue of io_uring; 0 is the driver's default (VMA_TX_WRE).
	RingEntries int
	// SendBuffers are small buffers of each poller beyond SmallBuffers (VMA_TX_BUFS).
	SendBuffers int
	// RxBytesMin is the least receive buffer in bytes: ReceiveBuffer of less asks for this (VMA_RX_BYTES_MIN).
	RxBytesMin int
	// ShadowRatio: an offloaded ring reads the kernel's side of its sockets on every ShadowRatio-th turn while frames keep coming
	// (VMA_RX_UDP_POLL_OS_RATIO).
	ShadowRatio int
	// PollBatch is the most completions a reactor takes at once; 0 is 256 (VMA_CQ_POLL_BATCH_MAX).
	PollBatch int
	// PollYield is after how many empty turns a spinning reactor lets other goroutines run; 0 is 1024 (VMA_RX_POLL_YIELD).
	PollYield int
	// LoopCPUs are processors that reactors are bound to, in turn, where Config.Pin does not say (SX_LOOP_CPUS).
	LoopCPUs []int
	// CardTime is what is made of the stamps of network cards, as ring.HardwareTimestamps has it (VMA_HW_TS_CONVERSION).
	CardTime int
	// NoDelay turns Nagle's algorithm off on TCP sockets (VMA_TCP_NODELAY).
	NoDelay bool
	// Congestion is the congestion control of TCP sockets by the kernel's name, or NoCongestionControl; empty is the kernel's default
	// (VMA_TCP_CC_ALGO).
	Congestion string
	// MSS is the most payload and options of a TCP segment, 88 to 32767; MTU, 148 to 32807, is the longest IP packet that an
	// offloaded ring sends, and keeps segments below it where MSS is 0. 0 is by the interface (VMA_MSS, VMA_MTU).
	MSS, MTU int
	// NoMulticastLoop keeps what sockets send to groups from members on this host (VMA_TX_MC_LOOPBACK=0).
	NoMulticastLoop bool
	// ReportDrops makes what the kernel's queueing disciplines drop of UDP sockets a send without room (VMA_TX_NONBLOCKED_EAGAINS).
	ReportDrops bool
	// RulesFile and ApplicationID choose the rules by which sockets are offloaded (VMA_CONFIG_FILE, VMA_APPLICATION_ID).
	RulesFile, ApplicationID string
	// ExceptionHandling, -2 to 3, says what is done when a socket cannot have what a rule asks for, or what NoDelay, Congestion, MSS, MTU or
	// NoMulticastLoop ask of the kernel, or an engine what Offload.Capture, Offload.Recorder or StatsFile names (VMA_EXCEPTION_HANDLING).
	ExceptionHandling int
	// Logger is where an engine writes, one line each, what it decides by itself (the interfaces it opened for offloaded rings, with the
	// checksum rule that holds there) and which settings have no effect. Reactors and networks on the engine write there too, unless they have
	// a logger of their own. nil: the log that the next three describe. slog.DiscardHandler silences it. Only code can give it.
	Logger *slog.Logger
	// LogLevel, LogDetails (0 to 3) and LogFile are for the engine's log where code gives it none (VMA_TRACELEVEL, VMA_LOG_DETAILS,
	// VMA_LOG_FILE). With none of them it is slog.Default(). LogColors colours its lines on a terminal (VMA_LOG_COLORS).
	LogLevel   LogLevel
	LogDetails int
	LogFile    string
	LogColors  bool
	// StatsDirectory is where the process publishes its statistics, for xtstat; it is made if its parent is there. StatsDirectoryAuto chooses,
	// empty publishes nothing. StatsSockets is how many sockets have room, StatsGroup whose members may read (VMA_STATS_SHMEM_DIR,
	// VMA_STATS_FD_NUM, SX_STATS_GROUP).
	StatsDirectory, StatsGroup string
	StatsSockets               int
	// StatsFile is a text file to which what a socket has counted is appended when it is closed, "%d" in the name being the process; empty: none
	// (VMA_STATS_FILE). It does not depend on StatsDirectory.
	StatsFile string
	// CPUUsage measures how long pollers sleep, of which xtstat makes the share of time that they poll (VMA_CPU_USAGE_STATS).
	CPUUsage bool
	// Profile is the profile that was applied (VMA_SPEC); setting it applies nothing: see WithProfile.
	Profile string

	inert  map[string]string // values of settings that have no field
	given  map[string]string // how each was given that environment or file sets
	starts map[string]string // values other than the default before code had the settings

	// Warnings are the values that could not be used, one sentence each.
	Warnings []string
}

// Default returns the settings without file and environment. Numbers of buffers differ from VMA's, because here they are for each poller.
func Default() Settings {
	return Settings{
		Ring:         RingAuto,
		SmallBuffers: 4096,
		LargeBuffers: 256,
		RxPoll:       RxPollAuto,
		SelectPoll:   SelectPollAuto,
		OSRatio:      10,

		OwnTCP: OwnTCP{Timestamps: 2, SendBuffer: 256 << 10, RTOMin: 200 * time.Millisecond, DelayedAck: 40 * time.Millisecond},

		ShadowRatio:       100,
		RulesFile:         DefaultRulesFile,
		ApplicationID:     DefaultApplicationID,
		ExceptionHandling: -1,
		LogColors:         true,

		StatsDirectory: StatsDirectoryAuto,
		StatsSockets:   100,
	}
}

// Validate returns an error that names the first setting that is out of range, and what is accepted.
func (s *Settings) Validate() error {
	if err := s.Offload.validate(); err != nil {
		return err // says more than the table
	}
	for i := range parameters {
		if p := &parameters[i]; !p.check(s) {
			return fmt.Errorf("conf: %s %s: want %s (%s)", p.Field, p.get(s), p.want, p.Name)
		}
	}
	return nil
}
