package wire

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// raw turns a dump into bytes.
func raw(t testing.TB, dump string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(dump), ""))
	require.NoError(t, err)
	return b
}

var (
	macA = MAC{2, 0, 0, 0, 0, 0xa}
	macB = MAC{2, 0, 0, 0, 0, 0xb}
	ipA  = Addr{10, 0, 0, 1}
	ipB  = Addr{10, 0, 0, 2}
)

// datagram is "hi" from 10.0.0.1:4660 to 10.0.0.2:22136, its sums reckoned by hand.
//
//	IPv4: 4500+001e+0007+4000+4011+0a00+0001+0a00+0002 = d939, complement 26c6
//	UDP:  0a00+0001+0a00+0002+0011+000a (pseudo header: 141e) +1234+5678+000a+6869 = e53d, complement 1ac2
const datagram = `
	02000000000b 02000000000a 0800
	4500 001e 0007 4000 4011 26c6 0a000001 0a000002
	1234 5678 000a 1ac2 6869`

func TestGoldenDatagram(t *testing.T) {
	b := raw(t, datagram)
	eth, tag, typ, rest, d := ParseEthernet(b)
	require.Equal(t, Accept, d)
	require.Equal(t, macB, eth.Target())
	require.Equal(t, macA, eth.Source())
	require.Equal(t, Tag(0), tag)
	require.Equal(t, TypeIPv4, typ)

	ip, options, rest, d := ParseIPv4(append(rest, make([]byte, 16)...)) // padded to EthernetMin
	require.Equal(t, Accept, d)
	require.Empty(t, options)
	require.Equal(t, ipA, ip.Source())
	require.Equal(t, ipB, ip.Target())
	require.Equal(t, 30, ip.TotalLen())
	require.Equal(t, 20, ip.HeaderLen())
	require.Equal(t, uint16(7), ip.ID())
	require.Equal(t, uint8(64), ip.TTL())
	require.Equal(t, uint8(0), ip.TOS())
	require.Equal(t, ProtocolUDP, ip.Protocol())
	require.True(t, ip.DontFragment())
	require.False(t, ip.IsFragment())
	require.Len(t, rest, 10, "the padding is cut")
	require.Equal(t, Accept, ip.Addresses(false, false))

	udp, payload, d := ParseUDP(rest)
	require.Equal(t, Accept, d)
	require.Equal(t, uint16(0x1234), udp.SourcePort())
	require.Equal(t, uint16(0x5678), udp.TargetPort())
	require.Equal(t, "hi", string(payload))
	require.Equal(t, SumGood, CheckUDP(ip, udp, payload))
}

func TestTemplateWritesTheGoldenDatagram(t *testing.T) {
	for _, tag := range []Tag{0, 5, 0x6005} {
		link := EthernetFields{Target: macB, Source: macA, Tag: tag}
		udp, err := NewUDPTemplate(UDPFlow{Link: link, TTL: 64, Source: ipA, Target: ipB, SourcePort: 0x1234, TargetPort: 0x5678})
		require.NoError(t, err)
		frame := make([]byte, udp.Len()+2)
		copy(frame[udp.Len():], "hi")
		udp.Put(frame, 7)
		want := raw(t, datagram)
		if tag != 0 {
			want = append(append(append([]byte{}, want[:12]...), 0x81, 0, byte(tag>>8), byte(tag)), want[12:]...)
		}
		require.Equal(t, want, frame)
	}
}

func TestBuildersWriteTheGoldenDatagram(t *testing.T) {
	eth := EthernetFields{Target: macB, Source: macA, Type: TypeIPv4}
	b := eth.Append(nil)
	ip := IPv4Fields{ID: 7, DontFragment: true, TTL: 64, Protocol: ProtocolUDP, Source: ipA, Target: ipB}
	b, err := ip.Append(b, 10)
	require.NoError(t, err)
	b, err = (&UDPFields{SourcePort: 0x1234, TargetPort: 0x5678}).Append(b, ipA, ipB, []byte("hi"))
	require.NoError(t, err)
	require.Equal(t, raw(t, datagram), b)
}

func TestGoldenVLAN(t *testing.T) {
	b := raw(t, `02000000000b 02000000000a 8100 6ffe 0806 0001`)
	_, tag, typ, rest, d := ParseEthernet(b)
	require.Equal(t, Accept, d)
	require.Equal(t, uint16(0xffe), tag.VID())
	require.Equal(t, uint8(3), tag.Priority())
	require.Equal(t, TypeARP, typ)
	require.Len(t, rest, 2)
	require.Equal(t, Accept, tag.Expect(0xffe))
	require.Equal(t, EthernetTag, tag.Expect(0), "a tag where none is expected")
	require.Equal(t, EthernetTag, Tag(0).Expect(7), "none where one is expected")
	require.Equal(t, Accept, Tag(0xe000).Expect(0), "a priority tag is no VLAN")
}

