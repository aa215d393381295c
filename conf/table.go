package conf

import "time"

// The table of settings, by what they concern. Parameters with a Field change what happens; docs/from-vma.md names the test that sees it.

var ringParameters = []Parameter{
	{Name: "SX_RING", Title: "Kind of ring", Field: "Ring", State: Works,
		Effect: "the kind of ring that pollers get; auto takes the best of the kernel's that works here, and for reactor/netconn epoll; offload is " +
			"our own stack. The option RingKind comes before it",
		access: text(func(s *Settings) *RingKind { return &s.Ring }, "auto, uring, epoll or offload", ParseRingKind)},
	Parameter{Name: "SX_OFFLOAD_INTERFACES", Title: "Offloaded interfaces", Field: "Offload.Interfaces", State: Works,
		Effect: "the only interfaces that offloaded rings may open, with queues: eth1,eth2:0:4-7; the queues of a VLAN are named with the " +
			"device below it, those of a bond with its members; empty: each that a socket needs. The option Interfaces comes before it",
		access: access{"interfaces, separated by commas", getInterfaces, setInterfaces,
			func(s *Settings) bool { return validateInterfaces(s.Offload.Interfaces) == nil }}}.on(RingOffload).as(""),
	Parameter{Name: "SX_CHECKSUM", Title: "Received checksums", Field: "Offload.Checksum", State: Works,
		Effect: "what an offloaded ring does with wrong or unfinished UDP checksums",
		access: access{"auto, strict, accept-partial or off", getChecksum, setChecksum,
			func(s *Settings) bool { _, err := ParseChecksum(string(s.Offload.Checksum)); return err == nil }}}.on(RingOffload),
	Parameter{Name: "SX_OFFLOAD_XDP_MODE", Title: "Place of the XDP program", Field: "Offload.Mode", State: Works,
		Effect: "where the XDP program of an offloaded interface runs: native in the driver, before the kernel makes a socket buffer of a frame; " +
			"generic behind it; auto as is best for the kind of interface. An interface that cannot have the mode is not opened, and the " +
			"path says xdp.no_native",
		access: access{"auto, native or generic", getXDPMode, setXDPMode,
			func(s *Settings) bool { _, err := ParseXDPMode(string(s.Offload.Mode)); return err == nil }}}.on(RingOffload),
	Parameter{Name: "SX_OFFLOAD_TIME", Title: "Offloaded arrival times", Field: "Offload.Time", State: Works,
		Effect: "what stamps the datagrams of an offloaded ring, for sockets that ask (Timestamps): poll the ring, when it takes a " +
			"frame; xdp the XDP program, when the frame comes in, which costs each frame a read of the clock; hardware the card, " +
			"else as xdp. VMA_HW_TS_CONVERSION other than 0 comes before it and asks for hardware, as sockets do that ask for the card's " +
			"time (HardwareTimestamps). The first socket on an interface decides for it; where the ring stamps then, the paths of the others say stamp.poll",
		access: access{"poll, xdp or hardware", getTimeSource, setTimeSource,
			func(s *Settings) bool { _, err := ParseTimeSource(string(s.Offload.Time)); return err == nil }}}.on(RingOffload).unless(cardTimeAsks),
	Parameter{Name: "SX_OFFLOAD_BUSY_POLL", Title: "Busy polling of offloaded queues", Field: "Offload.BusyPoll", State: Works,
		Effect: "1 makes each look at an offloaded interface that finds nothing run the driver's poll itself (SO_PREFER_BUSY_POLL, " +
			"Linux 5.11): a system call more for each, for rings that spin on cards; the path says xdp.no_busy_poll where it is refused",
		access: toggle(func(s *Settings) *bool { return &s.Offload.BusyPoll }, false)}.on(RingOffload).as("0"),
	Parameter{Name: "SX_OFFLOAD_GATHER", Title: "Answers that share a flush", Field: "Offload.Gather", State: Works,
		Effect: "while requests come one after the other, an offloaded ring that is polled on lets so many answers wait for each " +
			"other, where each flush is a system call (copy mode), at the most 20 microseconds; one that comes alone is answered at once. " +
			"It begins when two requests or more come between two flushes: with room for one in each Poll every answer leaves by itself. " +
			"Only for loops that poll on. 0: everything leaves with the next Poll",
		access: zeroOr(func(s *Settings) *int { return &s.Offload.Gather }, 2, 512)}.on(RingOffload).as("0"),
	Parameter{Name: "SX_CAPTURE", Title: "Capture of offloaded frames", Field: "Offload.Capture", State: Works,
		Effect: "a file for what offloaded rings receive and send, as pcapng for Wireshark and tcpdump -r; %d in its name is the " +
			"process; empty: none. It costs a copy of each frame",
		access: text(func(s *Settings) *string { return &s.Offload.Capture }, "the name of a file", anything)}.on(RingOffload).as(""),
	Parameter{Name: "SX_CAPTURE_SNAP", Title: "Captured bytes of a frame", Field: "Offload.CaptureSnap", State: Works,
		Effect: "how many bytes of each frame are captured; 0: all",
		access: zeroOr(func(s *Settings) *int { return &s.Offload.CaptureSnap }, 14, 65535)}.on(RingOffload).unless(noCapture).as("0"),
	Parameter{Name: "SX_CAPTURE_LIMIT", Title: "Size of the capture (MiB)", Field: "Offload.CaptureLimit", State: Works,
		Effect: "the most MiB that the file grows to: what comes then is counted as capture.over_limit; 0: 1024",
		access: zeroOr(func(s *Settings) *int { return &s.Offload.CaptureLimit }, 1, 1<<20)}.on(RingOffload).unless(noCapture).as("0"),
	Parameter{Name: "VMA_OFFLOADED_SOCKETS", Title: "Offloaded Sockets", Field: "KernelOnly", State: Works,
		Effect: "0 leaves every socket to the kernel, whatever the rules say, and its path says setting.offloaded_sockets; a poller " +
			"(extraapi.ThreadOffload) and a socket (extraapi.Offload, xtreme.RequireOffload) can be exceptions; 1 allows offload where " +
			"the poller is of kind offload",
		access: toggle(func(s *Settings) *bool { return &s.KernelOnly }, true)}.unless(noOffloadHere),
	{Name: "VMA_RING_ALLOCATION_LOGIC_RX", Title: "Ring allocation logic RX", Field: "RingLogic", State: Partly,
		Effect: "which sockets of a poller share a ring: 0 per interface, 1 per address, 10 per socket, 20 per thread, 30 per " +
			"core, 31 per core with the thread bound to it; 11, per user id, only from code, as in VMA. Accepted connections are on their " +
			"listener's ring whatever the logic. A poller has one offloaded ring over all interfaces, which the path says (ring.no_steering, " +
			"ring.all_interfaces)",
		access: oneOf(func(s *Settings) *int { return &s.RingLogic }, []int{0, 1, 10, 20, 30, 31}, 11)},
	Parameter{Name: "VMA_RING_LIMIT_PER_INTERFACE", Title: "Ring limit per interface", Field: "RingLimit", State: Partly,
		Effect: "the most rings per interface within one poller; 0: no limit; sockets of logic 11, per user id, are exempt; a poller has one " +
			"offloaded ring in any case",
		access: integer(func(s *Settings) *int { return &s.RingLimit }, 0, 1<<16)}.on(RingUring, RingEpoll).as("0"),
	Parameter{Name: "VMA_TX_WRE", Title: "Tx QP WRE", Field: "RingEntries", VMA: "2048", State: Partly,
		Effect: "the queue that a ring sends by: on offloaded rings the transmit ring of each queue of an interface (the next power of " +
			"two, 8 or more; default 2048), on uring rings the submission queue (the next power of two, 256 to 4096; default 256); 0: the " +
			"default",
		access: integer(func(s *Settings) *int { return &s.RingEntries }, 0, 1<<20)}.on(RingOffload, RingUring).as("0"),
	Parameter{Name: "VMA_RX_WRE", Title: "Rx QP WRE", Field: "Offload.Fill", VMA: "16000", State: Works,
		Effect: "the most buffers that a queue of an offloaded interface keeps ready for its card, up to 16384 and its " +
			"part of the poller's small buffers, which is three fifths of them with one interface of one queue; 0: as many as that allows",
		access: zeroOr(func(s *Settings) *int { return &s.Offload.Fill }, 8, 1<<20)}.on(RingOffload).as("0"),
	inert("VMA_RING_ALLOCATION_LOGIC_TX", "Ring allocation logic TX", "0", accepted{"one of [0 1 10 20 30 31]", isLogic}, NotApplicable,
		"a socket sends on the ring it receives on").like("VMA_RING_ALLOCATION_LOGIC_RX"),
	inert("VMA_RING_MIGRATION_RATIO_TX", "Ring migration ratio TX", "100", within(-1, 1<<31-1), NotApplicable,
		"sockets stay on the ring of their owner: a goroutine changes threads, and packets are lost when sockets follow").as("-1"),
	inert("VMA_RING_MIGRATION_RATIO_RX", "Ring migration ratio RX", "100", within(-1, 1<<31-1), NotApplicable,
		"sockets stay on the ring of their owner: a goroutine changes threads, and packets are lost when sockets follow").as("-1"),
}

