package xtreme

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
)

// PollerConfig configures a poller. Its zero value is good: a field that is zero leaves its matter to the engine's settings, and a field that is
// given comes before them.
type PollerConfig struct {
	// RingKind is the kind of ring; "" takes the setting (SX_RING).
	RingKind conf.RingKind
	// RingLogic decides which sockets share a ring; nil takes the setting (VMA_RING_ALLOCATION_LOGIC_RX). A socket may have its own.
	RingLogic *Logic

	// SmallBuffers and LargeBuffers are how many buffers of 2 KiB and 64 KiB the poller has, at least 64 and 8; 0 takes the settings
	// (VMA_RX_BUFS, SX_LARGE_BUFS). An eighth of each class is kept for sending, whatever VMA_TX_BUFS says where SmallBuffers is given.
	SmallBuffers, LargeBuffers int
	// HugePages asks for huge pages under the buffers. Where the system has none free, ordinary pages are used and the sockets' paths say so.
	// (VMA_MEM_ALLOC_TYPE=2)
	HugePages bool
	// MemoryOnDemand lets the kernel provide the memory of a buffer when the buffer is used for the first time: a poller that uses few buffers
	// has little resident memory, and pays a page fault for each new one. false touches all memory in NewPoller. The interfaces of an offloaded
	// ring need all of it in any case.
	MemoryOnDemand bool
	// NearInterface places the buffers on the NUMA node of an interface; "" leaves it to the kernel.
	NearInterface string
	// Memory is the caller's memory for the buffers; it must be outside the Go heap or never move, stay mapped until Close, be large enough,
	// and, for a poller of kind offload, begin at a page boundary. nil: the poller maps its own. (VMA: the user allocator of vma_ioctl,
	// VMA_IOCTL_USER_ALLOC.)
	//
	// Each poller needs memory of its own, because its ring overwrites all of it. The poller uses as many bytes from the begin of Memory as its
	// buffers need. Where one of them is used by another open poller of this process, of whichever engine, NewPoller fails with EBUSY and
	// changes nothing. The memory may be used again when the poller is closed, or could not be made; after a *HeldError it may not.
	Memory []byte

	// Interfaces are the only ones that the poller's offloaded ring may open; the kernel keeps the others, and a wildcard is all of these. Empty
	// takes the setting (SX_OFFLOAD_INTERFACES). Of queues that are named here those are opened which the setting does not leave out of the
	// interface; paths name the others (offload.queues_left_out), and where all are left out the interface is not opened. Pollers of another
	// kind than offload refuse it.
	Interfaces []conf.Interface
	// Checksum is the policy for received checksums of the poller's offloaded ring; "" takes the setting (SX_CHECKSUM). Pollers of another
	// kind refuse it, because their kernel verifies.
	Checksum conf.Checksum
	// OffloadTime is what stamps the datagrams that the poller's offloaded ring receives, for sockets with Timestamps; "" takes the setting
	// (SX_OFFLOAD_TIME). Pollers of another kind refuse it, because their kernel stamps. An interface that several pollers of the engine use
	// is stamped as the one says that opens it; where another poller asked for a better source, the paths of its sockets say so (stamp.poll).
	OffloadTime conf.TimeSource

	// QueueShare divides the queues of offloaded interfaces among pollers of the engine that each serve all of them: of Of pollers, with Index
	// 0 to Of-1, each takes its share, where without it the first one takes all. A poller carries TCP of its own stack only on interfaces of
	// which it has a queue. An interface that one of them opens is opened by the others as well: each begins in its next Poll, which does not
	// wait for it, and until it has ended the kernel gets what comes in on their queues. Queues that Interfaces names are taken as they are.
	// Pollers of another kind ignore it.
	QueueShare QueueShare

	// Auxiliary marks a poller that a package makes for its own work beside the program's pollers, such as accepting connections. The log does
	// not warn of settings that only this poller does not use.
	Auxiliary bool
}

// QueueShare is one of Of equal parts of something; the zero value is all of it.
type QueueShare struct{ Index, Of int }

// The least numbers of buffers that a poller can work with.
const leastSmall, leastLarge = 64, 8

// saysBuffers says where a poller's numbers of buffers come from, for errors.
func (c *PollerConfig) saysBuffers(s *conf.Settings) string {
	small := fmt.Sprintf("VMA_RX_BUFS=%d, VMA_TX_BUFS=%d", s.SmallBuffers, s.SendBuffers)
	if c.SmallBuffers != 0 {
		small = fmt.Sprintf("PollerConfig.SmallBuffers=%d", c.SmallBuffers)
	}
	large := fmt.Sprintf("SX_LARGE_BUFS=%d", s.LargeBuffers)
	if c.LargeBuffers != 0 {
		large = fmt.Sprintf("PollerConfig.LargeBuffers=%d", c.LargeBuffers)
	}
	return small + " and " + large
}

// validate returns an error that names the first field whose value is not possible.
func (c *PollerConfig) validate() error {
	var err error
	switch {
	case c.SmallBuffers != 0 && c.SmallBuffers < leastSmall:
		return badField("SmallBuffers", fmt.Sprintf("%d: want at least %d", c.SmallBuffers, leastSmall))
	case c.LargeBuffers != 0 && c.LargeBuffers < leastLarge:
		return badField("LargeBuffers", fmt.Sprintf("%d: want at least %d", c.LargeBuffers, leastLarge))
	case c.QueueShare != (QueueShare{}) && (c.QueueShare.Index < 0 || c.QueueShare.Index >= c.QueueShare.Of):
		return badField("QueueShare", fmt.Sprintf("%d of %d", c.QueueShare.Index, c.QueueShare.Of))
	case c.Memory != nil && len(c.Memory) == 0:
		return badField("Memory", "of 0 bytes")
	}
	if c.RingKind != "" {
		if _, err = conf.ParseRingKind(string(c.RingKind)); err != nil {
			return fmt.Errorf("PollerConfig.RingKind: %w", err)
		}
	}
	if c.RingLogic != nil {
		if err = c.RingLogic.Validate(); err != nil {
			return fmt.Errorf("PollerConfig.RingLogic: %w", err)
		}
	}
	if c.Checksum != "" {
		if _, err = conf.ParseChecksum(string(c.Checksum)); err != nil {
			return fmt.Errorf("PollerConfig.Checksum: %w", err)
		}
	}
	if c.OffloadTime != "" {
		if _, err = conf.ParseTimeSource(string(c.OffloadTime)); err != nil {
			return fmt.Errorf("PollerConfig.OffloadTime: %w", err)
		}
	}
	if len(c.Interfaces) == 0 {
		return nil
	}
	names := make([]string, len(c.Interfaces))
	for i, n := range c.Interfaces {
		names[i] = n.String()
	}
	if _, err = conf.ParseInterfaces(strings.Join(names, ",")); err != nil {
		return fmt.Errorf("PollerConfig.Interfaces: %w", err)
	}
	return nil
}

// fits returns an error that names the first field that is for pollers of kind offload only, if this poller, of a kind asked for as kind, is
// not.
func (c *PollerConfig) fits(of chosen, kind conf.RingKind) error {
	for _, x := range []struct {
		name  string
		given bool
	}{{"Interfaces", len(c.Interfaces) > 0}, {"Checksum", c.Checksum != ""}, {"OffloadTime", c.OffloadTime != ""}} {
		if x.given && !of.offload {
			return fmt.Errorf("%s is for rings of kind %s, this is %s: %w", x.name, conf.RingOffload, kind, unix.EINVAL)
		}
	}
	return nil
}
