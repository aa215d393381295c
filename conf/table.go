package conf

import "time"

// The table of settings, by what they concern. Parameters with a Field change what happens; docs/from-vma.md names the test that sees it.

var ringParameters = []Parameter{
	{Name: "SX_RING", Title: "Kind of ring", Field: "Ring", State: Works,
		Effect: "the kind of ring of a poller: uring, epoll, offload (our own stack, with a kernel ring for the rest: docs/offload.md), or auto: " +
			"uring where it works, else epoll; reactor/netconn takes epoll for auto. PollerConfig.RingKind comes before it",
		access: text(func(s *Settings) *RingKind { return &s.Ring }, "auto, uring, epoll or offload", ParseRingKind)},
	Parameter{Name: "SX_OFFLOAD_INTERFACES", Title: "Offloaded interfaces", Field: "Offload.Interfaces", State: Works,
		Effect: "the only interfaces on which sockets are offloaded, a bond or VLAN by its own name, and their queues: eth1,eth2:0:4-7 " +
			"(docs/offload.md#which-interfaces); empty: those that sockets need. PollerConfig.Interfaces comes before it, but queues that the " +
			"setting leaves out stay out",
		access: access{"interfaces, separated by commas", getInterfaces, setInterfaces,
			func(s *Settings) bool { return validateInterfaces(s.Offload.Interfaces) == nil }}}.on(RingOffload).as(""),
	Parameter{Name: "SX_OFFLOAD_TCP", Title: "Offloaded TCP", Field: "Offload.TCP", State: Works,
		Effect: "1 has our own stack carry TCP over IPv4 on offloaded rings, but for what docs/offload.md#tcp leaves to the kernel; 0 leaves TCP " +
			"to the kernel",
		access: toggle(func(s *Settings) *bool { return &s.Offload.TCP }, false)}.on(RingOffload).as("0"),
	Parameter{Name: "SX_CHECKSUM", Title: "Received checksums", Field: "Offload.Checksum", State: Works,
		Effect: "which received UDP and TCP an offloaded ring drops for its checksum: strict those with a wrong or unfinished one, accept-partial " +
			"with a wrong one, off none; auto decides by the kind of interface (docs/offload.md#checksums). PollerConfig.Checksum comes before it",
		access: access{"auto, strict, accept-partial or off", getChecksum, setChecksum,
			func(s *Settings) bool { _, err := ParseChecksum(string(s.Offload.Checksum)); return err == nil }}}.on(RingOffload),
	Parameter{Name: "SX_OFFLOAD_XDP_MODE", Title: "Place of the XDP program", Field: "Offload.Mode", State: Works,
		Effect: "where the XDP program of an offloaded interface runs: native in the driver, generic behind it, auto in the driver of a network " +
			"card that takes it, else behind it. With native an interface whose driver does not take it is not opened (xdp.no_native)",
		access: access{"auto, native or generic", getXDPMode, setXDPMode,
			func(s *Settings) bool { _, err := ParseXDPMode(string(s.Offload.Mode)); return err == nil }}}.on(RingOffload),
	Parameter{Name: "SX_OFFLOAD_TIME", Title: "Offloaded arrival times", Field: "Offload.Time", State: Works,
		Effect: "what stamps the datagrams that come by the links of an offloaded ring, for sockets with Timestamps: poll the ring, xdp the XDP " +
			"program, hardware the network card for sockets with a conversion (VMA_HW_TS_CONVERSION, HardwareTimestamps); what it stamps where the card " +
			"cannot, or for other sockets, is in docs/timestamps.md#offloaded-rings. PollerConfig.OffloadTime, VMA_HW_TS_CONVERSION other than 0, and " +
			"HardwareTimestamps of the socket that opens an interface come before it",
		access: access{"poll, xdp or hardware", getTimeSource, setTimeSource,
			func(s *Settings) bool { _, err := ParseTimeSource(string(s.Offload.Time)); return err == nil }}}.on(RingOffload).unless(cardTimeAsks),
	Parameter{Name: "SX_OFFLOAD_BUSY_POLL", Title: "Busy polling of offloaded queues", Field: "Offload.BusyPoll", State: Works,
		Effect: "1 has a Poll that finds nothing in a queue of an offloaded interface run the driver's poll, by a system call " +
			"(SO_PREFER_BUSY_POLL). Where the kernel refuses that, or after the first frames knows no queue to poll, the path says " +
			"xdp.no_busy_poll. Not tested on a network card",
		access: toggle(func(s *Settings) *bool { return &s.Offload.BusyPoll }, false)}.on(RingOffload).as("0"),
	Parameter{Name: "SX_OFFLOAD_GATHER", Title: "Answers that share a flush", Field: "Offload.Gather", State: Works,
		Effect: "from how many waiting frames on a Poll of an offloaded ring in copy mode sends them; fewer may wait for others while frames come " +
			"in, to share a system call; 0: none wait so. It is for programs that call Poll themselves: Flush, which a reactor calls, sends what " +
			"waits (docs/offload.md#for-rings-that-spin)",
		access: zeroOr(func(s *Settings) *int { return &s.Offload.Gather }, 2, 512)}.on(RingOffload).as("0"),
	Parameter{Name: "SX_CAPTURE", Title: "Capture of offloaded frames", Field: "Offload.Capture", State: Works,
		Effect: "the file to which an engine writes the frames that its offloaded rings receive and send, as pcapng; it is made, or emptied, " +
			"first. The first %d in its name is the process id. Empty: none (docs/offload.md#seeing-the-traffic)",
		access: text(func(s *Settings) *string { return &s.Offload.Capture }, "the name of a file", anything)}.on(RingOffload).as(""),
	Parameter{Name: "SX_CAPTURE_SNAP", Title: "Captured bytes of a frame", Field: "Offload.CaptureSnap", State: Works,
		Effect: "the most bytes of a frame that are captured; 0: whole frames",
		access: zeroOr(func(s *Settings) *int { return &s.Offload.CaptureSnap }, 14, 65535)}.on(RingOffload).unless(noCapture).as("0"),
	Parameter{Name: "SX_CAPTURE_LIMIT", Title: "Size of the capture (MiB)", Field: "Offload.CaptureLimit", State: Works,
		Effect: "the most MiB that the capture file grows to; 0: 1024",
		access: zeroOr(func(s *Settings) *int { return &s.Offload.CaptureLimit }, 1, 1<<20)}.on(RingOffload).unless(noCapture).as("0"),
	Parameter{Name: "SX_RECORD", Title: "Recorder of offloaded frames", Field: "Offload.Recorder", State: Works,
		Effect: "asks for so many MiB of memory, 1 to 65536, with the last frames of an engine's offloaded rings, for xtstat capture and " +
			"Engine.WriteRecord; empty or 0: for none. With dir it also writes them to a file when something is lost: " +
			"32,snap=128,dir=/var/tmp,after=2s,every=1m,quota=256,gap=10ms,filter=… (docs/monitoring.md#the-frames-themselves)",
		access: access{"MiB, and options behind commas",
			func(s *Settings) string { return s.Offload.Recorder.String() },
			func(s *Settings, text string) (err error) {
				r, err := ParseRecorder(text)
				if err == nil {
					s.Offload.Recorder = r
				}
				return err
			},
			func(s *Settings) bool { return s.Offload.Recorder.validate() == nil }}}.on(RingOffload).as(""),
	{Name: "VMA_OFFLOADED_SOCKETS", Title: "Offloaded Sockets", Field: "KernelOnly", State: Works,
		Effect: "0 leaves sockets to the kernel, whatever the rules say (setting.offloaded_sockets); 1 permits offload on pollers of kind offload. " +
			"Poller.SetOffload and SocketConfig.RequireOffload come before it",
		access: toggle(func(s *Settings) *bool { return &s.KernelOnly }, true)},
	Parameter{Name: "VMA_RING_ALLOCATION_LOGIC_RX", Title: "Ring allocation logic RX", Field: "RingLogic", State: Partly,
		Effect: "which sockets of an interface share a kernel ring of a poller: 0 and 20 all, 1 those of one local address, 10 none, 30 those that " +
			"get their ring on one core, 31 all, with the thread bound to a core; 11, those of one user id, is for code alone. An accepted " +
			"connection is on its listener's ring. A poller has one offloaded ring (docs/rings.md#how-many). PollerConfig.RingLogic and " +
			"SocketConfig.RingLogic come before it",
		access: oneOf(func(s *Settings) *int { return &s.RingLogic }, []int{0, 1, 10, 20, 30, 31}, 11)}.on(RingUring, RingEpoll),
	Parameter{Name: "VMA_RING_LIMIT_PER_INTERFACE", Title: "Ring limit per interface", Field: "RingLimit", State: Partly,
		Effect: "the most kernel rings of an interface within a poller; 0: no limit. Logic 11 is exempt. A poller has one offloaded ring",
		access: integer(func(s *Settings) *int { return &s.RingLimit }, 0, 1<<16)}.on(RingUring, RingEpoll).as("0"),
	Parameter{Name: "VMA_TX_WRE", Title: "Tx QP WRE", Field: "RingEntries", VMA: "2048", State: Partly,
		Effect: "the queue that a ring sends by: on offloaded rings the transmit ring of a queue of an interface (rounded up to a power of two, 8 " +
			"or more; 0: 2048), on uring rings the submission queue, for SendPacket (rounded up to a power of two, 256 to 4096; 0: 256)",
		access: integer(func(s *Settings) *int { return &s.RingEntries }, 0, 1<<20)}.on(RingOffload, RingUring).as("0"),
	Parameter{Name: "VMA_RX_WRE", Title: "Rx QP WRE", Field: "Offload.Fill", VMA: "16000, with VMA_SOCKETXTREME 1024", State: Works,
		Effect: "the most buffers that a queue of an offloaded interface keeps ready for receiving; 0: as many as docs/offload.md#buffers says",
		access: zeroOr(func(s *Settings) *int { return &s.Offload.Fill }, 8, 1<<20)}.on(RingOffload).as("0"),
	inert("VMA_RING_ALLOCATION_LOGIC_TX", "Ring allocation logic TX", "0", logicNumber, NotApplicable,
		"a socket sends on the ring it receives on").like("VMA_RING_ALLOCATION_LOGIC_RX"),
	inert("VMA_RING_MIGRATION_RATIO_TX", "Ring migration ratio TX", "100", within(-1, 1<<31-1), NotApplicable,
		"a socket stays on its ring").as("-1", "0"),
	inert("VMA_RING_MIGRATION_RATIO_RX", "Ring migration ratio RX", "100", within(-1, 1<<31-1), NotApplicable,
		"a socket stays on its ring").as("-1", "0"),
}

