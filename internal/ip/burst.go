package ip

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Frame is a received frame, Clock what took its time stamp: the link's, so that none is copied from one type to another on its way.
type (
	Frame = link.Frame
	Clock = link.Clock
)

// MaxBurst is the most frames that Input takes at once.
const MaxBurst = 64

// Burst is frames of one link that came together. The stack reads the headers of all of them first; then each protocol takes its own, in
// two passes of its own: it looks the sockets up, and only then processes, so that cache misses overlap.
type Burst struct {
	Link     int            // the place of the link
	Checksum ChecksumPolicy // of that link
	Frames   []Frame        // as received; those of a protocol are its own
	Packets  []Parsed       // what the stack found in them, by the same index

	parsed [MaxBurst]Parsed
}

// Parsed is what the stack found in a frame. It is as long as a cache line.
type Parsed struct {
	Flow     Flow      // addresses and interface; the protocol adds its ports
	Frame    []byte    // from the Ethernet header on, in one piece
	First    int32     // First and Count are the protocol's own: what its lookup found. In a control message First is its kind
	Count    int32     //
	end      uint32    // where in Frame the IPv4 packet ends
	net      uint8     // where the IPv4 or ARP packet begins
	payload  uint8     // where its payload begins
	Protocol uint8     // to which the packet goes; 0: to none
	turn     uint8     // the bit of the pass of Input that handles the frame
	Drop     wire.Drop // why the packet is dropped, if it is; a protocol stores its own reasons
	To       AddressKind
	// LinkGroup is set when the frame was addressed to more than one station.
	LinkGroup bool
}

// Flow is what demultiplexing looks at in a received packet. The source is the peer.
type Flow struct {
	Source, Target         wire.Addr
	SourcePort, TargetPort uint16
	Interface              uint32 // index of the one it came in on
}

// IPv4 is the packet's header, Packet the whole of it, Payload what is behind the header, cut to the packet's length.
func (p *Parsed) IPv4() *wire.IPv4 { return (*wire.IPv4)(p.Frame[p.net:]) }
func (p *Parsed) Packet() []byte   { return p.Frame[p.net:p.end] }
func (p *Parsed) Payload() []byte  { return p.Frame[p.payload:p.end] }

// PayloadOffset is where the payload begins in the frame.
func (p *Parsed) PayloadOffset() int { return int(p.payload) }

// Release returns packet n to the pool. A received packet has no other reference.
func (b *Burst) Release(n int) {
	_ = b.Frames[n].Packet.Release() // received, alone
	b.Frames[n].Packet = buffers.Packet{}
}
