package udp

// numShards is how many tables the memberships are divided into, so that a change while a snapshot exists copies one of them only. It is the
// number of bits of shards.shared.
const numShards = 64

// shards are tables of memberships. All entries of a group on an interface are in one of them:
//
//	group, interface | socket, 0        the filter's mode
//	group, interface | socket, source   the source is listed
//	group, interface | countKey         how many sockets are members
type shards struct {
	list   [numShards]flows
	seed   uint64
	shared uint64 // bits of the tables that a snapshot reads
}

// countKey is the key of no socket: their numbers are positive.
const countKey = uint64(1) << 63

// newShards makes empty tables; seeds are those of NewTable.
func newShards(seeds [2]uint64) (s shards) {
	s.seed = seeds[0] ^ seeds[1]
	for i := range s.list {
		s.list[i].seeds = seeds
		s.list[i].resize(4)
	}
	return s
}

// shardOf is the index of the table that has the entries of a group on an interface, which together are the first word of their keys.
func (s *shards) shardOf(group uint64) uint64 {
	const odd = 0x9e3779b97f4a7c15
	return (group ^ s.seed) * odd >> 58
}

// find is the value of a key, whose second word is b; none for a missing one.
func (s *shards) find(group, b uint64) int32 { return s.list[s.shardOf(group)].find(group, b) }

// write is the table of a group, for a change: a copy if a snapshot reads it.
func (s *shards) write(group uint64) *flows {
	i := s.shardOf(group)
	f := &s.list[i]
	if s.shared&(1<<i) != 0 {
		*f = f.clone()
		s.shared &^= 1 << i
	}
	return f
}

func (s *shards) set(group, b uint64, value int32) { s.write(group).set(group, b, value) }
func (s *shards) remove(group, b uint64)           { s.write(group).remove(group, b) }
