package conf

// Settings that have nothing to change here, and why.

const moderation = "the interrupts of a card belong to its driver: ethtool -C, and net.core.busy_poll for a poller that sleeps on one epoll ring"

var hardwareParameters = []Parameter{
	inert("VMA_BF", "BF (Blue Flame)", "1", yesOrNo, HardwareOnly, "a doorbell of ConnectX cards").as("0"),
	inert("VMA_TX_MAX_INLINE", "Tx Max QP INLINE", "204", within(0, 884), HardwareOnly, "data within the descriptors of ConnectX cards").as("0").
		old("VMA_MAX_INLINE"),
	inert("VMA_RING_DEV_MEM_TX", "Ring On Device Memory TX", "0", count, HardwareOnly, "memory on ConnectX cards").as("0"),
	inert("VMA_TX_PREFETCH_BYTES", "Tx Prefetch Bytes", "256", within(0, 1<<16), NotApplicable, "Go has no prefetch").as("0"),
	inert("VMA_RX_PREFETCH_BYTES", "Rx Prefetch Bytes", "256", within(32, 2044), NotApplicable,
		"Go has no prefetch; an offloaded ring looks up the flows of a burst before it processes any of it"),
	inert("VMA_RX_PREFETCH_BYTES_BEFORE_POLL", "Rx Prefetch Bytes Before Poll", "0", accepted{"0, or a number from 32 to 2044",
		func(text string) bool { return text == "0" || within(32, 2044).ok(text) }}, NotApplicable, "Go has no prefetch").as("0"),
	inert("VMA_CQ_MODERATION_ENABLE", "CQ Interrupts Moderation", "1", yesOrNo, HardwareOnly, moderation),
	inert("VMA_CQ_MODERATION_COUNT", "CQ Moderation Count", "48", count, HardwareOnly, moderation),
	inert("VMA_CQ_MODERATION_PERIOD_USEC", "CQ Moderation Period (usec)", "50", count, HardwareOnly, moderation),
	inert("VMA_CQ_AIM_MAX_COUNT", "CQ AIM Max Count", "560", count, HardwareOnly, moderation),
	inert("VMA_CQ_AIM_MAX_PERIOD_USEC", "CQ AIM Max Period (usec)", "250", count, HardwareOnly, moderation),
	inert("VMA_CQ_AIM_INTERVAL_MSEC", "CQ AIM Interval (msec)", "250", count, HardwareOnly, moderation),
	inert("VMA_CQ_AIM_INTERRUPTS_RATE_PER_SEC", "CQ AIM Interrupts Rate (per sec)", "5000", count, HardwareOnly, moderation),
}

var tcpParameters = []Parameter{
	inert("VMA_TX_SEGS_TCP", "Tx Mem Segs TCP", "1000000", count, WithOwnTCP, "the kernel's segments are the kernel's: net.ipv4.tcp_wmem"),
	inert("VMA_GRO_STREAMS_MAX", "GRO max streams", "32", count, WithOwnTCP, "the kernel does it: ethtool -K gro"),
	inert("VMA_TCP_3T_RULES", "TCP 3T rules", "0", yesOrNo, WithOwnTCP, "steering of offloaded connections").as("0"),
	inert("VMA_TCP_TIMER_RESOLUTION_MSEC", "TCP Timer Resolution (msec)", "100", count, WithOwnTCP, "the kernel's timers are the kernel's"),
	inert("VMA_TCP_CTL_THREAD", "TCP control thread", "0", within(0, 2).words("disable", "delegate", "with_wakeup", "no_wakeup"), WithOwnTCP,
		"the kernel takes control packets by itself").as("0", "disable"),
	inert("VMA_TCP_TIMESTAMP_OPTION", "TCP timestamp option", "0", within(0, 2), WithOwnTCP,
		"the kernel has it for all sockets: net.ipv4.tcp_timestamps").as("2"),
	inert("VMA_TCP_QUICKACK", "TCP quickack", "0", yesOrNo, WithOwnTCP,
		"the kernel forgets TCP_QUICKACK after a while; Socket.SetQuickAck asks once").as("0"),
	inert("VMA_TCP_MAX_SYN_RATE", "TCP max syn rate", "0", within(0, 100_000), WithOwnTCP,
		"the kernel's listeners have SYN cookies and a backlog").as("0"),
	inert("VMA_TSO", "TSO", "1", yesOrNo.words("on", "off", "auto"), WithOwnTCP, "the kernel does it: ethtool -K tso").as("auto"),
}

const noDrain = "a ring has one owner, and no thread empties it beside him; VMA does not either with VMA_SOCKETXTREME, where the " +
	"interval is forced to 0. What he does not poll for waits in the ring (VMA_RX_WRE), what that has no room for is counted as " +
	"xdp.rx_ring_full or xdp.rx_dropped; kernel sockets make progress by themselves; Ring.Advance starts the sends that wait, in a " +
	"long handler, and receives nothing"

