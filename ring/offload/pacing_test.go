package offload_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/pace/pacetest"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/memory"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
)

// A ring that goes to sleep sends what is queued first: a sender that waits for room in the queue gets its event, and the ring does not
// sleep on it.
func TestSleepHearsOfRoom(t *testing.T) {
	for _, arm := range []bool{false, true} {
		e := newEnds(t, memory.Config{})
		a, _ := e.connect(ring.Config{LargestDatagram: 2048, SendQueue: 4})
		e.poll(0)
		for i := 0; ; i++ {
			if _, err := a.Send([]byte("x")); err != nil {
				require.ErrorIs(t, err, ring.ErrWouldBlock)
				break
			}
			require.Less(t, i, 4)
		}
		begin := time.Now()
		if arm {
			pending, err := a.Ring().Arm()
			require.NoError(t, err)
			require.True(t, pending, "EventOut is there")
		} else {
			require.NoError(t, a.Ring().Wait(patience))
			require.Less(t, time.Since(begin), patience)
		}
		got := e.poll(0)
		require.Len(t, got, 1)
		require.Equal(t, ring.EventOut, got[0].Events)
		for range 3 {
			for _, c := range e.poll(1) {
				require.NoError(t, c.Packet.Release())
			}
		}
	}
}

func TestPacingAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates by itself; the build without it asserts this")
	}
	e := newEnds(t, memory.Config{})
	a, _ := e.connect(ring.Config{LargestDatagram: 2048})
	require.NoError(t, a.SetPacing(ring.Pacing{Rate: 50_000_000, Burst: 2000}))
	data := make([]byte, 1000)
	turn := func() {
		for range 4 {
			if _, err := a.Send(data); err != nil {
				t.Fatal(err)
			}
		}
		for got := 0; got < 4; {
			for i := range 2 {
				n, err := e.sets[i].Rings()[0].Poll(e.dst)
				if err != nil {
					t.Fatal(err)
				}
				for j := range e.dst[:n] {
					_ = e.dst[j].Packet.Release()
				}
				got += n
			}
		}
	}
	for range 100 {
		turn()
	}
	before := a.Ring().Stats().Paced
	require.Zero(t, testing.AllocsPerRun(200, turn))
	require.NotEqual(t, before, a.Ring().Stats().Paced)
}

// stampedSocket is a kernel socket whose datagrams are stamped on arrival.
func stampedSocket(t *testing.T, a string) *net.UDPConn {
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(a)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	testnet.Stamped(t, c)
	return c
}

func readStamped(t *testing.T, c *net.UDPConn, wait time.Duration) (data []byte, at int64, ok bool) {
	var b, info [2048]byte
	if wait > 0 {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(wait)))
	}
	n, k, _, _, err := c.ReadMsgUDP(b[:], info[:])
	if err != nil {
		return nil, 0, false
	}
	return b[:n], sys.ParseControl(info[:k]).Stamp, true
}

// The kernel at the other end of a veth sees the rate: see package pacetest for how it is judged.
func TestPacingOverVeth(t *testing.T) {
	for _, rate := range []uint64{125_000, 1_250_000, 12_500_000} { // 1, 10 and 100 Mbit/s
		c, _, s := veth(t, 1, xdp.Config{})
		r := pacetest.Rule{Rate: rate, Burst: max(int(rate/100), 3000), Size: 1000, Drift: pacetest.SystemClocks} // which lasts for a window
		r.Keeps(t, 300*time.Millisecond, func(d time.Duration) ([]pacetest.Arrival, *pacetest.Notes) {
			return pacedRound(t, c, s, r, d)
		})
	}
}

// realtime is the clock of the kernel's stamps.
func realtime(t *testing.T) int64 {
	var now unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_REALTIME, &now))
	return now.Nano()
}

