package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBuildersRefuse(t *testing.T) {
	link := EthernetFields{Target: macB, Source: macA}
	for _, c := range []struct {
		says string
		err  error
	}{
		{"Offset 4", second((&IPv4Fields{Offset: 4}).Append(nil, 0))},
		{"Offset -8", second((&IPv4Fields{Offset: -8}).Append(nil, 0))},
		{"Offset 65536", second((&IPv4Fields{Offset: 65536}).Append(nil, 0))},
		{"Options of 3", second((&IPv4Fields{Options: make([]byte, 3)}).Append(nil, 0))},
		{"Options of 44", second((&IPv4Fields{Options: make([]byte, 44)}).Append(nil, 0))},
		{"payload of 65516", second((&IPv4Fields{}).Append(nil, 65516))},
		{"payload of -1", second((&IPv4Fields{}).Append(nil, -1))},
		{"TargetPort 0", second((&UDPFields{}).Append(nil, ipA, ipB, nil))},
		{"payload of 65508", second((&UDPFields{TargetPort: 1}).Append(nil, ipA, ipB, make([]byte, 65508)))},
		{"Group 10.0.0.1", second((&Query{Version: 2, Group: ipA, MaxResponse: time.Second}).Append(nil))},
		{"MaxResponse 1m0s", second((&Query{Version: 2, MaxResponse: time.Minute}).Append(nil))},
		{"MaxResponse 0s", second((&Query{Version: 2}).Append(nil))},
		{"Version 4", second((&Query{Version: 4}).Append(nil))},
		{"Sources of 4", second((&Query{Version: 3, Sources: make([]byte, 4)}).Append(nil))},
		{"Type 7 of record 0", second(AppendReport(nil, []Record{{Type: 7, Group: AllSystems}}))},
		{"Group 10.0.0.1 of record 0", second(AppendReport(nil, []Record{{Type: 1, Group: ipA}}))},
		{"Sources of 5", second(AppendReport(nil, []Record{{Type: 1, Group: AllSystems, Sources: make([]byte, 5)}}))},
		{"9000 records", second(AppendReport(nil, many(9000)))},
		{"SourcePort 0", second(NewUDPTemplate(UDPFlow{Link: link, TTL: 1, TargetPort: 1}))},
		{"TargetPort 0", second(NewUDPTemplate(UDPFlow{Link: link, TTL: 1, SourcePort: 1}))},
		{"TTL 0", second(NewUDPTemplate(UDPFlow{Link: link, SourcePort: 1, TargetPort: 1}))},
		{"Source 03:", second(NewIPv4Template(EthernetFields{Source: MAC{3}}, IPv4Fields{TTL: 1}))},
		{"VLAN 4095", second(NewIPv4Template(EthernetFields{Source: macA, Tag: 0xfff}, IPv4Fields{TTL: 1}))},
		{"Options of 4", second(NewIPv4Template(link, IPv4Fields{TTL: 1, Options: RouterAlert[:]}))},
	} {
		require.ErrorContains(t, c.err, c.says)
	}
}

func second[T any](_ T, err error) error { return err }

func many(n int) []Record {
	all := make([]Record, n)
	for i := range all {
		all[i] = Record{Type: ModeIsExclude, Group: AllSystems}
	}
	return all
}

