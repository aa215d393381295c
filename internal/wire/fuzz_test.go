package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzParse feeds frames to everything that reads. Nothing may panic, each header that is accepted obeys what it proves,
// and a frame that was accepted is refused when a byte that a sum covers is flipped.
func FuzzParse(f *testing.F) {
	f.Add(raw(f, datagram), uint16(40))
	f.Add(frameOf(f, ProtocolIGMP, sealed(raw(f, `11 64 0000 ef010203 00 00 0001 0a000001`))), uint16(35))
	f.Add(frameOf(f, ProtocolIGMP, sealed(raw(f, `22 00 0000 0000 0001 04 01 0001 ef010203 0a000001 deadbeef`))), uint16(50))
	f.Add(frameOf(f, ProtocolICMP, sealed(append(raw(f, `03 03 0000 00000000`), raw(f, datagram)[14:]...))), uint16(44))
	arp := ARPFields{Operation: ARPRequest, SenderMAC: macA, SenderAddr: ipA, TargetAddr: ipB}
	f.Add(arp.Append((&EthernetFields{Target: Broadcast, Source: macA, Type: TypeARP}).Append(nil)), uint16(0))
	f.Add(raw(f, `02000000000b 02000000000a 8100 0005 0800 46000018`), uint16(0))
	f.Fuzz(func(t *testing.T, frame []byte, flip uint16) {
		d := parse(frame)
		require.NotEqual(t, "unknown", d.String())
		_, _, typ, rest, e := ParseEthernet(frame)
		if e != Accept || typ != TypeIPv4 {
			return
		}
		ip, options, payload, e := ParseIPv4(rest)
		if e != Accept {
			require.Nil(t, ip)
			return
		}
		require.Equal(t, ip.HeaderLen(), IPv4Len+len(options))
		require.Equal(t, ip.TotalLen(), ip.HeaderLen()+len(payload))
		require.Equal(t, Sum(0xffff), naive(rest[:ip.HeaderLen()]))
		if d != Accept || ip.Protocol() != ProtocolUDP {
			return
		}
		udp, _, e := ParseUDP(payload)
		require.Equal(t, Accept, e)
		if udp.Sum() == 0 || int(flip)%8 == 6 || int(flip)%8 == 7 {
			return
		}
		// A single flipped bit never leaves a one's complement sum as it was.
		at := int(flip) % udp.Len()
		payload[at] ^= 1 << (flip >> 13)
		if udp, data, e := ParseUDP(payload); e == Accept && udp.Sum() != 0 {
			require.NotEqual(t, SumGood, CheckUDP(ip, udp, data))
		}
	})
}

// FuzzUDPRoundTrip: what is built is what is read, by builder and by template.
func FuzzUDPRoundTrip(f *testing.F) {
	f.Add(uint32(1), uint32(2), uint16(3), uint16(4), uint16(5), uint8(6), uint8(7), uint16(0), []byte("payload"))
	f.Add(uint32(0xffffffff), uint32(0), uint16(1), uint16(0xffff), uint16(0xffff), uint8(255), uint8(255), uint16(0xffff), []byte{})
	f.Fuzz(func(t *testing.T, from, to uint32, source, target, id uint16, tos, ttl uint8, tag uint16, data []byte) {
		if len(data) > UDPMax {
			return
		}
		flow := UDPFlow{
			Link: EthernetFields{Target: macB, Source: macA, Tag: Tag(tag)}, TOS: tos, TTL: ttl,
			Source:     Addr{byte(from >> 24), byte(from >> 16), byte(from >> 8), byte(from)},
			Target:     Addr{byte(to >> 24), byte(to >> 16), byte(to >> 8), byte(to)},
			SourcePort: source, TargetPort: target,
		}
		udp, err := NewUDPTemplate(flow)
		require.Equal(t, source == 0 || target == 0 || ttl == 0 || tag&0xfff == 0xfff, err != nil)
		if err != nil {
			return
		}
		frame := append(make([]byte, udp.Len()), data...)
		udp.Put(frame, id)

		eth := flow.Link
		eth.Type = TypeIPv4
		ip := IPv4Fields{TOS: tos, ID: id, DontFragment: true, TTL: ttl, Protocol: ProtocolUDP, Source: flow.Source, Target: flow.Target}
		built, err := ip.Append(eth.Append(nil), UDPLen+len(data))
		require.NoError(t, err)
		built, err = (&UDPFields{SourcePort: source, TargetPort: target}).Append(built, flow.Source, flow.Target, data)
		require.NoError(t, err)
		require.Equal(t, built, frame)

		_, gotTag, typ, rest, d := ParseEthernet(frame)
		require.Equal(t, Accept, d)
		require.Equal(t, Tag(tag), gotTag)
		require.Equal(t, TypeIPv4, typ)
		h, _, rest, d := ParseIPv4(rest)
		require.Equal(t, Accept, d)
		require.Equal(t, []any{flow.Source, flow.Target, id, tos, ttl}, []any{h.Source(), h.Target(), h.ID(), h.TOS(), h.TTL()})
		u, got, d := ParseUDP(rest)
		require.Equal(t, Accept, d)
		require.Equal(t, []uint16{source, target}, []uint16{u.SourcePort(), u.TargetPort()})
		require.Equal(t, string(data), string(got))
		require.Equal(t, SumGood, CheckUDP(h, u, got))
	})
}

// FuzzIGMPRoundTrip: queries and reports are read as they were built.
func FuzzIGMPRoundTrip(f *testing.F) {
	f.Add(uint8(3), uint8(100), uint8(2), uint8(125), []byte{1, 2, 3, 10, 0, 0, 1, 10, 0, 0, 2})
	f.Add(uint8(1), uint8(0), uint8(0), uint8(0), []byte{})
	f.Fuzz(func(t *testing.T, version, tenths, robustness, interval uint8, b []byte) {
		q := Query{Version: version%3 + 1, MaxResponse: time.Duration(tenths%128) * 100 * time.Millisecond}
		if q.Version == 1 {
			q.MaxResponse = 10 * time.Second
		}
		r := Record{Type: version%6 + 1, Group: Addr{239, 1, 1, 1}, Sources: []byte{}}
		if len(b) >= 3 {
			q.Group = Addr{239, b[0], b[1], b[2]}
			r.Group, r.Sources = q.Group, b[3:len(b)-(len(b)-3)%4]
			if q.Version == 3 && len(r.Sources) > 0 {
				q.Sources = r.Sources
			}
		}
		if q.Version == 3 {
			q.Robustness, q.Suppress = robustness&7, robustness&8 != 0
			q.Interval = time.Duration(interval%128) * time.Second
		}
		m, err := q.Append(nil)
		if q.Version == 2 && q.MaxResponse == 0 {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		h, body, d := ParseIGMP(m)
		require.Equal(t, Accept, d)
		got, d := ParseQuery(h, body)
		require.Equal(t, Accept, d)
		require.Equal(t, q, got)

		m, err = AppendReport(nil, []Record{r, r})
		require.NoError(t, err)
		h, body, d = ParseIGMP(m)
		require.Equal(t, Accept, d)
		require.Equal(t, 2, h.Records())
		for range 2 {
			var again Record
			again, body, d = ParseRecord(body)
			require.Equal(t, Accept, d)
			require.Equal(t, r, again)
		}
		require.Empty(t, body)
	})
}