var memoryParameters = []Parameter{
	{Name: "VMA_RX_BUFS", Title: "Rx Mem Bufs", Field: "SmallBuffers", VMA: "200000 for the process", State: Works,
		Effect: "buffers of about 2 KiB of each poller. All that a poller has must be below 4 GiB, else NewPoller is an error: 1,900,000 of these, or 65,000 " +
			"large ones",
		access: integer(func(s *Settings) *int { return &s.SmallBuffers }, 64, 1<<24)},
	Parameter{Name: "VMA_TX_BUFS", Title: "Tx Mem Bufs", Field: "SendBuffers", VMA: "200000 for the process", State: Works,
		Effect: "buffers of about 2 KiB of each poller beyond VMA_RX_BUFS, bounded with them: one pool serves both directions, and receiving " +
			"leaves at least so many, or an eighth of all",
		access: integer(func(s *Settings) *int { return &s.SendBuffers }, 0, 1<<24)}.as("0"),
	{Name: "SX_LARGE_BUFS", Title: "Large Mem Bufs", Field: "LargeBuffers", State: Works,
		Effect: "buffers of 64 KiB of each poller, for long datagrams and bulk streams; bounded as VMA_RX_BUFS says",
		access: integer(func(s *Settings) *int { return &s.LargeBuffers }, 8, 1<<20)},
	Parameter{Name: "VMA_MEM_ALLOC_TYPE", Title: "Mem Allocate type", Field: "HugePages", VMA: "1", State: Partly,
		Effect: "2 asks for huge pages under the buffers, the path says so where there are none; 0 and 1 are ordinary pages: " +
			"contiguous ones cannot be asked for outside a driver",
		access: access{"0 (ANON), 1 (CONTIG) or 2 (HUGEPAGES)", getMemory, setMemory, func(*Settings) bool { return true }}}.unless(noContiguous),
	{Name: "SX_BUFFER_DEBUG", Title: "Buffer debugging", Field: "BufferDebug", State: Works,
		Effect: "records who holds each buffer and panics when one is released twice",
		access: toggle(func(s *Settings) *bool { return &s.BufferDebug }, false)},
	{Name: "VMA_RX_BYTES_MIN", Title: "Rx Byte Min Limit", Field: "RxBytesMin", VMA: "65536", State: Works,
		Effect: "the least receive buffer: a smaller one asked for (ReceiveBuffer) is made this large, as far as the kernel allows it " +
			"(net.core.rmem_max); 0: what is asked for. Sockets that ask for none have the kernel's, or the offloaded ring's",
		access: integer(func(s *Settings) *int { return &s.RxBytesMin }, 0, 1<<30)},
	inert("VMA_RX_WRE_BATCHING", "Rx QP WRE Batching", "64", within(1, 1024), NotApplicable,
		"the batches are the rings' own: an offloaded ring gives the card buffers when 64 are missing, or an eighth of what it keeps ready "+
			"(VMA_RX_WRE) where that is less, an io_uring ring gives the kernel buffers when half of them are used, and an epoll ring none"),
	inert("VMA_TX_WRE_BATCHING", "Tx QP WRE Batching", "64", within(1, 64), NotApplicable,
		"sends that are done are taken back with each Poll, in one batch"),
	inert("VMA_BUFFER_BATCHING_MODE", "Buffer batching mode", "1", within(0, 2), NotApplicable,
		"a pool belongs to one poller: taking a buffer from it needs no lock that batches would save"),
	inert("VMA_QP_COMPENSATION_LEVEL", "QP Compensation Level", "256", within(0, 1<<20), NotApplicable,
		"all free buffers of the poller are spare ones, but those that are kept for sending (VMA_TX_BUFS)"),
	inert("VMA_CQ_KEEP_QP_FULL", "CQ Keeps QP Full", "1", yesOrNo, NotApplicable,
		"rings are refilled from what is free of the pool, as Poll runs, and nothing received is given up for it").as("1"),
	inert("VMA_HUGETBL", "Huge pages", "0", yesOrNo, NotApplicable, "VMA removed it: use VMA_MEM_ALLOC_TYPE"),
}