func TestGoldenARP(t *testing.T) {
	b := raw(t, `0001 0800 06 04 0001 02000000000a 0a000001 000000000000 0a000002`)
	a, d := ParseARP(append(b, make([]byte, 18)...), macA)
	require.Equal(t, Accept, d)
	require.Equal(t, ARPRequest, a.Operation())
	require.Equal(t, macA, a.SenderMAC())
	require.Equal(t, ipA, a.SenderAddr())
	require.Equal(t, MAC{}, a.TargetMAC())
	require.Equal(t, ipB, a.TargetAddr())
	require.False(t, a.IsProbe())
	require.False(t, a.IsGratuitous())

	f := ARPFields{Operation: ARPRequest, SenderMAC: macA, SenderAddr: ipA, TargetAddr: ipB}
	require.Equal(t, b, f.Append(nil))

	f = ARPFields{Operation: ARPRequest, SenderMAC: macA, TargetAddr: ipA}
	a, d = ParseARP(f.Append(nil), macA)
	require.Equal(t, Accept, d)
	require.True(t, a.IsProbe())
	f.SenderAddr = ipA
	a, d = ParseARP(f.Append(nil), macA)
	require.Equal(t, Accept, d)
	require.True(t, a.IsGratuitous())
}

func TestPartialSumIsToldFromWrong(t *testing.T) {
	b := raw(t, datagram)
	ip, _, rest, d := ParseIPv4(b[14:])
	require.Equal(t, Accept, d)
	check := func(field uint16) SumState {
		rest[6], rest[7] = byte(field>>8), byte(field)
		udp, payload, d := ParseUDP(rest)
		require.Equal(t, Accept, d)
		return CheckUDP(ip, udp, payload)
	}
	require.Equal(t, SumGood, check(0x1ac2))
	require.Equal(t, SumBad, check(0x1ac3))
	require.Equal(t, SumNone, check(0))
	require.Equal(t, SumPartial, check(uint16(Pseudo(ipA, ipB, ProtocolUDP, 10))), "what Linux leaves for a card to finish")
	require.Equal(t, SumBad, check(^uint16(Pseudo(ipA, ipB, ProtocolUDP, 10))))
	for _, s := range []SumState{SumBad, SumGood, SumNone, SumPartial} {
		require.NotEmpty(t, s.String())
	}
}

// TestSumZeroIsSentAsOnes: a computed sum of zero would mean that there is none (RFC 768).
func TestSumZeroIsSentAsOnes(t *testing.T) {
	udp, err := NewUDPTemplate(UDPFlow{Link: EthernetFields{Target: macB, Source: macA}, TTL: 1,
		Source: ipA, Target: ipB, SourcePort: 1, TargetPort: 2})
	require.NoError(t, err)
	found := false
	frame := make([]byte, udp.Len()+2)
	for n := range 1 << 16 {
		payload := []byte{byte(n >> 8), byte(n)}
		copy(frame[udp.Len():], payload)
		udp.Put(frame, uint16(n))
		ip, _, rest, d := ParseIPv4(frame[14:])
		require.Equal(t, Accept, d)
		h, got, d := ParseUDP(rest)
		require.Equal(t, Accept, d)
		require.Equal(t, SumGood, CheckUDP(ip, h, got))
		found = found || h.Sum() == 0xffff
		built, err := (&UDPFields{SourcePort: 1, TargetPort: 2}).Append(nil, ipA, ipB, payload)
		require.NoError(t, err)
		require.Equal(t, rest, built)
	}
	require.True(t, found, "one of all two-byte payloads sums up to zero")
}

func TestGoldenICMP(t *testing.T) {
	echo := ICMPEcho{ID: 0x1234, Sequence: 5, Data: []byte("abc")}
	b := echo.Append(nil)
	require.Equal(t, raw(t, `0800 21 64 1234 0005 616263`), b)
	h, body, d := ParseICMP(b)
	require.Equal(t, Accept, d)
	require.Equal(t, ICMPEchoRequest, h.Type())
	require.Equal(t, uint16(0x1234), h.ID())
	require.Equal(t, uint16(5), h.Sequence())
	require.Equal(t, "abc", string(body))
	require.False(t, h.IsError())

	packet := raw(t, datagram)[14:]
	b, err := (&ICMPError{Type: ICMPUnreachable, Code: ICMPPort, Packet: packet}).Append(nil)
	require.NoError(t, err)
	h, body, d = ParseICMP(b)
	require.Equal(t, Accept, d)
	require.True(t, h.IsError())
	q, d := ParseQuote(h, body)
	require.Equal(t, Accept, d)
	require.Equal(t, ipA, q.IP.Source())
	require.Equal(t, uint16(0x1234), q.SourcePort())
	require.Equal(t, uint16(0x5678), q.TargetPort())
}

