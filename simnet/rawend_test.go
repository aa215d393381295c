package simnet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// Raw ends exchange frames, an end may answer from its function, and kinds of TCP segments can be lost.
func TestRawEnds(t *testing.T) {
	w := New(1)
	var got []string
	var b *RawEnd
	a := w.RawEnd("a", func(frame []byte) { got = append(got, "a:"+kindOf(frame).String()) })
	b = w.RawEnd("b", func(frame []byte) {
		got = append(got, "b:"+kindOf(frame).String())
		require.NoError(t, b.Send(frame))
	})
	require.Error(t, a.Send(make([]byte, 20)), "no cable")
	cable, err := w.Connect(a, b)
	require.NoError(t, err)
	_, err = w.Connect(a, b)
	require.Error(t, err)
	require.NoError(t, cable.AB.Set(Impairment{Delay: time.Millisecond, Lose: TCPFin}))
	for _, x := range []struct {
		flags   wire.TCPFlags
		payload string
	}{{wire.TCPSyn, ""}, {wire.TCPSyn | wire.TCPAck, "x"}, {wire.TCPAck, ""}, {wire.TCPAck, "x"}, {wire.TCPAck | wire.TCPFin, "x"},
		{wire.TCPRst | wire.TCPAck, ""}} {
		require.NoError(t, a.Send(tcpFrame(t, x.flags, x.payload)))
	}
	require.NoError(t, w.Run(time.Second))
	require.Equal(t, []string{"b:tcp.syn", "b:tcp.syn", "b:tcp.ack", "b:tcp.data", "b:tcp.rst", "a:tcp.syn", "a:tcp.syn", "a:tcp.ack", "a:tcp.data", "a:tcp.rst"}, got)
	require.Equal(t, uint64(1), cable.AB.Stats().Lost[LostKind])
	require.Error(t, a.Send(make([]byte, 13)))
	require.NoError(t, w.Close())
}

func tcpFrame(t *testing.T, flags wire.TCPFlags, payload string) []byte {
	eth := wire.EthernetFields{Type: wire.TypeIPv4}
	b := eth.Append(nil)
	f := wire.TCPFields{SourcePort: 1, TargetPort: 2, Flags: flags}
	ip := wire.IPv4Fields{TTL: 64, Protocol: wire.ProtocolTCP, Source: wire.Addr{10, 0, 0, 1}, Target: wire.Addr{10, 0, 0, 2}}
	b, err := ip.Append(b, f.HeaderLen()+len(payload))
	require.NoError(t, err)
	b, err = f.Append(b, ip.Source, ip.Target, []byte(payload))
	require.NoError(t, err)
	return b
}
