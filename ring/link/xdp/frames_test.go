package xdp

import (
	"encoding/binary"
	"net/netip"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// packet describes a frame of the tests; bytes builds it. Zero fields are what is usual.
type packet struct {
	dstMAC, srcMAC [6]byte
	tags           []uint32 // ethertype << 16 | tci, outermost first
	ethertype      uint16
	version        uint8
	ihl            uint8
	fragment       uint16
	protocol       uint8
	src, dst       netip.AddrPort
	payload        []byte
	total          uint16 // length that the IPv4 header tells, if not the true one
	cut            int    // bytes missing at the end
}

func (p packet) bytes() []byte {
	if p.ethertype == 0 {
		p.ethertype = 0x0800
	}
	if p.version == 0 {
		p.version = 4
	}
	if p.ihl == 0 {
		p.ihl = 5
	}
	if p.protocol == 0 {
		p.protocol = link.UDP
	}
	b := append(p.dstMAC[:len(p.dstMAC):len(p.dstMAC)], p.srcMAC[:]...)
	for _, t := range p.tags {
		b = binary.BigEndian.AppendUint16(b, uint16(t>>16))
		b = binary.BigEndian.AppendUint16(b, uint16(t))
	}
	b = binary.BigEndian.AppendUint16(b, p.ethertype)
	header := 8
	if p.protocol == link.TCP {
		header = 20
	}
	options := max(int(p.ihl)*4-20, 0)
	ip := make([]byte, 20+options)
	ip[0] = p.version<<4 | p.ihl
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+header+len(p.payload)))
	if p.total != 0 {
		binary.BigEndian.PutUint16(ip[2:], p.total)
	}
	binary.BigEndian.PutUint16(ip[6:], p.fragment)
	ip[8], ip[9] = 64, p.protocol
	src, dst := p.src.Addr().As4(), p.dst.Addr().As4()
	copy(ip[12:], src[:])
	copy(ip[16:], dst[:])
	for i := range options {
		ip[20+i] = 1 // no operation
	}
	binary.BigEndian.PutUint16(ip[10:], ^sum(0, ip))
	b = append(b, ip...)
	l4 := make([]byte, header)
	binary.BigEndian.PutUint16(l4, p.src.Port())
	binary.BigEndian.PutUint16(l4[2:], p.dst.Port())
	if p.protocol == link.UDP {
		binary.BigEndian.PutUint16(l4[4:], uint16(8+len(p.payload)))
		pseudo := append(append(src[:], dst[:]...), 0, 17, l4[4], l4[5])
		c := ^sum(sum(sum(0, pseudo), l4), p.payload)
		if c == 0 {
			c = 0xffff
		}
		binary.BigEndian.PutUint16(l4[6:], c)
	}
	if p.protocol == link.TCP {
		l4[12] = 5 << 4
	}
	b = append(append(b, l4...), p.payload...)
	return b[:len(b)-p.cut]
}

// sum is the Internet checksum before the complement (RFC 1071).
func sum(start uint16, b []byte) uint16 {
	s := uint32(start)
	for i := 0; i+1 < len(b); i += 2 {
		s += uint32(b[i])<<8 | uint32(b[i+1])
	}
	if len(b)%2 == 1 {
		s += uint32(b[len(b)-1]) << 8
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
