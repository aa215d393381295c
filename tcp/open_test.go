package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

func TestActiveOpen(t *testing.T) {
	s := connected(t)
	s.state(Established)
	i := s.info()
	require.Equal(t, 1000, i.MSS)
	require.True(t, i.SACK)
	require.Equal(t, 10000, i.CongestionWindow)
}

func TestPassiveOpen(t *testing.T) {
	s := accepted(t)
	s.state(Established)
	s.out()
}

// The last segment of the handshake may carry data.
func TestPassiveOpenWithData(t *testing.T) {
	s := newScript(t)
	s.listen()
	s.in("S 0:0 mss 1000")
	s.out("S. 0:0 ack 1")
	s.in("P. 1:11 ack 1")
	s.event(EventAccepted)
	require.EqualValues(t, 10, s.event(EventData).Payload.Length)
	s.out(". 1:1 ack 11")
}

// RFC 9293 MUST-22, MUST-23, RFC 6298 section 2: 1, 2, 4, 8, 16, 32, 64 seconds.
func TestSynIsRepeatedAndGivenUp(t *testing.T) {
	s := newScript(t)
	s.dial()
	s.out("S 0:0")
	for n := range 6 {
		s.wait(clock.Second<<n - 10*ms)
		s.out()
		s.wait(20 * ms)
		s.out("S 0:0")
		s.now -= clock.Time(10 * ms)
	}
	s.wait(64 * clock.Second)
	s.wait(clock.Second)
	s.out()
	require.Equal(t, ReasonTimeout, s.event(EventFailed).Reason)
	s.state(Closed)
	s.table.Close(s.now, s.id)
	s.event(EventGone)
	require.Zero(t, s.table.Len())
}

// The same for a passive open; the record needs no connection.
func TestSynAckIsRepeatedAndGivenUp(t *testing.T) {
	s := newScript(t)
	s.listen()
	s.in("S 0:0 mss 1000")
	s.out("S. 0:0 ack 1")
	require.Equal(t, 1, s.table.HalfOpen())
	require.Zero(t, s.table.Len())
	s.in("S 0:0 mss 1000") // the SYN again
	s.out("S. 0:0 ack 1")
	for n := range 5 {
		s.wait(clock.Second << n)
		s.out("S. 0:0 ack 1")
	}
	s.wait(clock.Second << 5)
	s.out()
	require.Zero(t, s.table.HalfOpen())
	require.Zero(t, s.table.flows.count)
}

// RFC 9293 section 3.10.7.3.
func TestArrivalsInSynSent(t *testing.T) {
	s := newScript(t)
	s.dial()
	s.out("S 0:0")
	s.in(". 0:0 ack 77") // acknowledges what was not sent
	s.out("R 77:77")
	s.in("R. 0:0 ack 77")
	s.in("R 0:0")
	s.in("P. 1:10 ack 1") // no SYN
	s.out()
	s.state(SynSent)
	s.in("R. 0:0 ack 1")
	s.state(Closed)
	require.Equal(t, ReasonRefused, s.event(EventFailed).Reason)
}

// RFC 9293 MUST-10, figure 8.
func TestSimultaneousOpen(t *testing.T) {
	s := newScript(t)
	s.dial()
	s.out("S 0:0")
	s.in("S 0:0 mss 1000")
	s.out("S. 0:0 ack 1")
	s.state(SynReceived)
	s.in("S. 0:0 ack 1 mss 1000")
	s.state(Established)
	s.event(EventConnected)
	s.silent(clock.Second) // the peer's SYN was acknowledged with ours (RFC 9293 figure 7)

	s = newScript(t) // both of the peer's segments before ours could leave: they are acknowledged together
	s.dial()
	s.out("S 0:0")
	s.burst("S 0:0 mss 1000", "S. 0:0 ack 1 mss 1000")
	s.state(Established)
	s.out(". 1:1 ack 1")
}

