package extraapi_test

import (
	"net/netip"
	"testing"

	"github.com/socketxtreme/socketxtreme/conf"
	extraapi "github.com/socketxtreme/socketxtreme/extra_api"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// BenchmarkEmptyPoll compares VMA's call by descriptor with the ring's own, on an epoll ring with one quiet socket.
func BenchmarkEmptyPoll(b *testing.B) {
	open := func(b *testing.B) (*xtreme.Engine, *ring.Ring) {
		s := conf.Default()
		s.Ring, s.SmallBuffers, s.LargeBuffers = conf.RingEpoll, 64, 8
		e, err := xtreme.New(s)
		if err != nil {
			b.Fatal(err)
		}
		p, err := e.NewPoller("bench", xtreme.PollerConfig{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := p.Close(); err != nil {
				b.Error(err)
			}
			if err := e.Close(); err != nil {
				b.Error(err)
			}
		})
		if _, err = p.OpenUDP(netip.MustParseAddrPort("127.0.0.1:0"), xtreme.UDPConfig{}); err != nil {
			b.Fatal(err)
		}
		return e, p.Rings()[0]
	}
	var done [64]xtreme.Completion
	b.Run("ring", func(b *testing.B) {
		_, r := open(b)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.Poll(done[:]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("descriptor", func(b *testing.B) {
		e, r := open(b)
		fd := r.FD()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := extraapi.Poll(e, fd, done[:]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