var pollParameters = []Parameter{
	{Name: "VMA_RX_POLL", Title: "Rx Poll Loops", Field: "RxPoll", State: Works,
		Effect: "how many empty turns a reactor spins before it sleeps; -1: for ever, 0: it looks once (VMA takes 0 for 1)",
		access: integer(func(s *Settings) *int { return &s.RxPoll }, -1, 100_000_000)},
	{Name: "VMA_SELECT_POLL", Title: "Select Poll (usec)", Field: "SelectPoll", State: Works,
		Effect: "bounds the same by time, in microseconds; -1: for ever, 0: none. With 0 here or in VMA_RX_POLL a reactor is " +
			"driven by interrupts, but with -1 in either it never sleeps, whatever the other is",
		access: span(func(s *Settings) *time.Duration { return &s.SelectPoll }, time.Microsecond, 100_000_000, true)},
	Parameter{Name: "VMA_SELECT_POLL_OS_FORCE", Title: "Select Poll OS Force", Field: "OSRatio", State: Works,
		Effect: "1 sets VMA_SELECT_POLL_OS_RATIO to 1 unless that is set itself", access: force}.unless(ratioSaid),
	{Name: "VMA_SELECT_POLL_OS_RATIO", Title: "Select Poll OS Ratio", Field: "OSRatio", State: Works,
		Effect: "a spinning reactor looks at external descriptors on every such turn; 0: only after a sleep",
		access: integer(func(s *Settings) *int { return &s.OSRatio }, 0, 1_000_000)},
	Parameter{Name: "VMA_RX_UDP_POLL_OS_RATIO", Title: "Rx UDP Poll OS Ratio", Field: "ShadowRatio", State: Partly,
		Old:    []string{"VMA_RX_POLL_OS_RATIO", "VMA_RX_SKIP_OS"},
		Effect: "an offloaded ring reads the kernel's side of its sockets on every such turn while frames keep coming",
		access: integer(func(s *Settings) *int { return &s.ShadowRatio }, 1, 1_000_000)}.on(RingOffload),
	{Name: "VMA_CQ_POLL_BATCH_MAX", Title: "CQ Poll Batch (max)", Field: "PollBatch", VMA: "16", State: Works,
		Effect: "the most completions that a reactor takes at once; 0: 256",
		access: integer(func(s *Settings) *int { return &s.PollBatch }, 0, 1<<16)},
	Parameter{Name: "VMA_RX_POLL_YIELD", Title: "Rx Poll Yield", Field: "PollYield", VMA: "0", State: Partly,
		Effect: "after how many empty turns a spinning reactor without a thread of its own lets other goroutines run; one on a uring ring, or bound to " +
			"a processor, holds its thread; 0: 1024",
		access: integer(func(s *Settings) *int { return &s.PollYield }, 0, 1<<30)}.on(RingEpoll).as("0"),
	{Name: "SX_LOOP_CPUS", Title: "Processors of reactors", Field: "LoopCPUs", State: Works,
		Effect: "binds each reactor's thread to a processor, the n-th to the n-th of the list and round again: 0,4,8-10; one that there is not " +
			"is an error of Run. Config.Pin comes before it",
		access: access{"processors, separated by commas, or ranges", getCPUs, setCPUs, func(s *Settings) bool { return checkCPUs(s.LoopCPUs) }}},
	inert("VMA_SELECT_SKIP_OS", "Select Skip OS", "4", count, NotApplicable,
		"a reactor looks at external descriptors by VMA_SELECT_POLL_OS_RATIO also while packets come"),
	inert("VMA_RX_POLL_INIT", "Rx Poll Init Loops", "0", within(-1, 100_000_000), NotApplicable,
		"a socket polls as VMA_RX_POLL says from the start").as("0"),
	inert("VMA_RX_POLL_ON_TX_TCP", "Polling Rx on Tx TCP", "0", yesOrNo, WithOwnTCP, "the kernel takes acknowledgements without being polled").as("0"),
	inert("VMA_RX_CQ_DRAIN_RATE_NSEC", "Rx CQ Drain Rate", "0", count, NotApplicable,
		"Poll looks for more each time, at the latest when it has returned what an earlier Poll had no room for").as("0"),
	inert("VMA_PROGRESS_ENGINE_INTERVAL", "CQ Drain Interval (msec)", "0", count, NotApplicable, noDrain).
		vma("10, with VMA_SOCKETXTREME always 0").as("0"),
	inert("VMA_PROGRESS_ENGINE_WCE_MAX", "CQ Drain WCE (max)", "10000", count, NotApplicable, noDrain).old("VMA_CQ_DRAIN_WCE_MAX").as("0"),
}