// RFC 9293 MUST-11: a reset in SYN-RECEIVED returns a passive open to LISTEN, and fails an active one.
func TestResetInSynReceived(t *testing.T) {
	s := newScript(t)
	s.listen()
	s.in("S 0:0 mss 1000")
	s.out("S. 0:0 ack 1")
	s.in("R 5:5") // in the window, not exact: RFC 5961 section 3.2
	s.out(". 1:1 ack 1")
	s.in("R 1:1")
	require.Zero(t, s.table.HalfOpen())
	s.in("S 0:0 mss 1000")
	s.out("S. 0:0 ack 1")

	s = newScript(t)
	s.dial()
	s.out("S 0:0")
	s.in("S 0:0 mss 1000")
	s.out("S. 0:0 ack 1")
	s.in("R 1:1")
	require.Equal(t, ReasonRefused, s.event(EventFailed).Reason)
}

// A wrong acknowledgement in SYN-RECEIVED is answered with a reset, and the handshake goes on.
func TestBadAckInSynReceived(t *testing.T) {
	s := newScript(t)
	s.listen()
	s.in("S 0:0 mss 1000")
	s.out("S. 0:0 ack 1")
	s.in(". 1:1 ack 99")
	s.out("R 99:99")
	s.in(". 1:1 ack 1")
	s.event(EventAccepted)
}

// RFC 9293 section 3.10.7.2.
func TestArrivalsInListen(t *testing.T) {
	s := newScript(t)
	s.listen()
	s.in("R 0:0")
	s.out()
	s.in(". 0:0 ack 5")
	s.in("S. 0:0 ack 5")
	require.Len(t, s.pending, 2)
	require.True(t, s.raw[0].Flags == wire.TCPRst && s.raw[1].Flags == wire.TCPRst)
	s.pending = nil
	require.Equal(t, wire.TCPFlagsBad, s.in("FP 0:0"))
	require.Equal(t, wire.TCPFlagsBad, s.in("SF 0:0"))
	require.Equal(t, wire.TCPFlagsBad, s.in("SR 0:0"))
	s.out()
}

// RFC 9293 MUST-57, MUST-63, MUST-46.
func TestGroupsAndNobodyAreNotAnswered(t *testing.T) {
	s := newScript(t)
	s.listen()
	for _, a := range []wire.Addr{{0, 0, 0, 0}, {224, 0, 0, 1}, {255, 255, 255, 255}, {240, 1, 1, 1}} {
		g := s.parse("S 0:0 mss 1000")
		g.Remote.Addr = a
		_, d := s.table.Input(s.now, &g)
		require.Equal(t, wire.TCPGroup, d)
		_, err := s.table.Connect(s.now, Dial{Local: Endpoint{us1.Addr, 0}, Remote: Endpoint{a, 80}, Settings: s.settings})
		require.ErrorIs(t, err, ErrAddress)
	}
	g := s.parse("S 0:0 mss 1000")
	g.Group = true
	_, d := s.table.Input(s.now, &g)
	require.Equal(t, wire.TCPGroup, d)
	g = s.parse("S 0:0")
	g.Remote = us1
	_, d = s.table.Input(s.now, &g)
	require.Equal(t, wire.TCPGroup, d, "from itself")
	s.out()
}

// RFC 9293 MUST-15, MUST-16; CVE-2019-11479: a size without room for data is not taken.
func TestPeerMSS(t *testing.T) {
	for offer, want := range map[string]int{"": 536, " mss 0": 48, " mss 1": 48, " mss 47": 48, " mss 500": 500, " mss 65535": 1000} {
		s := newScript(t)
		s.dial()
		s.out("S 0:0")
		s.in("S. 0:0 ack 1" + offer)
		require.Equal(t, want, s.info().MSS, offer)
		s.out(". 1:1 ack 1")
		s.send(3000)
		s.collect()
		require.EqualValues(t, want, s.raw[2].Payload.Length)
	}
}

// RFC 9293 MUST-65: MSS only on SYN. RFC 7323 section 2: nor window scale.
func TestOptionsOfSynAloneAreIgnoredLater(t *testing.T) {
	s := connected(t)
	s.in(". 1:1 ack 1 mss 100 wscale 3 sackok")
	require.Equal(t, 1000, s.info().MSS)
	require.Equal(t, -1, s.info().SendScale)
	s.send(1000)
	s.out("P. 1:1001 ack 1")
	require.Zero(t, s.last().Options.Has)
}

