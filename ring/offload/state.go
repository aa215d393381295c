package offload

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/record"
	"github.com/socketxtreme/socketxtreme/ring/offload/flowrecord"
	"github.com/socketxtreme/socketxtreme/ring/offload/handoff"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/offload/shadow"
	"github.com/socketxtreme/socketxtreme/ring/offload/steering"
	"github.com/socketxtreme/socketxtreme/ring/transport/stack"
	"github.com/socketxtreme/socketxtreme/ring/transport/stream"
	"github.com/socketxtreme/socketxtreme/udp"
)

// driver is the ring.Driver of this package.
type driver struct {
	turn             turnClock
	sleep            sleeper
	config           Config
	memoryHost       *MemoryHost // takes the kernel's place; nil beside a kernel
	pool             *buffers.DriverPool
	ip               *ip.Stack
	udp              *udp.Protocol
	transport        *stack.Transport  // of the UDP sockets that the stack carries
	streams          *stream.Transport // of its TCP sockets; nil: it carries none, or none yet
	kernelPorts      *KernelPorts      // what keeps their ports; nil: memoryHost does
	viaKernel        kernelStreams     // TCP sockets that the kernel carries
	icmp             icmpErrors        // ICMP errors for the stack's TCP
	flowRecord       *flowrecord.Record
	unrecorded       ring.Reason    // why there is none, where there should be one
	links            []placedLink   // the flat list of package nic
	streamClaims     []*streamClaim // of TCP, by number - 1
	freeStreamClaims []int32
	moves            moves   // connections that move into the kernel and back
	mirror           *mirror // of the kernel's tables; nil without a kernel
	system           *System
	lowerTransport   ring.Transport // the sockets under the stack
	unwatch          func()

	table   table
	resumed []*entry // sockets whose kept datagrams are to be delivered

	flights flights

	outstanding bool // links may have frames that have not come back

	claims  *steering.Table
	shadows shadows
	sending sendQueue
	burst   burst

	// What the driver has of its exchange.
	nics          *nic.Attachments
	changed       []int                // interfaces whose sockets are to receive PATH
	linkState     map[string]string    // what was reported last of each interface (Config.LinkChanged)
	number        int                  // of this driver there
	others        *shadow.OtherSockets // of other sockets of this host
	othersVersion uint64               // version of that
	handoff       *handoff.Port
	ties          []*nic.Job // that make again what sockets had of interfaces that were made again, in this order

	coalescing  coalescing
	earlyError  error // of FlushEarlier: the next flush returns it
	notifyPaths bool  // paths have changed: sockets are to receive PATH at the end of the turn
	stats       stats
}

// stats are the driver's counters, beside those of the stack, the links and the ring.
type stats struct {
	ShadowPackets   uint64 // delivered from the kernel's side
	ShadowReads     uint64 // times that the kernel's side was looked at
	ShadowNotJoined uint64 // datagrams there of groups that the socket had not joined, see isNotJoined
	KernelSends     uint64 // datagrams sent by the socket's descriptor, also those that the core sends by it
	Declined        uint64 // destinations that were left to the kernel, see Config.Sender
	LostSends       uint64 // copies that could not be sent after Send had taken them
	Gathered        uint64 // sends of several buffers, copied into one
	PathChanges     uint64 // links that went, or came back
	FlushFailures   uint64 // an interface was down or gone
}

// placedLink is the link at a place of the flat list.
type placedLink struct {
	Link        link.Link
	tap         *record.Tap // records its frames; nil without Config.Record
	Index       int         // of the interface in the host's tables
	VLAN        uint16
	Checksum    udp.Policy
	flushFailed bool         // its last Flush failed
	heldBack    bool         // nothing leaves by it because its interface was down, see holdBack
	former      formerCounts // of links that were there before
}

// burst is the memory of one burst of frames.
type burst struct {
	frames [ip.MaxBurst]link.Frame
	dones  [ip.MaxBurst]link.Done
	meta   ring.Meta
	fast   [udp.NumFastFlows]fastMeta
}