var socketParameters = []Parameter{
	{Name: "VMA_TCP_NODELAY", Title: "TCP nodelay", Field: "NoDelay", State: Works,
		Effect: "turns Nagle's algorithm off on every TCP socket that is not adopted; the option NoDelay has the last word. reactor/gnet " +
			"(WithTCPNoDelay) and reactor/netconn turn it off by themselves",
		access: toggle(func(s *Settings) *bool { return &s.NoDelay }, false)},
	{Name: "VMA_TCP_CC_ALGO", Title: "TCP CC Algorithm", Field: "Congestion", VMA: "0", State: Works,
		Effect: "congestion control of TCP sockets that are not adopted: 0 reno, 1 cubic, or a name that the kernel knows; empty: the kernel's " +
			"default. One that the kernel refuses, as it does 2, none, is a warning when an engine starts, and a case for " +
			"VMA_EXCEPTION_HANDLING at each socket",
		access: text(func(s *Settings) *string { return &s.Congestion }, "0, 1, 2 or the name of an algorithm", parseCongestion)},
	{Name: "VMA_MSS", Title: "MSS", Field: "MSS", State: Works,
		Effect: "the largest TCP segment that is announced and sent, without options, on sockets that are not adopted; 0: by the interface",
		access: zeroOr(func(s *Settings) *int { return &s.MSS }, leastMSS, mostMSS)},
	Parameter{Name: "VMA_MTU", Title: "MTU", Field: "MTU", State: Partly,
		Effect: "the longest IP packet that an offloaded ring sends, where the interface does not allow less: longer datagrams leave in fragments; " +
			"what the kernel sends follows the interface and the route (ip route … mtu), but TCP segments are kept below it: VMA_MSS is " +
			"it less 40, with IPv6 60, where that is not set; 0: by the interface",
		access: zeroOr(func(s *Settings) *int { return &s.MTU }, leastMTU, mostMTU)}.unless(onlyDatagrams).as("0"),
	{Name: "VMA_TX_MC_LOOPBACK", Title: "Tx MC Loopback", Field: "NoMulticastLoop", State: Works,
		Effect: "whether members on this host get what a socket sends that is not adopted, unless MulticastLoop says otherwise",
		access: toggle(func(s *Settings) *bool { return &s.NoMulticastLoop }, true)},
	inert("VMA_WAIT_AFTER_JOIN_MSEC", "Delay after join (msec)", "0", within(0, 60_000), HardwareOnly,
		"InfiniBand: how long the first datagram to a group waits after the subnet manager let the sender join; over Ethernet VMA does "+
			"not wait either").as("0"),
	Parameter{Name: "VMA_TX_NONBLOCKED_EAGAINS", Title: "Tx non-blocked eagains", Field: "ReportDrops", State: Works,
		Effect: "1 makes a datagram that the kernel drops while it sends it (a full queueing discipline) a send without room: ErrWouldBlock, " +
			"OUT follows, and Counts.ShortSends counts it; a packet of SendPacket ends with SENT and ENOBUFS, which Counts.SendErrors counts. 0: " +
			"the send is reported as good, as by every Linux socket. A full socket buffer, " +
			"and a full queue of an offloaded ring, are ErrWouldBlock in any case",
		access: toggle(func(s *Settings) *bool { return &s.ReportDrops }, false)}.on(RingUring, RingEpoll).as("0"),
	inert("VMA_ALLOW_PRIVILEGED_SOCK_OPT", "Allow privileged sock opt", "1", yesOrNo, NotApplicable,
		"socket options are the kernel's own, and so are its permissions").old("VMA_ALLOW_PRIVILEGED_SOCKET_OPT"),
	inert("VMA_AVOID_SYS_CALLS_ON_TCP_FD", "Avoid sys-calls on tcp fd", "0", yesOrNo, NotApplicable,
		"there are no intercepted calls to avoid: state is read from the socket in memory"),
	inert("VMA_CLOSE_ON_DUP2", "close on dup2()", "1", yesOrNo, NotApplicable, "no library call is intercepted"),
	inert("VMA_DEFERRED_CLOSE", "Deferred close", "0", yesOrNo, NotApplicable,
		"a descriptor is closed when the kernel holds nothing of it, and CLOSED says so"),
	inert("VMA_TRIGGER_DUMMY_SEND_GETSOCKNAME", "Trig dummy send getsockname()", "0", yesOrNo, NotApplicable,
		"no library call is intercepted that could mean something else").as("0"),
}

