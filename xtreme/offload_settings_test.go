package xtreme_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// What is set for sockets reaches those of offloaded rings too: the kernel's side of them tells.
func TestSettingsReachOffloadedSockets(t *testing.T) {
	w := newCabled(t)
	w.engine = w.newEngine(func(s *conf.Settings) { s.RxBytesMin, s.NoMulticastLoop = 65536, true })
	x := w.other(w.newPoller("set"))
	s := x.udp(w.at(0), xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReceiveBuffer: 5000}})
	w.Equal("bypass", s.Path().Tier)
	w.Equal(2*65536, x.sockopt(s, unix.SOL_SOCKET, unix.SO_RCVBUF), "the kernel doubles it")
	w.Equal(65536, ring.OptionsOf(s).ReceiveBuffer, "which our own stack keeps to as well")
	w.Zero(x.sockopt(s, unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP))
	w.False(ring.OptionsOf(s).MulticastLoop)
	x.close(s)
}

// An offloaded ring's cards fill the caller's memory.
func TestMemoryOfTheCallerOfAnOffloadedRing(t *testing.T) {
	w := newCabled(t)
	mem, err := unix.Mmap(-1, 0, 8<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	w.NoError(err)
	t.Cleanup(func() { w.NoError(unix.Munmap(mem)) })
	for _, bad := range [][]byte{{}, mem[:4096]} {
		_, err := w.engine.NewPoller("bad", xtreme.PollerConfig{Memory: bad})
		w.ErrorContains(err, "emory")
		w.Equal([]*xtreme.Poller{w.poller}, w.engine.Pollers())
	}
	x := w.other(w.newPoller("the caller's", xtreme.PollerConfig{Memory: mem}))
	s := x.udp(w.at(0))
	w.Equal("bypass", s.Path().Tier, s.Path())
	peer := w.net.Dial(s.LocalAddr())
	x.write(peer, "a text that is nowhere else")
	c := x.event(s, xtreme.EventPacket)
	w.False(c.ViaKernel)
	w.Contains(string(mem), "a text that is nowhere else")
	w.NoError(c.Packet.Release())
	x.close(s)
}

// net.core.rmem_max bounds the receive buffer of an offloaded socket as it bounds a kernel socket's: what waits for a socket that is suspended
// is kept in memory of that size.
func TestReceiveBufferOfAnOffloadedSocketIsBounded(t *testing.T) {
	w := newCabled(t)
	text, err := os.ReadFile("/proc/sys/net/core/rmem_max")
	w.NoError(err)
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	w.NoError(err)
	if most > 64<<20 {
		testnet.Missing(t, "rmem_max", fmt.Sprintf("a net.core.rmem_max of 64 MiB or less, it is %d", most))
	}
	w.engine = w.newEngine(func(s *conf.Settings) { s.RxBytesMin = 4 * most })
	x := w.other(w.newPoller("set"))
	s := x.udp(w.at(0), xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReceiveBuffer: 5000}})
	w.Equal("bypass", s.Path().Tier, s.Path())
	w.Equal(2*most, x.sockopt(s, unix.SOL_SOCKET, unix.SO_RCVBUF), "the kernel doubles it")
	w.NoError(s.Suspend())
	peer := w.net.Dial(s.LocalAddr())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	x.write(peer, "kept")
	x.until("it is kept", func() bool { return counter(s.Ring(), "stack.kept") == 1 })
	runtime.ReadMemStats(&after)
	w.Less(after.TotalAlloc-before.TotalAlloc, uint64(2*most))
	w.NoError(s.Resume())
	got, _ := fast(x, s)
	w.Equal("kept", got)
	x.close(s)
}