// The numbers of buffers that a poller can have: it has less than 4 GiB, and the most of one size leave room for the fewest of the other
// (package buffers, Layout; a test of xtreme compares).
const leastSmall, mostSmall, mostLarge = 64, 1_917_161, 65_342

var memoryParameters = []Parameter{
	{Name: "VMA_RX_BUFS", Title: "Rx Mem Bufs", Field: "SmallBuffers", VMA: "200000 for the process", State: Works,
		Effect: "small buffers (2 KiB of payload) of a poller, beside those of VMA_TX_BUFS (docs/rings.md#memory). PollerConfig.SmallBuffers comes " +
			"before it",
		access: integer(func(s *Settings) *int { return &s.SmallBuffers }, leastSmall, mostSmall)},
	Parameter{Name: "VMA_TX_BUFS", Title: "Tx Mem Bufs", Field: "SendBuffers", VMA: "200000 for the process", State: Works,
		Effect: "small buffers of a poller beyond VMA_RX_BUFS. One pool serves both directions: receiving leaves so many to sending, or an eighth " +
			"of the small ones where that is more. PollerConfig.SmallBuffers comes before it",
		access: integer(func(s *Settings) *int { return &s.SendBuffers }, 0, mostSmall-leastSmall)}.as("0"),
	{Name: "SX_LARGE_BUFS", Title: "Large Mem Bufs", Field: "LargeBuffers", State: Works,
		Effect: "large buffers (64 KiB of payload) of a poller (docs/rings.md#memory). PollerConfig.LargeBuffers comes before it",
		access: integer(func(s *Settings) *int { return &s.LargeBuffers }, 8, mostLarge)},
	Parameter{Name: "VMA_MEM_ALLOC_TYPE", Title: "Mem Allocate type", Field: "HugePages", VMA: "1", State: Partly,
		Effect: "2 asks for huge pages under the buffers (region.no_hugepages where they cannot be had); 1, contiguous pages, is as 0. " +
			"PollerConfig.HugePages asks for them too, PollerConfig.Memory comes before both",
		access: access{"0 (ANON), 1 (CONTIG) or 2 (HUGEPAGES)", getMemory, setMemory, func(*Settings) bool { return true }}}.unless(noContiguous),
	{Name: "SX_BUFFER_DEBUG", Title: "Buffer debugging", Field: "BufferDebug", State: Works,
		Effect: "1 records where packets are taken and released, and panics, with both places where it still has them, when Release is called once " +
			"more than a packet has references. It is for tests: it takes time and memory",
		access: toggle(func(s *Settings) *bool { return &s.BufferDebug }, false)},
	{Name: "VMA_RX_BYTES_MIN", Title: "Rx Byte Min Limit", Field: "RxBytesMin", VMA: "65536", State: Works,
		Effect: "the least receive buffer, in bytes, that IPConfig.ReceiveBuffer and Socket.SetReceiveBuffer ask for; 0: no least",
		access: integer(func(s *Settings) *int { return &s.RxBytesMin }, 0, 1<<30)},
	inert("VMA_RX_WRE_BATCHING", "Rx QP WRE Batching", "64", within(1, 1024), NotApplicable,
		"the batches in which a fill ring is refilled cannot be set"),
	inert("VMA_TX_WRE_BATCHING", "Tx QP WRE Batching", "64", within(1, 64), NotApplicable, "the batches in which sends complete cannot be set"),
	inert("VMA_BUFFER_BATCHING_MODE", "Buffer batching mode", "1", within(0, 2), NotApplicable,
		"a pool belongs to one poller: there is no shared pool to batch for").as("0"),
	inert("VMA_QP_COMPENSATION_LEVEL", "QP Compensation Level", "256", within(0, 1<<20), NotApplicable,
		"rings take buffers from the poller's pool"),
	inert("VMA_CQ_KEEP_QP_FULL", "CQ Keeps QP Full", "1", yesOrNo, NotApplicable, "rings are refilled from the poller's pool"),
	inert("VMA_HUGETBL", "Huge pages", "0", yesOrNo, NotApplicable, "VMA removed it: use VMA_MEM_ALLOC_TYPE"),
}

