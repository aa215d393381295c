package command

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

// History counts each lost packet once, as why does: what a spent budget has dropped is counted by its ring and, up to a second later, by its
// socket. What the kernel has dropped is counted too; losses that why says nothing of are, by their counters.
func TestHistoryCountsALossOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stats")
	f, err := stats.Create(stats.Config{Directory: dir, Sockets: 4})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	poller := f.Open(stats.Pollers, nil, 0)
	drops, socket, ring := f.Open(stats.Drops, poller, 0), f.Open(stats.Sockets, poller, 1), f.Open(stats.Rings, poller, 0)
	word := func(section, name string) (at int) {
		for _, row := range stats.SectionOf(section).Counters {
			if row.Name == name {
				return at
			}
			at += row.Words()
		}
		panic(name)
	}
	budget, socketDrops, truncated := word(stats.Drops, "udp.budget"), word(stats.Sockets, "drops"), word(stats.Rings, "truncated")
	second, done := 0, make(chan struct{})
	f.OnTick(func(now bool) {
		if !now {
			return
		}
		second++
		f.SetHost("ip.InReceives", uint64(1000*second))
		missing := uint64(0)
		if second >= 4 {
			missing = 143
		}
		f.SetHost("ip.InDelivers", uint64(1000*second)-missing)
		switch second {
		case 2:
			drops.Counters()[budget] = 132
		case 3:
			socket.Counters()[socketDrops] = 132
		case 5:
			drops.Counters()[budget], socket.Counters()[socketDrops], ring.Counters()[truncated] = 140, 140, 2
		case 7:
			close(done)
		}
	})
	<-done
	time.Sleep(50 * time.Millisecond) // the sample of the seventh second may be there, or not
	out, errs, code := run("history", "-k", dir, "--json")
	require.Zero(t, code, errs)
	var lost []uint64
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var x struct{ Lost uint64 }
		require.NoError(t, d.Decode(&x))
		lost = append(lost, x.Lost)
	}
	sum, seconds := uint64(0), []uint64{}
	for _, n := range lost {
		if sum += n; n > 0 {
			seconds = append(seconds, n)
		}
	}
	require.Equal(t, []uint64{132, 143, 8 + 2}, seconds, "%v: 132 for a budget, 143 of the kernel, 8 for a budget and 2 that were too long", lost)
}

// The first sample of a process has what was counted since the process began. What the kernel has counted since the machine was started is not
// in it; what the process counts itself is.
func TestHistoryBeginsWithTheProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stats")
	f, err := stats.Create(stats.Config{Directory: dir, Sockets: 4})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	f.Open(stats.Rings, f.Open(stats.Pollers, nil, 0), 0).Counters()[0] = 7 // polls
	second, done := 0, make(chan struct{})
	f.OnTick(func(now bool) {
		if !now {
			return
		}
		f.SetHost("ip.InReceives", uint64(1_000_000+50*second))
		if second++; second == 3 {
			close(done)
		}
	})
	<-done
	out, errs, code := run("history", "-k", dir, "--json")
	require.Zero(t, code, errs)
	type line struct{ Counted map[string]uint64 }
	var list []line
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var x line
		require.NoError(t, d.Decode(&x))
		list = append(list, x)
	}
	require.GreaterOrEqual(t, len(list), 2)
	require.EqualValues(t, 7, list[0].Counted["ring.polls"])
	require.Contains(t, list[0].Counted, "host.ip.InReceives")
	require.Zero(t, list[0].Counted["host.ip.InReceives"])
	require.EqualValues(t, 50, list[1].Counted["host.ip.InReceives"])
}
