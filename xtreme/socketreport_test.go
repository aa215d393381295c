package xtreme_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/stats"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// What a socket has counted is in the file of VMA_STATS_FILE when it is closed, in VMA's layout, whether the process publishes statistics or
// not, and whether the socket had room among those published.
func TestClosedSocketsAreWrittenToTheStatsFile(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		for name, change := range map[string]func(*conf.Settings){
			"published":   func(s *conf.Settings) { s.StatsDirectory = filepath.Join(t.TempDir(), "stats") },
			"without":     func(s *conf.Settings) { s.StatsDirectory = "" },
			"out of room": func(s *conf.Settings) { s.StatsDirectory, s.StatsSockets = filepath.Join(t.TempDir(), "stats"), 0 },
		} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				w := &cabled{net: testnet.New(t, testnet.Pair{}), world: &world{Assertions: require.New(t), t: t, room: 64}}
				w.engine = w.newEngine(func(s *conf.Settings) {
					s.Ring, s.StatsFile = kind, filepath.Join(dir, "closed.%d")
					change(s)
				})
				w.poller = w.newPoller("test")
				s, idle := w.udp(w.at(0)), w.udp(w.at(0))
				peer := w.net.Dial(s.LocalAddr())
				const n = 20
				for range n {
					w.write(peer, strings.Repeat("x", 1024))
					w.NoError(w.event(s, xtreme.EventPacket).Packet.Release())
				}
				for range 5 {
					_, err := s.SendTo([]byte(strings.Repeat("y", 2048)[:1024]), addr(peer.LocalAddr()))
					w.NoError(err)
				}
				local, fd, idleFD := s.LocalAddr().String(), s.ID(), idle.ID()
				w.close(s)
				w.close(idle)
				text, err := os.ReadFile(filepath.Join(dir, "closed."+strconv.Itoa(os.Getpid())))
				w.NoError(err)
				blocks := strings.Split(string(text), stats.Rule)
				w.Len(blocks, 3, string(text))
				w.Empty(blocks[0])
				block := blocks[1]
				w.True(strings.HasPrefix(block, "\tFd=["+strconv.Itoa(fd)+"]\n- UDP, "), block)
				w.Contains(block, "- Local Address   = ["+local+"]\n")
				if kind == conf.RingOffload {
					w.Contains(block, "Tx Offload: 5 / 5 / 0 / 0 [kilobytes/packets/drops/errors]\n")
					w.Contains(block, "Rx Offload: 20 / 20 / 0 / 0 [kilobytes/packets/eagains/errors]\n")
				} else {
					w.Contains(block, "Tx OS info: 5 / 5 / 0 / 0 [kilobytes/packets/eagains/errors]\n")
					w.Contains(block, "Rx OS info: 20 / 20 / 0 / 0 [kilobytes/packets/eagains/errors]\n")
				}
				w.True(strings.HasPrefix(blocks[2], "\tFd=["+strconv.Itoa(idleFD)+"]\n"), blocks[2])
				w.Contains(blocks[2], "Rx and Tx were not active: nothing was received or sent\n")
			})
		}
	})
}

// Of an offloaded socket the file tells apart what came by the link and what came through the kernel, whether the socket had room among those
// published or not.
func TestTheStatsFileTellsWhatCameThroughTheKernel(t *testing.T) {
	for name, change := range map[string]func(*conf.Settings){
		"published":   func(s *conf.Settings) { s.StatsDirectory = filepath.Join(t.TempDir(), "stats") },
		"without":     func(s *conf.Settings) { s.StatsDirectory = "" },
		"out of room": func(s *conf.Settings) { s.StatsDirectory, s.StatsSockets = filepath.Join(t.TempDir(), "stats"), 0 },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "closed")
			w := newCabled(t)
			w.engine = w.newEngine(func(s *conf.Settings) { s.StatsFile = path; change(s) })
			x := w.other(w.newPoller("test"))
			for range 2 { // the second one is not counted together with the first
				s := x.udp(w.at(0))
				peer := w.net.Dial(s.LocalAddr())
				x.write(peer, strings.Repeat("x", 1024))
				x.write(peer, strings.Repeat("y", 4096)) // in fragments, which the kernel puts together
				kernel := 0
				for range 2 {
					c := x.event(s, xtreme.EventPacket)
					kernel += boolean(c.ViaKernel)
					x.NoError(c.Packet.Release())
				}
				x.Equal(1, kernel)
				x.close(s)
			}
			text, err := os.ReadFile(path)
			x.NoError(err)
			x.Equal(2, strings.Count(string(text), "Rx Offload: 1 / 1 / 0 / 0 [kilobytes/packets/eagains/errors]\n"), string(text))
			x.Equal(2, strings.Count(string(text), "Rx OS info: 4 / 1 / 0 / 0 [kilobytes/packets/eagains/errors]\n"), string(text))
		})
	}
}

// Engines with one name share the file: the first empties it, the last writes the line at its end.
func TestEnginesShareTheStatsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "closed")
	require.NoError(t, os.WriteFile(path, []byte("of before"), 0o600))
	s := conf.Default()
	s.Ring, s.StatsDirectory, s.StatsFile = conf.RingEpoll, "", path
	var engines []*xtreme.Engine
	for range 2 {
		e, err := xtreme.New(s)
		require.NoError(t, err)
		engines = append(engines, e)
	}
	for i, e := range engines {
		p, err := e.NewPoller("test", xtreme.PollerConfig{})
		require.NoError(t, err)
		_, err = p.OpenUDP(netip.MustParseAddrPort("127.0.0.1:0"), xtreme.UDPConfig{})
		require.NoError(t, err)
		require.NoError(t, p.Close(), "it closes the socket")
		require.NoError(t, e.Close())
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, i+1, strings.Count(string(text), "Fd=["), string(text))
		require.Equal(t, i == 1, strings.HasSuffix(string(text), stats.Rule), string(text))
	}
}

