package link_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

func TestPathInWords(t *testing.T) {
	p := link.Path{Kind: "memory"}
	require.Equal(t, "memory", p.String())
	p = link.Path{Kind: "xdp", Interface: "eth0", Queue: 3, Mode: "native", ZeroCopy: true, Jumbo: true, Clock: link.ClockHardware}
	require.Equal(t, "xdp eth0/3 (native, zero-copy, jumbo, hardware time)", p.String())
	p = link.Path{Kind: "xdp", Interface: "v0", Mode: "generic", Reasons: []link.Reason{{"xdp.no_zerocopy", "a veth has none"}, {"x", "y"}}}
	require.Equal(t, "xdp v0/0 (generic, copy)\n  a veth has none [xdp.no_zerocopy]\n  y [x]", p.Explain())
	require.True(t, p.Has("x"))
	require.False(t, p.Has("y"))
}

func TestRefusal(t *testing.T) {
	r := &link.Refusal{Reason: link.Reason{Code: "xdp.busy", Text: "eth0 is in use"}, Err: unix.EBUSY}
	require.EqualError(t, r, "link: eth0 is in use: device or resource busy [xdp.busy]")
	require.ErrorIs(t, r, unix.EBUSY)
	require.EqualError(t, &link.Refusal{Reason: r.Reason}, "link: eth0 is in use [xdp.busy]")
}

func TestCapabilitiesInWords(t *testing.T) {
	require.Equal(t, "zero-copy,jumbo,kernel-time,hardware-time,steering", link.Caps(0x1f).String())
	require.Equal(t, "jumbo,0x80", (link.CapJumbo | 0x80).String())
	require.Empty(t, link.Caps(0).String())
	require.Len(t, link.AllCaps(), 5)
	require.Equal(t, "kernel", link.ClockKernel.String())
	require.Equal(t, "unknown clock", link.Clock(9).String())
}
