package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// RFC 9293 section 3.10.7.1: a segment of no connection is answered with a reset, unless it is one.
func TestNoConnectionIsReset(t *testing.T) {
	table, err := New(Config{Random: func() uint64 { return 1 }}, 1)
	require.NoError(t, err)
	in := Segment{Local: Endpoint{wire.Addr{10, 0, 0, 1}, 80}, Remote: Endpoint{wire.Addr{10, 0, 0, 2}, 5000}, Seq: 100, Flags: wire.TCPSyn}
	var out Segment
	_, d := table.Input(1, &in)
	require.Equal(t, wire.TCPNoConnection, d)
	require.True(t, table.Output(1, &out))
	require.Equal(t, []any{wire.TCPRst | wire.TCPAck, Seq(0), Seq(101)}, []any{out.Flags, out.Seq, out.Ack})

	in.Flags, in.Ack, in.Payload.Length = wire.TCPAck, 77, 10
	table.Input(1, &in)
	require.True(t, table.Output(1, &out))
	require.Equal(t, []any{wire.TCPRst, Seq(77)}, []any{out.Flags, out.Seq})

	in.Flags = wire.TCPRst
	table.Input(1, &in)
	require.False(t, table.Output(1, &out))
	in.Flags, in.Group = wire.TCPSyn, true
	_, d = table.Input(1, &in)
	require.Equal(t, wire.TCPGroup, d)
	require.False(t, table.Output(1, &out))
}
