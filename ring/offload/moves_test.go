package offload

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/offload/steering"
	"github.com/socketxtreme/socketxtreme/ring/transport/stream"
)

// In the tests of this package a change of an attachment's state that is not in the table is a panic.
func init() { nic.PanicOnIllegalMoves() }

// lossyLink is a link that carries frames, as far as anybody asks, or is lost.
type lossyLink struct {
	absent
	lost bool
}

func (l *lossyLink) Check() error {
	if l.lost {
		return link.ErrDetached
	}
	return nil
}
func (*lossyLink) Start() error  { return nil }
func (*lossyLink) Stop()         {}
func (*lossyLink) Shut() error   { return nil }
func (*lossyLink) Retire() error { return nil }

// ignoredEvents ignores what attachments report.
type ignoredEvents struct{ nic.Events }

func (ignoredEvents) LinkAdded(int, *nic.Link) error    { return nil }
func (ignoredEvents) LinkRemoved(int, link.Link)        {}
func (ignoredEvents) LinkStopped(int, link.Link)        {}
func (ignoredEvents) LinkClosed(link.Link)              {}
func (ignoredEvents) LinkDown(int, nic.Down)            {}
func (ignoredEvents) PathsChanged([]int)                {}
func (ignoredEvents) TargetAdded(steering.Target) error { return nil }

// lostLinksDriver is a driver of links of interface 7, each lost or not, which has looked once for connections that are to move.
func lostLinksDriver(t *testing.T, lost ...bool) *driver {
	flags := uint32(unix.IFF_UP | unix.IFF_LOWER_UP)
	f := Facts(host.Link{Index: 7, Name: "mem", Flags: flags, MTU: 1500}, netip.MustParsePrefix("10.9.0.1/24"))
	links := map[string]link.Staged{}
	for i, isLost := range lost {
		name := fmt.Sprint("mem", i)
		f.Links = append(f.Links, host.Link{Index: 100 + i, Name: name, Flags: flags, MTU: 1500})
		links[name] = &lossyLink{absent{info: link.Info{MTU: 1500, Headroom: nic.MaxHeaders}}, isLost}
	}
	h, err := NewMemoryHost(f, nil)
	require.NoError(t, err)
	d := &driver{config: Config{TCP: &stream.Options{}}, tcp: streamPart{streams: &stream.Transport{}}}
	d.nics = nic.New(nic.Config{Table: nic.NewTable(nic.TableConfig{Host: h, Open: nic.OpenLinks(h, links)}), Ring: 1, Events: ignoredEvents{},
		Clock: func() clock.Time { return d.turn.now }, Wake: func() {}, Background: systemOf(h).Background})
	for i := range lost {
		require.NoError(t, d.nics.Add(nic.Interface{Name: fmt.Sprint("mem", i), On: "mem", Fill: 1}))
	}
	d.turn.now = clock.Time(clock.Second)
	d.nics.Check(d.turn.now)
	d.scanMoves()
	return d
}

// The members of a bond are attachments of one interface, which carries frames as long as one of them does: in whatever order they stand.
func TestAnInterfaceIsLostWhenAllItsLinksAre(t *testing.T) {
	for _, lost := range [][]bool{{false, true}, {true, false}, {false, true, true}} {
		d := lostLinksDriver(t, lost...)
		require.Empty(t, d.tcp.moves.lostSince, "lost: %v", lost)
		require.Zero(t, d.tcp.moves.scanAt, "there is nothing to look for")
	}
	d := lostLinksDriver(t, true, true)
	require.Equal(t, clock.Time(clock.Second), d.tcp.moves.lostSince[7])
	d.turn.now = d.turn.now.Add(clock.Second)
	d.scanMoves()
	require.Equal(t, clock.Time(clock.Second), d.tcp.moves.lostSince[7], "since the first look")
}

// An interface that was lost and is not the ring's any more, or has another number, is not looked for for ever.
func TestALostInterfaceThatLeftIsForgotten(t *testing.T) {
	d := lostLinksDriver(t, true)
	require.NotEmpty(t, d.tcp.moves.lostSince)
	d.nics = nic.New(nic.Config{})
	d.scanMoves()
	require.Empty(t, d.tcp.moves.lostSince)
	require.Zero(t, d.tcp.moves.scanAt)
}
