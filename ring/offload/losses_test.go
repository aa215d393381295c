package offload_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/stats"
)

// lossesOf are all counters of the statistics' tables that count a loss and are not zero, behind their section's name.
func lossesOf(t testing.TB, r *ring.Ring, sockets ...*ring.Socket) map[string]uint64 {
	all := map[string]uint64{}
	s := r.Stats()
	note := func(section string, row *stats.Counter, v uint64) {
		if row.Loss && v > 0 {
			all[section+"."+row.Name] += v
		}
	}
	for _, c := range s.Driver {
		section := stats.Drivers
		if isDrop[c.Name] {
			section = stats.Drops
		}
		row := stats.SectionOf(section).Find(c.Name)
		require.NotNil(t, row, "%s is in no table", c.Name)
		note(section, row, c.Value)
	}
	rows, counts := stats.SectionOf(stats.Rings).Counters, reflect.ValueOf(s.RingCounts)
	for i := range counts.NumField() { // in the order of the rows
		note(stats.Rings, &rows[i], counts.Field(i).Uint())
	}
	for _, x := range sockets {
		note(stats.Sockets, stats.SectionOf(stats.Sockets).Find("drops"), x.Stats().Drops)
	}
	return all
}

// lossWorld is a rawEnd with many buffers, whose host knows no neighbour if so wanted.
type lossWorld struct {
	*rawEnd
	host *offload.MemoryHost
}

// lossFacts are the tables of its host.
func lossFacts(neighbours bool) host.Facts {
	f := facts(0, 1500)
	if !neighbours {
		f.Neighbours = nil
	}
	return f
}

func newLossWorld(t *testing.T, neighbours bool) *lossWorld {
	many := buffers.Layout{SmallSize: 2048, SmallCount: 2048, Headroom: 192}
	w := &lossWorld{rawEnd: &rawEnd{t: t, pool: newPool(t, layout), ours: newPool(t, many), dst: make([]ring.Completion, 64)}}
	a, b, err := memory.Pair(w.ours, w.pool, memory.Config{Addrs: macs, Names: [2]string{"mem0", "mem1"}, MTU: 1500,
		Faults: [2]memory.Fault{nil, func(frame []byte) ([]byte, int) { return frame[:w.cut], 1 }}})
	require.NoError(t, err)
	w.wire = b
	w.host, err = offload.NewMemoryHost(lossFacts(neighbours), rand.Uint64)
	require.NoError(t, err)
	w.set, err = ring.NewSet(ring.SetConfig{Pool: w.ours, Kind: "offload", Transport: w.host, OneRing: offload.OneRing,
		Driver: offload.New(overLink(t, w.host, a))})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, w.set.Close())
		require.NoError(t, b.Close())
	})
	w.s, err = w.set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{LargestDatagram: 2048, SendQueue: 1024})
	require.NoError(t, err)
	require.NoError(t, w.s.Bind(netip.AddrPortFrom(netip.AddrFrom4(us.Addr), us.Port)))
	w.poll()
	return w
}

// send sends n datagrams to an address.
func (w *lossWorld) send(n int, to string) {
	w.t.Helper()
	for range n {
		_, err := w.s.SendTo([]byte("x"), netip.MustParseAddrPort(to))
		require.NoError(w.t, err)
	}
}

// flush has the links send.
func (w *lossWorld) flush() { require.NoError(w.t, w.s.Ring().Flush()) }

// until polls until a loss is counted.
func (w *lossWorld) until(name string) {
	w.t.Helper()
	for end := time.Now().Add(5 * time.Second); lossesOf(w.t, w.s.Ring())[name] == 0; time.Sleep(time.Millisecond) {
		require.True(w.t, time.Now().Before(end), "%v", w.s.Ring().Stats().Driver)
		w.poll()
	}
}

// counted are the losses of the ring and its socket.
func (w *lossWorld) counted() map[string]uint64 { return lossesOf(w.t, w.s.Ring(), w.s) }

