package capture

import (
	"net/netip"
	"slices"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// dissector finds the UDP payload in Ethernet frames, with gopacket's decoders and without allocating.
type dissector struct {
	ethernet layers.Ethernet
	tag      layers.Dot1Q
	ip       layers.IPv4
	udp      layers.UDP
	parser   *gopacket.DecodingLayerParser
	found    []gopacket.LayerType
}

// newDissector makes a dissector, whose decoders are used for every frame.
func newDissector() *dissector {
	d := &dissector{}
	d.parser = gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &d.ethernet, &d.tag, &d.ip, &d.udp)
	d.parser.IgnoreUnsupported = true
	return d
}

// dissect fills in addresses and payload of a record. What gopacket cannot decode, another protocol and a fragment are Other.
func (d *dissector) dissect(b []byte, rec *Record) Kind {
	if err := d.parser.DecodeLayers(b, &d.found); err != nil || !slices.Contains(d.found, layers.LayerTypeUDP) {
		return Other
	}
	rec.Src = netip.AddrPortFrom(netip.AddrFrom4([4]byte(d.ip.SrcIP)), uint16(d.udp.SrcPort))
	rec.Dst = netip.AddrPortFrom(netip.AddrFrom4([4]byte(d.ip.DstIP)), uint16(d.udp.DstPort))
	rec.Payload = d.udp.Payload
	if d.parser.Truncated {
		return Truncated
	}
	return UDP
}
