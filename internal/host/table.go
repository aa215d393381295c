package host

import (
	"encoding/binary"
	"maps"
	"math/bits"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// table is one routing table: the routes of each prefix, by length. Longest prefix match tries the lengths that occur, longest
// first: some map look-ups, off the path of packets, and a build that is one pass.
type table struct {
	lengths uint64 // bit n: there are prefixes of length n
	routes  [33]map[uint32][]*Route
}

// Places of tables in the order of lookup. While a host has no rules of its own, local and main are one table (fib_trie_table,
// linux/net/ipv4/fib_trie.c): the longest prefix of both decides.
const (
	localAndMain = iota
	byDefault
	numTables
)

// tableOf is the place of a table in the order of lookup.
func tableOf(id uint32) (int, bool) {
	switch id {
	case unix.RT_TABLE_LOCAL, unix.RT_TABLE_MAIN:
		return localAndMain, true
	case unix.RT_TABLE_DEFAULT:
		return byDefault, true
	}
	return 0, false
}

// insert adds a route, behind others of its prefix; sort follows.
func (t *table) insert(r Route) {
	n := r.Prefix.Bits()
	if t.routes[n] == nil {
		t.routes[n] = map[uint32][]*Route{}
		t.lengths |= 1 << n
	}
	key := masked(r.Prefix.Addr(), n)
	t.routes[n][key] = append(t.routes[n][key], &r)
}

// sort brings the routes of a prefix into the order in which the kernel tries them (fib_find_alias): local before main, TOS descending,
// metric ascending, and among equals as they were read.
func (t *table) sort() {
	for _, m := range t.routes {
		for _, list := range m {
			slices.SortStableFunc(list, func(a, b *Route) int {
				switch {
				case a.Table != b.Table:
					return int(b.Table) - int(a.Table) // local has the higher number
				case a.TOS != b.TOS:
					return int(b.TOS) - int(a.TOS)
				case a.Metric < b.Metric:
					return -1
				case a.Metric > b.Metric:
					return 1
				}
				return 0
			})
		}
	}
}

// empty reports whether the table has no routes.
func (t *table) empty() bool { return t.lengths == 0 }

// lookup calls try with the routes that match, best first, until it returns true.
func (t *table) lookup(to netip.Addr, try func(r *Route) bool) {
	for left := t.lengths; left != 0; {
		n := bits.Len64(left) - 1
		left &^= 1 << n
		for _, r := range t.routes[n][masked(to, n)] {
			if try(r) {
				return
			}
		}
	}
}

// masked is the first n bits of an address, as the key of a prefix.
func masked(a netip.Addr, n int) uint32 {
	b := a.As4()
	return uint32(uint64(binary.BigEndian.Uint32(b[:])) & (0xffffffff << (32 - n)))
}

// equal reports whether two tables have the same routes in the same order.
func (t *table) equal(u *table) bool {
	if t.lengths != u.lengths {
		return false
	}
	for n := range t.routes {
		if !maps.EqualFunc(t.routes[n], u.routes[n], func(a, b []*Route) bool { return slices.EqualFunc(a, b, (*Route).equal) }) {
			return false
		}
	}
	return true
}

func (r *Route) equal(o *Route) bool {
	return slices.Equal(r.Hops, o.Hops) && r.Table == o.Table && r.Type == o.Type && r.Prefix == o.Prefix && r.TOS == o.TOS &&
		r.Metric == o.Metric && r.Scope == o.Scope && r.Source == o.Source && r.MTU == o.MTU && r.AdvMSS == o.AdvMSS && r.Protocol == o.Protocol
}