var pollParameters = []Parameter{
	Parameter{Name: "VMA_RX_POLL", Title: "Rx Poll Loops", Field: "RxPoll", VMA: "100000", State: Works,
		Effect: "how many turns in a row without events and posted functions a reactor spins before it sleeps, unless VMA_SELECT_POLL ends that " +
			"sooner; 0: it does not spin. With -1 here or in VMA_SELECT_POLL it does not sleep. auto: 100000, 100 in gnet, 0 in netconn unless " +
			"VMA_SELECT_POLL is given",
		access: auto(integer(rxPoll, -1, 100_000_000), rxPoll, RxPollAuto)}.as("auto"),
	Parameter{Name: "VMA_SELECT_POLL", Title: "Select Poll (usec)", Field: "SelectPoll", VMA: "100000", State: Works,
		Effect: "how many microseconds without events and posted functions a reactor spins before it sleeps, unless VMA_RX_POLL ends that sooner; " +
			"0: it does not spin. With -1 here or in VMA_RX_POLL it does not sleep. auto: 100000",
		access: auto(span(selectPoll, time.Microsecond, 100_000_000, true), selectPoll, SelectPollAuto)}.as("auto"),
	Parameter{Name: "VMA_SELECT_POLL_OS_FORCE", Title: "Select Poll OS Force", Field: "OSRatio", State: Works,
		Effect: "1 sets VMA_SELECT_POLL_OS_RATIO to 1, unless that is given itself", access: force}.unless(ratioSaid).as("0"),
	{Name: "VMA_SELECT_POLL_OS_RATIO", Title: "Select Poll OS Ratio", Field: "OSRatio", State: Works,
		Effect: "every how many turns a reactor looks at external descriptors (Loop.Watch); it also looks after a sleep. 0: at first and after a " +
			"sleep, and a reactor that does not sleep refuses Watch",
		access: integer(func(s *Settings) *int { return &s.OSRatio }, 0, 1_000_000)},
	Parameter{Name: "VMA_RX_UDP_POLL_OS_RATIO", Title: "Rx UDP Poll OS Ratio", Field: "ShadowRatio", State: Partly,
		Old:    []string{"VMA_RX_POLL_OS_RATIO", "VMA_RX_SKIP_OS"},
		Effect: "after about how many Polls with frames an offloaded ring looks at what the kernel has received for its sockets; 0 is not accepted",
		access: integer(func(s *Settings) *int { return &s.ShadowRatio }, 1, 1_000_000)}.on(RingOffload),
	{Name: "VMA_CQ_POLL_BATCH_MAX", Title: "CQ Poll Batch (max)", Field: "PollBatch", VMA: "16", State: Works,
		Effect: "the most completions that a reactor takes with one Poll; 0: 256. Config.Batch comes before it",
		access: integer(func(s *Settings) *int { return &s.PollBatch }, 0, 1<<16)},
	Parameter{Name: "VMA_RX_POLL_YIELD", Title: "Rx Poll Yield", Field: "PollYield", State: Partly,
		Effect: "after how many empty turns in a row, at the latest, a spinning reactor on an epoll ring lets other goroutines run, unless " +
			"SX_LOOP_CPUS or Config.Pin binds it; 0: 1024",
		access: integer(func(s *Settings) *int { return &s.PollYield }, 0, 1<<30)}.on(RingEpoll).as("0"),
	{Name: "SX_LOOP_CPUS", Title: "Processors of reactors", Field: "LoopCPUs", State: Works,
		Effect: "binds the threads of an engine's reactors to processors, the n-th to the n-th of the list, and round again: 0,4,8-10. A reactor " +
			"whose processor does not exist or is not allowed fails. Config.Pin and Config.Unpinned come before it",
		access: access{"processors, separated by commas, or ranges", getCPUs, setCPUs, func(s *Settings) bool { return checkCPUs(s.LoopCPUs) }}},
	inert("VMA_SELECT_SKIP_OS", "Select Skip OS", "4", count, NotApplicable,
		"a reactor looks at external descriptors by VMA_SELECT_POLL_OS_RATIO also while packets come"),
	inert("VMA_RX_POLL_INIT", "Rx Poll Init Loops", "0", within(-1, 100_000_000), NotApplicable,
		"reactors poll rings, whatever sockets are on them"),
	Parameter{Name: "VMA_RX_POLL_ON_TX_TCP", Title: "Polling Rx on Tx TCP", Field: "OwnTCP.PollOnSend", State: Works,
		Effect: "1 has sends on connections of our own TCP, outside of Poll, take frames that have come before; with 0 only some do",
		access: toggle(func(s *Settings) *bool { return &s.OwnTCP.PollOnSend }, false)}.on(RingOffload).unless(noOwnTCP).as("0"),
	inert("VMA_RX_CQ_DRAIN_RATE_NSEC", "Rx CQ Drain Rate", "0", count, NotApplicable,
		"a receive call empties no ring: Poll does"),
	inert("VMA_PROGRESS_ENGINE_INTERVAL", "CQ Drain Interval (msec)", "0", count, NotApplicable, noDrain).
		vma("10, with VMA_SOCKETXTREME always 0"),
	inert("VMA_PROGRESS_ENGINE_WCE_MAX", "CQ Drain WCE (max)", "10000", count, NotApplicable, noDrain).old("VMA_CQ_DRAIN_WCE_MAX").as("0"),
}

