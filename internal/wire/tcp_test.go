package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// tcpSyn is a SYN from 10.0.0.1:4660 to 10.0.0.2:22136 with MSS 1460, its sum reckoned by hand.
//
//	0a00+0001+0a00+0002+0006+0018 (pseudo header: 1421) +1234+5678+0001+6002+ffff+0204+05b4 = e488 with the carry, complement 1b77
const tcpSyn = `1234 5678 00000001 00000000 6002 ffff 1b77 0000 020405b4`

func TestGoldenTCP(t *testing.T) {
	b := raw(t, tcpSyn)
	h, options, payload, d := ParseTCP(b)
	require.Equal(t, Accept, d)
	require.Equal(t, []uint16{0x1234, 0x5678, 0xffff, 0}, []uint16{h.SourcePort(), h.TargetPort(), h.Window(), h.Urgent()})
	require.Equal(t, []uint32{1, 0}, []uint32{h.Seq(), h.Ack()})
	require.Equal(t, TCPSyn, h.Flags())
	require.Equal(t, 24, h.HeaderLen())
	require.Empty(t, payload)
	var o TCPOptions
	require.True(t, o.Parse(options))
	require.Equal(t, TCPOptions{Has: TCPHasMSS, MSS: 1460}, o)
	ip, err := (&IPv4Fields{TTL: 64, Protocol: ProtocolTCP, Source: ipA, Target: ipB}).Append(nil, len(b))
	require.NoError(t, err)
	require.Equal(t, SumGood, CheckTCP((*IPv4)(ip), b))
	f := TCPFields{SourcePort: 0x1234, TargetPort: 0x5678, Seq: 1, Flags: TCPSyn, Window: 0xffff, Options: o}
	built, err := f.Append(nil, ipA, ipB, nil)
	require.NoError(t, err)
	require.Equal(t, b, built)

	// One flipped bit of the header, the addresses or the payload is found (RFC 9293 MUST-3).
	for at := range b {
		b[at] ^= 0x10
		require.NotEqual(t, SumGood, CheckTCP((*IPv4)(ip), b), at)
		b[at] ^= 0x10
	}
	for at := 12; at < 20; at++ {
		ip[at] ^= 1
		require.NotEqual(t, SumGood, CheckTCP((*IPv4)(ip), b), at)
		ip[at] ^= 1
	}
	pseudo := Pseudo(ipA, ipB, ProtocolTCP, uint16(len(b)))
	b[16], b[17] = byte(pseudo>>8), byte(pseudo)
	require.Equal(t, SumPartial, CheckTCP((*IPv4)(ip), b))
}

func TestMalformedTCP(t *testing.T) {
	edit := func(at int, with ...byte) []byte {
		b := raw(t, tcpSyn)
		copy(b[at:], with)
		return b
	}
	for _, c := range []struct {
		name string
		want Drop
		b    []byte
	}{
		{"nothing", TCPShort, nil},
		{"19 bytes", TCPShort, edit(0)[:19]},
		{"offset 0", TCPOffset, edit(12, 0)},
		{"offset 4", TCPOffset, edit(12, 0x40)},
		{"offset beyond the segment", TCPLong, edit(12, 0x70)},
		{"source port 0", TCPPort, edit(0, 0, 0)},
		{"target port 0", TCPPort, edit(2, 0, 0)},
	} {
		h, _, _, d := ParseTCP(c.b)
		require.Equal(t, c.want, d, c.name)
		require.Nil(t, h)
	}
	// Options in the payload of a header without options are payload.
	_, options, payload, d := ParseTCP(edit(12, 0x50))
	require.Equal(t, Accept, d)
	require.Empty(t, options)
	require.Len(t, payload, 4)
}

func TestTCPOptions(t *testing.T) {
	ts := TCPOptions{Has: TCPHasTimestamps, TSValue: 0x01020304, TSEcho: 0x05060708}
	for _, c := range []struct {
		name, dump string
		want       TCPOptions
		ok         bool
	}{
		{"none", "", TCPOptions{}, true},
		{"timestamps as everybody writes them", "0101 080a 01020304 05060708", ts, true},
		{"timestamps not aligned", "080a 01020304 05060708 0000", ts, true},
		{"unknown kind between", "fd060102 0304 01 080a 01020304 05060708 00", ts, true},
		{"end, then garbage", "00 ffffff", TCPOptions{}, true},
		{"length 0", "0200 05b4", TCPOptions{}, false},
		{"length 1", "0201 05b4", TCPOptions{}, false},
		{"length 255", "02ff 05b4", TCPOptions{}, false},
		{"length beyond the header", "010105", TCPOptions{}, false},
		{"kind in the last byte", "010102", TCPOptions{}, false},
		{"MSS of length 3", "02030501", TCPOptions{}, true},
		{"window scale 255", "0303ff00", TCPOptions{Has: TCPHasWindowScale, WindowScale: 255}, true},
		{"SACK of length 9", "0509 00000001000000 00", TCPOptions{}, true},
		{"timestamps of length 9", "0809 01020304050607 00", TCPOptions{}, true},
		{"two MSS", "020405b4 02040218", TCPOptions{Has: TCPHasMSS, MSS: 536}, true},
		{"40 no-operations", "01010101010101010101 01010101010101010101 01010101010101010101 01010101010101010101", TCPOptions{}, true},
		{"five SACK blocks, as no sender can write them", "052a" + "0000000100000002 0000000300000004 0000000500000006 0000000700000008 000000090000000a",
			TCPOptions{Has: TCPHasSACK, SACKCount: 4, SACK: [4]SACKBlock{{1, 2}, {3, 4}, {5, 6}, {7, 8}}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var o TCPOptions
			require.Equal(t, c.ok, o.Parse(raw(t, c.dump)))
			require.Equal(t, c.want, o)
		})
	}
}

