// Package xdp carries frames by AF_XDP: a queue of a network interface is a link.
//
// # Four rings
//
// A queue shares four rings with the kernel (or, in zero-copy mode, with the card). Two carry what is received, two what is sent; of each
// pair one goes down with buffers and one comes up:
//
//	  buffers of the pool                     kernel, card
//
//	    free ──Take──►  ┌──────────────┐
//	                    │ fill         │ ──►  empty buffers
//	                    └──────────────┘          │ a frame comes in
//	received ◄──Fill──  ┌──────────────┐          ▼
//	                    │ receive (rx) │ ◄──  filled
//	                    └──────────────┘
//	 transmitting ────► ┌──────────────┐
//	                    │ transmit (tx)│ ──►  to be sent
//	                    └──────────────┘          │ the frame is out
//	   free ◄─Complete─ ┌──────────────┐          ▼
//	                    │ completion   │ ◄──  done with
//	                    └──────────────┘
//
// Entries are places in the memory that was registered, which is the very region of the pool: a received frame is a packet without a
// copy of ours, and a frame is sent from where it was built. The chunks are of any size and begin anywhere ("unaligned"), so that the
// pool's strides, odd multiples of 64, fit.
//
// # Use
//
//	dev, err := xdp.Open(xdp.Config{Interface: "eth0"})  // program on the interface; takes nothing yet
//	q, err := dev.OpenQueue(dev.Queues()[0], pool)       // a link.Link, for the pool's owner
//	err = dev.Claim(link.Flow{Protocol: link.UDP, Local: netip.MustParseAddrPort("10.0.0.1:9000")})
//
// What is not claimed, and all that is not UDP in IPv4 (ARP, ICMP, IGMP, fragments, IPv6), stays the kernel's. When the process ends, in
// whatever way, the program goes with it. The interface's firewall, tc rules and tcpdump do not see claimed packets, nor sent ones.
//
// # What is chosen, and told
//
// Path tells mode (native or generic), copying, frames of several buffers and the clock that stamps, with a reason for whatever was not
// had. On a veth the generic mode is the faster one and zero-copy does not exist. An error of Open or OpenQueue is a *link.Refusal
// whose code says why there is no link: xdp.no_capability, xdp.busy (with program and process where they can be seen), xdp.no_kernel.
//
// # Queues
//
// A frame can be taken only by the socket of the queue it came in on, and in generic mode too frames come in on several: a veth leaves
// the sender's transmit queue in the frame, and the receiving side reads it as one more than a receive queue. So all queues of
// Device.Queues must be open for every claimed frame to arrive; one owner may open several over one pool, or the interface be given one
// queue (ethtool -L IF rx 1). What comes in elsewhere goes to the kernel and is counted (steer.no_queue, Device.Strayed). On cards that
// have receive rules, Device.Steer sends a flow to a dedicated queue.
//
// # Limits
//
// A VLAN tag that the sender or the card keeps outside the frame is invisible to the program: frames of a VLAN look untagged, unless
// that offload is off (ethtool -K IF rxvlan off). A veth peer's checksums are unfinished (see its tx offload): verifying, and the rule
// for that case, are the stack's. Datagrams that a veth peer sends joined (UDP_SEGMENT) pass to the kernel, which cuts them, if together they
// are longer than the MTU (steer.oversize); shorter ones cannot be told from one datagram in generic mode, so such a peer should have that
// offload off (ethtool -K PEER tx-udp-segmentation off). Joined TCP is taken whole: a stream has no boundaries. The MTU is that of the time of
// Open: after it grew, longer frames are the kernel's.
//
// Zero-copy, hardware stamps and several hardware queues are written by the kernel's documentation and unproven on cards.
//
// Kernel interfaces: Documentation/networking/af_xdp.rst, include/uapi/linux/if_xdp.h; privileges: CAP_NET_RAW for the socket, CAP_BPF
// and CAP_NET_ADMIN for the program, memory up to RLIMIT_MEMLOCK or CAP_IPC_LOCK.
package xdp