var socketParameters = []Parameter{
	{Name: "VMA_TCP_NODELAY", Title: "TCP nodelay", Field: "NoDelay", State: Works,
		Effect: "1 turns Nagle's algorithm off on TCP sockets that pollers open, and on connections that these accept; adopted sockets keep what " +
			"they have. NoDelay of a configuration and SetNoDelay come before it. So do reactor/netconn and servers of reactor/gnet, which turn it " +
			"off unless they are told otherwise",
		access: toggle(func(s *Settings) *bool { return &s.NoDelay }, false)},
	{Name: "VMA_TCP_CC_ALGO", Title: "TCP CC Algorithm", Field: "Congestion", VMA: "0", State: Partly,
		Effect: "the congestion control of TCP sockets that pollers open and of connections that these accept: 0 reno, 1 cubic, 2 none, or the " +
			"kernel's name of one; empty: the kernel's default. Our own TCP has reno, cubic and none, and takes cubic for other values. One that the " +
			"kernel refuses, as it does none, is a warning, and at each socket that a poller opens a case for VMA_EXCEPTION_HANDLING",
		access: text(func(s *Settings) *string { return &s.Congestion }, "0, 1, 2 or the name of an algorithm", parseCongestion)},
	{Name: "VMA_MSS", Title: "MSS", Field: "MSS", State: Works,
		Effect: "the largest MSS that TCP sockets which pollers open, and connections that these accept, announce, and the most bytes of payload and " +
			"TCP options in a segment that they send; 0: by VMA_MTU, without that by interface and route",
		access: zeroOr(func(s *Settings) *int { return &s.MSS }, leastMSS, mostMSS)},
	Parameter{Name: "VMA_MTU", Title: "MTU", Field: "MTU", State: Partly,
		Effect: "the longest IP packet that an offloaded ring sends by an interface: longer datagrams leave in fragments, or fail with EMSGSIZE where " +
			"the pool has too few buffers for these. Datagrams that the kernel sends follow interface and route. Where VMA_MSS is 0 it is 40 less " +
			"than this, with IPv6 60. 0: by interface and route",
		access: zeroOr(func(s *Settings) *int { return &s.MTU }, leastMTU, mostMTU)}.unless(onlyDatagrams).as("0"),
	{Name: "VMA_TX_MC_LOOPBACK", Title: "Tx MC Loopback", Field: "NoMulticastLoop", State: Works,
		Effect: "whether what UDP sockets that pollers open send to a group reaches members on this host too; UDPConfig.MulticastLoop and " +
			"SetMulticastLoop come before it. What leaves by the loopback interface reaches them in either case",
		access: toggle(func(s *Settings) *bool { return &s.NoMulticastLoop }, true)},
	inert("VMA_WAIT_AFTER_JOIN_MSEC", "Delay after join (msec)", "0", within(0, 60_000), HardwareOnly,
		"InfiniBand: a delay of the first datagram to a group"),
	Parameter{Name: "VMA_TX_NONBLOCKED_EAGAINS", Title: "Tx non-blocked eagains", Field: "ReportDrops", State: Works,
		Effect: "1 reports datagrams of UDP sockets on kernel rings that the kernel's queueing discipline drops: by ErrWouldBlock and then OUT, for " +
			"SendPacket by SENT with ENOBUFS, for a Send that pacing has queued by ERR with ENOBUFS. A connected socket is also told errors of the " +
			"network that pass. 0: such a send is reported as good",
		access: toggle(func(s *Settings) *bool { return &s.ReportDrops }, false)}.on(RingUring, RingEpoll).as("0"),
	inert("VMA_ALLOW_PRIVILEGED_SOCK_OPT", "Allow privileged sock opt", "1", yesOrNo, NotApplicable,
		"the permissions of socket options are the kernel's").as("0").also("VMA_ALLOW_PRIVILEGED_SOCKET_OPT"),
	inert("VMA_AVOID_SYS_CALLS_ON_TCP_FD", "Avoid sys-calls on tcp fd", "0", yesOrNo, NotApplicable, "no library call is intercepted"),
	inert("VMA_CLOSE_ON_DUP2", "close on dup2()", "1", yesOrNo, NotApplicable, "no library call is intercepted").as("0"),
	inert("VMA_DEFERRED_CLOSE", "Deferred close", "0", yesOrNo, NotApplicable, "no library call is intercepted"),
	inert("VMA_TRIGGER_DUMMY_SEND_GETSOCKNAME", "Trig dummy send getsockname()", "0", yesOrNo, NotApplicable,
		"no library call is intercepted"),
}

