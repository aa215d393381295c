package xtreme_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// warnings are the lines of a log in slog's text form that have a code.
func warnings(log, code string) (list []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, " code="+code+" ") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

// A log level with which a program is slow is warned of, as VMA does, where the library's own log has it.
func TestWarnsOfTheLogLevel(t *testing.T) {
	const warning = " SX WARN: the log level is "
	for level, warns := range map[conf.LogLevel]bool{conf.LogInfo: false, conf.LogDetails: false, conf.LogDebug: true, conf.LogFiner: true} {
		s := conf.Default()
		s.Ring, s.LogLevel, s.LogFile = conf.RingEpoll, level, filepath.Join(t.TempDir(), "log")
		e, err := xtreme.New(s)
		require.NoError(t, err)
		require.NoError(t, e.Close())
		text, err := os.ReadFile(s.LogFile)
		require.NoError(t, err)
		require.Equal(t, warns, strings.Contains(string(text), warning), "%s: %s", level, text)
		if warns {
			require.Contains(t, string(text), `cure="unset VMA_TRACELEVEL"`)
		}
	}
	var log bytes.Buffer
	s := conf.Default()
	s.Ring, s.LogLevel, s.Logger = conf.RingEpoll, conf.LogDebug, slog.New(slog.NewTextHandler(&log, nil))
	e, err := xtreme.New(s)
	require.NoError(t, err)
	require.NoError(t, e.Close())
	require.NotContains(t, log.String(), "code=log.level", "the program's logger has a level of its own")
}

// Without the privileges the log says so once, however many sockets want them, with the command for this very program.
func TestWarnsOfCapabilities(t *testing.T) {
	w := newCabled(t)
	w.withCapabilities(func() {
		for range 3 {
			_, err := w.poller.OpenUDP(w.at(0), xtreme.UDPConfig{})
			w.NoError(err)
		}
	})
	list := warnings(w.log.String(), "xdp.no_capability")
	w.Len(list, 1, w.log.String())
	program, err := os.Executable()
	w.NoError(err)
	w.Contains(list[0], "level=WARN")
	w.Contains(list[0], "setcap cap_net_raw,cap_net_admin,cap_bpf+ep "+program)
	w.Contains(list[0], "operation not permitted")
}

func TestWarnsOfLockedMemory(t *testing.T) {
	var was unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &was))
	t.Cleanup(func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &was)) })
	w := newCabled(t)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: min(1<<20, was.Max), Max: was.Max}))
	w.withCapabilities(func() {
		_, err := w.poller.OpenUDP(w.at(0), xtreme.UDPConfig{})
		w.NoError(err)
	}, unix.CAP_NET_RAW, unix.CAP_NET_ADMIN, unix.CAP_BPF)
	list := warnings(w.log.String(), "xdp.memlock")
	w.Len(list, 1, w.log.String())
	w.Contains(list[0], `cure="ulimit -l unlimited"`)
}

// Huge pages that were asked for and cannot be had: the command asks for as many as the poller needs.
func TestWarnsOfHugePages(t *testing.T) {
	if raceEnabled {
		t.Skip("under the race detector buffers lie in the Go heap; the build without it asserts this")
	}
	if hugePagesFor(t, 200<<20) {
		t.Skip("this machine has 200 MiB of huge pages")
	}
	var log bytes.Buffer
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers, s.Logger = conf.RingEpoll, 512, 3200, slog.New(slog.NewTextHandler(&log, nil))
	e, err := xtreme.New(s)
	require.NoError(t, err)
	for range 2 {
		p, err := e.NewPoller("huge", xtreme.PollerConfig{HugePages: true, MemoryOnDemand: true})
		require.NoError(t, err)
		require.NoError(t, p.Close())
	}
	require.NoError(t, e.Close())
	list := warnings(log.String(), "region.no_hugepages")
	require.Len(t, list, 1, log.String())
	require.Regexp(t, `cure="sysctl -w vm.nr_hugepages=1[0-9]{2}"`, list[0])
}

// A bond of a mode that is not offloaded: the command names the bond.
func TestWarnsOfABond(t *testing.T) {
	w := newCabled(t)
	a := netlink.NewLinkAttrs()
	a.Name = "bond7"
	if err := netlink.LinkAdd(netlink.NewLinkBond(a)); errors.Is(err, unix.EOPNOTSUPP) {
		testnet.Missing(t, "bonding", err)
	} else {
		w.NoError(err)
	}
	bond, err := netlink.LinkByName("bond7")
	w.NoError(err)
	address, err := netlink.ParseAddr("10.77.0.1/24")
	w.NoError(err)
	w.NoError(netlink.AddrAdd(bond, address))
	w.NoError(netlink.LinkSetUp(bond))
	s := w.udp(netip.MustParseAddrPort("10.77.0.1:0"))
	w.Equal("link.bond_mode", codes(s.Path())[0])
	list := warnings(w.log.String(), "link.bond_mode")
	w.Len(list, 1, w.log.String())
	w.Contains(list[0], `cure="ip link set bond7 type bond mode active-backup (while it is down)"`)
}
