package xtreme

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/cure"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
)

// loggingEngine is an engine whose log is what it returns.
func loggingEngine(t *testing.T) (*Engine, *bytes.Buffer) {
	log := &bytes.Buffer{}
	s := conf.Default()
	s.Ring, s.Logger = conf.RingEpoll, slog.New(slog.NewTextHandler(log, nil))
	e, err := New(s)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e, log
}

// That frames of several pages cannot be had is warned of where the interface carries them.
func TestWarnsOfALongMTU(t *testing.T) {
	e, log := loggingEngine(t)
	why := []ring.Reason{{Code: xdp.ReasonNoZeroCopy, Text: "copied"}, {Code: xdp.ReasonNoJumbo, Text: "frames of several buffers on eth3"}}
	e.warnOfLinks("eth3", 1500, why)
	require.Empty(t, log.String())
	e.warnOfLinks("eth3", 9000, why)
	require.Contains(t, log.String(), `msg="frames of several buffers on eth3" code=xdp.no_jumbo cure="ip link set eth3 mtu 1500`)
	require.NotContains(t, log.String(), "copied")
	log.Reset()
	e.warnOfLinks("eth4", 9000, why)
	require.Empty(t, log.String(), "each code once")
}

// A bond of a mode that is not offloaded is warned of with the command that names it; interfaces of other kinds have no cure.
func TestWarnsOfAKindOfInterface(t *testing.T) {
	e, log := loggingEngine(t)
	tables := facts()
	for i := range tables.Links {
		if tables.Links[i].Name == "bond0" {
			tables.Links[i].BondMode = 3 // broadcast
		}
	}
	n := interfaceNeed{local: netip.IPv4Unspecified(), refused: e.warnOfInterface}
	_, why := n.interfaces(host.NewSnapshot(tables, 1))
	require.Greater(t, len(why), 3)
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), `code=link.bond_mode cure="ip link set bond0 type bond mode active-backup (while it is down)"`)
}

// Each code that is warned of has a command, but for a bond's member, whose reason names what is to be changed.
func TestEachWarningHasItsCommand(t *testing.T) {
	e, log := loggingEngine(t)
	for code := range curable {
		log.Reset()
		e.warnCurable([]ring.Reason{{Code: code, Text: "so it is"}}, cure.Place{Interface: "eth3"})
		require.Contains(t, log.String(), `level=WARN msg="so it is" code=`+code)
		require.Equal(t, code != "link.bond_members", strings.Contains(log.String(), " cure="), log.String())
	}
}