var stackParameters = []Parameter{
	inert("VMA_RX_SW_CSUM", "Rx SW CSUM", "1", yesOrNo, Partly,
		"an offloaded ring checks received checksums in software, as SX_CHECKSUM says; 0 changes nothing"),
	Parameter{Name: "VMA_UDP_3T_RULES", Title: "UDP 3T rules", Field: "Offload.ThreeTuple", VMA: "1", State: Works,
		Effect: "which senders' datagrams to the local address and port of a connected UDP socket an offloaded ring takes: 0 its peer's, and the " +
			"kernel gets the others; 1 any sender's, and it drops those (udp.foreign_peer) that are for no other socket of the engine. For a socket " +
			"that is bound to a group both are the same",
		access: toggle(func(s *Settings) *bool { return &s.Offload.ThreeTuple }, false)}.on(RingOffload).as("0"),
	inert("VMA_ETH_MC_L2_ONLY_RULES", "ETH MC L2 only rules", "0", yesOrNo, NotApplicable,
		"the XDP program steers by addresses and ports"),
	inert("VMA_MC_FORCE_FLOWTAG", "Force Flowtag for MC", "0", yesOrNo, HardwareOnly, "a tag that the card puts on packets of a flow"),
	inert("VMA_NEIGH_UC_ARP_QUATA", "Num of UC ARPs", "3", count, NotApplicable,
		"the kernel resolves neighbours: net.ipv4.neigh.*.ucast_solicit"),
	inert("VMA_NEIGH_UC_ARP_DELAY_MSEC", "UC ARP delay (msec)", "10000", count, NotApplicable,
		"the kernel resolves neighbours: net.ipv4.neigh.*.retrans_time_ms"),
	inert("VMA_NEIGH_NUM_ERR_RETRIES", "Num of neigh restart retries", "1", count, NotApplicable, "the kernel resolves neighbours"),
	inert("VMA_NETLINK_TIMER", "Netlink timer (msec)", "10000", count, NotApplicable,
		"changes of interfaces, addresses, routes and neighbours are taken from netlink's events"),
	{Name: "VMA_HW_TS_CONVERSION", Title: "HW TS Conversion", Field: "CardTime", VMA: "3", State: HardwareOnly,
		Effect: "what is made of the stamps of network cards, for sockets with Timestamps (docs/timestamps.md): 0 cards are not asked, 1 as the card " +
			"counts, 2 best possible, 3 on the system's clock, 4 by a clock that PTP keeps. HardwareTimestamps of a configuration comes before it",
		access: integer(func(s *Settings) *int { return &s.CardTime }, 0, 4)},
	inert("VMA_IPOIB", "IPOIB support", "1", yesOrNo, HardwareOnly, "InfiniBand").as("0"),
}