var stackParameters = []Parameter{
	inert("VMA_RX_SW_CSUM", "Rx SW CSUM", "1", yesOrNo, Better,
		"our own stack verifies every UDP checksum but one of 0, which says that there is none; SX_CHECKSUM says what is done with wrong and "+
			"unfinished ones, and off turns it off; the kernel verifies what it delivers").as("1"),
	Parameter{Name: "VMA_UDP_3T_RULES", Title: "UDP 3T rules", Field: "Offload.ThreeTuple", VMA: "1", State: Works,
		Effect: "what an offloaded ring takes from an interface for a connected socket: 1 all that is for its own address, one entry for " +
			"all sockets there, and drops what is not of their peers; 0 what its peer sends to it, and the rest stays the kernel's",
		access: toggle(func(s *Settings) *bool { return &s.Offload.ThreeTuple }, false)}.on(RingOffload).as("0"),
	inert("VMA_ETH_MC_L2_ONLY_RULES", "ETH MC L2 only rules", "0", yesOrNo, NotApplicable,
		"steering is by addresses and ports, in the kernel").as("0"),
	inert("VMA_MC_FORCE_FLOWTAG", "Force Flowtag for MC", "0", yesOrNo, HardwareOnly, "a tag that the card puts on packets of a flow").as("0"),
	inert("VMA_NEIGH_UC_ARP_QUATA", "Num of UC ARPs", "3", count, NotApplicable,
		"the kernel resolves neighbours: net.ipv4.neigh.*.ucast_solicit"),
	inert("VMA_NEIGH_UC_ARP_DELAY_MSEC", "UC ARP delay (msec)", "10000", count, NotApplicable,
		"the kernel resolves neighbours: net.ipv4.neigh.*.retrans_time_ms"),
	inert("VMA_NEIGH_NUM_ERR_RETRIES", "Num of neigh restart retries", "1", count, NotApplicable, "the kernel resolves neighbours"),
	inert("VMA_NETLINK_TIMER", "Netlink timer (msec)", "10000", count, NotApplicable,
		"netlink reports changes of interfaces, addresses, routes and neighbours when they happen, and no timer reads it besides; what it does "+
			"not report, as which other sockets are members of a group, is looked for every quarter of a second"),
	{Name: "VMA_HW_TS_CONVERSION", Title: "HW TS Conversion", Field: "CardTime", VMA: "3", State: HardwareOnly,
		Effect: "what is made of the stamps of cards that stamp, on sockets that ask for arrival times (Timestamps), adopted ones too: 0 cards " +
			"are not asked, 1 as the card counts, 2 best possible, 3 on the system's clock, 4 PTP. Where the card of a socket's interface does " +
			"not stamp the path says so, and the kernel's stamps stay; a kernel socket bound to neither address nor device has no one interface, and its " +
			"path says nothing. On offloaded rings it is SX_OFFLOAD_TIME=hardware, for all frames",
		access: integer(func(s *Settings) *int { return &s.CardTime }, 0, 4)},
	inert("VMA_IPOIB", "IPOIB support", "1", yesOrNo, HardwareOnly, "InfiniBand").as("0"),
}

