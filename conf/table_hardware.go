package conf

import "time"

// Settings that have nothing to change here, and why.

const moderation = "the interrupts of a card belong to its driver: ethtool -C"

var hardwareParameters = []Parameter{
	inert("VMA_BF", "BF (Blue Flame)", "1", yesOrNo, HardwareOnly, "a doorbell of ConnectX cards").as("0"),
	inert("VMA_TX_MAX_INLINE", "Tx Max QP INLINE", "204", within(0, 884), HardwareOnly, "data within the descriptors of ConnectX cards").as("0").
		old("VMA_MAX_INLINE"),
	inert("VMA_RING_DEV_MEM_TX", "Ring On Device Memory TX", "0", count, HardwareOnly, "memory on ConnectX cards"),
	inert("VMA_TX_PREFETCH_BYTES", "Tx Prefetch Bytes", "256", within(0, 1<<16), NotApplicable, "bytes of packets are not prefetched").as("0"),
	inert("VMA_RX_PREFETCH_BYTES", "Rx Prefetch Bytes", "256", within(32, 2044), NotApplicable, "bytes of packets are not prefetched"),
	inert("VMA_RX_PREFETCH_BYTES_BEFORE_POLL", "Rx Prefetch Bytes Before Poll", "0", within(32, 2044).orZero(), NotApplicable,
		"bytes of packets are not prefetched"),
	inert("VMA_CQ_MODERATION_ENABLE", "CQ Interrupts Moderation", "1", yesOrNo, HardwareOnly, moderation),
	inert("VMA_CQ_MODERATION_COUNT", "CQ Moderation Count", "48", count, HardwareOnly, moderation),
	inert("VMA_CQ_MODERATION_PERIOD_USEC", "CQ Moderation Period (usec)", "50", count, HardwareOnly, moderation),
	inert("VMA_CQ_AIM_MAX_COUNT", "CQ AIM Max Count", "560", count, HardwareOnly, moderation),
	inert("VMA_CQ_AIM_MAX_PERIOD_USEC", "CQ AIM Max Period (usec)", "250", count, HardwareOnly, moderation),
	inert("VMA_CQ_AIM_INTERVAL_MSEC", "CQ AIM Interval (msec)", "250", count, HardwareOnly, moderation),
	inert("VMA_CQ_AIM_INTERRUPTS_RATE_PER_SEC", "CQ AIM Interrupts Rate (per sec)", "5000", count, HardwareOnly, moderation),
}