const noThread = "there is no internal thread: a ring makes progress when its owner polls, and what the library does beside are goroutines, which " +
	"the Go runtime places"

var threadParameters = []Parameter{
	inert("VMA_INTERNAL_THREAD_AFFINITY", "Internal Thread Affinity", "-1", anyText, NotApplicable, noThread+"; SX_LOOP_CPUS binds reactors").as("-1"),
	inert("VMA_INTERNAL_THREAD_CPUSET", "Internal Thread Cpuset", "", anyText, NotApplicable, noThread).as(""),
	inert("VMA_INTERNAL_THREAD_ARM_CQ", "Internal Thread Arm CQ", "0", yesOrNo, NotApplicable, noThread).as("0"),
	inert("VMA_INTERNAL_THREAD_TCP_TIMER_HANDLING", "Internal Thread TCP Timer Handling", "0", within(0, 1), NotApplicable, noThread).as("0"),
	inert("VMA_TIMER_RESOLUTION_MSEC", "Timer Resolution (msec)", "10", count, Better,
		"a loop's timers have ticks of 65 microseconds, and a ring sleeps until the next deadline"),
	inert("VMA_THREAD_MODE", "Thread mode", "1", within(0, 3), Better,
		"every mode is as fast as 0, single: no lock is taken for packets, and from the first Poll on calls of pollers and sockets from another "+
			"goroutine than the owner's are found and refused (ring.ErrOwner); those of buffers (Pool, Packet) are not looked at: what another "+
			"goroutine is to read and release is lent to it (Packet.Lend)").as("0"),
}

var libraryParameters = []Parameter{
	{Name: "VMA_SPEC", Title: "SPEC", Field: "Profile", State: Partly,
		Effect: "a profile, applied before all other settings: latency, multi_ring_latency, throughput, low-cpu; what each changes, and on which " +
			"rings, is told below",
		access: text(func(s *Settings) *string { return &s.Profile }, "none, latency, multi_ring_latency, throughput or low-cpu", parseProfile)},
	inert("VMA_SOCKETXTREME", "SocketXtreme", "1", yesOrNo, Better, "completions are the API here; 0 is accepted and there is nothing else").
		vma("0").as("1"),
	inert("VMA_HANDLE_SIGINTR", "SigIntr Ctrl-C Handle", "0", yesOrNo, NotApplicable, "signals belong to the program and the Go runtime").as("0"),
	inert("VMA_HANDLE_SIGSEGV", "SegFault Backtrace", "0", yesOrNo, NotApplicable, "the Go runtime prints the stack of the goroutine that failed, and with "+
		"GOTRACEBACK=all those of all others").as("0"),
	inert("VMA_FORK", "fork() support", "1", yesOrNo, NotApplicable,
		"Go programs do not fork without exec, and all descriptors are close-on-exec").as("1"),
	inert("VMA_VMAD_NOTIFY_DIR", "VMAD output directory", "/tmp/vma/", anyText, WithOwnTCP,
		"the kernel ends the connections of a dead process"),
}

var xlioParameters = []Parameter{
	inert("XLIO_LRO", "LRO", "auto", anyText, HardwareOnly, "large receive by ConnectX cards; for the kernel's sockets: ethtool -K lro").
		as("auto"),
	inert("XLIO_MULTILOCK", "Multilock", "0", within(0, 1), NotApplicable, "no lock is taken for packets").as("0"),
	inert("XLIO_NGINX_WORKERS_NUM", "Nginx workers", "0", count, NotApplicable, "several loops or processes share a port with ReusePort").as("0"),
	inert("XLIO_RX_CQ_WAIT_CTRL", "Rx CQ wait ctrl", "0", yesOrNo, NotApplicable, "sockets have no epoll sets of their own: a poller sleeps on its rings, however "+
		"many sockets they have"),
	inert("XLIO_SKIP_POLL_IN_RX", "Skip poll in rx", "0", within(0, 2), NotApplicable, "a receive call does not poll: Poll does").as("1"),
	inert("XLIO_TCP_2T_RULES", "TCP 2T rules", "0", yesOrNo, WithOwnTCP, "steering of offloaded connections").as("0"),
	inert("XLIO_TCP_SEND_BUFFER_SIZE", "TCP send buffer size", "1048576", size(1<<31-1), WithOwnTCP, "of kernel sockets: the option SendBuffer"),
	inert("XLIO_TX_BUF_SIZE", "Tx Mem Buf size", "0", size(256<<10), NotApplicable, "buffers are of about 2 KiB and of 64 KiB").
		old("XLIO_TX_BUFFER_SIZE"),
}
