package protocol

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// play lets two hosts do what the source says over a link that loses, doubles, delays and refuses, and asserts that each stream is the
// bytes that were given to it, in order, that every record ends, and that no illegal move was made (which would panic).
func play(t *testing.T, seed uint64, choose func(n int) int, steps int) {
	w := newWorld(t, seed, func(i int, c *Config) {
		c.Window = []int{3000, 10_000, 30_000}[choose(3)]
		c.MSS = []int{200, 536, 1460}[choose(3)]
		c.Overflow = Overflow(choose(2))
		c.AckEvery = 1 + choose(4)
	})
	w.listen(1 + choose(4))
	loss := choose(30)
	w.lose = func(f *frame) bool {
		if choose(40) == 0 { // twice
			w.flying = append(w.flying, *f)
		}
		if choose(40) == 0 { // late, behind others
			f.at = f.at.Add(time.Duration(choose(20)) * time.Millisecond)
		}
		return choose(100) < loss
	}
	var open []*stream
	for range steps {
		switch choose(8) {
		case 0:
			open = append(open, w.begin())
		case 1:
			for len(w.sides[1].next) > 0 {
				open = append(open, w.take())
			}
		case 2, 3:
			w.run(time.Duration(choose(50)) * time.Millisecond)
		case 4:
			w.sides[choose(2)].full = choose(4)
			w.sides[choose(2)].held = choose(3) == 0
			w.sides[choose(2)].empty = choose(3) == 0
		}
		if len(open) == 0 {
			continue
		}
		i := choose(len(open))
		st := open[i]
		table := st.side.table
		if st.gone {
			open = append(open[:i], open[i+1:]...)
			continue
		}
		switch choose(12) {
		case 0, 1, 2, 3:
			if table.Sends(st.id) {
				st.send(pattern(choose(5000)))
			}
		case 4, 5, 6:
			st.credit()
		case 7:
			table.CloseWrite(w.now, st.id)
		case 8:
			if choose(3) == 0 {
				table.Close(w.now, st.id, choose(4) == 0)
				open = append(open[:i], open[i+1:]...)
			}
		case 9:
			if choose(6) == 0 {
				table.Abort(w.now, st.id)
				open = append(open[:i], open[i+1:]...)
			}
		case 10:
			table.SetUserTimeout(st.id, choose(1000))
		}
		w.streamsMatch()
	}
	// In the end the link is well, all that came is read, and everybody closes: every record ends.
	w.lose = nil
	for _, x := range w.sides {
		x.full, x.held, x.empty = 0, false, false
	}
	for range 200 {
		for _, x := range w.sides {
			for _, st := range x.streams {
				st.credit()
			}
		}
		w.run(100 * time.Millisecond)
	}
	w.streamsMatch()
	for len(w.sides[1].next) > 0 {
		st := w.take()
		if !st.gone {
			open = append(open, st)
		}
	}
	for _, st := range open {
		if !st.gone {
			st.side.table.Close(w.now, st.id, false)
		}
	}
	w.run(3 * time.Minute)
	w.empty()
}

// streamsMatch: what each connection got is the beginning of what its peer sent.
func (w *world) streamsMatch() {
	w.t.Helper()
	sent := map[string]*stream{}
	for _, x := range w.sides {
		for id, st := range x.streams {
			c := &x.table.conns[id]
			if c.state != Closed {
				sent[fmt.Sprint(c.local, c.remote)] = st
			}
		}
	}
	for _, x := range w.sides {
		for id, st := range x.streams {
			c := &x.table.conns[id]
			peer := sent[fmt.Sprint(c.remote, c.local)]
			if peer == nil || c.state == Closed || c.rcv.Minus(peer.first) < 0 || c.rcv.Minus(peer.first) > len(peer.sent)+1 {
				continue // another connection between the same endpoints
			}
			w.LessOrEqual(len(st.got), len(peer.sent))
			w.True(bytes.Equal(peer.sent[:len(st.got)], st.got), "%d bytes", len(st.got))
			w.LessOrEqual(int(c.held), x.table.config.Window)
			w.LessOrEqual(peer.acked, len(st.got))
		}
	}
}

func TestRandom(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 7))
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { play(t, seed, random.IntN, 100) })
	}
}

// FuzzOperations takes the choices from the fuzzer.
func FuzzOperations(f *testing.F) {
	f.Add([]byte("open, send, lose, close and wait"))
	f.Fuzz(func(t *testing.T, data []byte) {
		i := 0
		choose := func(n int) int {
			if i == len(data) {
				return 0
			}
			i++
			return int(data[i-1]) % n
		}
		play(t, 1, choose, min(len(data), 200))
	})
}

// FuzzParse: what parses is written as it was, and nothing makes Parse panic.
func FuzzParse(f *testing.F) {
	b := make([]byte, HeaderLen, HeaderLen+3)
	(&Segment{Source: Endpoint{[4]byte{1, 2, 3, 4}, 5}, Target: Endpoint{[4]byte{6, 7, 8, 9}, 10}, Seq: 11, Ack: 12, Window: 13, Length: 3,
		Flags: ACK | FIN}).Put(b)
	f.Add(append(b, "abc"...))
	f.Add(b)
	f.Fuzz(func(t *testing.T, frame []byte) {
		s, payload, ok := Parse(frame)
		if !ok {
			return
		}
		again := make([]byte, HeaderLen)
		s.Put(again)
		if string(again)+string(payload) != string(frame) {
			t.Fatalf("%x became %x", frame, again)
		}
	})
}

// FuzzInput puts any segments into a host with a listener and connections in many states: no illegal move, no panic, and it goes quiet.
func FuzzInput(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	f.Fuzz(inputs)
}

// inputs is one run of FuzzInput.
func inputs(t *testing.T, data []byte) {
	w := newWorld(t, 1)
	w.lose = func(f *frame) bool { return f.to == w.sides[0] } // the fuzzer is the peer
	w.listen(3)
	x := w.sides[1]
	for len(data) >= 8 {
		d := data[:8]
		data = data[8:]
		s := Segment{Source: Endpoint{w.sides[0].addr, 1 + uint16(d[0]%4)}, Target: w.server(), Flags: Flags(d[1]) & allFlags,
			Seq: Seq(d[2]), Ack: Seq(d[3]), Window: uint32(d[4]) * 16, Length: uint16(d[5])}
		if id, ok := x.table.lookup[pair{s.Target, s.Source}]; ok { // near what the connection expects
			c := &x.table.conns[id]
			s.Seq = c.rcv + Seq(int8(d[2]))
			s.Ack = c.una + Seq(int8(d[3]))
			switch d[6] % 8 {
			case 0:
				x.table.Close(w.now, id, d[7]&1 != 0)
			case 1:
				x.table.CloseWrite(w.now, id)
			case 2:
				if st := x.streams[id]; st != nil && x.table.Sends(id) {
					st.send(pattern(int(d[7])))
				}
			case 3:
				x.table.Credit(w.now, id, int(d[7]))
			case 4:
				w.run(time.Duration(d[7]) * time.Millisecond)
			}
		}
		x.input = make([]byte, s.Length)
		x.table.Input(w.now, &s)
	}
	x.table.AbortAll(w.now)
	w.run(time.Second)
	w.empty()
}

func TestRandomInput(t *testing.T) {
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 1))
		data := make([]byte, 8*(1+r.IntN(60)))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		inputs(t, data)
	}
}
