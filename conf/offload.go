package conf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RingOffload is the kind of ring that carries UDP over IPv4 by a stack of our own over network interfaces (AF_XDP), with Offload.TCP TCP as
// well, and all else by the kernel ring that RingAuto would take.
const RingOffload RingKind = "offload"

// Offload is the settings of offloaded rings.
type Offload struct {
	// Interfaces that may be opened, the only ones then; none: each that a socket needs (SX_OFFLOAD_INTERFACES).
	Interfaces []Interface
	// TCP has our own stack carry TCP over IPv4 too, as Settings.OwnTCP says (SX_OFFLOAD_TCP).
	TCP bool
	// Checksum says what is done with datagrams and segments whose checksum is wrong or unfinished (SX_CHECKSUM).
	Checksum Checksum
	// Fill is the most buffers that a queue keeps ready for its card, 8 or more; 0 is as many as its ring and the pool allow (VMA_RX_WRE).
	Fill int
	// ThreeTuple claims of a connected socket's datagrams all for its own address, not only its peer's (VMA_UDP_3T_RULES).
	ThreeTuple bool
	// Capture names a file that what offloaded rings receive and send is written to, as pcapng, "%d" in it being the process; empty: none.
	// CaptureSnap is how many bytes of each frame are kept, 0 all; CaptureLimit is the most that the file grows to, in MiB, 0 being 1024
	// (SX_CAPTURE, SX_CAPTURE_SNAP, SX_CAPTURE_LIMIT).
	Capture                   string
	CaptureSnap, CaptureLimit int
	// Recorder keeps the last frames in memory (SX_RECORD).
	Recorder Recorder
	// BusyPoll makes each look at a link that finds nothing run the driver's poll itself, on the poller's thread, where the kernel knows a queue
	// to poll (SX_OFFLOAD_BUSY_POLL).
	BusyPoll bool
	// Gather is how many answers a polling ring lets wait for each other while requests come one after the other and each flush is a system
	// call; 0: none, else 2 to 512 (SX_OFFLOAD_GATHER).
	Gather int
	// Mode says where the XDP programs of interfaces run (SX_OFFLOAD_XDP_MODE).
	Mode XDPMode
	// Time says what stamps received datagrams, for sockets that ask for arrival times (SX_OFFLOAD_TIME).
	Time TimeSource
}

// OwnTCP is the settings of connections that our own stack carries, which it does with Offload.TCP.
type OwnTCP struct {
	// QuickAck acknowledges each segment with data by the next Flush or Poll (VMA_TCP_QUICKACK).
	QuickAck bool
	// QuickAckThreshold is the most payload of a segment that QuickAck is for; 0 is any (SX_TCP_QUICKACK_THRESHOLD).
	QuickAckThreshold int
	// Timestamps is whether timestamps are offered and accepted: 0 not, 1 yes, 2 as net.ipv4.tcp_timestamps says (VMA_TCP_TIMESTAMP_OPTION).
	Timestamps int
	// ConnectionThreeTuple claims of a connection that is opened here all segments to its own address and port, not only its peer's
	// (VMA_TCP_3T_RULES).
	ConnectionThreeTuple bool
	// PollOnSend has each send look for what has come, not only those after a pause (VMA_RX_POLL_ON_TX_TCP).
	PollOnSend bool
	// SynRate is the most SYNs that a listener answers in a second; 0 is no limit (VMA_TCP_MAX_SYN_RATE).
	SynRate int
	// SendBuffer is how many bytes may be queued and not acknowledged before Send takes no more (XLIO_TCP_SEND_BUFFER_SIZE).
	SendBuffer int
	// RTOMin is the least retransmission time-out, DelayedAck the longest time that an acknowledgement waits (SX_TCP_RTO_MIN,
	// SX_TCP_DELAYED_ACK).
	RTOMin, DelayedAck time.Duration
}

// Interface names a network interface and, where not all are wanted, which of its receive queues.
type Interface struct {
	Name   string
	Queues []int // none: all
}

// maxQueue is the largest number of a queue, as package xdp has it.
const maxQueue = 1023

// String is the interface as ParseInterfaces reads it.
func (i Interface) String() string {
	s := i.Name
	for _, q := range i.Queues {
		s += ":" + strconv.Itoa(q)
	}
	return s
}

// ParseInterfaces reads a list such as "eth1,eth2:0:4-7": names separated by commas, each with queues or ranges of them behind colons.
func ParseInterfaces(text string) (list []Interface, err error) {
	for _, part := range strings.Split(text, ",") {
		fields := strings.Split(strings.TrimSpace(part), ":")
		i := Interface{Name: fields[0]}
		for _, f := range fields[1:] {
			low, high, ranged := strings.Cut(f, "-")
			if !ranged {
				high = low
			}
			first, e1 := strconv.Atoi(low)
			last, e2 := strconv.Atoi(high)
			if e1 != nil || e2 != nil || first < 0 || last < first || last > maxQueue {
				return nil, fmt.Errorf("interface %q: queues %q: want a number from 0 to %d, or a range such as 4-7", part, f, maxQueue)
			}
			for q := first; q <= last; q++ {
				i.Queues = append(i.Queues, q)
			}
		}
		list = append(list, i)
	}
	return list, validateInterfaces(list)
}

