// Package malformed is the ways in which frames with ARP, IPv4, UDP, ICMP or IGMP can be wrong, one frame for each, with the reason for
// which a stack drops it: tests of every layer go through the same list, and fuzzers start from it. Some frames are odd and legal:
// they are here because a stack that drops those is wrong too.
//
// The frames are for an untagged Ethernet interface with an MTU of 1,500. Nobody imports this package but tests.
package malformed

import (
	"encoding/binary"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Station is one end of the frames.
type Station struct {
	MAC  wire.MAC
	Addr wire.Addr
	Port uint16
}

// Frame is one of the list.
type Frame struct {
	Class   string // what kind of fault it is: several frames may be of one
	Name    string // and this one of the kind
	Bytes   []byte
	Want    wire.Drop // Accept: legal
	Payload string    // of a legal datagram, which is to be delivered; empty when there is nothing to deliver
}

// Frames is the list: frames from one station to the other, which has a UDP socket on its port and no other, and is a member of no group.
func Frames(from, to Station) (list []Frame) {
	f := frames{from: from, to: to}
	for _, part := range []func(){f.ethernet, f.lengths, f.header, f.addresses, f.fragments, f.options, f.udp, f.arp, f.icmp, f.igmp} {
		part()
	}
	return f.list
}

// text is the payload of the good datagram; its length is a multiple of 8, so that it may be a fragment.
const text = "datagram"

type frames struct {
	from, to Station
	class    string
	list     []Frame
}

func (f *frames) add(name string, want wire.Drop, b []byte) {
	f.list = append(f.list, Frame{Class: f.class, Name: name, Bytes: b, Want: want})
}

// legal adds a datagram that is to be delivered.
func (f *frames) legal(name, payload string, b []byte) {
	f.list = append(f.list, Frame{Class: f.class, Name: name, Bytes: b, Payload: payload})
}

const (
	ip  = wire.EthernetLen // where the IPv4 header begins
	udp = ip + wire.IPv4Len
)

// segment is a UDP datagram with the right sum.
func (f *frames) segment(payload string) []byte {
	h := wire.UDPFields{SourcePort: f.from.Port, TargetPort: f.to.Port}
	return must(h.Append(nil, f.from.Addr, f.to.Addr, []byte(payload)))
}

// good is the frame that all others differ from.
func (f *frames) good() []byte { return f.packet(wire.ProtocolUDP, f.segment(text)) }

// packet is a frame around an IPv4 payload.
func (f *frames) packet(protocol uint8, payload []byte, options ...byte) []byte {
	e := wire.EthernetFields{Target: f.to.MAC, Source: f.from.MAC, Type: wire.TypeIPv4}
	h := wire.IPv4Fields{TTL: 64, Protocol: protocol, Source: f.from.Addr, Target: f.to.Addr, Options: options}
	return append(must(h.Append(e.Append(nil), len(payload))), payload...)
}

// edit changes bytes of the good frame's IPv4 header and makes its sum right again.
func (f *frames) edit(at int, with ...byte) []byte {
	return fixHeaderSum(edited(f.good(), ip+at, with...))
}

func edited(b []byte, at int, with ...byte) []byte {
	copy(b[at:], with)
	return b
}

// fixHeaderSum makes the sum of an IPv4 header right: over the bytes that the length field counts and the frame has. A header that ends before
// the sum field has none.
func fixHeaderSum(b []byte) []byte {
	h := b[ip:min(len(b), ip+int(b[ip]&15)*4)]
	if len(h) >= 12 { // the sum is bytes 10 and 11
		h[10], h[11] = 0, 0
		binary.BigEndian.PutUint16(h[10:], wire.Sum(0).Add(h).Check())
	}
	return b
}

// withMessageSum makes the sum of an ICMP or IGMP message right.
func withMessageSum(b ...byte) []byte {
	b[2], b[3] = 0, 0
	binary.BigEndian.PutUint16(b[2:], wire.Sum(0).Add(b).Check())
	return b
}

// padded appends n bytes to a frame that its headers do not count.
func padded(b []byte, n int) []byte { return append(b, make([]byte, n)...) }

// must returns b and panics on an error, which cannot happen with this package's constants.
func must(b []byte, err error) []byte {
	if err != nil {
		panic(err) // the fields are constants of this package
	}
	return b
}
