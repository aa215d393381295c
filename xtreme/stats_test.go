package xtreme_test

import (
	"testing"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// The totals of a poller are those of its rings and buffers; another goroutine than the owner gets none.
func TestPollerStats(t *testing.T) {
	w := newWorld(t, conf.RingEpoll)
	s := w.udp(loopback)
	_, err := s.SendTo([]byte("four"), s.LocalAddr())
	w.NoError(err)
	c := w.event(s, xtreme.EventPacket)
	w.Equal(uint64(1), s.Stats().SentMessages)
	w.Equal(uint64(4), s.Stats().Bytes)

	p := w.poller.Stats()
	w.Len(p.Rings, 1)
	w.Equal(uint64(1), p.Rings[0].Packets)
	w.Equal(uint64(4), p.Rings[0].SentBytes)
	w.Empty(p.Rings[0].Driver, "the kernel counts for kernel rings")
	w.Equal(1, p.Ledger.Held)
	w.Equal(p.Ledger, w.poller.Ledger())
	w.NoError(c.Packet.Release())
	w.ErrorIs(c.Packet.Release(), buffers.ErrStale)
	w.Equal(uint64(1), w.poller.Stats().Buffers.StaleReleases)

	stats := make(chan xtreme.PollerStats)
	go func() { stats <- w.poller.Stats() }()
	w.Equal(xtreme.PollerStats{}, <-stats)
}