// RFC 7323 section 2.2, 2.3.
func TestWindowScale(t *testing.T) {
	scaled := func(s *Settings, _ *Config) { s.WindowScale = 4 }
	s := newScript(t, scaled)
	s.dial()
	s.out("S 0:0")
	require.EqualValues(t, 4, s.last().Options.WindowScale)
	require.EqualValues(t, 65535, s.last().Window, "not scaled beside SYN")
	s.in("S. 0:0 ack 1 mss 1000 wscale 15 win 1000")
	s.out(". 1:1 ack 1")
	require.EqualValues(t, 256<<10>>4, s.last().Window)
	require.Equal(t, 14, s.info().SendScale, "15 counts as 14")
	require.Equal(t, 1000, s.info().SendWindow)
	s.in(". 1:1 ack 1 win 65535")
	require.Equal(t, 65535<<14, s.info().SendWindow)

	s = newScript(t, scaled) // the peer does not scale: nobody does
	s.dial()
	s.out("S 0:0")
	s.in("S. 0:0 ack 1 mss 1000")
	s.out(". 1:1 ack 1")
	require.EqualValues(t, 65535, s.last().Window)
}

// RFC 9293 MUST-8, MUST-9, RFC 6528: a clock of 4 µs, and no relation between connections.
func TestInitialSequenceNumbers(t *testing.T) {
	random := uint64(9)
	table, err := New(Config{Random: func() uint64 { random += 0x9e3779b97f4a7c15; return random }}, 1)
	require.NoError(t, err)
	a := table.initialSequence(1000*4000, us1, them)
	require.Equal(t, a+250, table.initialSequence(1250*4000, us1, them))
	seen := map[Seq]bool{}
	high := 0
	for p := range uint16(1000) {
		n := table.initialSequence(1, us1, Endpoint{them.Addr, 1000 + p})
		require.False(t, seen[n])
		seen[n] = true
		if n >= 1<<31 {
			high++
		}
	}
	require.InDelta(t, 500, high, 100)
	other, err := New(Config{Random: func() uint64 { random += 77; return random }}, 1)
	require.NoError(t, err)
	require.NotEqual(t, a, other.initialSequence(1000*4000, us1, them), "another start, another key")
}

// SipHash-2-4: the published vectors, for the bytes 00, 01, … with the key 00 … 0f.
func TestSipHash(t *testing.T) {
	k := key{0x0706050403020100, 0x0f0e0d0c0b0a0908}
	require.EqualValues(t, uint64(0x93f5f5799a932462), k.sip(0x0706050403020100), "8 bytes: the published vector")
	require.EqualValues(t, uint64(0x3f2acc7f57c29bdb), k.sip(0x0706050403020100, 0x0f0e0d0c0b0a0908), "16 bytes: the published vector")
}

// RFC 6056 section 3.3.3: ports go on from a place that depends on the destination, and skip those in use.
func TestEphemeralPorts(t *testing.T) {
	s := newScript(t, func(_ *Settings, c *Config) { c.PortFirst, c.PortLast = 40000, 40007 })
	seen := map[uint16]bool{}
	for range 8 {
		id, err := s.table.Connect(s.now, Dial{Local: Endpoint{Addr: us1.Addr}, Remote: them, Settings: s.settings})
		require.NoError(t, err)
		i, _ := s.table.Info(id)
		require.False(t, seen[i.Local.Port])
		seen[i.Local.Port] = true
	}
	_, err := s.table.Connect(s.now, Dial{Local: Endpoint{Addr: us1.Addr}, Remote: them, Settings: s.settings})
	require.ErrorIs(t, err, ErrNoPort)
	_, err = s.table.Connect(s.now, Dial{Local: Endpoint{Addr: us1.Addr}, Remote: Endpoint{them.Addr, 81}, Settings: s.settings})
	require.NoError(t, err, "a port serves many destinations")
	_, err = s.table.Connect(s.now, Dial{Local: Endpoint{us1.Addr, 40000}, Remote: them, Settings: s.settings})
	require.ErrorIs(t, err, ErrInUse)
}

