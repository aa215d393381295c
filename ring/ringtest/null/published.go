package null

import (
	"sync"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/stats"
)

// Published is a ring.Monitor over a statistics file, as xtreme has one: benchmarks measure with it what publishing costs.
type Published struct {
	file   *stats.File
	mu     sync.Mutex
	rings  map[*ring.Ring]*stats.Block
	blocks map[*ring.Socket]*stats.Block
}

// NewPublished makes a file in a directory.
func NewPublished(directory string) (*Published, error) {
	f, err := stats.Create(stats.Config{Directory: directory, Sockets: 100})
	if err != nil {
		return nil, err
	}
	p := &Published{file: f, rings: map[*ring.Ring]*stats.Block{}, blocks: map[*ring.Socket]*stats.Block{}}
	f.OnTick(func(bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for r := range p.rings {
			ring.RequestRefresh(r)
		}
	})
	return p, nil
}

// Configure has a set publish.
func (p *Published) Configure(c *ring.SetConfig, pool *buffers.Pool) {
	b := p.file.Open(stats.Pollers, nil, 0)
	c.Monitor, c.Epoch = p, p.file.Epoch()
	c.Loop = ring.NewLoop(sys.Overlay[ring.LoopPage](b.Counters()), pool, false, func(g ring.Gap) {
		p.file.Note(stats.EventPollGap, b, uint64(g.Length), "")
	})
}

// Path is the file's name.
func (p *Published) Path() string { return p.file.Path() }

// Close ends the file, when the sets are closed.
func (p *Published) Close() error { return p.file.Close() }

// OpenRing is ring.Monitor's, as the following ones.
func (p *Published) OpenRing(r *ring.Ring) *ring.RingPage {
	b := p.file.Open(stats.Rings, nil, 0)
	p.mu.Lock()
	p.rings[r] = b
	p.mu.Unlock()
	return sys.Overlay[ring.RingPage](b.Counters())
}

// CloseRing gives the ring's block back.
func (p *Published) CloseRing(r *ring.Ring) {
	p.mu.Lock()
	b := p.rings[r]
	delete(p.rings, r)
	p.mu.Unlock()
	b.Close()
}

// OpenSocket gives each socket a block.
func (p *Published) OpenSocket(s *ring.Socket) *ring.SocketPage {
	b := p.file.Open(stats.Sockets, p.rings[s.Ring()], uint64(s.ID()))
	if b == nil {
		return nil
	}
	p.blocks[s] = b
	return sys.Overlay[ring.SocketPage](b.Counters())
}

// CloseSocket gives the socket's page back.
func (p *Published) CloseSocket(s *ring.Socket) {
	p.blocks[s].Close()
	delete(p.blocks, s)
}

// SkipSocket counts.
func (p *Published) SkipSocket() { p.file.CountUnpublished(stats.Sockets) }

// DescribeSocket does nothing.
func (p *Published) DescribeSocket(*ring.Socket) {}

// Refresh does nothing beyond what the ring does.
func (p *Published) Refresh(*ring.Ring) {}

// Happened does nothing.
func (p *Published) Happened(*ring.Socket, ring.Happening, string) {}
