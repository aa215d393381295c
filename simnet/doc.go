// Package simnet is a network in virtual time, for tests: hosts with the production stack, switches, and cables that delay, lose,
// double, reorder and change frames as the test says. A program's handlers run in it under go test without waiting for
// anything, and the same seed gives the same run, frame by frame, on every machine.
//
//	w := simnet.New(1)                                                 // the seed
//	a, err := w.Host("a", simnet.HostConfig{Addrs: …})                 // eth0, and more
//	cable, err := w.Connect(a.NIC(0), b.NIC(0))
//	err = cable.AB.Set(simnet.Impairment{Delay: time.Millisecond, Loss: 0.01})
//	s, err := a.OpenUDP(netip.MustParseAddrPort("10.0.0.1:7000"), ring.Config{})
//	a.Handle(func(c *ring.Completion) { … c.Packet.Release() })
//	a.After(time.Second, func() { s.SendTo(…) })
//	err = w.Run(time.Minute)                                           // virtual
//	err = w.Close()                                                    // every buffer is back in the pool
//
// # What is real and what is not
//
// A host is a ring.Set with the driver of package ring/offload on its own pool: sockets, completions, budgets, the UDP stack, ARP, ICMP and
// IGMP are those of production. Simulated are the cards ([NIC]), the wires ([Line], [Switch]) and the clock. Computing takes no virtual
// time: HostConfig.Latency and [Host.Pause] are there to take some.
//
//	application: Handle, After
//	      │ ring.Socket, ring.Completion
//	ring ── ring/offload ── udp ── internal/ip             as in production
//	      │ link.Link
//	     NIC ── Line ── Switch ── Line ── NIC              simulated
//
// The stack speaks UDP over IPv4. A host gives out ring.Sockets, not an xtreme.Poller: a poller is made from the kernel's interfaces.
//
// A [RawEnd] is an end of a cable without a stack: the caller's function takes its frames and sends any. Package tcp is simulated on such ends.
//
// # Machines with a kernel
//
// A [Kernel] is a machine whose addresses, routes, neighbours, interfaces, memberships and UDP sockets belong to a simulated kernel. Its rings
// ([Kernel.Host]) are Hosts too, several on one machine, each with the driver as it ships: package nic attaches it to the interfaces, package
// steering claims flows, package shadow keeps a kernel socket beside each of its sockets, and internal/host mirrors the kernel's tables.
//
//	application: Handle, After                      other programs: Kernel.OpenUDP
//	      │                                               │
//	ring ── ring/offload ── nic, steering, shadow         │        as in production
//	      │ link.Staged     │ nic.Device   │ shadow.Kernel, ring.Transport, host.Steps
//	   queues ── steering program ── UDP sockets, tables, neighbours      simulated: Kernel
//	                  │
//	              KernelNIC ── Line                                       simulated
//
// What a program does to its machine is done to a [KernelNIC]: down and up, without carrier, deleted and made again with another number,
// the rings' program taken off or another one in its place, addresses taken away. The mirror follows the tables after a delay, a claim has
// effect after a delay, and what rings leave to other goroutines (jobs) is done at one moment after a delay: all of them are drawn from the
// seed. The model has no fragments, no VLANs, no bonds and no ICMP but unreachable ports; a socket's options are those that concern who
// receives.
//
// # Time
//
// [World.Run] takes events one by one, by time and then by the order in which they were scheduled; nothing runs beside. A world belongs to
// one goroutine, the one that runs it first; several worlds may run at the same time. Worlds begin on 2026-01-01 00:00 UTC. The clocks of
// all cards and hosts show the same; a socket with Config.Timestamps and a Config.HardwareTimestamps receives the time at which its datagrams
// arrived at the card (ring.StampHardware), one with Timestamps alone when the host polled.
//
// Code under test must take its time from [World.Now] and its timers from [Host.After]. Socket.SetReadDeadline and SetWriteDeadline
// count from the system's clock and have no place here, nor have goroutines, and maps that are walked: their order is another each
// time.
//
// # Randomness
//
// All chance comes from the seed, through streams with names ([World.Rand]). What becomes of the n-th frame of a line depends on the
// seed, the line's name, n and the one impairment in question: another host, or another impairment, moves nothing else.
//
// # Impairments
//
// Each direction of a cable has its own [Impairment], which may change at any time ([Line.Set] in [World.At]): delay, jitter, rate and
// queue, losses (one by one, in bursts, each n-th, by kind of frame), duplicates, reordering, flipped bits, cut frames, a smaller MTU,
// silence. A partition is both directions down. Each lost frame is counted with its [Cause]. A frame is spoiled once on its way at
// most: one flipped bit is what the checksums find for certain.
//
// # Books
//
// [World.Run] ends with [World.Audit]: frames sent are frames that arrived, are lost for a cause or are on their way, for each line,
// switch and card. Lines keep order but where they reorder. A host that polls without end is a livelock. A panic is an error.
// [World.Close] finds buffers that are not back in the pool.
//
// # Seeds
//
// A [Trial] is a property that is to hold for every seed: operations drawn from it, and a run. [Explore] runs many seeds, each twice, and
// compares the traces ([World.Hash]). When one fails, it leaves operations out as long as the run still fails ([Shrink]), and prints the
// seed, what is left, and how to run it again:
//
//	simnet.Explore(t, simnet.Trial[op]{Count: 1000, Generate: generate, Run: run})
//
//	seed 25: at 2.31s: order: …
//	3 of 640 operations are enough:
//		…
//	again: SIMNET_SEED=25 go test -run '^TestOrders$'
//
// Operations must be such that each can be left out, and name what they are about ("host 2") rather than hold it.
//
// The package's own trials are TestSeeds, over hosts without a kernel, and TestKernelSeeds, over machines with one. Bugs are planted into both
// (TestPlantedBugsAreFound, TestPlantedBugsOnAKernelAreFound), and each must be found under the name of the invariant that it breaks.
//
// To see what happened, [World.SetLog] writes a line for each frame and completion, and [World.Capture] a pcapng file with both ends of
// each line.
package simnet
