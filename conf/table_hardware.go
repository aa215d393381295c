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
	inert("VMA_TX_SEGS_TCP", "Tx Mem Segs TCP", "1000000", count, NotApplicable, "segments of our own TCP lie in the buffers of the pool (VMA_TX_BUFS), those of the kernel's in its own"),
	inert("VMA_GRO_STREAMS_MAX", "GRO max streams", "32", count, NotApplicable,
		"our own TCP takes segments that were joined before it, as those of a peer on this machine; of the kernel: ethtool -K gro, "+
			"but not on an interface whose program runs behind the driver, where the kernel joins nothing (docs/offload.md)"),
	Parameter{Name: "VMA_TCP_3T_RULES", Title: "TCP 3T rules", Field: "OwnTCP.ConnectionThreeTuple", State: Works,
		Effect: "1 has the steering program take all TCP to the local address and port of a connection that our own TCP opens, but for connections that " +
			"the kernel has there already; what is for no connection of our own TCP is answered with a reset, so that no socket of the kernel can " +
			"connect from there to another host any more; 0 only that of its peer",
		access: toggle(func(s *Settings) *bool { return &s.OwnTCP.ConnectionThreeTuple }, false)}.on(RingOffload).unless(noOwnTCP).as("0"),
	inert("VMA_TCP_TIMER_RESOLUTION_MSEC", "TCP Timer Resolution (msec)", "100", count, NotApplicable,
		"timers of our own TCP have ticks of half a millisecond, and run inside Poll, up to 16 calls after they are due, not counting those "+
			"whose slice was filled by what had come before"),
	inert("VMA_TCP_CTL_THREAD", "TCP control thread", "0", within(0, 2).words("disable", "delegate", "with_wakeup", "no_wakeup"), NotApplicable,
		"the owner of a ring handles all its segments").as("disable"),
	Parameter{Name: "VMA_TCP_TIMESTAMP_OPTION", Title: "TCP timestamp option", Field: "OwnTCP.Timestamps", VMA: "0", State: Works,
		Effect: "whether our own TCP offers and accepts timestamps (RFC 7323): 0 not, 1 yes, 2 where net.ipv4.tcp_timestamps is not 0 when the ring is made",
		access: integer(func(s *Settings) *int { return &s.OwnTCP.Timestamps }, 0, 2)}.on(RingOffload).unless(noOwnTCP).as("2"),
	Parameter{Name: "VMA_TCP_QUICKACK", Title: "TCP quickack", Field: "OwnTCP.QuickAck", State: Works,
		Effect: "1 has our own TCP acknowledge each segment with data by the next Flush or Poll, without waiting for more; a reactor flushes in " +
			"the turn in which it came. Socket.SetQuickAck has the last word",
		access: toggle(func(s *Settings) *bool { return &s.OwnTCP.QuickAck }, false)}.on(RingOffload).unless(noOwnTCP).as("0"),
	Parameter{Name: "SX_TCP_QUICKACK_THRESHOLD", Title: "TCP quickack threshold", Field: "OwnTCP.QuickAckThreshold", State: Works,
		Effect: "the most payload, in bytes, of a segment that VMA_TCP_QUICKACK and Socket.SetQuickAck are for: our own TCP acknowledges longer ones as " +
			"without them; 0: any. VMA has it as TCP_QUICKACK_THRESHOLD, which it is built with",
		access: integer(func(s *Settings) *int { return &s.OwnTCP.QuickAckThreshold }, 0, 65_535)}.on(RingOffload).unless(noOwnTCP).as("0"),
	Parameter{Name: "VMA_TCP_MAX_SYN_RATE", Title: "TCP max syn rate", Field: "OwnTCP.SynRate", State: Works,
		Effect: "the most SYNs that a listener of our own TCP answers in each whole second of the clock (twice as many may come close together, across " +
			"two), the others are dropped (tcp.backlog); 0: no limit",
		access: integer(func(s *Settings) *int { return &s.OwnTCP.SynRate }, 0, 100_000)}.on(RingOffload).unless(noOwnTCP).as("0"),
	inert("VMA_TSO", "TSO", "1", yesOrNo.words("on", "off", "auto"), HardwareOnly,
		"AF_XDP gives a card whole frames; of the kernel's TCP: ethtool -K tso").as("auto"),
	Parameter{Name: "SX_TCP_RTO_MIN", Title: "TCP least time-out (msec)", Field: "OwnTCP.RTOMin", State: Works,
		Effect: "how much longer than the round trip a retransmission time-out of our own TCP is at the least, in milliseconds; for less than two full " +
			"segments, whose acknowledgement the peer may delay, 50 where that is more. A loss probe (RFC 8985) may leave sooner",
		access: atLeast(func(s *Settings) *time.Duration { return &s.OwnTCP.RTOMin }, time.Millisecond, 1, 60_000)}.
		on(RingOffload).unless(noOwnTCP).as("200"),
	Parameter{Name: "SX_TCP_DELAYED_ACK", Title: "TCP delayed ACK (msec)", Field: "OwnTCP.DelayedAck", State: Works,
		Effect: "how long our own TCP may wait with the acknowledgement of less than two full segments, in milliseconds",
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
		"a loop's timers have ticks of about 65 microseconds, deadlines of sockets of half a millisecond"),
	inert("VMA_THREAD_MODE", "Thread mode", "1", within(0, 3), Partly,
		"there is one mode: from its first Poll on a poller belongs to one goroutine, which also has to close it: calls of it and its sockets by "+
			"another one are refused (ring.ErrOwner, or the zero value), but those whose documentation says any goroutine. After the end of "+
			"the owner that is not sure: a new goroutine may be taken for it. Packets and the pool are the owner's too, unchecked: others get "+
			"packets by Lend").as("0"),
}

