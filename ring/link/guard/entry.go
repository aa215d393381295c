package guard

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// The key of the map: addresses and ports as in the packet, the tag in the machine's order.
//
//	0        4        8       10      12     14    16
//	| dst IP | src IP | src P | dst P | vlan | 0  |
//
// A port has no source; a port on any address has no destination either; an address has no ports.
const (
	keyDst     = 0
	keySrc     = 4
	keyPorts   = 8 // both, as they follow each other in the packet
	keySrcPort = 8
	keyDstPort = 10
	keyVLAN    = 12
	keyBytes   = 16
)

type key [keyBytes]byte

// The value: what is done with a match, and from when on a port's SYNs are passed.
const (
	valueVerdict = 0
	valueSYNs    = 8 // nanoseconds of CLOCK_MONOTONIC
	valueBytes   = 16
)

// verdict is what an entry says.
type verdict uint32

const (
	verdictDrop    verdict = iota + 1 // of a connection
	verdictPass                       // of a connection
	verdictPort                       // of a port
	verdictAddress                    // the address is one of ours: looked up behind a port on any address
)

// never is a time at which nothing happens.
const never = ^uint64(0)

// now is the time that programs read with bpf_ktime_get_ns.
func now() uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // it does not fail for this clock
	return uint64(ts.Nano())
}

// value is an entry's value in the map: the verdict, and for a port the time from which its SYNs are passed.
func value(v verdict, syns uint64) []byte {
	b := make([]byte, valueBytes)
	binary.NativeEndian.PutUint32(b[valueVerdict:], uint32(v))
	binary.NativeEndian.PutUint64(b[valueSYNs:], syns)
	return b
}

// entryKind is what an entry is for: the bit that tells the program that there are such.
type entryKind uint32

const (
	kindConnection entryKind = 1 << iota
	kindPort                 // on an address
	kindAnywhere             // a port on any address of ours
	kindAddress
)

// kind is what an entry with this key is for, decided by which of its fields are zero.
func (k *key) kind() entryKind {
	switch {
	case [2]byte(k[keyDstPort:]) == [2]byte{}:
		return kindAddress
	case [4]byte(k[keyDst:]) == [4]byte{}:
		return kindAnywhere
	case [4]byte(k[keySrc:]) == [4]byte{}:
		return kindPort
	}
	return kindConnection
}

// keyOf makes the key of a flow's entry. The error names the field that no guarded flow can have.
func keyOf(f link.Flow) (k key, err error) {
	local, remote := f.Local.Addr().Unmap(), f.Remote.Addr().Unmap()
	switch {
	case f.Protocol != link.TCP:
		return k, fmt.Errorf("guard: Protocol %d: only TCP (%d) is guarded", f.Protocol, link.TCP)
	case !local.Is4() || local.IsMulticast():
		return k, fmt.Errorf("guard: Local %v: not an IPv4 address of a host", f.Local)
	case f.Local.Port() == 0:
		return k, fmt.Errorf("guard: Local %v: port 0", f.Local)
	case f.VLAN > 4094:
		return k, fmt.Errorf("guard: VLAN %d: must be 0 to 4094", f.VLAN)
	case !f.Remote.IsValid():
	case !remote.Is4() || remote.IsUnspecified() || remote.IsMulticast() || f.Remote.Port() == 0:
		return k, fmt.Errorf("guard: Remote %v: not the address of a peer", f.Remote)
	case local.IsUnspecified():
		return k, fmt.Errorf("guard: Local %v with Remote %v: a connection has an address", f.Local, f.Remote)
	}
	dst := local.As4()
	copy(k[keyDst:], dst[:])
	if f.Remote.IsValid() {
		src := remote.As4()
		copy(k[keySrc:], src[:])
		binary.BigEndian.PutUint16(k[keySrcPort:], f.Remote.Port())
	}
	binary.BigEndian.PutUint16(k[keyDstPort:], f.Local.Port())
	binary.NativeEndian.PutUint16(k[keyVLAN:], f.VLAN)
	return k, nil
}

// addressKey is the entry of an address of ours.
func addressKey(a netip.Addr, vlan uint16) (k key, err error) {
	if a = a.Unmap(); !a.Is4() || a.IsUnspecified() || a.IsMulticast() {
		return k, fmt.Errorf("guard: address %v: not one of an IPv4 interface", a)
	}
	if vlan > 4094 {
		return k, fmt.Errorf("guard: address %v: VLAN %d: must be 0 to 4094", a, vlan)
	}
	b := a.As4()
	copy(k[keyDst:], b[:])
	binary.NativeEndian.PutUint16(k[keyVLAN:], vlan)
	return k, nil
}