// Engines share the file by whichever name each has it: one that comes later does not empty it. Another file with the same name is another one.
func TestEnginesShareTheStatsFileByAnyName(t *testing.T) {
	for name, other := range map[string]func(t *testing.T, path string) string{
		"a symbolic link": func(t *testing.T, path string) string {
			require.NoError(t, os.Symlink(path, path+".link"))
			return path + ".link"
		},
		"a hard link": func(t *testing.T, path string) string {
			require.NoError(t, os.Link(path, path+".link"))
			return path + ".link"
		},
		"a relative path": func(t *testing.T, path string) string {
			t.Chdir(filepath.Dir(path))
			return filepath.Base(path)
		},
		"a longer path": func(_ *testing.T, path string) string {
			return filepath.Dir(path) + "/../" + filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "closed")
			first := reportingTo(t, path)
			second := reportingTo(t, other(t, path))
			for i, e := range []*xtreme.Engine{first, second} {
				require.NoError(t, e.Close())
				text, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, 2, strings.Count(string(text), "Fd=["), string(text))
				require.Equal(t, i == 1, strings.HasSuffix(string(text), stats.Rule), string(text))
			}
		})
	}
	t.Run("another file", func(t *testing.T) {
		here, there := t.TempDir(), t.TempDir()
		t.Chdir(here)
		first := reportingTo(t, "closed")
		t.Chdir(there)
		second := reportingTo(t, "closed")
		for _, dir := range []string{here, there} {
			text, err := os.ReadFile(filepath.Join(dir, "closed"))
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(text), "Fd=["), string(text))
		}
		require.NoError(t, first.Close())
		require.NoError(t, second.Close())
	})
}

// reportingTo is an engine with a file of closed sockets, of which one socket was closed.
func reportingTo(t *testing.T, path string) *xtreme.Engine {
	t.Helper()
	s := conf.Default()
	s.Ring, s.StatsDirectory, s.StatsFile = conf.RingEpoll, "", path
	e, err := xtreme.New(s)
	require.NoError(t, err)
	p, err := e.NewPoller("test", xtreme.PollerConfig{})
	require.NoError(t, err)
	_, err = p.OpenUDP(netip.MustParseAddrPort("127.0.0.1:0"), xtreme.UDPConfig{})
	require.NoError(t, err)
	require.NoError(t, p.Close(), "it closes the socket")
	return e
}

// Processes may share the file: what one has written stays.
func TestTheStatsFileIsAppendedTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "closed")
	w := worldWith(t, func(s *conf.Settings) { s.Ring, s.StatsDirectory, s.StatsFile = conf.RingEpoll, "", path })
	w.close(w.udp(loopback))
	other, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	w.NoError(err)
	defer other.Close()
	_, err = other.WriteString("a line of another process\n")
	w.NoError(err)
	w.close(w.udp(loopback))
	text, err := os.ReadFile(path)
	w.NoError(err)
	before, after, found := strings.Cut(string(text), "a line of another process\n")
	w.True(found, string(text))
	w.Equal(1, strings.Count(before, "Fd=["))
	w.Equal(1, strings.Count(after, "Fd=["))
}

// A name that is no plain file's stays as it is: the engine works without the file, or, as the exception handling says, is not made.
func TestStatsFileMustBePlain(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	for _, path := range []string{t.TempDir(), pipe, filepath.Join(t.TempDir(), "none", "file")} {
		s := conf.Default()
		s.Ring, s.StatsDirectory, s.StatsFile = conf.RingEpoll, "", path
		e, err := xtreme.New(s)
		require.NoError(t, err)
		require.NoError(t, e.Close())
		s.ExceptionHandling = 2
		_, err = xtreme.New(s)
		require.ErrorContains(t, err, path)
	}
}

// What the kernel has dropped is in the file, whether the counts of the socket were taken since or nobody else reads them.
func TestTheStatsFileTellsOfDrops(t *testing.T) {
	onEveryKind(t, func(t *testing.T, kind conf.RingKind) {
		for name, directory := range map[string]string{"published": "stats", "without": ""} {
			t.Run(name, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "closed")
				if directory != "" {
					directory = filepath.Join(t.TempDir(), directory)
				}
				w := &cabled{net: testnet.New(t, testnet.Pair{}), world: &world{Assertions: require.New(t), t: t, room: 64}}
				w.engine = w.newEngine(func(s *conf.Settings) { s.Ring, s.StatsFile, s.StatsDirectory = kind, file, directory })
				w.poller = w.newPoller("test")
				s := w.udp(w.at(0), xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReceiveBuffer: 4096}})
				w.NoError(s.Suspend())
				w.poll()
				peer := w.net.Dial(s.LocalAddr())
				for range 400 {
					w.write(peer, strings.Repeat("x", 1000))
				}
				w.poll()
				drops := s.Stats().Drops
				w.NotZero(drops)
				w.close(s)
				text, err := os.ReadFile(file)
				w.NoError(err)
				w.Contains(string(text), fmt.Sprint("dropped ", drops), string(text))
			})
		}
	})
}