// lossesProvoked has the losses that a ring on a memory link can have: each entry returns what was counted, and by how much the one counter has
// to have moved.
var lossesProvoked = map[string]func(t *testing.T) (counted map[string]uint64, n int){
	"driver.memory.rx_ring_full": func(t *testing.T) (map[string]uint64, int) {
		w := newLossWorld(t, true)
		for range 256 + 44 { // as many as the wire has slots, and more
			w.put(packet(wire.ProtocolUDP, 64, stranger.Addr, us.Addr, datagram(us.Addr, us.Port)))
		}
		defer func() {
			for got := w.poll(); len(got) > 0; got = w.poll() {
				for i := range got {
					require.NoError(t, got[i].Packet.Release())
				}
			}
		}()
		return w.counted(), 44
	},
	"driver.memory.tx_peer_closed": func(t *testing.T) (map[string]uint64, int) {
		w := newLossWorld(t, true)
		w.wire.Stop()
		require.NoError(t, w.wire.Shut())
		w.send(3, "10.9.0.2:9")
		w.flush()
		return w.counted(), 3
	},
	"driver.neighbour.time": func(t *testing.T) (map[string]uint64, int) {
		w := newLossWorld(t, false)
		w.send(3, "10.9.0.2:9")
		w.until("driver.neighbour.time")
		return w.counted(), 3
	},
	"driver.neighbour.oldest": func(t *testing.T) (map[string]uint64, int) {
		w := newLossWorld(t, false)
		w.send(128+5, "10.9.0.2:9") // 128 may wait for one neighbour
		w.flush()
		return w.counted(), 5
	},
	"driver.neighbour.full": func(t *testing.T) (map[string]uint64, int) {
		w := newLossWorld(t, false)
		for _, to := range []string{"10.9.0.2:9", "10.9.0.3:9", "10.9.0.4:9", "10.9.0.5:9"} { // 512 may wait
			w.send(128, to)
			w.flush()
		}
		w.send(7, "10.9.0.6:9")
		w.flush()
		return w.counted(), 7
	},
	"driver.neighbour.closed": func(t *testing.T) (map[string]uint64, int) {
		w := newLossWorld(t, false)
		w.send(4, "10.9.0.2:9")
		w.flush()
		f := lossFacts(false)
		f.Links[0].Flags &^= unix.IFF_UP | unix.IFF_LOWER_UP
		w.host.SetFacts(f)
		w.until("driver.neighbour.closed")
		return w.counted(), 4
	},
	"driver.stack.no_buffer": func(t *testing.T) (map[string]uint64, int) {
		w := newLossWorld(t, true)
		var held []buffers.Packet
		for {
			p, err := w.ours.Alloc(1)
			if err != nil {
				break
			}
			held = append(held, p)
		}
		require.NoError(t, held[0].Release()) // for the frame; there is none for the answer
		for i := range uint16(3) {
			w.put(packet(wire.ProtocolICMP, 64, stranger.Addr, us.Addr, ping(i)))
			w.poll()
		}
		for _, p := range held[1:] {
			require.NoError(t, p.Release())
		}
		return w.counted(), 3
	},
	"driver.stack.loop_full": func(t *testing.T) (map[string]uint64, int) {
		w := newLossWorld(t, true)
		w.send(256+6, "10.9.0.1:53") // 256 may wait for the next Poll
		w.flush()
		counted := w.counted()
		for got := w.poll(); len(got) > 0; got = w.poll() {
			for i := range got {
				require.NoError(t, got[i].Packet.Release())
			}
		}
		return counted, 6
	},
	"driver.offload.lost_sends": func(t *testing.T) (map[string]uint64, int) {
		w := newLossWorld(t, true)
		to := netip.MustParseAddrPort("10.9.0.2:9")
		p, err := w.ours.Alloc(1)
		require.NoError(t, err)
		require.NoError(t, w.s.SendPacket(p, to, 7))
		w.send(3, to.String()) // behind the packet
		f := lossFacts(true)
		f.Routes = nil
		w.host.SetFacts(f)
		got := w.poll()
		require.Len(t, got, 1)
		require.ErrorIs(t, got[0].Err, unix.ENETUNREACH)
		return w.counted(), 3
	},
}

