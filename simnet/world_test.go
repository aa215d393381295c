package simnet

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/ring"
)

// pair is two hosts with a cable between them, and what each received.
type pair struct {
	*require.Assertions
	*World
	hosts [2]*Host
	cable *Cable
	got   [2][]string
	times [2][]time.Duration
}

func newPair(t *testing.T, seed uint64, change ...func(*HostConfig)) *pair {
	p := &pair{Assertions: require.New(t)}
	p.World = New(seed)
	var err error
	for i := range 2 {
		c := HostConfig{Addrs: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.0.0.%d/24", i+1))}}
		for _, f := range change {
			f(&c)
		}
		p.hosts[i], err = p.Host([]string{"a", "b"}[i], c)
		p.NoError(err)
		p.hosts[i].Handle(func(c *ring.Completion) {
			if c.Events.Has(ring.EventPacket) {
				p.got[i] = append(p.got[i], string(c.Packet.Bytes()))
				p.times[i] = append(p.times[i], p.Now())
				p.NoError(c.Packet.Release())
			}
		})
	}
	p.cable, err = p.Connect(p.hosts[0].NIC(0), p.hosts[1].NIC(0))
	p.NoError(err)
	t.Cleanup(func() { p.NoError(p.Close()) })
	return p
}

func (p *pair) udp(i int, port uint16) *ring.Socket {
	s, err := p.hosts[i].OpenUDP(netip.AddrPortFrom(p.hosts[i].Addr(), port), ring.Config{Timestamps: true, HardwareTimestamps: ring.HardwareTimestampsSync})
	p.NoError(err)
	return s
}

func (p *pair) send(s *ring.Socket, to *ring.Socket, text string) {
	_, err := s.SendTo([]byte(text), to.LocalAddr())
	p.NoError(err)
}

// The neighbour is asked for first; each of the three frames takes the line's delay.
func TestFirstDatagram(t *testing.T) {
	p := newPair(t, 1)
	p.NoError(p.cable.Set(Impairment{Delay: 10 * time.Millisecond}))
	a, b := p.udp(0, 7000), p.udp(1, 7000)
	p.send(a, b, "hello")
	p.NoError(p.Run(29 * time.Millisecond))
	p.Empty(p.got[1])
	p.NoError(p.Run(time.Second))
	p.Equal([]string{"hello"}, p.got[1])
	p.Equal([]time.Duration{30 * time.Millisecond}, p.times[1])
	p.Equal(time.Second, p.Now())
	p.Equal(uint64(2), p.cable.AB.Stats().Arrived)
	p.send(b, a, "back")
	p.NoError(p.Run(2 * time.Second))
	p.Equal([]time.Duration{1010 * time.Millisecond}, p.times[0])
}

// Stamps are those of the card, in virtual time.
func TestStamps(t *testing.T) {
	p := newPair(t, 1, func(c *HostConfig) { c.Latency = time.Millisecond })
	p.NoError(p.cable.Set(Impairment{Delay: time.Second}))
	a, b := p.udp(0, 7000), p.udp(1, 7000)
	var at []int64
	p.hosts[1].Handle(func(c *ring.Completion) {
		at = append(at, c.Time.Nanos-epoch)
		p.Equal(ring.StampHardware, c.Time.Source)
		p.Equal(p.Now().Nanoseconds()-1e6, c.Time.Nanos-epoch)
		p.NoError(c.Packet.Release())
	})
	p.send(a, b, "x")
	p.NoError(p.Run(time.Minute))
	p.Equal([]int64{3e9 + 2e6}, at, "three ways of a second, and the two hosts' latencies for the question and the answer")
}

// What the cards' stamps are made into is the socket's to say. A host knows the clocks of its own cards only, never the machine's.
func TestHardwareTimestamps(t *testing.T) {
	for _, x := range []struct {
		config ring.Config
		want   ring.Stamp
	}{
		{ring.Config{Timestamps: true}, ring.Stamp{Nanos: epoch + 4e9, Source: ring.StampPoll}},
		{ring.Config{Timestamps: true, HardwareTimestamps: ring.HardwareTimestampsRaw}, ring.Stamp{Nanos: epoch + 3e9, Source: ring.StampRawHardware}},
		{ring.Config{Timestamps: true, HardwareTimestamps: ring.HardwareTimestampsBest}, ring.Stamp{Nanos: epoch + 3e9, Source: ring.StampHardware}},
		{ring.Config{Timestamps: true, HardwareTimestamps: ring.HardwareTimestampsPTP}, ring.Stamp{Nanos: epoch + 3e9, Source: ring.StampHardware}},
		{ring.Config{Timestamps: true, HardwareTimestamps: ring.HardwareTimestampsPTP, TAIOffset: 37 * time.Second},
			ring.Stamp{Nanos: epoch + 3e9 - 37e9, Source: ring.StampHardware}},
	} {
		p := newPair(t, 1)
		a := p.udp(0, 7000)
		b, err := p.hosts[1].OpenUDP(netip.AddrPortFrom(p.hosts[1].Addr(), 7000), x.config)
		p.NoError(err)
		var at []ring.Stamp
		p.hosts[1].Handle(func(c *ring.Completion) {
			at = append(at, c.Time)
			p.NoError(c.Packet.Release())
		})
		p.NoError(p.cable.Set(Impairment{Delay: time.Second}))
		p.At(2500*time.Millisecond, func() { p.hosts[1].Pause(1500 * time.Millisecond) })
		p.send(a, b, "x")
		p.NoError(p.Run(time.Minute))
		p.Equal([]ring.Stamp{x.want}, at, "%+v", x.config)
	}
	p := newPair(t, 1)
	_, err := p.hosts[0].card(2)
	p.ErrorContains(err, "host a: interface 2 of 1")
}

// What stays on the host has no card to stamp it: it gets the time of the poll, which is virtual, too.
func TestStampsOfTheHostItself(t *testing.T) {
	p := newPair(t, 1)
	a, b := p.udp(0, 7000), p.udp(0, 7001)
	var at []ring.Stamp
	p.hosts[0].Handle(func(c *ring.Completion) {
		at = append(at, c.Time)
		p.NoError(c.Packet.Release())
	})
	p.hosts[0].After(3*time.Second, func() { p.send(a, b, "x") })
	p.NoError(p.Run(time.Minute))
	p.Equal([]ring.Stamp{{Nanos: epoch + 3e9, Source: ring.StampPoll}}, at)
}

// A host that stands still loses what its card has no room for, and says so.
func TestPause(t *testing.T) {
	p := newPair(t, 1, func(c *HostConfig) { c.Slots = 8 })
	a, b := p.udp(0, 7000), p.udp(1, 7000)
	p.send(a, b, "first")
	p.NoError(p.Run(time.Second))
	p.hosts[1].Pause(time.Second)
	for i := range 20 {
		p.send(a, b, fmt.Sprint(i))
	}
	p.NoError(p.Run(1900 * time.Millisecond))
	p.Len(p.got[1], 1)
	p.NoError(p.Run(3 * time.Second))
	p.Equal([]string{"first", "0", "1", "2", "3", "4", "5", "6", "7"}, p.got[1])
	p.Equal(2*time.Second, p.times[1][1])
	p.Equal(uint64(12), p.hosts[1].Counter("eth0.simnet.rx_ring_full"))
}

// A neighbour that is not there is asked for three times, then what waited is given up.
func TestNobodyAnswers(t *testing.T) {
	p := newPair(t, 1)
	a := p.udp(0, 7000)
	_, err := a.SendTo([]byte("x"), netip.MustParseAddrPort("10.0.0.99:7000"))
	p.NoError(err)
	p.NoError(p.Run(10 * time.Second))
	p.Equal(uint64(3), p.cable.AB.Stats().Sent)
	p.Equal(uint64(1), p.hosts[0].Counter("neighbour.time"))
}

// The hosts' MTU refuses, the line's loses.
func TestMTU(t *testing.T) {
	p := newPair(t, 1)
	a, b := p.udp(0, 7000), p.udp(1, 7000)
	p.NoError(p.cable.AB.Set(Impairment{MTU: 500}))
	p.send(a, b, string(make([]byte, 473)))
	p.send(a, b, string(make([]byte, 472)))
	p.NoError(p.Run(time.Second))
	p.Len(p.got[1], 1)
	p.Equal(uint64(1), p.cable.AB.Stats().Lost[LostMTU])
	p.NoError(p.hosts[0].SetMTU(0, 500))
	p.NoError(p.Run(2 * time.Second))
	_, err := a.SendTo(make([]byte, 473), b.LocalAddr())
	p.ErrorContains(err, "message too long")
	p.ErrorContains(p.hosts[0].SetMTU(1, 500), "interface 1 of 1")
}

// A world that is captured, logged or given one more host does the same as without.
func TestLookingChangesNothing(t *testing.T) {
	run := func(change func(w *World)) (*World, uint64) {
		p := newPair(t, 7)
		change(p.World)
		p.NoError(p.cable.Set(Impairment{Loss: 0.2, Jitter: time.Second, Duplicate: 0.2, Corrupt: 0.2, Truncate: 0.1, Reorder: 0.1}))
		a, b := p.udp(0, 7000), p.udp(1, 7000)
		for i := range 500 {
			p.At(time.Duration(i)*10*time.Millisecond, func() { p.send(a, b, fmt.Sprintf("datagram %d", i)) })
		}
		p.NoError(p.Run(time.Minute))
		return p.World, p.Hash()
	}
	_, plain := run(func(*World) {})
	var log, file bytes.Buffer
	w, watched := run(func(w *World) {
		w.SetLog(&log)
		require.NoError(t, w.Capture(&file))
		require.ErrorContains(t, w.Capture(&file), "one already")
	})
	require.Equal(t, plain, watched)
	require.Contains(t, log.String(), "a.eth0>b.eth0: ")
	require.NoError(t, w.pcap.Flush())
	pcap, err := pcapgo.NewNgReader(&file, pcapgo.DefaultNgReaderOptions)
	require.NoError(t, err)
	seen := map[string]uint64{}
	for {
		_, ci, err := pcap.ReadPacketData()
		if err != nil {
			break
		}
		i, err := pcap.Interface(ci.InterfaceIndex)
		require.NoError(t, err)
		seen[i.Name]++
	}
	line := w.Lines()[0]
	require.Equal(t, line.Stats().Sent, seen["a.eth0>b.eth0 sent"])
	require.Equal(t, line.Stats().Arrived, seen["a.eth0>b.eth0 arrived"])
	_, other := run(func(w *World) { w.seed++; w.trace++ })
	require.NotEqual(t, plain, other)
}

func TestStreamsAreIndependent(t *testing.T) {
	w := New(1)
	a := w.Rand("a")
	first := a.Uint64()
	w.Rand("b").Uint64()
	require.Equal(t, first, w.Rand("a").Uint64())
	require.NotEqual(t, first, w.Rand("b").Uint64())
	require.NotEqual(t, first, randomStream(2, "a").Uint64())
	require.NoError(t, w.Close())
}

func TestArguments(t *testing.T) {
	p := newPair(t, 1)
	w := p.World
	addr := []netip.Prefix{netip.MustParsePrefix("10.0.0.9/24")}
	for want, c := range map[string]HostConfig{
		"no address in Addrs":          {},
		"address 10.0.0.0/24 in Addrs": {Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}},
		"address fd00::1/64 in Addrs":  {Addrs: []netip.Prefix{netip.MustParsePrefix("fd00::1/64")}},
		"MTU is 67":                    {Addrs: addr, MTU: 67},
		"Slots is -1":                  {Addrs: addr, Slots: -1},
		"Latency is -1ns":              {Addrs: addr, Latency: -1},
		"Batch is -1":                  {Addrs: addr, Batch: -1},
	} {
		_, err := w.Host("x", c)
		p.ErrorContains(err, want)
	}
	_, err := w.Host("a", HostConfig{Addrs: addr})
	p.ErrorContains(err, "one already")
	for want, m := range map[string]Impairment{
		"Loss is 1.5":     {Loss: 1.5},
		"Corrupt is -0.1": {Corrupt: -0.1},
		"Delay is -1":     {Delay: -1},
		"MTU is -1":       {MTU: -1},
	} {
		p.ErrorContains(p.cable.Set(m), want)
	}
	_, err = w.Connect(p.hosts[0].NIC(0), w.Switch("s"))
	p.ErrorContains(err, "a.eth0: it has a cable already")
	_, err = w.Connect(nil, w.Switch("s"))
	p.ErrorContains(err, "nil")
	lan := w.Switch("t")
	_, err = w.Connect(lan, lan)
	p.ErrorContains(err, "itself")
	p.ErrorContains(lan.Query(-1), "query")
	other := New(2)
	_, err = w.Connect(lan, other.Switch("u"))
	p.ErrorContains(err, "not both of this world")
	p.NoError(other.Close())
}