// The accept queue is bounded: the last segment of a handshake is ignored until there is room.
func TestBacklog(t *testing.T) {
	s := newScript(t)
	s.listen() // a backlog of 1
	from := func(port uint16, text string) wire.Drop {
		g := s.parse(text)
		g.Remote.Port = port
		_, d := s.table.Input(s.now, &g)
		s.collect()
		return d
	}
	from(1, "S 0:0 mss 1000")
	from(2, "S 0:0 mss 1000")
	s.pending = nil
	require.Equal(t, wire.Accept, from(1, ". 1:1 ack 1"))
	require.Equal(t, wire.TCPBacklog, from(2, ". 1:1 ack 1"))
	require.Equal(t, wire.TCPBacklog, from(3, "S 0:0 mss 1000"))
	s.out()
	require.Equal(t, 1, s.count(EventAccepted))
	require.NoError(t, s.table.Take(s.id, 1))
	require.Equal(t, wire.Accept, from(2, ". 1:1 ack 1"))
	require.Equal(t, 2, s.count(EventAccepted))
	require.EqualValues(t, 2, s.table.Stats().Overflows)
	s.table.CloseListener(s.now, s.listener) // resets the child that was not taken
	s.collect()
	require.Equal(t, []string{"R. 1:1 ack 1"}, s.pending)
	require.Equal(t, 1, s.table.Len())
}

// A child that is reset before it was taken is still the application's to take: its data may wait to be read.
func TestChildResetBeforeItIsTaken(t *testing.T) {
	s := newScript(t)
	s.listen()
	s.in("S 0:0 mss 1000")
	s.out("S. 0:0 ack 1")
	s.in("P. 1:5 ack 1")
	s.in("R. 5:5 ack 1")
	require.Equal(t, 1, s.count(EventAccepted))
	require.Equal(t, 1, s.count(EventData))
	require.Equal(t, 1, s.count(EventFailed))
	require.Zero(t, s.count(EventGone))
	require.Equal(t, Closed, s.table.State(s.id))
	require.NoError(t, s.table.Take(s.id, 1))
	s.table.Close(s.now, s.id)
	s.collect()
	require.Equal(t, 1, s.count(EventGone))
	require.Zero(t, s.table.Len())
}

// The children of a listener have the settings that it had last.
func TestConfigureListener(t *testing.T) {
	s := newScript(t)
	s.listen()
	change := DefaultSettings()
	change.TTL, change.WindowScale = 9, 5
	require.NoError(t, s.table.ConfigureListener(s.listener, change))
	require.ErrorIs(t, s.table.ConfigureListener(s.listener+1, change), ErrListening)
	s.in("S 0:0 mss 1000")
	s.out("S. 0:0 ack 1")
	s.in(". 1:1 ack 1")
	require.Equal(t, uint8(9), s.table.Settings(s.id).TTL)
	require.Equal(t, s.settings.WindowScale, s.table.Settings(s.id).WindowScale, "handshakes may have offered the former one")
	change.TTL = 0
	require.ErrorIs(t, s.table.ConfigureListener(s.listener, change), ErrSettings)
}