// validateInterfaces returns an error for the first interface whose name or queues are not possible, or that is named twice. The rules of a name
// are the kernel's (dev_valid_name).
func validateInterfaces(list []Interface) error {
	const longest = 15 // IFNAMSIZ without its end
	for n, i := range list {
		switch {
		case i.Name == "" || len(i.Name) > longest || i.Name == "." || i.Name == ".." || strings.ContainsAny(i.Name, "/: \t\r\n\v\f"):
			return fmt.Errorf("interface %q: not a name: 1 to %d characters without '/', ':' and spaces", i.Name, longest)
		case slices.ContainsFunc(list[:n], func(o Interface) bool { return o.Name == i.Name }):
			return fmt.Errorf("interface %q: named twice", i.Name)
		}
		for m, q := range i.Queues {
			switch {
			case q < 0 || q > maxQueue:
				return fmt.Errorf("interface %q: queue %d: want 0 to %d", i.Name, q, maxQueue)
			case slices.Contains(i.Queues[:m], q):
				return fmt.Errorf("interface %q: queue %d: named twice", i.Name, q)
			}
		}
	}
	return nil
}

// Checksum is a policy for received checksums of UDP and TCP; empty is ChecksumAuto.
type Checksum string

// The policies.
const (
	ChecksumAuto          Checksum = "auto"           // accept-partial where the peer is a kernel on this very machine, else strict
	ChecksumStrict        Checksum = "strict"         // wrong and unfinished sums are dropped
	ChecksumAcceptPartial Checksum = "accept-partial" // one that is only the pseudo header's is accepted: a local kernel left it unfinished
	ChecksumOff           Checksum = "off"            // nothing is checked
)

// ParseChecksum reads a policy by its name; empty is auto.
func ParseChecksum(s string) (Checksum, error) {
	switch c := Checksum(s); c {
	case "":
		return ChecksumAuto, nil
	case ChecksumAuto, ChecksumStrict, ChecksumAcceptPartial, ChecksumOff:
		return c, nil
	}
	return "", fmt.Errorf("checksum policy %q: want auto, strict, accept-partial or off", s)
}

// XDPMode says where the XDP program of an interface runs; empty is XDPAuto.
type XDPMode string

// The modes.
const (
	XDPAuto    XDPMode = "auto"    // what is best for the kind of interface, and behind the driver where the driver cannot
	XDPNative  XDPMode = "native"  // in the driver, before the kernel makes a socket buffer of a frame
	XDPGeneric XDPMode = "generic" // behind the driver
)

// ParseXDPMode reads a mode by its name; empty is auto.
func ParseXDPMode(s string) (XDPMode, error) {
	switch m := XDPMode(s); m {
	case "":
		return XDPAuto, nil
	case XDPAuto, XDPNative, XDPGeneric:
		return m, nil
	}
	return "", fmt.Errorf("XDP mode %q: want auto, native or generic", s)
}

// TimeSource is what stamps the datagrams that an offloaded ring receives; empty is TimePoll.
type TimeSource string

// The sources.
const (
	TimePoll     TimeSource = "poll"     // the ring, when it takes a frame: it costs nothing, and is late by what the ring was polled late
	TimeXDP      TimeSource = "xdp"      // the XDP program, when the frame comes in: it reads the clock for each frame it takes
	TimeHardware TimeSource = "hardware" // the network card; the XDP program, with a reason, where the card cannot
)

// ParseTimeSource reads a source by its name; empty is poll.
func ParseTimeSource(s string) (TimeSource, error) {
	switch t := TimeSource(s); t {
	case "":
		return TimePoll, nil
	case TimePoll, TimeXDP, TimeHardware:
		return t, nil
	}
	return "", fmt.Errorf("time source %q: want poll, xdp or hardware", s)
}

// validate returns an error for the first field that is out of range. Unlike the table of parameters it says which part of a list is wrong.
func (o *Offload) validate() error {
	if err := validateInterfaces(o.Interfaces); err != nil {
		return fmt.Errorf("conf: Offload.Interfaces: %w", err)
	}
	if _, err := ParseChecksum(string(o.Checksum)); err != nil {
		return fmt.Errorf("conf: Offload.Checksum: %w", err)
	}
	if _, err := ParseXDPMode(string(o.Mode)); err != nil {
		return fmt.Errorf("conf: Offload.Mode: %w", err)
	}
	if _, err := ParseTimeSource(string(o.Time)); err != nil {
		return fmt.Errorf("conf: Offload.Time: %w", err)
	}
	return nil
}