func TestICMPErrorStaysSmall(t *testing.T) {
	b, err := (&ICMPError{Type: ICMPUnreachable, Packet: make([]byte, 9000)}).Append(nil)
	require.NoError(t, err)
	require.Len(t, b, 576-20)
	_, err = (&ICMPError{Type: ICMPEchoReply, Packet: make([]byte, 28)}).Append(nil)
	require.ErrorContains(t, err, "Type 0")
	_, err = (&ICMPError{Type: ICMPUnreachable, Packet: make([]byte, 27)}).Append(nil)
	require.ErrorContains(t, err, "Packet of 27")
}

func TestGoldenIGMP(t *testing.T) {
	// The general query of version 3 that a switch sends: max response 10 s, robustness 2, interval 125 s.
	b := raw(t, `11 64 ec1e 00000000 02 7d 0000`)
	h, body, d := ParseIGMP(b)
	require.Equal(t, Accept, d)
	require.Equal(t, IGMPQuery, h.Type())
	q, d := ParseQuery(h, body)
	require.Equal(t, Accept, d)
	require.Equal(t, uint8(3), q.Version)
	require.Equal(t, "10s", q.MaxResponse.String())
	require.Equal(t, "2m5s", q.Interval.String())
	require.Equal(t, uint8(2), q.Robustness)
	require.Zero(t, q.NumSources())
	again, err := q.Append(nil)
	require.NoError(t, err)
	require.Equal(t, b, again)

	// A report as Linux sends it: change to exclude nothing, 239.1.2.3.
	b = raw(t, `22 00 e8f9 0000 0001 04 00 0000 ef010203`)
	h, body, d = ParseIGMP(b)
	require.Equal(t, Accept, d)
	require.Equal(t, 1, h.Records())
	r, rest, d := ParseRecord(body)
	require.Equal(t, Accept, d)
	require.Empty(t, rest)
	require.Equal(t, ChangeToExclude, r.Type)
	require.Equal(t, Addr{239, 1, 2, 3}, r.Group)
	again, err = AppendReport(nil, []Record{r})
	require.NoError(t, err)
	require.Equal(t, b, again)
}

func TestQueryVersions(t *testing.T) {
	for _, c := range []struct {
		dump    string
		version uint8
		max     string
	}{
		{`11 00 eeff 00000000`, 1, "10s"},
		{`11 64 ee9b 00000000`, 2, "10s"},
		{`11 00 eeff 00000000 00 00 0000`, 3, "0s"}, // at once, and not a division by zero (smoltcp #1047)
		{`11 ff ee00 00000000 00 00 0000`, 3, "52m54.4s"},
		{`11 64 0b98 ef010203 00 00 0002 0a000001 0a000002`, 3, "10s"},
	} {
		b := raw(t, c.dump)
		b[2], b[3] = 0, 0
		sum := Sum(0).Add(b).Check()
		b[2], b[3] = byte(sum>>8), byte(sum)
		h, body, d := ParseIGMP(b)
		require.Equal(t, Accept, d, c.dump)
		q, d := ParseQuery(h, body)
		require.Equal(t, Accept, d, c.dump)
		require.Equal(t, c.version, q.Version, c.dump)
		require.Equal(t, c.max, q.MaxResponse.String(), c.dump)
		if c.version == 3 && len(b) > 12 {
			require.Equal(t, 2, q.NumSources())
			require.Equal(t, ipB, q.Source(1))
		}
	}
}

func TestCodesRoundDown(t *testing.T) {
	for n := 0; n < 40000; n++ {
		c := toCode(n)
		require.LessOrEqual(t, fromCode(c), n)
		if c != 255 {
			require.Greater(t, fromCode(c+1), n, "%d", n)
		}
	}
	require.Zero(t, toCode(-1))
}

func TestGroupMAC(t *testing.T) {
	require.Equal(t, "01:00:5e:01:02:03", GroupMAC(Addr{239, 1, 2, 3}).String())
	require.Equal(t, GroupMAC(Addr{224, 1, 2, 3}), GroupMAC(Addr{239, 129, 2, 3}), "32 groups share one")
}