// RFC 4987 section 3.6: over the limit of half-open connections nothing is kept, and the handshake still completes.
func TestSynCookies(t *testing.T) {
	for _, ts := range []bool{false, true} {
		s := newScript(t, func(s *Settings, c *Config) {
			c.MaxHalfOpen = 2
			s.Timestamps, s.WindowScale = ts, 7
		})
		s.listen()
		for p := range uint16(3) {
			g := s.parse("S 0:0 mss 1300 sackok wscale 5")
			if ts {
				g = s.parse("S 0:0 mss 1300 sackok wscale 5 ts 1000/0")
			}
			g.Remote.Port = 6000 + p
			s.table.Input(s.now, &g)
		}
		s.collect()
		require.Equal(t, 2, s.table.HalfOpen())
		require.EqualValues(t, 1, s.table.Stats().Cookies)
		cookie := s.raw[0] // answers of no connection come first
		require.Equal(t, wire.TCPSyn|wire.TCPAck, cookie.Flags)
		done := s.parse(". 1:1 ack 1")
		done.Remote = cookie.Remote
		done.Ack = cookie.Seq + 1
		if ts {
			done.Options.Has = wire.TCPHasTimestamps
			done.Options.TSValue, done.Options.TSEcho = 1001, cookie.Options.TSValue
		}
		bad := done
		bad.Ack ^= 0x100
		_, d := s.table.Input(s.now, &bad)
		require.Equal(t, wire.TCPNoConnection, d)
		s.now = s.now.Add(30 * clock.Second)
		_, d = s.table.Input(s.now, &done)
		require.Equal(t, wire.Accept, d)
		s.collect()
		s.event(EventAccepted)
		i := s.info()
		require.Equal(t, 1200, i.PeerMSS, "the largest class that fits")
		require.Equal(t, ts, i.SACK)
		if ts {
			require.Equal(t, 5, i.SendScale)
		}
		old := done
		old.Remote.Port++
		s.now = s.now.Add(200 * clock.Second)
		_, d = s.table.Input(s.now, &old)
		require.Equal(t, wire.TCPNoConnection, d)
	}
}

// What a cookie hides in its timestamp makes it older, never newer than the clock: the peer drops segments whose timestamp is older than that of
// the SYN and ACK (RFC 7323 section 5.3, R1).
func TestTimestampOfACookieIsNotNewerThanTheNext(t *testing.T) {
	for clockStep := range 64 {
		s := newScript(t, func(s *Settings, c *Config) {
			c.Cookies = CookiesAlways
			s.Timestamps, s.WindowScale = true, 7
		})
		s.now = s.now.Add(clock.Duration(clockStep) * clock.Millisecond)
		s.listen()
		g := s.parse("S 0:0 mss 1300 sackok wscale 5 ts 1000/0")
		s.table.Input(s.now, &g)
		s.collect()
		cookie := s.raw[0]
		done := s.parse(". 1:1 ack 1")
		done.Remote, done.Ack = cookie.Remote, cookie.Seq+1
		done.Options = wire.TCPOptions{Has: wire.TCPHasTimestamps, TSValue: 1000, TSEcho: cookie.Options.TSValue}
		_, d := s.table.Input(s.now, &done)
		require.Equal(t, wire.Accept, d)
		s.collect()
		s.event(EventAccepted)
		s.raw = nil
		s.send(10)
		s.collect()
		require.NotEmpty(t, s.raw)
		require.GreaterOrEqual(t, int32(s.raw[0].Options.TSValue-cookie.Options.TSValue), int32(0), "at %d ms", clockStep)
	}
}

// An acknowledgement for a listener is answered with a reset while no cookie is out.
func TestNoCookieIsTakenWhenNoneIsOut(t *testing.T) {
	s := newScript(t)
	s.listen()
	require.Equal(t, wire.TCPNoConnection, s.in(". 1:1 ack 1"))
	s.out("R 1:1")
}

// A SYN flood: memory stays flat, and established connections are not touched.
func TestSynFlood(t *testing.T) {
	s := accepted(t, func(_ *Settings, c *Config) { c.MaxHalfOpen = 100 })
	for n := range 50_000 {
		g := s.parse("S 0:0 mss 1000")
		g.Remote = Endpoint{wire.Addr{11, byte(n >> 16), byte(n >> 8), byte(n)}, 1}
		s.table.Input(s.now, &g)
		s.table.Output(s.now, &g)
	}
	require.Equal(t, 100, s.table.HalfOpen())
	require.LessOrEqual(t, len(s.table.halfOpen.all), 101)
	s.state(Established)
}

