// Package hoststat reads what the kernel counts of packets on their way to a ring, and what keeps a polling goroutine from running: interfaces
// and their cards, softirq, IP and UDP, memberships, processors, page faults, collections. Package xtreme asks it once a second, outside of
// polling goroutines, for the statistics file.
//
// A Reader sees the network namespace of the thread that opened it, from whatever thread it is read: the files of /proc/net stay those of the
// namespace that they were opened in, and so do sockets. /sys is not read, because it shows the namespace of who mounted it.
//
//	what                                from                              names
//	interfaces                          /proc/net/dev                     eth0.rx_packets, eth0.rx_dropped …
//	cards, drops and errors alone       ETHTOOL_GSTATS (ethtool -S)       eth0.ethtool.rx_out_of_buffer …
//	memberships                         /proc/net/igmp                    eth0.groups
//	softirq, all processors             /proc/net/softnet_stat            softnet.dropped, softnet.time_squeeze …
//	IP, UDP, TCP                        /proc/net/snmp, /proc/net/netstat ip.InReceives, udp.RcvbufErrors …
//	threads of the process              /proc/self/task/*/schedstat       process.run_delay …
//	page faults and switches            getrusage                         process.page_faults …
//	collections                         runtime/metrics                   process.gc_cycles
//	processors                          /proc/stat                        cpu.steal
//
// Changes of interfaces come at once, by a netlink socket that never waits (Links).
package hoststat
