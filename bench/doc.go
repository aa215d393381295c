// Command bench measures SocketXtreme beside its peers on this machine, and says how many times better it is.
//
//	go run ./bench                          every row, goals judged
//	go run ./bench -quick                   every row for a moment: shape and losses only, about a minute
//	go run ./bench -run 'tcp.*gnet'         the rows whose name matches
//	go run ./bench -json out.json           the same, for programs
//	go run ./bench -ours net,c-epoll        any servers in place of ours
//
// One row compares two servers under one workload. Server and client are separate processes, each on its own CPU. The
// client is a spinning C program, the same for every server (of the server's own kind, where a row compares both ends);
// it checks that each message comes back once, in order and unchanged. The two servers take turns, round after round, because
// a machine's mood lasts longer than a round: the ratio is taken within each round and the row reports the median of these
// ratios and their spread.
//
// Rows named udp-veth run between two network namespaces that the run makes, with our own stack, the kernel's sockets or AF_XDP by hand at
// the ends; they need root.
//
// The ratio is always "times better than the peer": peer ÷ ours for latency and CPU time, ours ÷ peer for rates. A goal
// is met when the ratio reaches it.
//
// Package harness measures and judges, package peers declares what is compared, package rows by which workloads and goals: a peer or a family
// of rows is one file there. The same binary contains the Go peers, as sub-commands (bench peer net …, bench peer gnet …). The C sources are
// embedded and compiled with gcc at the start of a run. README.md explains the method and the protocol between harness
// and server.
package main
