package offload

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
	"github.com/socketxtreme/socketxtreme/ring/transport/stream"
)

// In the tests of this package a change of an attachment's state that is not in the table is a panic.
func init() { nic.PanicOnIllegalMoves() }

// carryingLink carries frames, as far as anybody asks.
type carryingLink struct{ absent }

func (carryingLink) Check() error { return nil }

// ignoredEvents ignores what a check of links that the caller has made reports.
type ignoredEvents struct{ nic.Events }

func (ignoredEvents) LinkDown(int, nic.Down) {}
func (ignoredEvents) PathsChanged([]int)     {}

// lostLinksDriver is a driver of links of interface 7, each lost or not, which has looked once for connections that are to move.
func lostLinksDriver(lost ...bool) *driver {
	var fixed []nic.Fixed
	for _, isLost := range lost {
		l := link.Link(&carryingLink{})
		if isLost {
			l = &absent{}
		}
		fixed = append(fixed, nic.Fixed{Link: l, IfIndex: 7})
	}
	d := &driver{config: Config{TCP: &stream.Options{}}, streams: &stream.Transport{}, nics: nic.New(nic.Config{Fixed: fixed, Events: ignoredEvents{}})}
	d.now = clock.Time(clock.Second)
	d.nics.Check(d.now)
	d.scanMoves()
	return d
}

// The members of a bond are attachments of one interface, which carries frames as long as one of them does: in whatever order they stand.
func TestAnInterfaceIsLostWhenAllItsLinksAre(t *testing.T) {
	for _, lost := range [][]bool{{false, true}, {true, false}, {false, true, true}} {
		d := lostLinksDriver(lost...)
		require.Empty(t, d.moves.lostSince, "lost: %v", lost)
		require.Zero(t, d.moves.scanAt, "there is nothing to look for")
	}
	d := lostLinksDriver(true, true)
	require.Equal(t, clock.Time(clock.Second), d.moves.lostSince[7])
	d.now = d.now.Add(clock.Second)
	d.scanMoves()
	require.Equal(t, clock.Time(clock.Second), d.moves.lostSince[7], "since the first look")
}

// An interface that was lost and is not the ring's any more, or has another number, is not looked for for ever.
func TestALostInterfaceThatLeftIsForgotten(t *testing.T) {
	d := lostLinksDriver(true)
	require.NotEmpty(t, d.moves.lostSince)
	d.nics = nic.New(nic.Config{})
	d.scanMoves()
	require.Empty(t, d.moves.lostSince)
	require.Zero(t, d.moves.scanAt)
}
