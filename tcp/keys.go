package tcp

import (
	"encoding/binary"
	"math/bits"

	"github.com/socketxtreme/socketxtreme/internal/clock"
)

// key is a secret of SipHash.
type key [2]uint64

// The uses of the hash, so that no answer for one use tells anything about another.
const (
	useSequence = iota + 1
	useTimestamp
	usePort
	useCookie
)

// of is the keyed hash of both endpoints and a number. use is one of the constants above.
func (k key) of(use uint8, local, remote Endpoint, number uint64) uint64 {
	a := uint64(binary.BigEndian.Uint32(local.Addr[:]))<<32 | uint64(binary.BigEndian.Uint32(remote.Addr[:]))
	b := uint64(local.Port)<<32 | uint64(remote.Port)<<16 | uint64(use)
	return k.sip(a, b, number)
}

// sip is SipHash-2-4 of 24 bytes (Aumasson and Bernstein, 2012).
func (k key) sip(words ...uint64) uint64 {
	v := [4]uint64{k[0] ^ 0x736f6d6570736575, k[1] ^ 0x646f72616e646f6d, k[0] ^ 0x6c7967656e657261, k[1] ^ 0x7465646279746573}
	round := func() {
		v[0] += v[1]
		v[2] += v[3]
		v[1] = bits.RotateLeft64(v[1], 13) ^ v[0]
		v[3] = bits.RotateLeft64(v[3], 16) ^ v[2]
		v[0] = bits.RotateLeft64(v[0], 32)
		v[2] += v[1]
		v[0] += v[3]
		v[1] = bits.RotateLeft64(v[1], 17) ^ v[2]
		v[3] = bits.RotateLeft64(v[3], 21) ^ v[0]
		v[2] = bits.RotateLeft64(v[2], 32)
	}
	add := func(w uint64) {
		v[3] ^= w
		round()
		round()
		v[0] ^= w
	}
	for _, w := range words {
		add(w)
	}
	add(uint64(8*len(words)) << 56)
	v[2] ^= 0xff
	for range 4 {
		round()
	}
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

// initialSequence is RFC 6528 section 3: a clock of 4 µs plus a keyed hash of the addresses.
func (t *Table) initialSequence(now clock.Time, local, remote Endpoint) Seq {
	if f := t.config.InitialSequence; f != nil {
		return f(local, remote)
	}
	return Seq(uint64(now)/4000 + t.key.of(useSequence, local, remote, 0))
}

// timestampOffset makes the timestamp clock of a connection start anywhere (RFC 7323 section 5.4). It is the same for the same addresses, so
// that a later connection has later timestamps (RFC 6191).
func (t *Table) timestampOffset(local, remote Endpoint) uint32 {
	return uint32(t.key.of(useTimestamp, local, remote, 0))
}

// timestamp is the clock of milliseconds (RFC 7323 section 4.1).
func timestamp(now clock.Time) uint32 { return uint32(int64(now) / int64(clock.Millisecond)) }

// choosePort finds a free local port by RFC 6056 section 3.3.3, algorithm 3: the search begins at a keyed hash of the addresses plus a counter.
// False: every port from PortFirst to PortLast is in use for this peer.
func (t *Table) choosePort(local Endpoint, remote Endpoint) (uint16, bool) {
	count := uint32(t.config.PortLast-t.config.PortFirst) + 1
	offset := uint32(t.key.of(usePort, Endpoint{Addr: local.Addr}, remote, 0))
	for range count {
		p := t.config.PortFirst + uint16((offset+t.nextPort)%count)
		t.nextPort++
		local.Port = p
		if t.find(local, remote) == 0 && t.listening(local) == 0 && (t.config.Directory == nil || t.config.Directory.Find(local, remote) == 0) {
			return p, true
		}
	}
	return 0, false
}