var ruleParameters = []Parameter{
	{Name: "VMA_CONFIG_FILE", Title: "Conf File", Field: "RulesFile", State: Works,
		Effect: "the name of the rules file, which says which sockets are offloaded (Rules, below); the first %d in it is the process id",
		access: text(func(s *Settings) *string { return &s.RulesFile }, "the path of a file", anything)},
	{Name: "VMA_APPLICATION_ID", Title: "Application ID", Field: "ApplicationID", State: Works,
		Effect: "the id that, with the name of the program, chooses the group of rules in the rules file",
		access: text(func(s *Settings) *string { return &s.ApplicationID }, "a text without blanks", parseID)},
	{Name: "VMA_EXCEPTION_HANDLING", Title: "Exception handling mode", Field: "ExceptionHandling", State: Works,
		Effect: "what happens where something cannot be had: a rule for an offloaded socket (Rules, below); what VMA_TCP_NODELAY, VMA_TCP_CC_ALGO, " +
			"VMA_MSS, VMA_MTU or VMA_TX_MC_LOOPBACK ask of the kernel for a new socket; what SX_CAPTURE, SX_RECORD or VMA_STATS_FILE name for a new " +
			"engine, which is a warning too. -2, -1 and 0 log it for debugging and go on, 1 logs an error and goes on, 2 fails the call, 3 panics (a " +
			"reactor deals with that by its OnPanic, calls of netconn return an error). -2 also makes a rules file that cannot be used an error of " +
			"New",
		access: integer(func(s *Settings) *int { return &s.ExceptionHandling }, -2, 3)},
}