// The order is Linux's, so that packet scripts written for it apply.
func TestTCPOptionsInLinuxOrder(t *testing.T) {
	const syn = TCPHasMSS | TCPHasWindowScale | TCPHasSACKPermitted | TCPHasTimestamps
	full := TCPOptions{Has: syn, MSS: 1460, WindowScale: 7, TSValue: 1, TSEcho: 2, SACKCount: 2, SACK: [4]SACKBlock{{10, 20}, {30, 40}}}
	for _, c := range []struct {
		has  TCPOptionSet
		dump string
	}{
		{0, ""},
		{TCPHasMSS, "020405b4"},
		{syn, "020405b4 0402080a0000000100000002 01030307"},
		{syn &^ TCPHasTimestamps, "020405b4 01010402 01030307"},
		{TCPHasMSS | TCPHasTimestamps, "020405b4 0101080a0000000100000002"},
		{TCPHasTimestamps, "0101080a0000000100000002"},
		{TCPHasTimestamps | TCPHasSACK, "0101080a0000000100000002 010105120000000a000000140000001e00000028"},
		{TCPHasSACK, "010105120000000a000000140000001e00000028"},
	} {
		o := full
		o.Has = c.has
		b := make([]byte, o.Len())
		o.Put(b)
		require.Equal(t, raw(t, c.dump), b)
	}
}

func TestTCPFlagsAsText(t *testing.T) {
	require.Equal(t, "S.", (TCPSyn | TCPAck).String())
	require.Equal(t, "FSRPUEWe.", tcpFlags.String())
	require.Equal(t, "-", TCPFlags(0).String())
}

func TestTCPAppendRefuses(t *testing.T) {
	f := TCPFields{SourcePort: 1, TargetPort: 2, RawOptions: make([]byte, 44)}
	_, err := f.Append(nil, ipA, ipB, nil)
	require.Error(t, err)
	f.RawOptions = make([]byte, 3)
	_, err = f.Append(nil, ipA, ipB, nil)
	require.Error(t, err)
	f.RawOptions = nil
	_, err = f.Append(nil, ipA, ipB, make([]byte, IPv4Max))
	require.Error(t, err)
}

// FuzzTCPParse: nothing panics; what is accepted obeys what it proves; options that were read are written and read again.
func FuzzTCPParse(f *testing.F) {
	f.Add(raw(f, tcpSyn))
	f.Add(raw(f, `1234 5678 00000001 00000002 8010 ffff 0000 0000 0101080a 01020304 05060708 6869`))
	f.Add(raw(f, `1234 5678 00000001 00000002 a010 ffff 0000 0000 0101080a 01020304 05060708 0101050a 00000001 00000002`))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, options, payload, d := ParseTCP(b)
		if d != Accept {
			require.Nil(t, h)
			return
		}
		require.Equal(t, len(b), TCPLen+len(options)+len(payload))
		require.LessOrEqual(t, len(options), TCPOptionsMax)
		var o TCPOptions
		o.Parse(options)
		if o.Len() > TCPOptionsMax {
			return // legal to read, but there are fewer no-operations in it than this package writes
		}
		again := make([]byte, o.Len())
		o.Put(again)
		var p TCPOptions
		require.True(t, p.Parse(again))
		if o.Has&TCPHasSACK == 0 {
			o.SACK, p.SACK = [4]SACKBlock{}, [4]SACKBlock{}
		}
		for i := o.SACKCount; i < TCPMaxSACK; i++ {
			o.SACK[i] = SACKBlock{}
		}
		require.Equal(t, plainOptions(o), plainOptions(p))
	})
}

// plainOptions has zero in the fields of options that are not there.
func plainOptions(o TCPOptions) TCPOptions {
	if o.Has&TCPHasMSS == 0 {
		o.MSS = 0
	}
	if o.Has&TCPHasWindowScale == 0 {
		o.WindowScale = 0
	}
	if o.Has&TCPHasTimestamps == 0 {
		o.TSValue, o.TSEcho = 0, 0
	}
	return o
}

// FuzzTCPRoundTrip: what is built is what is read.
func FuzzTCPRoundTrip(f *testing.F) {
	f.Add(uint32(1), uint32(2), uint32(3), uint32(4), uint16(0x1ff), uint16(5), []byte("payload"))
	f.Fuzz(func(t *testing.T, from, to, seq, ack uint32, flags, window uint16, data []byte) {
		if len(data) > 9000 {
			return
		}
		source := Addr{byte(from >> 24), byte(from >> 16), byte(from >> 8), byte(from)}
		target := Addr{byte(to >> 24), byte(to >> 16), byte(to >> 8), byte(to)}
		want := TCPFields{SourcePort: uint16(from) | 1, TargetPort: uint16(to) | 1, Seq: seq, Ack: ack, Flags: TCPFlags(flags) & tcpFlags, Window: window}
		want.Options = TCPOptions{Has: TCPHasTimestamps, TSValue: ack, TSEcho: seq}
		b, err := want.Append(nil, source, target, data)
		require.NoError(t, err)
		h, options, payload, d := ParseTCP(b)
		require.Equal(t, Accept, d)
		got := TCPFields{SourcePort: h.SourcePort(), TargetPort: h.TargetPort(), Seq: h.Seq(), Ack: h.Ack(), Flags: h.Flags(), Window: h.Window()}
		require.True(t, got.Options.Parse(options))
		require.Equal(t, want, got)
		require.Equal(t, string(data), string(payload))
		ip, err := (&IPv4Fields{TTL: 1, Protocol: ProtocolTCP, Source: source, Target: target}).Append(nil, len(b))
		require.NoError(t, err)
		require.Equal(t, SumGood, CheckTCP((*IPv4)(ip), b))
	})
}