var libraryParameters = []Parameter{
	Parameter{Name: "VMA_SPEC", Title: "SPEC", Field: "Profile", State: Partly,
		Effect: "a profile, applied before all other settings; its values are told below",
		access: text(func(s *Settings) *string { return &s.Profile }, "none, latency, multi_ring_latency, throughput or low-cpu", parseProfile)}.
		unless(profileOfCode),
	inert("VMA_SOCKETXTREME", "SocketXtreme", "1", yesOrNo, Better, "completions are the API here: 0 changes nothing").
		vma("0"),
	inert("VMA_HANDLE_SIGINTR", "SigIntr Ctrl-C Handle", "0", yesOrNo, NotApplicable, "the library handles no signals"),
	inert("VMA_HANDLE_SIGSEGV", "SegFault Backtrace", "0", yesOrNo, NotApplicable,
		"the Go runtime prints stacks when a program fails (GOTRACEBACK)"),
	inert("VMA_FORK", "fork() support", "1", yesOrNo, NotApplicable, "a Go program forks to run another one, and the library's descriptors are close-on-exec"),
	inert("VMA_VMAD_NOTIFY_DIR", "VMAD output directory", "/tmp/vma", anyText, NotApplicable,
		"no daemon is told of connections: the kernel ends its own, and what our own TCP needs is in /run/socketxtreme/flows"),
}

var xlioParameters = []Parameter{
	inert("XLIO_LRO", "LRO", "auto", anyText, HardwareOnly, "large receive by ConnectX cards; for the kernel's sockets: ethtool -K lro, which the kernel turns off on an interface whose program runs behind the driver"),
	inert("XLIO_MULTILOCK", "Multilock", "0", within(0, 1), NotApplicable, "the locks that it chooses between are not here"),
	inert("XLIO_NGINX_WORKERS_NUM", "Nginx workers", "0", count, NotApplicable,
		"several loops or processes share a port with ReusePort; what comes by an interface for our own TCP goes to loops with a queue of "+
			"it, of one process"),
	inert("XLIO_RX_CQ_WAIT_CTRL", "Rx CQ wait ctrl", "0", yesOrNo, NotApplicable,
		"sockets have no epoll sets of their own: a poller sleeps on its rings"),
	inert("XLIO_SKIP_POLL_IN_RX", "Skip poll in rx", "0", within(0, 2), NotApplicable, "a receive call does not poll: Poll does").as("1"),
	inert("XLIO_TCP_2T_RULES", "TCP 2T rules", "0", yesOrNo, NotApplicable,
		"it spares rules of a card, and wants a local address that only its ring uses. Here a rule is an entry of a map in memory; VMA_TCP_3T_RULES "+
			"takes one for each port of connections that are opened here"),
	Parameter{Name: "XLIO_TCP_SEND_BUFFER_SIZE", Title: "TCP send buffer size", Field: "OwnTCP.SendBuffer", VMA: "1048576", State: Works,
		Effect: "the most bytes of a connection of our own TCP that are queued or not acknowledged; SocketConfig.SendBuffer and SetSendBuffer come " +
			"before it",
		access: bytesUpTo(func(s *Settings) *int { return &s.OwnTCP.SendBuffer }, 1<<30)}.on(RingOffload).unless(noOwnTCP).as("262144"),
	inert("VMA_TX_BUF_SIZE", "Tx Mem Buf size", "0", size(256<<10), NotApplicable, "buffers are of 2 KiB and of 64 KiB").
		also("XLIO_TX_BUFFER_SIZE"),
}