var tcpParameters = []Parameter{
	inert("VMA_TX_SEGS_TCP", "Tx Mem Segs TCP", "1000000", count, NotApplicable, "segments of our own TCP lie in buffers of the pool"),
	inert("VMA_GRO_STREAMS_MAX", "GRO max streams", "32", count, NotApplicable,
		"our own TCP joins no segments; the kernel does by ethtool -K gro, but not on an interface whose program runs behind the driver "+
			"(docs/offload.md)"),
	Parameter{Name: "VMA_TCP_3T_RULES", Title: "TCP 3T rules", Field: "OwnTCP.ConnectionThreeTuple", State: Works,
		Effect: "what the steering program takes for a connection that our own TCP opens: 0 what its peer sends; 1 also what others send to its local " +
			"address and port, but for connections that the kernel has there already. Our own TCP answers that with a reset",
		access: toggle(func(s *Settings) *bool { return &s.OwnTCP.ConnectionThreeTuple }, false)}.on(RingOffload).unless(noOwnTCP).as("0"),
	inert("VMA_TCP_TIMER_RESOLUTION_MSEC", "TCP Timer Resolution (msec)", "100", count, NotApplicable,
		"the resolution of the timers of our own TCP is fixed, and they run inside Poll"),
	inert("VMA_TCP_CTL_THREAD", "TCP control thread", "0", within(0, 2).words("disable", "delegate", "with_wakeup", "no_wakeup"), NotApplicable,
		"the owner of a ring handles all its segments").as("disable"),
	Parameter{Name: "VMA_TCP_TIMESTAMP_OPTION", Title: "TCP timestamp option", Field: "OwnTCP.Timestamps", VMA: "0", State: Works,
		Effect: "whether our own TCP offers and accepts timestamps (RFC 7323): 0 not, 1 yes, 2 if net.ipv4.tcp_timestamps is not 0 when the ring is " +
			"made",
		access: integer(func(s *Settings) *int { return &s.OwnTCP.Timestamps }, 0, 2)}.on(RingOffload).unless(noOwnTCP).as("2"),
	Parameter{Name: "VMA_TCP_QUICKACK", Title: "TCP quickack", Field: "OwnTCP.QuickAck", State: Works,
		Effect: "1 has our own TCP acknowledge data with the next Flush or Poll, without delay. Socket.SetQuickAck comes before it",
		access: toggle(func(s *Settings) *bool { return &s.OwnTCP.QuickAck }, false)}.on(RingOffload).unless(noOwnTCP).as("0"),
	Parameter{Name: "SX_TCP_QUICKACK_THRESHOLD", Title: "TCP quickack threshold", Field: "OwnTCP.QuickAckThreshold", State: Works,
		Effect: "the most bytes of payload of a segment that VMA_TCP_QUICKACK and Socket.SetQuickAck are for; 0: any",
		access: integer(func(s *Settings) *int { return &s.OwnTCP.QuickAckThreshold }, 0, 65_535)}.on(RingOffload).unless(noOwnTCP).as("0"),
	Parameter{Name: "VMA_TCP_MAX_SYN_RATE", Title: "TCP max syn rate", Field: "OwnTCP.SynRate", State: Works,
		Effect: "the most SYNs that a listener of our own TCP takes in one second of the clock; others are dropped (tcp.backlog). 0: no limit",
		access: integer(func(s *Settings) *int { return &s.OwnTCP.SynRate }, 0, 100_000)}.on(RingOffload).unless(noOwnTCP).as("0"),
	inert("VMA_TSO", "TSO", "1", yesOrNo.words("on", "off", "auto"), HardwareOnly,
		"AF_XDP gives a card whole frames; of the kernel's TCP: ethtool -K tso").as("auto"),
	Parameter{Name: "SX_TCP_RTO_MIN", Title: "TCP least time-out (msec)", Field: "OwnTCP.RTOMin", State: Works,
		Effect: "how much longer than the round trip a retransmission time-out of our own TCP is at the least, in milliseconds; for less than two " +
			"full segments in flight 50, where that is more",
		access: atLeast(func(s *Settings) *time.Duration { return &s.OwnTCP.RTOMin }, time.Millisecond, 1, 60_000)}.
		on(RingOffload).unless(noOwnTCP).as("200"),
	Parameter{Name: "SX_TCP_DELAYED_ACK", Title: "TCP delayed ACK (msec)", Field: "OwnTCP.DelayedAck", State: Works,
		Effect: "the delay of delayed acknowledgements of our own TCP, in milliseconds",
		access: atLeast(func(s *Settings) *time.Duration { return &s.OwnTCP.DelayedAck }, time.Millisecond, 0, 499)}.
		on(RingOffload).unless(noOwnTCP).as("40"),
}

const noDrain = "only its owner empties a ring"

const noThread = "only its owner polls a ring"

var threadParameters = []Parameter{
	inert("VMA_INTERNAL_THREAD_AFFINITY", "Internal Thread Affinity", "-1", anyText, NotApplicable,
		noThread+"; SX_LOOP_CPUS binds reactors"),
	inert("VMA_INTERNAL_THREAD_CPUSET", "Internal Thread Cpuset", "", anyText, NotApplicable, noThread),
	inert("VMA_INTERNAL_THREAD_ARM_CQ", "Internal Thread Arm CQ", "0", yesOrNo, NotApplicable, noThread),
	inert("VMA_INTERNAL_THREAD_TCP_TIMER_HANDLING", "Internal Thread TCP Timer Handling", "0", within(0, 1), NotApplicable, noThread),
	inert("VMA_TIMER_RESOLUTION_MSEC", "Timer Resolution (msec)", "10", count, Better,
		"timers of loops and deadlines of sockets have a resolution below a millisecond"),
	inert("VMA_THREAD_MODE", "Thread mode", "1", within(0, 3), Partly,
		"there is one mode: a poller and its sockets belong to the goroutine that polls first. While that runs, calls of other goroutines are "+
			"refused (ring.ErrOwner, or the zero value), except where the documentation says any goroutine").as("0"),
}