var ruleParameters = []Parameter{
	{Name: "VMA_CONFIG_FILE", Title: "Conf File", Field: "RulesFile", State: Works,
		Effect: "the rules file; %d is the process id. Where the default one does not exist, the rules that come with the library hold (use os " +
			"udp_connect *:53); so they do, with a warning, where another one does not exist or a file has a mistake",
		access: text(func(s *Settings) *string { return &s.RulesFile }, "the path of a file", anything)},
	{Name: "VMA_APPLICATION_ID", Title: "Application ID", Field: "ApplicationID", State: Works,
		Effect: "chooses among the groups of the rules file",
		access: text(func(s *Settings) *string { return &s.ApplicationID }, "a text without blanks", parseID)},
	{Name: "VMA_EXCEPTION_HANDLING", Title: "Exception handling mode", Field: "ExceptionHandling", State: Works,
		Effect: "when a socket cannot have what a rule (use sx) asks for, or the kernel refuses it VMA_TCP_NODELAY, VMA_TCP_CC_ALGO, VMA_MSS, " +
			"VMA_MTU or VMA_TX_MC_LOOPBACK, or an engine cannot write its capture file, which is a warning of the log too: -2, -1 and 0 log it for " +
			"debugging and go on, 1 logs an error and goes on, 2 logs an error and fails the call, 3 logs an error and panics. What other settings " +
			"ask for and cannot have is no case for it. -2 also makes a rules file that is named and not there, or has a mistake, an error of New",
		access: integer(func(s *Settings) *int { return &s.ExceptionHandling }, -2, 3)},
}

