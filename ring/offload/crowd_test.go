package offload_test

import (
	"encoding/binary"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/ring"
)

// A shadow with more than a Poll has room for does not keep the links from being read: they take turns.
func TestShadowLeavesTheLinkItsTurn(t *testing.T) {
	s := newShared(t, 1)
	set, _ := s.set(nil)
	w := &watcher{t: t, s: s.open(set, "10.0.0.1:7000"), dst: make([]ring.Completion, 8), seen: map[uint64]bool{}}
	for range 100 {
		w.poll()
	}
	const byKernel, byLink = 2000, 20
	here, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(w.s.LocalAddr()))
	require.NoError(t, err)
	defer here.Close()
	for i := range byKernel {
		_, err := here.Write(binary.LittleEndian.AppendUint64(nil, uint64(i)))
		require.NoError(t, err)
	}
	w.until("by the shadow", func() bool { return w.os > 0 })
	peer := s.Dial(w.s.LocalAddr())
	defer peer.Close()
	for i := range byLink {
		_, err := peer.Write(binary.LittleEndian.AppendUint64(nil, uint64(byKernel+i)))
		require.NoError(t, err)
	}
	w.until("by the link", func() bool { return len(w.seen)-w.os == byLink })
	require.Less(t, w.os, byKernel/2, "before the shadow was empty")
	w.until("all", func() bool { return len(w.seen) == byKernel+byLink })
}
