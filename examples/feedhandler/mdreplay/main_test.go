package main

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/replay"
	"github.com/socketxtreme/socketxtreme/feed/moldudp64"
)

func TestFlags(t *testing.T) {
	c, o, err := parse([]string{"-pcap", "f", "-ab", "239.1.1.1:1,239.1.1.2:1", "-speed", "max", "-loss", "100,200",
		"-lose-both", "5-9",
		"-lose-both", "20-", "-burst", "3/100", "-dead-b", "7-", "-delay-b", "1ms", "-recut-b", "-recovery", "127.0.0.1:0",
		"-recovery-mode", "partial", "-log", "l"})
	require.NoError(t, err)
	require.Equal(t, options{log: "l"}, o)
	require.Len(t, c.Lines, 2)
	require.Zero(t, c.Speed)
	require.Equal(t, [2]uint32{100, 200}, c.Impair.Loss)
	require.Equal(t, []replay.Span{{From: 5, To: 9}, {From: 20}}, c.Impair.Both)
	require.Equal(t, []uint64{3, 100}, []uint64{c.Impair.BurstLen, c.Impair.BurstGap})
	require.Equal(t, replay.Span{From: 7}, c.Impair.Dead[1])
	require.Equal(t, time.Millisecond, c.Impair.Delay[1])
	require.True(t, c.Impair.Recut[1])
	require.Equal(t, replay.Partial, c.Mode)

	require.Empty(t, c.Lines[1].Interface, "the one of all lines")
	c, o, err = parse([]string{"-pcap", "f", "-map", "224.0.0.1:1=239.1.1.1:1", "-map", "224.0.0.2:1=239.1.1.2:1",
		"-pps", "5", "-iface", "eth1,eth2", "-credit"})
	require.NoError(t, err)
	require.True(t, o.credit)
	require.Equal(t, []int{0, 1}, []int{c.Lines[0].Index, c.Lines[1].Index})
	require.Equal(t, []string{"eth1", "eth2"}, []string{c.Lines[0].Interface, c.Lines[1].Interface})
	require.Equal(t, netip.MustParseAddrPort("224.0.0.2:1"), c.Lines[1].From)

	for _, bad := range [][]string{
		{"-ab", "239.1.1.1:1"}, {"-pcap", "f"}, {"-pcap", "f", "-ab", "x"},
		{"-pcap", "f", "-ab", "239.1.1.1:1,239.1.1.2:1,239.1.1.3:1"},
		{"-pcap", "f", "-map", "x"}, {"-pcap", "f", "-map", "x=239.1.1.1:1"}, {"-pcap", "f", "-map", "239.1.1.1:1=y"},
		{"-pcap", "f", "-ab", "239.1.1.1:1", "-speed", "0"}, {"-pcap", "f", "-ab", "239.1.1.1:1", "-pps", "-1"},
		{"-pcap", "f", "-ab", "239.1.1.1:1", "-loss", "20000"}, {"-pcap", "f", "-ab", "239.1.1.1:1", "-burst", "5/3"},
		{"-pcap", "f", "-ab", "239.1.1.1:1", "-lose-both", "0-1"}, {"-pcap", "f", "-ab", "239.1.1.1:1", "-dead-a", "x"},
		{"-pcap", "f", "-ab", "239.1.1.1:1", "-iface", ""}, {"-pcap", "f", "-ab", "239.1.1.1:1", "-iface", "a,b,c"},
		{"-pcap", "f", "-ab", "239.1.1.1:1", "-recovery", "x"},
		{"-pcap", "f", "-ab", "239.1.1.1:1", "-recovery-mode", "x"}, {"stray"},
	} {
		_, _, err := parse(bad)
		require.Error(t, err, "%v", bad)
	}
}

// A BinaryFILE made here, sent to a unicast socket: what arrives is the messages as MoldUDP64, less what -loss
// predicts.
func TestRunSendsAndLogs(t *testing.T) {
	dir := t.TempDir()
	var file []byte
	for i := range 40 {
		file = append(file, 0, 3, 'x', byte(i), 'y')
	}
	bin := filepath.Join(dir, "made.bin")
	require.NoError(t, os.WriteFile(bin, file, 0o600))
	in, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer func() { require.NoError(t, in.Close()) }()
	c, o, err := parse([]string{"-pcap", bin, "-ab", in.LocalAddr().String(), "-speed", "max", "-lose-both", "3-4",
		"-linger", "1ms", "-recovery", "127.0.0.1:0", "-log", filepath.Join(dir, "log")})
	require.NoError(t, err)
	require.NoError(t, run(t.Context(), c, o.log))
	require.NoError(t, in.SetReadDeadline(time.Now().Add(5*time.Second)))
	b := make([]byte, 2048)
	var seqs []uint64
	for beats := 0; beats < 3; {
		n, err := in.Read(b)
		require.NoError(t, err)
		h, blocks, err := moldudp64.Parse(b[:n])
		require.NoError(t, err)
		if h.Count() == 0 {
			require.Equal(t, uint64(41), h.Seq())
			beats++
			continue
		}
		m, _ := moldudp64.Next(blocks)
		require.Equal(t, []byte{'x', byte(h.Seq() - 1), 'y'}, m)
		seqs = append(seqs, h.Seq())
	}
	require.Equal(t, []uint64{1, 5, 17, 21, 25, 29, 33, 37}, seqs)
	lines, err := os.ReadFile(filepath.Join(dir, "log"))
	require.NoError(t, err)
	require.Equal(t, 8, strings.Count(string(lines), "\n"))

	c.Pcap = filepath.Join(dir, "absent.pcap")
	require.ErrorContains(t, run(t.Context(), c, ""), "absent.pcap")
}