// A packet that the application keeps is missed at the end, and named.
func TestCloseMissesPackets(t *testing.T) {
	p := newPair(t, 1)
	a, b := p.udp(0, 7000), p.udp(1, 7000)
	var kept []ring.Completion
	p.hosts[1].Handle(func(c *ring.Completion) { kept = append(kept, *c) })
	p.send(a, b, "kept")
	p.NoError(p.Run(time.Second))
	p.Len(kept, 1)
	p.ErrorContains(p.Close(), "ledger: host b: 1 buffers are still held")
	p.closed, p.World.closing = true, true
	p.World = New(1) // for the clean-up
}

// What panics is an error of the run with the place where it was, and the world can be closed.
func TestPanicIsAnError(t *testing.T) {
	p := newPair(t, 1)
	a, b := p.udp(0, 7000), p.udp(1, 7000)
	p.hosts[1].Handle(func(c *ring.Completion) { panic("the handler's " + string(c.Packet.Bytes())) })
	p.send(a, b, "fault")
	err := p.Run(time.Second)
	p.ErrorContains(err, "at 0s: simnet: panic: the handler's fault")
	p.ErrorContains(err, "TestPanicIsAnError")
	p.Equal(err, p.Run(time.Minute), "it has stopped")
	p.Equal(err, p.Err())
	p.Equal(err, p.Close())
	p.World = New(1) // for the clean-up
}

// A test's own check stops the run, and its handlers may do what they like to the world meanwhile.
func TestFail(t *testing.T) {
	p := newPair(t, 1)
	n := 0
	var tick func()
	tick = func() {
		if n++; n == 10 {
			p.World.Fail(fmt.Errorf("ten"))
		}
		p.After(time.Second, tick)
	}
	p.After(0, tick)
	p.EqualError(p.Run(time.Hour), "at 9s: ten")
	p.Equal(10, n)
	p.Error(p.Close())
	p.World = New(1)
}

func TestRunWhile(t *testing.T) {
	p := newPair(t, 1)
	a, b := p.udp(0, 7000), p.udp(1, 7000)
	p.NoError(p.cable.Set(Impairment{Delay: 100 * time.Millisecond}))
	p.hosts[0].After(time.Second, func() { p.send(a, b, "x") })
	p.NoError(p.RunWhile(time.Minute, func() bool { return len(p.got[1]) == 0 }))
	p.Equal(1300*time.Millisecond, p.Now())
	p.NoError(p.RunWhile(time.Minute, func() bool { return true }))
	p.Equal(time.Minute, p.Now())
}