var logParameters = []Parameter{
	Parameter{Name: "VMA_TRACELEVEL", Title: "Log Level", Field: "LogLevel", VMA: "info", State: Works,
		Effect: "the least level of the library's own log: debug has each call that makes, binds, connects, configures or closes a socket, fine each packet, finer and all its first bytes. From info on an engine prints the settings that are " +
			"changed, from details on all. Empty: it prints none, and the log is slog.Default, or with VMA_LOG_FILE or VMA_LOG_DETAILS one of level " +
			"info. Beside Settings.Logger it decides only which settings are printed",
		access: text(func(s *Settings) *LogLevel { return &s.LogLevel },
			"none, panic, error, warn, info, details, debug, fine, finer, all, also in capitals or as another of VMA's words, or 0 to 6", parseLogSetting)}.as(""),
	Parameter{Name: "VMA_LOG_DETAILS", Title: "Log Details", Field: "LogDetails", State: Works, VMA: "0, from debug on 2",
		Effect: "what each line of the library's own log begins with: 1 thread, 2 process too, 3 milliseconds since the log was opened too. " +
			"Settings.Logger comes before it",
		access: integer(func(s *Settings) *int { return &s.LogDetails }, 0, 3)}.as("0"),
	Parameter{Name: "VMA_LOG_FILE", Title: "Log File", Field: "LogFile", State: Works,
		Effect: "the file to which the log of an engine, its reactors and netconn networks is appended; the first %d in its name is the process id. " +
			"One that cannot be opened is an error of New. Settings.Logger comes before it, and for one reactor or network its Config.Logger; " +
			"reactor/gnet logs to gnet's logger",
		access: text(func(s *Settings) *string { return &s.LogFile }, "the path of a file", anything)}.as(""),
	Parameter{Name: "VMA_LOG_COLORS", Title: "Log Colors", Field: "LogColors", State: Works,
		Effect: "1 colours the lines of the library's own log by their level where they go to a terminal: standard error, or VMA_LOG_FILE. Files " +
			"and pipes get none",
		access: toggle(func(s *Settings) *bool { return &s.LogColors }, false)}.as("0"),
	Parameter{Name: "VMA_STATS_FILE", Title: "Stats File", Field: "StatsFile", State: Works,
		Effect: "a text file to which what a socket that had a ring has counted is appended when it is closed; the first %d in its name is the " +
			"process id. An engine empties it when it is made, unless another engine of the process has it. One that cannot be opened, or is no plain " +
			"file, is a warning and a case for VMA_EXCEPTION_HANDLING",
		access: text(func(s *Settings) *string { return &s.StatsFile }, "the path of a file", anything)}.as(""),
	Parameter{Name: "VMA_STATS_SHMEM_DIR", Title: "Stats shared memory directory", Field: "StatsDirectory", VMA: "/tmp/", State: Works,
		Effect: "the directory of the process's statistics, which xtstat reads; -k tells it of another one than auto (docs/monitoring.md). It is made " +
			"if its parent is there; one that cannot be used is a warning, and nothing is published. auto: /run/socketxtreme for root, else " +
			"socketxtreme in $XDG_RUNTIME_DIR, or without that socketxtreme-UID in $TMPDIR or /tmp. Empty: nothing is published",
		access: text(func(s *Settings) *string { return &s.StatsDirectory }, "auto, the path of a directory, or nothing", anything)},
	Parameter{Name: "VMA_STATS_FD_NUM", Title: "Stats FD Num (max)", Field: "StatsSockets", State: Works,
		Effect: "how many sockets have room at a time in a file in VMA_STATS_SHMEM_DIR",
		access: integer(func(s *Settings) *int { return &s.StatsSockets }, 0, 1024)}.unless(notPublished),
	Parameter{Name: "SX_STATS_GROUP", Title: "Stats readers", Field: "StatsGroup", State: Works,
		Effect: "a group, by name or number, to which the files and the directory of VMA_STATS_SHMEM_DIR are given, for its members to read. Where that " +
			"cannot be done it is a warning, and nothing is published. Directories above it, such as $XDG_RUNTIME_DIR with auto, stay as they are",
		access: text(func(s *Settings) *string { return &s.StatsGroup }, "a group", anything)}.unless(notPublished).as(""),
	Parameter{Name: "VMA_CPU_USAGE_STATS", Title: "Polling CPU idle usage", Field: "CPUUsage", State: Works,
		Effect: "1 measures how long pollers sleep, in Wait and from Arm to the next Poll: xtstat shows the share of time that they do not sleep",
		access: toggle(func(s *Settings) *bool { return &s.CPUUsage }, false)}.unless(notPublished).as("0"),
}

// init checks that each entry of the table is complete.
func init() {
	for i := range parameters {
		if p := &parameters[i]; p.get == nil || p.set == nil || p.check == nil || p.Effect == "" || p.State == "" {
			panic("conf: the table's entry " + p.Name + " is not complete")
		}
	}
}