var libraryParameters = []Parameter{
	Parameter{Name: "VMA_SPEC", Title: "SPEC", Field: "Profile", State: Partly,
		Effect: "a profile of values for other settings; a setting that is given itself comes before it. Profiles, below, says which values have an " +
			"effect",
		access: text(func(s *Settings) *string { return &s.Profile }, "none, latency, multi_ring_latency, throughput or low-cpu", parseProfile)}.
		unless(profileOfCode),
	inert("VMA_SOCKETXTREME", "SocketXtreme", "1", yesOrNo, Better, "completions are the API here: 0 changes nothing").
		vma("0"),
	inert("VMA_HANDLE_SIGINTR", "SigIntr Ctrl-C Handle", "0", yesOrNo, NotApplicable, "the library handles no signals"),
	inert("VMA_HANDLE_SIGSEGV", "SegFault Backtrace", "0", yesOrNo, NotApplicable,
		"the Go runtime prints stacks when a program fails (GOTRACEBACK)"),
	inert("VMA_FORK", "fork() support", "1", yesOrNo, NotApplicable, "Go forks only to run another program"),
	inert("VMA_VMAD_NOTIFY_DIR", "VMAD output directory", "/tmp/vma", anyText, NotApplicable,
		"there is no daemon; for the peers of our own TCP of a killed process there is xtreset (docs/offload.md)"),
}

var xlioParameters = []Parameter{
	inert("XLIO_LRO", "LRO", "auto", anyText, HardwareOnly, "large receive by ConnectX cards; of the kernel's sockets: ethtool -K lro"),
	inert("XLIO_MULTILOCK", "Multilock", "0", within(0, 1), NotApplicable, "the locks that it chooses between are not here"),
	inert("XLIO_NGINX_WORKERS_NUM", "Nginx workers", "0", count, NotApplicable,
		"loops and processes share a port by ReusePort; of our own TCP those of one process (docs/offload.md)"),
	inert("XLIO_RX_CQ_WAIT_CTRL", "Rx CQ wait ctrl", "0", yesOrNo, NotApplicable,
		"sockets have no epoll sets of their own: a poller sleeps on its rings"),
	inert("XLIO_SKIP_POLL_IN_RX", "Skip poll in rx", "0", within(0, 2), NotApplicable, "a receive call does not poll: Poll does").as("1"),
	inert("XLIO_TCP_2T_RULES", "TCP 2T rules", "0", yesOrNo, NotApplicable,
		"it is of rules of a card; here a rule is an entry of a map in memory"),
	Parameter{Name: "XLIO_TCP_SEND_BUFFER_SIZE", Title: "TCP send buffer size", Field: "OwnTCP.SendBuffer", VMA: "1048576", State: Works,
		Effect: "how many bytes may be queued or not acknowledged on a connection of our own TCP before Send takes no more; packets of SendPacket are " +
			"bounded by SendQueue alone. SocketConfig.SendBuffer and SetSendBuffer come before it",
		access: bytesUpTo(func(s *Settings) *int { return &s.OwnTCP.SendBuffer }, 1<<30)}.on(RingOffload).unless(noOwnTCP).as("262144"),
	inert("VMA_TX_BUF_SIZE", "Tx Mem Buf size", "0", size(256<<10), NotApplicable, "buffers are of 2 KiB and of 64 KiB").
		also("XLIO_TX_BUFFER_SIZE"),
}
