package ring

import (
	"net/netip"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// Completion is one entry that Poll returns. Every field is valid or zero: Poll writes the whole struct, so nothing of an
// earlier use of the caller's slice shines through (VMA leaves stale fields, vma_extra.h socketxtreme_poll).
type Completion struct {
	Events      Event
	UserData    uint64         // the socket's user data when the event was first raised
	Socket      *Socket        // whose event this is
	Listener    *Socket        // with EventNewConnection: where the connection came in
	Packet      buffers.Packet // with EventPacket: data, the caller's until Release
	Source      netip.AddrPort // sender of the packet, or the peer of the connection
	Destination netip.AddrPort // where the packet was sent to; the zero Addr where the ring cannot know
	IfIndex     uint32         // interface the packet came in on; 0 where the ring cannot know
	ViaKernel   bool           // on an offloaded socket: the packet came through the kernel's socket beside it
	// With EventSent and EventTxTimestamp: as given to SendPacket; EventTxTimestamp of other sends: their number, from 0.
	Token uint64
	Time  Stamp // when the packet arrived, or left (EventTxTimestamp); zero unless timestamps were asked for
	Err   error // why, with EventErr or EventHup; ErrTruncated with a packet that was cut
}

// StampSource says which clock took a timestamp.
type StampSource uint8

// The sources of a timestamp.
const (
	StampNone        StampSource = iota // no timestamp
	StampSoftware                       // the kernel, on receipt of the frame (SO_TIMESTAMPNS, CLOCK_REALTIME)
	StampPoll                           // the ring, when it took the frame from the link
	StampLink                           // the link, when the frame came in: the kernel's XDP program
	StampHardware                       // the network card, on the system's clock: see HardwareTimestamps
	StampRawHardware                    // the network card, as its own clock counts: not since the Unix epoch
)

var stampNames = [...]string{"none", "software", "poll", "link", "hardware", "card"}

// String is the value in words.
func (s StampSource) String() string {
	if int(s) < len(stampNames) {
		return stampNames[s]
	}
	return itoa(int(s))
}

// Stamp is the arrival time of a packet.
type Stamp struct {
	Nanos  int64 // since the Unix epoch, but for StampRawHardware
	Source StampSource
}

// IsZero reports that there is no timestamp.
func (s Stamp) IsZero() bool { return s.Source == StampNone }

// Time is the stamp as a time.Time; the zero Time when there is none, or when it is StampRawHardware, which has no place in the calendar.
func (s Stamp) Time() time.Time {
	if s.IsZero() || s.Source == StampRawHardware {
		return time.Time{}
	}
	return time.Unix(0, s.Nanos)
}
