package offload

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/record"
	"github.com/socketxtreme/socketxtreme/ring/offload/handoff"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/offload/steering"
	"github.com/socketxtreme/socketxtreme/ring/transport/stack"
	"github.com/socketxtreme/socketxtreme/udp"
)

// driver is the ring.Driver of this package. What each Poll reads comes first; a part's methods are in the file that is named beside it.
type driver struct {
	turn        turnClock // turn.go
	ip          *ip.Stack
	udp         *udp.Protocol
	pool        *buffers.DriverPool
	transport   *stack.Transport // of the UDP sockets that the stack carries
	links       []placedLink     // the flat list of package nic
	table       table            // table.go
	outstanding bool             // links may have frames that have not come back
	earlyError  error            // of FlushEarlier: the next flush returns it
	flights     flights          // flights.go
	sending     sendQueue        // sendqueue.go
	coalescing  coalescing       // coalesce.go
	resumed     []*entry         // sockets whose kept datagrams are to be delivered
	handoff     *handoff.Port
	paths       pathChanges  // pathchanges.go
	below       below        // below.go
	others      otherSockets // othermembers.go
	shadows     shadows      // shadow.go
	sleep       sleeper      // sleeper.go, armlinks.go
	tcp         streamPart   // streams.go

	nics   *nic.Attachments
	claims *steering.Table
	ties   ties // rejoin.go
	number int  // of this driver on its exchange
	config Config
	stats  stats
	burst  burst
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