// pacedRound sends for d without pause, and reports what came.
func pacedRound(t *testing.T, c *cable, s *ring.Socket, r pacetest.Rule, d time.Duration) ([]pacetest.Arrival, *pacetest.Notes) {
	const queue = 256 // the default
	var peer *net.UDPConn
	c.InPeer(func() { peer = stampedSocket(t, "10.0.0.2:0") })
	defer peer.Close()
	to := peer.LocalAddr().(*net.UDPAddr).AddrPort()
	// The kernel begins to stamp some time after it is asked.
	for end := time.Now().Add(patience); ; {
		_, err := peer.WriteToUDPAddrPort([]byte("x"), to)
		require.NoError(t, err)
		if _, at, ok := readStamped(t, peer, time.Second); ok && at != 0 {
			break
		}
		require.True(t, time.Now().Before(end), "the kernel does not stamp")
	}
	require.NoError(t, peer.SetReadDeadline(time.Time{}))
	done := make(chan []pacetest.Arrival, 1)
	go func() {
		var all []pacetest.Arrival
		for {
			b, at, ok := readStamped(t, peer, 0)
			if !ok {
				done <- all
				return
			}
			all = append(all, pacetest.Arrival{Number: int(binary.LittleEndian.Uint32(b)), At: at})
		}
	}()
	require.NoError(t, s.SetPacing(ring.Pacing{Rate: r.Rate, Burst: r.Burst}))
	dst, data, given, notes := make([]ring.Completion, 16), make([]byte, r.Size), 0, pacetest.NewNotes(r)
	cut := int64(0)
	for begin := realtime(t); cut == 0 || cut-begin < int64(d); {
		cut = realtime(t)
		for {
			binary.LittleEndian.PutUint32(data, uint32(given))
			if _, err := s.SendTo(data, to); err != nil {
				require.ErrorIs(t, err, ring.ErrWouldBlock)
				break
			}
			given++
		}
		notes.Turn(cut, given-queue)
		_, err := s.Ring().Poll(dst)
		require.NoError(t, err)
	}
	cut = realtime(t)
	require.NoError(t, s.SetPacing(ring.Pacing{})) // the rest leaves at once, and is not looked at
	require.NoError(t, s.Ring().Flush())
	require.NoError(t, peer.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	all := slices.DeleteFunc(<-done, func(a pacetest.Arrival) bool { return a.At >= cut })
	for i := range all {
		all[i].Since = notes.Since(all[i].Number)
	}
	return all, notes
}

// What goes to an address of this host leaves by the socket's descriptor, and is paced all the same.
func TestPacingToThisHost(t *testing.T) {
	_, _, s := veth(t, 1, xdp.Config{})
	peer := stampedSocket(t, "10.0.0.77:5000")
	require.NoError(t, s.SetPacing(ring.Pacing{Rate: 200_000, Burst: 1000}))
	dst := make([]ring.Completion, 16)
	begin := time.Now()
	for range 8 {
		_, err := s.SendTo(make([]byte, 1000), netip.MustParseAddrPort("10.0.0.77:5000"))
		require.NoError(t, err)
	}
	for n := 1; n <= 8; n++ {
		for {
			_, err := s.Ring().Poll(dst)
			require.NoError(t, err)
			if _, _, ok := readStamped(t, peer, 100*time.Microsecond); ok {
				break
			}
			require.Less(t, time.Since(begin), patience)
		}
		require.GreaterOrEqual(t, time.Since(begin), time.Duration(n-1)*5*time.Millisecond)
	}
}

// A stamp of the XDP program lies between the call that sends the datagram and the Poll that delivers it, also when nobody polls for 5 ms: it is
// the time of arrival. The program reads another clock than the test does, so the beginning may differ by what two readings of
// both clocks differ.
func TestArrivalTimesOverVeth(t *testing.T) {
	clocks := int64(testnet.Slow(time.Millisecond))
	c, set, _ := veth(t, 1, xdp.Config{Time: xdp.TimeXDP})
	s, err := set.NewSocket(ring.KindDatagram, ring.IPv4, ring.Config{LargestDatagram: 2048, Timestamps: true})
	require.NoError(t, err)
	require.NoError(t, s.Bind(netip.MustParseAddrPort("10.0.0.1:7001")))
	dst := make([]ring.Completion, 32)
	_, err = s.Ring().Poll(dst)
	require.NoError(t, err)
	peer := c.Dial(netip.MustParseAddrPort("10.0.0.1:7001"))
	defer peer.Close()
	realtime := func() int64 {
		var now unix.Timespec
		require.NoError(t, unix.ClockGettime(unix.CLOCK_REALTIME, &now))
		return now.Nano()
	}
	for range 20 {
		var sent []int64
		for range 20 {
			sent = append(sent, realtime())
			_, err := peer.Write([]byte("stamp"))
			require.NoError(t, err)
		}
		time.Sleep(testnet.Slow(5 * time.Millisecond)) // nobody polls
		polled, got := realtime(), 0
		for end := time.Now().Add(patience); got < len(sent); {
			n, err := s.Ring().Poll(dst)
			require.NoError(t, err)
			require.True(t, time.Now().Before(end))
			for i := range dst[:n] {
				x := &dst[i]
				require.Equal(t, ring.StampLink, x.Time.Source)
				require.Greater(t, x.Time.Nanos, sent[got]-clocks)
				require.Less(t, x.Time.Nanos, polled)
				require.NoError(t, x.Packet.Release())
				got++
			}
		}
	}
}