// TestFragmentsOfADatagram cuts a datagram, and puts it together again from what the headers say.
func TestFragmentsOfADatagram(t *testing.T) {
	udp, err := NewUDPTemplate(UDPFlow{Link: EthernetFields{Target: macB, Source: macA, Tag: 9}, TTL: 3,
		Source: ipA, Target: ipB, SourcePort: 7, TargetPort: 8})
	require.NoError(t, err)
	payload := make([]byte, 4000)
	for i := range payload {
		payload[i] = byte(i * 3)
	}
	datagram := append(make([]byte, UDPLen), payload...)
	udp.PutTransport(datagram, Sum(0).Add(payload))

	whole := make([]byte, len(datagram))
	const part = 1480
	for at := 0; at < len(datagram); at += part {
		piece := datagram[at:min(at+part, len(datagram))]
		frame := append(make([]byte, udp.IPv4Template.Len()), piece...)
		udp.IPv4Template.Put(frame, 77, Fragment(at, at+part < len(datagram)))
		_, tag, _, rest, d := ParseEthernet(frame)
		require.Equal(t, Accept, d)
		require.Equal(t, uint16(9), tag.VID())
		ip, _, rest, d := ParseIPv4(rest)
		require.Equal(t, Accept, d)
		require.True(t, ip.IsFragment())
		require.Equal(t, at+part < len(datagram), ip.MoreFragments())
		require.Equal(t, uint16(77), ip.ID())
		copy(whole[ip.Offset():], rest)
	}
	ip := &IPv4{}
	copy(ip[12:], ipA[:])
	copy(ip[16:], ipB[:])
	h, got, d := ParseUDP(whole)
	require.Equal(t, Accept, d)
	require.Equal(t, payload, got)
	require.Equal(t, SumGood, CheckUDP(ip, h, got))
}

func TestTransportPseudo(t *testing.T) {
	ip, err := NewIPv4Template(EthernetFields{Target: macB, Source: macA},
		IPv4Fields{TTL: 1, Protocol: ProtocolTCP, Source: ipA, Target: ipB})
	require.NoError(t, err)
	for _, n := range []int{0, 20, 1480, 65515} {
		require.Equal(t, Pseudo(ipA, ipB, ProtocolTCP, uint16(n)), ip.Pseudo(n))
	}
}

func TestNothingAllocates(t *testing.T) {
	udp, err := NewUDPTemplate(UDPFlow{Link: EthernetFields{Target: macB, Source: macA}, TTL: 3,
		Source: ipA, Target: ipB, SourcePort: 7, TargetPort: 8})
	require.NoError(t, err)
	frame := make([]byte, 1514)
	room := make([]byte, 0, 1514)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		udp.Put(frame, 1)
		if parse(frame) != Accept {
			panic("refused")
		}
		eth := EthernetFields{Target: macB, Source: macA, Type: TypeARP}
		arp := ARPFields{Operation: ARPReply, SenderMAC: macA, SenderAddr: ipA, TargetMAC: macB, TargetAddr: ipB}
		if parse(arp.Append(eth.Append(room))) != Accept {
			panic("refused")
		}
		echo := ICMPEcho{Reply: true, Data: frame[:64]}
		_ = echo.Append(room)
	}))
}

// PutDatagram writes what Put and PutTransport write one after the other.
func TestPutDatagram(t *testing.T) {
	for _, tag := range []Tag{0, 0x2007} {
		u, err := NewUDPTemplate(UDPFlow{Link: EthernetFields{Target: MAC{2, 1}, Source: MAC{2, 2}, Tag: tag}, TOS: 0xb8, TTL: 3,
			Source: Addr{192, 0, 2, 255}, Target: Addr{203, 0, 113, 254}, SourcePort: 65535, TargetPort: 53})
		require.NoError(t, err)
		for n := range 1473 {
			two, one := make([]byte, u.Len()+n), make([]byte, u.Len()+n)
			for i := range n {
				two[u.Len()+i] = byte(i*7 + n)
			}
			copy(one, two)
			u.Put(two, uint16(n*91))
			u.PutDatagram(&u.IPv4Template, one, uint16(n*91))
			require.Equal(t, two, one, "tag %v, %d bytes", tag, n)
		}
	}
}

func BenchmarkUDP(b *testing.B) {
	for _, n := range []struct {
		name string
		size int
	}{{"64B", 64}, {"1472B", 1472}} {
		udp, err := NewUDPTemplate(UDPFlow{Link: EthernetFields{Target: macB, Source: macA}, TTL: 3,
			Source: ipA, Target: ipB, SourcePort: 7, TargetPort: 8})
		require.NoError(b, err)
		frame := make([]byte, udp.Len()+n.size)
		b.Run("put/"+n.name, func(b *testing.B) {
			for b.Loop() {
				udp.Put(frame, 1)
			}
		})
		b.Run("parse/"+n.name, func(b *testing.B) {
			udp.Put(frame, 1)
			for b.Loop() {
				if parse(frame) != Accept {
					b.Fatal("refused")
				}
			}
		})
	}
}
