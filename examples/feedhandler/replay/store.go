package replay

import "sync"

// Store is every message sent in the current session, for those who missed some. Any goroutine.
type Store struct {
	mu       sync.Mutex
	d        dialect // of the last packet stored
	first    uint64
	messages [][]byte // each with its length
}

// newStore makes a store for one protocol.
func newStore(d *dialect) *Store { return &Store{d: *d} }

// Add stores the messages of a packet. A packet that begins again, or elsewhere, empties the store first.
func (s *Store) Add(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.d
	p, ok := s.d.parse(b)
	if !ok || p.count == 0 {
		return
	}
	next := s.first + uint64(len(s.messages))
	if s.d.session != session.session || s.d.iex.Session != session.iex.Session || p.seq != next {
		if p.seq+uint64(p.count) == next { // the other line's copy
			return
		}
		s.first, s.messages = p.seq, s.messages[:0]
	}
	for rest := p.messages; p.count > 0; p.count-- {
		var m []byte
		m, rest = s.d.cut(rest)
		s.messages = append(s.messages, append([]byte(nil), m...))
	}
}

// Len is the number of messages; First the sequence number of the first.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.messages)
}

// Packets gives the messages from to to-1, as far as there are any, in at most most packets.
func (s *Store) Packets(from, to uint64, most int) (all [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := s.first + uint64(len(s.messages))
	if from < s.first || from >= end {
		return nil
	}
	to = min(to, end)
	for from < to && len(all) < most {
		b, n := s.d.begin(nil, from), 0
		for from < to {
			m := s.messages[from-s.first]
			if n > 0 && len(b)+len(m) > largest {
				break
			}
			b = append(b, m...)
			n++
			from++
		}
		all = append(all, s.d.finish(b, n))
	}
	return all
}

// Heartbeat is a packet without messages that reports where the stream stands.
func (s *Store) Heartbeat() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.d.finish(s.d.begin(nil, s.first+uint64(len(s.messages))), 0)
}