// lossesElsewhere are the losses whose exact number another test asserts: its file and name, and what it reads there.
var lossesElsewhere = map[string][3]string{
	"driver.xdp.rx_dropped":       {"../link/xdp/losses_test.go", "TestFramesWithoutRoomAreCounted", `"xdp.rx_dropped"`},
	"driver.xdp.rx_ring_full":     {"../link/xdp/losses_test.go", "TestFramesWithoutRoomAreCounted", `"xdp.rx_ring_full"`},
	"driver.xdp.tx_invalid_descs": {"../link/xdp/losses_test.go", "TestRefusedTransmitEntryIsCounted", `"xdp.tx_invalid_descs"`},
	"driver.xdp.tx_too_long":      {"../link/xdp/losses_test.go", "TestTooLongIsCounted", `"xdp.tx_too_long"`},
	"driver.xdp.tx_closed":        {"../link/xdp/losses_test.go", "TestUnreadAtCloseIsCounted", `"xdp.tx_closed"`},
	"driver.xdp.tx_no_carrier":    {"carrierloss_test.go", "TestCarrierLost", `"v0.xdp.tx_no_carrier"`},
	"driver.xdp.bad_numbers":      {"../link/xdp/queue_test.go", "TestNonsenseFromTheKernel", "q.counts.badNumbers"},
	"driver.memory.tx_too_long":   {"../link/memory/link_test.go", "TestLossesByName", `"memory.tx_too_long"`}, // the stack makes none
	"driver.stack.lost":           {"../../internal/ip/queued_test.go", "lostAll", "Stats().Lost"},
	"driver.neighbour.failed":     {"neighbournews_test.go", "TestNeighbourNewsBeforeARest", `"neighbour.failed"`},
	"driver.handover.full":        {"exchange_test.go", "TestHandoverIsBounded", `"handover.full"`},
	"driver.handover.closed":      {"closedring_test.go", "TestLostWithTheClosedRing", `"handover.closed"`},
	"driver.handover.no_socket":   {"exchange_test.go", "TestHandoverIsBounded", `"handover.no_socket"`},
	"ring.truncated":              {"../epoll/udp_test.go", "TestDatagramThatIsTooLongIsMarked", "Stats().Truncated"},
	"ring.closed_drops":           {"closedburst_test.go", "TestCallbackThatClosesItsSocketInABurst", "Stats().ClosedDrops"},
	"ring.lost_sends":             {"../transport/stack/transport_test.go", "TestUnsent", "Stats().LostSends"},
}

// Every loss of the statistics' tables is provoked: its counter grows by what was lost, and no other loss is counted. The reasons for drops
// have a test of their own, TestEveryDropReasonIsProvoked.
func TestEveryLossIsProvoked(t *testing.T) {
	known := map[string]bool{}
	for _, section := range stats.Sections() {
		if section.Name == stats.Drops {
			continue
		}
		for _, row := range section.Counters {
			if !row.Loss {
				continue
			}
			name := section.Name + "." + row.Name
			known[name] = true
			t.Run(name, func(t *testing.T) {
				if name == "socket.drops" { // which a ring of ours counts beside the reason
					w, n := provoked[wire.UDPBudget](t)
					require.NotZero(t, n)
					require.Equal(t, map[string]uint64{name: n, "drop.udp.budget": n}, lossesOf(t, w.s.Ring(), w.s))
					return
				}
				if at, ok := lossesElsewhere[name]; ok {
					require.NotContains(t, lossesProvoked, name, "twice")
					require.Contains(t, bodyOf(t, at[0], at[1]), at[2])
					field := strings.TrimPrefix(at[2], "Stats().")
					require.True(t, strings.Contains(at[2], row.Name) || strings.HasPrefix(field, "q.") ||
						strings.EqualFold(field, strings.ReplaceAll(row.Name[strings.LastIndex(row.Name, ".")+1:], "_", "")), "%s does not read %s", at[1], row.Name)
					return
				}
				provoke := lossesProvoked[name]
				require.NotNil(t, provoke, "no test provokes this loss: add a way to lossesProvoked")
				counted, n := provoke(t)
				require.Equal(t, map[string]uint64{name: uint64(n)}, counted)
			})
		}
	}
	for name := range lossesProvoked {
		require.True(t, known[name], "%s is no loss of the tables", name)
	}
	for name := range lossesElsewhere {
		require.True(t, known[name], "%s is no loss of the tables", name)
	}
}

// bodyOf is the text of a test in a file, or of what its tests call.
func bodyOf(t *testing.T, path, name string) string {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, 0)
	require.NoError(t, err)
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == name {
			return string(text[files.Position(f.Body.Pos()).Offset:files.Position(f.Body.End()).Offset])
		}
	}
	t.Fatalf("%s has no %s", path, name)
	return ""
}
