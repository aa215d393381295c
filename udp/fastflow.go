package udp

import (
	"encoding/binary"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/ip"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// A fast flow is what was found for a datagram that went to one socket of this stack: datagrams of the same flow need no lookup, and no look at
// their addresses. Input remembers the flow of the first frame of each burst that it is given; MatchFast finds it by the frame's own bytes.
//
//	frame     0        6        12       14       16      20       23      26        34      38      40    42
//	          | target | source | 0x0800 | 45 tos | total | fragm. | proto | addrs   | ports | length| sum | payload
//	compared    flow     group    both              both    both     both    flow      flow
//	proven                                          length  DF only  UDP                     length  sum
//
// Whatever is not like that (a tag, options, a fragment, a wrong sum, another flow) is Input's: it counts what it drops. A flow is stale when
// sockets, memberships, addresses or links have changed.
type FastFlow struct {
	Owner   uint64          // of the socket, as Delivery.Owner
	Account buffers.Account // of the socket
	ID      ID
	Slot    int32 // of the flow in the table, below NumFastFlows
	Flow    Flow

	addrs      uint64 // as the frame has them
	station    uint64 // the frame's target station
	ports      uint32 // as the frame has them
	link       int32
	generation uint64 // Protocol.fastGeneration when it was remembered
}

// NumFastFlows is how many flows are remembered: one for each hash, the newest has the place. FastOffset is where their payloads begin.
const (
	NumFastFlows = 128
	FastOffset   = wire.EthernetLen + wire.IPv4Len + wire.UDPLen
)

// Places in a frame of Ethernet, IPv4 without options and UDP, and the marks of such a frame as it has them.
const (
	frameType     = 12
	frameTotal    = 16
	frameFragment = 20
	frameAddrs    = 26
	framePorts    = 34
	frameLength   = 38

	stationMask  = 1<<48 - 1
	groupBit     = 1 << 48     // of the source station: no station has such an address
	typeMask     = 0x00ff_ffff // 08 00 45, not the type of service
	typeIPv4     = 0x0045_0008 //
	fragmentMask = 0xff00_ffbf // all of flags and offset but DF, and the protocol
	fragmentUDP  = 0x1100_0000 //
	ttlMask      = 0x00ff_0000 //
)

// CanMatch reports whether MatchFast may be asked for frames of a link, for one burst: not where tags are expected, where a bond does not
// receive all, or where other rings have sockets too.
func (u *Protocol) CanMatch(link int) bool {
	return u.fastKnown && u.stack.ReceivesAll(link) && (u.directory == nil || u.directory.current.Load() == nil)
}

// MatchFast finds the remembered flow of a frame of a link, verifies the frame's lengths and checksums, and returns the length of its payload,
// which begins at FastOffset. nil: the frame must go through Input. Flows of sockets that do not read are not matched.
func (u *Protocol) MatchFast(link int, frame []byte) (*FastFlow, int) {
	if len(frame) < FastOffset {
		return nil, 0
	}
	h := (*[FastOffset]byte)(frame)
	addrs, ports := binary.LittleEndian.Uint64(h[frameAddrs:]), binary.LittleEndian.Uint32(h[framePorts:])
	x := &u.fast[fastPlace(addrs, ports)]
	station := binary.LittleEndian.Uint64(h[:])
	fragment := binary.LittleEndian.Uint32(h[frameFragment:])
	if x.addrs != addrs || x.ports != ports || x.generation != u.fastGeneration || x.link != int32(link) ||
		station&(stationMask|groupBit) != x.station ||
		binary.LittleEndian.Uint32(h[frameType:])&typeMask != typeIPv4 ||
		fragment&fragmentMask != fragmentUDP || fragment&ttlMask == 0 || u.table.Stopped(x.ID) {
		return nil, 0
	}
	total, length := int(binary.BigEndian.Uint16(h[frameTotal:])), int(binary.BigEndian.Uint16(h[frameLength:]))
	if total > len(frame)-wire.EthernetLen || length < wire.UDPLen || length > total-wire.IPv4Len {
		return nil, 0
	}
	if !wire.Sum(0).AddIPv4((*wire.IPv4)(h[wire.EthernetLen:])).Valid() {
		return nil, 0
	}
	u.fastPartial = 0
	if policy := u.stack.Interface(link).Checksum; policy != Off {
		switch wire.CheckInPacket(frame[frameAddrs : framePorts+length]) {
		case wire.SumGood, wire.SumNone:
		case wire.SumPartial:
			if policy != AcceptPartial {
				return nil, 0
			}
			u.fastPartial = 1
		default:
			return nil, 0
		}
	}
	return x, length - wire.UDPLen
}

// CountFast counts the datagram that MatchFast matched last: it was delivered.
func (u *Protocol) CountFast() {
	u.stats.Delivered++
	u.stats.Partial += u.fastPartial
}

// fastPlace is the place of a flow in Protocol.fast, by hash of its addresses and ports.
func fastPlace(addrs uint64, ports uint32) uint64 {
	const odd = 0x9e3779b97f4a7c15
	return (addrs ^ uint64(ports)*odd) * odd >> 57
}

// rememberFlow keeps the flow of a datagram that was delivered to one socket of this stack, for MatchFast.
func (u *Protocol) rememberFlow(b *ip.Burst, p *ip.Parsed, id ID) {
	if p.PayloadOffset() != FastOffset-wire.UDPLen || len(p.Frame) < FastOffset {
		return // a tag, or options
	}
	h := (*[FastOffset]byte)(p.Frame)
	addrs, ports := binary.LittleEndian.Uint64(h[frameAddrs:]), binary.LittleEndian.Uint32(h[framePorts:])
	i := fastPlace(addrs, ports)
	owner, account, _ := u.table.Receiver(id)
	u.fast[i] = FastFlow{Owner: owner, Account: account, ID: id, Slot: int32(i), Flow: p.Flow, addrs: addrs, ports: ports, link: int32(b.Link),
		station: binary.LittleEndian.Uint64(h[:]) & stationMask, generation: u.fastGeneration}
	u.fastKnown = true
}

// forgetFlows makes all fast flows stale.
func (u *Protocol) forgetFlows() {
	u.fastGeneration++
	u.fastKnown = false
}
