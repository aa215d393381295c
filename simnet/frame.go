package simnet

import (
	"encoding/binary"
	"strings"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Kind is a set of kinds of frame, for impairments that are to hit some only.
type Kind uint16

// The kinds of frame.
const (
	ARP       Kind = 1 << iota
	Unicast        // UDP to one host
	Multicast      // UDP to a group or a broadcast address
	ICMP
	IGMP
	Other   // everything else
	TCPSyn  // TCP: segments with SYN
	TCPFin  // with FIN and without SYN
	TCPRst  // with RST
	TCPData // with payload and none of these
	TCPAck  // all others

	TCP      = TCPSyn | TCPFin | TCPRst | TCPData | TCPAck
	AllKinds = ARP | Unicast | Multicast | ICMP | IGMP | Other | TCP
)

var kindNames = [...]string{"arp", "unicast", "multicast", "icmp", "igmp", "other", "tcp.syn", "tcp.fin", "tcp.rst", "tcp.data", "tcp.ack"}

// String lists the kinds.
func (k Kind) String() string {
	var list []string
	for i, name := range kindNames {
		if k&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return strings.Join(list, ",")
}

// kindOf classifies a frame as its sender made it.
func kindOf(b []byte) Kind {
	const proto, target = 23, 30 // offsets in a frame without a tag
	switch {
	case len(b) < 34:
		return Other
	case binary.BigEndian.Uint16(b[12:]) == wire.TypeARP:
		return ARP
	case binary.BigEndian.Uint16(b[12:]) != wire.TypeIPv4:
		return Other
	}
	switch b[proto] {
	case wire.ProtocolICMP:
		return ICMP
	case wire.ProtocolIGMP:
		return IGMP
	case wire.ProtocolTCP:
		return kindOfTCP(b)
	case wire.ProtocolUDP:
		if b[target] >= 224 || b[0]&1 != 0 {
			return Multicast
		}
		return Unicast
	}
	return Other
}

// kindOfTCP classifies a frame that has a TCP segment, by its flags and whether it has data.
func kindOfTCP(b []byte) Kind {
	_, _, segment, d := wire.ParseIPv4(b[14:])
	if d != wire.Accept {
		return Other
	}
	h, _, payload, d := wire.ParseTCP(segment)
	if d != wire.Accept {
		return Other
	}
	switch f := h.Flags(); {
	case f&wire.TCPRst != 0:
		return TCPRst
	case f&wire.TCPSyn != 0:
		return TCPSyn
	case f&wire.TCPFin != 0:
		return TCPFin
	case len(payload) > 0:
		return TCPData
	}
	return TCPAck
}

// frame is an Ethernet frame on its way. Several places may share one: nobody writes to it but makes a copy.
type frame struct {
	b       []byte
	refs    int32
	kind    Kind  // as it was sent
	spoiled int32 // where a line flipped a bit; cut: it was shortened; whole: neither
}

// What spoiled says beside a place.
const (
	whole int32 = -1
	cut   int32 = -2
)

// newFrame returns a frame of n bytes with one reference.
func (w *World) newFrame(n int) *frame {
	w.alive++
	if k := len(w.spare); k > 0 {
		f := w.spare[k-1]
		w.spare = w.spare[:k-1]
		if cap(f.b) < n {
			f.b = make([]byte, n)
		}
		f.b, f.refs, f.kind, f.spoiled = f.b[:n], 1, 0, whole
		return f
	}
	return &frame{b: make([]byte, n, max(n, 256)), refs: 1, spoiled: whole}
}

// releaseFrame drops one reference to a frame, whose memory is used again after the last.
func (w *World) releaseFrame(f *frame) {
	if f.refs--; f.refs == 0 {
		w.alive--
		w.spare = append(w.spare, f)
	}
}

// unshared returns a frame that may be changed: f itself, or a copy if others have references to it.
func (w *World) unshared(f *frame) *frame {
	if f.refs == 1 {
		return f
	}
	c := w.newFrame(len(f.b))
	copy(c.b, f.b)
	c.kind, c.spoiled = f.kind, f.spoiled
	w.releaseFrame(f)
	return c
}
