package command

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/why"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/internal/testnet/firewall"
	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// IGMP reports that the kernel sends on the loopback interface for memberships there come back and are counted as received: nothing was lost.
// What a firewall drops there is found.
func TestMembershipsOnLoopbackAreNoLoss(t *testing.T) {
	testnet.New(t)
	s := conf.Default()
	s.Ring, s.StatsDirectory, s.SmallBuffers, s.LargeBuffers = conf.RingEpoll, filepath.Join(t.TempDir(), "stats"), 256, 16
	e, err := xtreme.New(s)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	p, err := e.NewPoller("feed", xtreme.PollerConfig{})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	list, err := stats.List(s.StatsDirectory)
	require.NoError(t, err)
	r, err := stats.Open(list[0].Path)
	require.NoError(t, err)
	defer r.Close()
	// awaits polls until a counter of the kernel has grown to n, and then until two more samples were taken.
	awaits := func(counter string, n uint64) {
		seen := -1
		for end := time.Now().Add(30 * time.Second); seen < 0 || len(r.Samples()) < seen+2; {
			require.True(t, time.Now().Before(end), "%s is not %d", counter, n)
			require.NoError(t, p.WaitFor(20*time.Millisecond))
			var done [16]xtreme.Completion
			got, err := p.Poll(done[:])
			require.NoError(t, err)
			for i := range done[:got] {
				if done[i].Packet.Valid() {
					require.NoError(t, done[i].Packet.Release())
				}
			}
			if seen < 0 && r.Blocks(stats.Host)[0].Totals[counter] >= n {
				seen = len(r.Samples())
			}
		}
	}
	explain := func() (found []why.Finding) {
		out, errs, code := run("why", "-k", s.StatsDirectory, "--json", "--window", "30s")
		require.Zero(t, code, errs)
		for d := json.NewDecoder(bytes.NewBufferString(out)); d.More(); {
			var f why.Finding
			require.NoError(t, d.Decode(&f))
			found = append(found, f)
		}
		return found
	}
	lost := func() (sum uint64) {
		for _, n := range why.Lost(r.Samples()) {
			sum += n
		}
		return sum
	}
	awaits("ip.InReceives", 0) // a sample is there
	port := uint16(7400)
	member, err := p.OpenUDP(netip.AddrPortFrom(netip.IPv4Unspecified(), port), xtreme.UDPConfig{})
	require.NoError(t, err)
	groups := []netip.Addr{netip.MustParseAddr("239.4.4.4"), netip.MustParseAddr("239.4.4.5")}
	for _, g := range groups {
		require.NoError(t, member.JoinGroup(g, "lo", netip.Addr{}))
	}
	awaits("ip.InMcastPkts", 2) // each report is sent twice (RFC 3376 section 8.1)
	require.Zero(t, lost())
	for _, f := range explain() {
		require.Equal(t, why.Upstream, f.Place, "%+v", f)
		require.Contains(t, f.Cause, "nothing was lost on this host")
	}

	if err := firewall.DropUDP("loopback"); err != nil {
		testnet.Missing(t, "nf_tables", err)
	}
	sender, err := p.OpenUDP(netip.MustParseAddrPort("127.0.0.1:0"), xtreme.UDPConfig{MulticastInterface: "lo"})
	require.NoError(t, err)
	const sent = 30
	for range sent {
		_, err := sender.SendTo([]byte("x"), netip.AddrPortFrom(groups[0], port))
		if err != nil {
			require.ErrorIs(t, err, unix.EPERM)
		}
	}
	require.NoError(t, p.Flush())
	awaits("ip.InMcastPkts", 2+sent)
	require.EqualValues(t, sent, lost())
	found := explain()
	require.True(t, slices.ContainsFunc(found, func(f why.Finding) bool {
		return f.Count == sent && strings.Contains(f.Cause+strings.Join(f.Evidence, "\n"), "nft list ruleset")
	}), "%+v", found)
}
