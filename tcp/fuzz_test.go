package tcp

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// FuzzTable gives a table segments, time and calls. Nothing may panic; each buffer returns once; no invariant breaks; when all is aborted
// nothing is left.
func FuzzTable(f *testing.F) {
	f.Add([]byte{0, 2, 0, 0, 0, 0, 1, 16, 1, 1, 0, 0, 1, 24, 1, 1, 10, 0, 7, 0, 0, 0, 0, 0})
	f.Add([]byte{6, 0, 0, 0, 0, 0, 1, 18, 0, 1, 0, 0, 3, 200, 0, 0, 0, 0, 1, 16, 1, 50, 0, 9, 5, 1, 0, 0, 0, 0})
	f.Fuzz(operate)
}

// Random operations, which the fuzzer would find only after long.
func TestRandomOperations(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	for range 3000 {
		ops := make([]byte, 6*(1+random.IntN(60)))
		for i := range ops {
			if ops[i] = byte(random.Uint32()); random.IntN(3) == 0 {
				ops[i] = byte(random.IntN(4))
			}
			if i%6 == 1 && random.IntN(4) > 0 { // flags that states take
				ops[i] = []byte{16, 16, 24, 17, 2, 18, 4, 20}[random.IntN(8)]
			}
		}
		operate(t, ops)
	}
}