// RFC 9293 MUST-67, SHLD-6: the offer follows the path: its MTU, or what the host says of it.
func TestOfferedMSSFollowsThePath(t *testing.T) {
	for _, c := range []struct {
		path Path
		want uint16
		most int // the payload of a segment to a peer that takes 9,000 bytes
	}{
		{Path{}, 1460, 1460}, {Path{MTU: 9000}, 8960, 8960}, {Path{MTU: 1280}, 1240, 1240},
		{Path{MTU: 9000, AdvMSS: 700}, 700, 8960}, {Path{MTU: 1280, AdvMSS: 1400}, 1400, 1240}, {Path{AdvMSS: 1}, 28, 1460},
	} {
		plain := func(s *Settings, _ *Config) { s.MaxSegment = 0 }
		s := newScript(t, plain)
		_, err := s.table.Connect(s.now, Dial{Local: us1, Remote: them, Path: c.path, Settings: s.settings})
		require.NoError(t, err)
		s.collect()
		require.Equal(t, c.want, s.last().Options.MSS)

		for _, cookies := range []CookiePolicy{CookiesNever, CookiesAlways} {
			s = newScript(t, plain, func(s *Settings, x *Config) {
				s.TOS, s.TTL, x.Cookies = 0xb8, 7, cookies
				x.Path = func(from ListenerID, local, remote wire.Addr, tos, ttl uint8) Path {
					require.Equal(t, []any{ListenerID(1), us1.Addr, them.Addr, uint8(0xb8), uint8(7)}, []any{from, local, remote, tos, ttl})
					return c.path
				}
			})
			s.listen()
			s.in("S 0:0 mss 9000")
			require.Equal(t, c.want, s.last().Options.MSS)
			require.EqualValues(t, 9, s.last().User)
			s.in(". 1:1 ack 1")
			info, ok := s.table.Info(s.id)
			require.True(t, ok)
			require.Equal(t, c.most, info.MSS)
		}
	}
}

// RFC 9293 MUST-48, MUST-49.
func TestTTLAndTOS(t *testing.T) {
	s := connected(t, func(s *Settings, _ *Config) { s.TTL, s.TOS = 7, 0xb8 })
	s.send(10)
	s.collect()
	for _, g := range s.raw {
		require.Equal(t, []uint8{7, 0xb8}, []uint8{g.TTL, g.TOS})
	}
	settings := s.table.Settings(s.id)
	settings.TTL = 9
	require.NoError(t, s.table.Configure(s.now, s.id, settings))
	s.send(10)
	s.collect()
	require.EqualValues(t, 9, s.last().TTL)
}

// RFC 3168 section 6.1.1.1: a path that drops SYNs which ask for ECN gets one that does not.
func TestECNIsGivenUpForAPathThatDropsIt(t *testing.T) {
	s := newScript(t, func(s *Settings, _ *Config) { s.ECN = true })
	s.dial()
	s.wait(8 * clock.Second)
	s.out("SEW 0:0", "SEW 0:0", "S 0:0", "S 0:0")
	s.in("S. 0:0 ack 1 mss 1000")
	require.False(t, s.info().ECN)
}

// The answers of a listener have its TTL and TOS, also those for which it keeps no record: a peer may drop what has another TTL (RFC 5082).
func TestACookieHasTheTTLOfItsListener(t *testing.T) {
	s := newScript(t, func(s *Settings, c *Config) {
		c.Cookies = CookiesAlways
		s.TTL, s.TOS = 255, 0x10
	})
	s.listen()
	g := s.parse("S 0:0 mss 1300")
	s.table.Input(s.now, &g)
	s.collect()
	require.Len(t, s.raw, 1)
	require.Equal(t, uint8(255), s.raw[0].TTL)
	require.Equal(t, uint8(0x10), s.raw[0].TOS)
}

// The reset that ends a connection has the TTL and TOS of its other segments.
func TestAResetHasTheTTLOfItsConnection(t *testing.T) {
	s := connected(t, func(s *Settings, _ *Config) { s.TTL, s.TOS = 255, 0x10 })
	s.collect()
	s.raw = nil
	s.table.Abort(s.now, s.id)
	s.collect()
	require.Len(t, s.raw, 1)
	require.Equal(t, uint8(255), s.raw[0].TTL)
	require.Equal(t, uint8(0x10), s.raw[0].TOS)
}