var logParameters = []Parameter{
	Parameter{Name: "VMA_TRACELEVEL", Title: "Log Level", Field: "LogLevel", VMA: "info", State: Partly,
		Effect: "none, panic, error, warn, info, details, debug, fine, finer, all, or 0 to 6; info prints the settings that are " +
			"changed when an engine is made, details all of them, in a logger given by code too, which decides the rest itself. Nothing is " +
			"logged below debug: fine, finer and all print what debug prints. Empty: no settings are printed, as a library keeps quiet unless it is asked; with VMA_LOG_FILE or VMA_LOG_DETAILS the rest is as " +
			"at info, without them it goes to the program's own log (slog.Default)",
		access: text(func(s *Settings) *LogLevel { return &s.LogLevel },
			"none, panic, error, warn, info, details, debug, fine, finer, all, or 0 to 6", parseLogSetting)}.as(""),
	Parameter{Name: "VMA_LOG_DETAILS", Title: "Log Details", Field: "LogDetails", State: Works,
		Effect: "what each line begins with: 1 thread, 2 process too, 3 milliseconds since the log was opened too",
		access: integer(func(s *Settings) *int { return &s.LogDetails }, 0, 3)}.as("0"),
	Parameter{Name: "VMA_LOG_FILE", Title: "Log File", Field: "LogFile", State: Works,
		Effect: "appends there, and does not write to standard error, what the engine, its reactors and netconn networks log; %d is the process id. " +
			"A logger given by code (xtreme.Logger, Config.Logger) comes before it; reactor/gnet logs as gnet's options say",
		access: text(func(s *Settings) *string { return &s.LogFile }, "the path of a file", anything)}.as(""),
	inert("VMA_LOG_COLORS", "Log Colors", "1", yesOrNo, NotApplicable, "lines are not coloured").as("0"),
	inert("VMA_STATS_FILE", "Stats File", "", anyText, WithStats, "needs the published statistics").as(""),
	inert("VMA_STATS_SHMEM_DIR", "Stats shared memory directory", "/tmp/", anyText, WithStats, "needs the published statistics").as(""),
	inert("VMA_STATS_FD_NUM", "Stats FD Num (max)", "100", within(0, 1024), WithStats, "needs the published statistics").as("0"),
	inert("VMA_CPU_USAGE_STATS", "Polling CPU idle usage", "0", yesOrNo, WithStats,
		"needs the published statistics; reactor.Stats has the busy time of a loop").as("0"),
}

func init() {
	for i := range parameters {
		if p := &parameters[i]; p.get == nil || p.set == nil || p.check == nil || p.Effect == "" || p.State == "" {
			panic("conf: the table's entry " + p.Name + " is not complete")
		}
	}
}