// operate runs operations of six bytes each on a table.
func operate(t *testing.T, ops []byte) {
	s := newScript(t, func(s *Settings, _ *Config) { s.Timestamps, s.WindowScale, s.ECN, s.KeepAlive = true, 2, true, true })
	s.listen()
	sent, kept := map[Buffer]bool{}, map[Buffer]int{}
	live := map[ID]bool{}
	var id ID = NoID
	drain := func() {
		for again := true; again; {
			again = false
			for _, e := range s.table.Events() {
				again = true
				switch e.Kind {
				case EventAccepted:
					live[e.Conn] = true
					id = e.Conn
				case EventSent:
					require.True(t, sent[e.Payload.Buffer], "returned twice")
					delete(sent, e.Payload.Buffer)
				case EventData, EventDropped:
					require.Positive(t, kept[e.Payload.Buffer])
					kept[e.Payload.Buffer]--
				case EventGone:
					delete(live, e.Conn)
				}
			}
			var g Segment
			for n := 0; s.table.Output(s.now, &g); n++ {
				again = true
				require.Less(t, n, 10_000, "Output does not end")
				require.LessOrEqual(t, g.HeaderLen(), wire.TCPLen+wire.TCPOptionsMax)
				if g.Flags&wire.TCPSyn != 0 {
					s.iss = g.Seq
				}
			}
		}
	}
	for ; len(ops) >= 6; ops = ops[6:] {
		o := ops[:6]
		switch o[0] % 10 {
		case 0, 1, 2: // a segment near the window; the peer's ports are few
			s.buffers++
			g := Segment{Local: us1, Remote: Endpoint{them.Addr, them.Port + uint16(o[0]/10)%2}, Flags: wire.TCPFlags(o[1]),
				Seq: s.irs + Seq(int8(o[2]))*Seq(1+o[5]%16*90), Ack: s.iss + Seq(int8(o[3]))*Seq(1+o[5]/16*90), Window: uint16(o[5]) * 64}
			g.Payload = Payload{Buffer: s.buffers, Length: uint32(o[4]) * 7}
			if o[5]&1 != 0 {
				g.Options.Has, g.Options.TSValue, g.Options.TSEcho = wire.TCPHasTimestamps, uint32(o[2]), uint32(o[3])
			}
			if o[5]&2 != 0 {
				g.Options.Has |= wire.TCPHasSACK | wire.TCPHasSACKPermitted | wire.TCPHasWindowScale | wire.TCPHasMSS
				g.Options.WindowScale, g.Options.MSS = o[4], uint16(o[3])<<4
				g.Options.SACKCount = o[2] % 5
				for i := range g.Options.SACK {
					left := uint32(s.iss) + uint32(o[i])*50
					g.Options.SACK[i] = wire.SACKBlock{Left: left, Right: left + uint32(int8(o[i+1]))*50}
				}
			}
			g.ECN = ECN(o[5] >> 2 & 3)
			if k, _ := s.table.Input(s.now, &g); k {
				kept[g.Payload.Buffer]++
			}
		case 3: // time
			s.now = s.now.Add(clock.Duration(o[1])*ms + clock.Duration(o[2])*clock.Second)
			for n := 0; s.table.Expire(s.now); n++ {
				require.Less(t, n, 10_000)
			}
		case 4:
			s.buffers++
			if s.table.Send(s.now, id, Payload{Buffer: s.buffers, Length: uint32(o[1])*40 + 1}, o[2]&1 != 0) == nil {
				sent[s.buffers] = true
			}
		case 5:
			_ = s.table.CloseWrite(s.now, id)
		case 6:
			if n, err := s.table.Connect(s.now, Dial{Local: us1, Remote: Endpoint{them.Addr, them.Port + 1}, Settings: s.settings}); err == nil {
				id, live[n] = n, true
			}
		case 7:
			s.table.Credit(s.now, id, int(o[1])*100)
			s.table.SetPathMTU(s.now, id, 68+int(o[2])*20)
			s.table.Error(s.now, NetworkError{Local: us1, Remote: them, Seq: s.iss + Seq(o[3]), Type: 3, Code: o[4] % 6, MTU: int(o[5]) * 8})
		case 8:
			settings := s.table.Settings(id)
			if settings.TTL != 0 {
				settings.NoDelay, settings.Cork, settings.Congestion = o[1]&1 != 0, o[1]&2 != 0, Congestion(o[2]%3)
				require.NoError(t, s.table.Configure(s.now, id, settings))
			}
		case 9:
			s.table.Close(s.now, id)
		}
		drain()
		for n := range live {
			c := s.table.get(n)
			require.NotNil(t, c)
			require.False(t, c.nxt.Before(c.una))
			if c.sender != 0 {
				requireScoreboard(t, c, s.table.senders[c.sender-1])
			}
			require.False(t, c.rcvAdv.Before(c.rcvNxt) && c.state != SynSent && !c.has(flagFinReceived), "%+v", c)
		}
	}
	for n := range live {
		s.table.Abort(s.now, n)
	}
	s.table.CloseListener(s.now, s.listener)
	drain()
	require.Empty(t, live)
	require.Empty(t, sent)
	for b, n := range kept {
		require.Zero(t, n, b)
	}
	s.now = s.now.Add(1000 * clock.Second)
	for s.table.Expire(s.now) {
	}
	drain()
	require.Zero(t, s.table.Len())
	require.Zero(t, s.table.flows.count)
	require.Zero(t, s.table.wheel.Len())
}

// FuzzSegment: what Parse takes, Put writes again.
func FuzzSegment(f *testing.F) {
	f.Add([]byte{0, 80, 19, 136, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 2, 0, 0, 0, 0, 'h', 'i'})
	f.Fuzz(func(t *testing.T, b []byte) {
		var s, again Segment
		if s.Parse(them.Addr, us1.Addr, b, 1, 14) != wire.Accept {
			return
		}
		if s.HeaderLen() > wire.TCPLen+wire.TCPOptionsMax {
			return
		}
		require.Equal(t, len(b)+14, int(s.Payload.Offset+s.Payload.Length))
		out := make([]byte, s.HeaderLen())
		s.Local, s.Remote = s.Remote, s.Local // Put writes what Local sends
		s.Put(out, 0, 0)
		require.Equal(t, wire.Accept, again.Parse(them.Addr, us1.Addr, out, 1, 14))
		require.Equal(t, []any{s.Seq, s.Ack, s.Flags, s.Window, s.Urgent, s.Options.Has &^ wire.TCPHasSACK},
			[]any{again.Seq, again.Ack, again.Flags, again.Window, again.Urgent, again.Options.Has &^ wire.TCPHasSACK})
	})
}
