package null

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// MostBatch is the largest batch.
const MostBatch = 1024

// layout is what Layer and Bare divide their memory by: the library's own, with small buffers only.
func layout() buffers.Layout {
	l := buffers.DefaultLayout()
	l.LargeCount, l.LargeSize = 0, 0
	return l
}

func checkBatch(what string, batch, least int) error {
	if batch < least || batch > MostBatch {
		return fmt.Errorf("null: %s: batch %d: want %d to %d: %w", what, batch, least, MostBatch, unix.EINVAL)
	}
	return nil
}

// Layer is a ring over a Driver, and the loop of an application that polls it.
type Layer struct {
	region *sys.Region
	set    *ring.Set
	ring   *ring.Ring
	done   []ring.Completion
}

// NewLayer makes a ring that delivers batch completions to each Poll, 0 to MostBatch; with 0 a Poll finds nothing.
func NewLayer(batch int, change ...func(*ring.SetConfig)) (*Layer, error) {
	if err := checkBatch("layer", batch, 0); err != nil {
		return nil, err
	}
	l := layout()
	region, err := sys.NewRegion(sys.RegionConfig{Bytes: l.Bytes()})
	if err != nil {
		return nil, err
	}
	layer := &Layer{region: region, done: make([]ring.Completion, max(batch, 1))}
	if err := layer.open(l, batch, change); err != nil {
		return nil, errors.Join(err, layer.Close())
	}
	return layer, nil
}

// open makes the layer's pool, set and ring. batch is how many datagrams the driver reports in a turn; each of change may alter the set's
// configuration.
func (l *Layer) open(c buffers.Layout, batch int, change []func(*ring.SetConfig)) error {
	pool, err := buffers.New(l.region.Bytes(), c)
	if err != nil {
		return err
	}
	driver := func(c ring.DriverConfig) (ring.Driver, error) {
		d := NewDriver(c)
		d.Batch = batch
		return d, nil
	}
	sc := ring.SetConfig{Transport: kernel.New(), Pool: pool, Driver: driver, Kind: "null"}
	for _, f := range change {
		f(&sc)
	}
	if l.set, err = ring.NewSet(sc); err != nil {
		return err
	}
	// The socket is a real one, because a ring has no others; nothing is ever read from it.
	s, err := l.set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{LargestDatagram: c.SmallSize})
	if err != nil {
		return err
	}
	if err := s.Bind(netip.MustParseAddrPort("127.0.0.1:0")); err != nil {
		return err
	}
	l.ring = s.Ring()
	return nil
}

// Turn polls once, reads the first 8 bytes of each packet and releases it. It returns the sum of what it read.
func (l *Layer) Turn() (sum uint64, err error) {
	n, err := l.ring.Poll(l.done)
	if err != nil {
		return 0, err
	}
	for i := range l.done[:n] {
		c := &l.done[i]
		if !c.Events.Has(ring.EventPacket) {
			continue
		}
		sum += binary.LittleEndian.Uint64(c.Packet.Bytes())
		if err := c.Packet.Release(); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// Completions counts what Poll returned so far.
func (l *Layer) Completions() uint64 { return l.ring.Stats().Completions }

// Close closes the ring and frees the memory. It says so when a buffer did not return to the pool.
func (l *Layer) Close() error {
	if l.set == nil {
		return l.region.Close()
	}
	err := l.set.Close()
	if b := l.set.Pool().Ledger(); b.Free != b.Total {
		return errors.Join(err, fmt.Errorf("null: close: %d of %d buffers are free", b.Free, b.Total))
	}
	return errors.Join(err, l.region.Close())
}
