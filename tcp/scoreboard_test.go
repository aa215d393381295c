package tcp

import (
	"testing"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// requireScoreboard: the sums of a sender are those of its elements, which lie one behind the other from una to nxt.
func requireScoreboard(t *testing.T, c *conn, snd *sender) {
	t.Helper()
	at := c.una
	sacked, lost, again, count := 0, 0, 0, 0
	for i := range snd.flight.len() { // plain comparisons: this runs some million times
		r := snd.flight.at(i)
		if r.seq != at || r.span == 0 {
			t.Fatalf("element %d is %d+%d, expected at %d", i, r.seq, r.span, at)
		}
		at = r.end()
		switch r.flags & (sentSACKed | sentLost | sentAgain) {
		case 0:
		case sentSACKed:
			sacked += int(r.span)
			count++
		case sentAgain:
			again += int(r.span)
		case sentLost:
			lost += int(r.span)
			if r.seq.Before(snd.lostFrom) {
				t.Fatalf("element %d is lost and lies before the place where such are looked for", i)
			}
		default:
			t.Fatalf("element %d has more than one mark: %#x", i, r.flags)
		}
	}
	if c.state != SynSent && c.state != SynReceived && at != c.nxt {
		t.Fatalf("the elements end at %d, SND.NXT is %d", at, c.nxt)
	}
	if want, got := [4]int{sacked, lost, again, count}, [4]int{snd.sacked, snd.lost, snd.again, snd.sackedCount}; want != got {
		t.Fatalf("sums: expected %v, got %v", want, got)
	}
	if snd.pipe(c) < 0 {
		t.Fatalf("pipe is %d", snd.pipe(c))
	}
}

// FuzzScoreboard gives a sender acknowledgements and blocks of any kind, time-outs and smaller sizes of segments. Its sums are right after each,
// and all data is acknowledged in the end.
func FuzzScoreboard(f *testing.F) {
	f.Add([]byte{1, 2, 4, 1, 5, 9, 3, 0, 20, 0, 5, 0, 2, 6, 0})
	f.Add([]byte{1, 1, 3, 1, 2, 8, 4, 0, 0, 3, 0, 250, 0, 7, 0, 2, 30, 40})
	f.Add([]byte{3, 0, 250, 3, 0, 250, 1, 9, 12, 0, 9, 0, 3, 0, 250, 2, 3, 5})
	f.Fuzz(func(t *testing.T, ops []byte) {
		s := connected(t, func(s *Settings, _ *Config) { s.MaxSegment = 0 })
		s.send(60_000)
		s.wait(20 * ms)
		check := func() {
			c := s.table.get(s.id)
			if c != nil && c.sender != 0 {
				requireScoreboard(t, c, s.table.senders[c.sender-1])
			}
		}
		check()
		for i := 0; i+2 < len(ops) && i < 600; i += 3 {
			c := s.table.conn(s.id)
			flight := max(c.flight(), 1)
			near := func(b byte) Seq { return c.una + Seq(int(b)*flight/200) - 50 }
			switch a, b := ops[i+1], ops[i+2]; ops[i] % 5 {
			case 0: // an acknowledgement
				s.table.Input(s.now, ackOf(s, c.una+Seq(int(a)*flight/255)))
			case 1, 2: // and a block, or a D-SACK
				g := ackOf(s, c.una)
				g.Options.Has, g.Options.SACKCount = wire.TCPHasSACK, 1
				g.Options.SACK[0] = wire.SACKBlock{Left: uint32(near(a)), Right: uint32(near(b))}
				s.table.Input(s.now, g)
			case 3:
				s.wait(clockSteps[b%4] * ms)
			case 4:
				s.table.Error(s.now, NetworkError{Local: us1, Remote: them, Seq: near(a), Type: 3, Code: 4, MTU: 600 + int(b)})
			}
			check()
			s.collect()
			check()
			s.pending = nil
		}
		if s.table.State(s.id) != Established {
			return // it was given up
		}
		for range 500 {
			c := s.table.conn(s.id)
			if c.flight() == 0 && c.unsent() == 0 {
				return
			}
			s.table.Input(s.now, ackOf(s, c.nxt))
			s.collect()
			check()
		}
		t.Fatalf("not all is acknowledged: %+v", s.info())
	})
}

var clockSteps = [...]clock.Duration{1, 30, 250, 2000}

// ackOf is the peer's acknowledgement.
func ackOf(s *script, ack Seq) *Segment {
	return &Segment{Local: us1, Remote: them, Seq: s.irs + 1, Ack: ack, Flags: wire.TCPAck, Window: 50000}
}
