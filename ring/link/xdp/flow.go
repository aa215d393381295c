package xdp

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Flow is link.Flow, under the name that this package's callers read most.
type Flow = link.Flow

// The key of the flow map: addresses and ports as in the packet, VLAN too. The program writes it in words, as the kernel's hash reads it: a
// word read behind stores of its halves waits for them, 5 ns each time.
//
//	0        4        8       10      12        13  14     16
//	| dst IP | src IP | src P | dst P | protocol | 0 | vlan |
const (
	keyDst      = 0
	keySrc      = 4
	keyPorts    = 8 // both, as they follow each other in the packet
	keySrcPort  = 8
	keyDstPort  = 10
	keyProtocol = 12
	keyVLAN     = 14
	keyBytes    = 16
)

type key [keyBytes]byte

// entryKind is what an entry of the flow map is for: the bit that tells the program that there are such.
type entryKind uint32

const (
	kindConnected      entryKind = 1 << iota // one peer of a unicast address
	kindBound                                // all datagrams to a unicast address
	kindWildcard                             // to any address of ours
	kindGroupConnected                       // one peer to a group
	kindGroupSource                          // one source to a group
	kindGroup                                // all datagrams to a group
	kindAddress                              // an address of ours: asked for behind a wildcard
)

// kind is what an entry with this key matches, decided by which of its fields are zero and whether the local address is a group's.
func (k *key) kind() entryKind {
	source := [4]byte(k[keySrc:]) != [4]byte{}
	switch {
	case k[keyProtocol] == 0:
		return kindAddress
	case k[keyDst]&0xf0 != 0xe0:
		switch {
		case [4]byte(k[keyDst:]) == [4]byte{}:
			return kindWildcard
		case source:
			return kindConnected
		}
		return kindBound
	case !source:
		return kindGroup
	case [2]byte(k[keySrcPort:]) == [2]byte{}:
		return kindGroupSource
	}
	return kindGroupConnected
}

// keyOf makes the key of a flow's entry. The error names the field that is not possible in a claim.
func keyOf(f Flow) (k key, err error) {
	local, remote := f.Local.Addr().Unmap(), f.Remote.Addr().Unmap()
	switch {
	case !local.Is4():
		return k, fmt.Errorf("xdp: claim: Local %v: not an IPv4 address", f.Local)
	case f.Local.Port() == 0:
		return k, fmt.Errorf("xdp: claim: Local %v: port 0", f.Local)
	case f.VLAN > 4094:
		return k, fmt.Errorf("xdp: claim: VLAN %d: must be 0 to 4094", f.VLAN)
	case f.Remote.IsValid() && !remote.Is4():
		return k, fmt.Errorf("xdp: claim: Remote %v: not an IPv4 address", f.Remote)
	case f.Remote.IsValid() && (remote.IsUnspecified() || remote.IsMulticast()):
		return k, fmt.Errorf("xdp: claim: Remote %v: not a sender's address", f.Remote)
	case f.Remote.IsValid() && f.Remote.Port() == 0 && !local.IsMulticast():
		return k, fmt.Errorf("xdp: claim: Remote %v: port 0, which is for groups only", f.Remote)
	case f.Remote.IsValid() && local.IsUnspecified():
		return k, fmt.Errorf("xdp: claim: Local %v with Remote %v: a connection has an address", f.Local, f.Remote)
	}
	dst := local.As4()
	copy(k[keyDst:], dst[:])
	if f.Remote.IsValid() {
		src := remote.As4()
		copy(k[keySrc:], src[:])
		binary.BigEndian.PutUint16(k[keySrcPort:], f.Remote.Port())
	}
	binary.BigEndian.PutUint16(k[keyDstPort:], f.Local.Port())
	k[keyProtocol] = f.Protocol
	binary.BigEndian.PutUint16(k[keyVLAN:], f.VLAN)
	return k, nil
}

// addressKey is the entry that says an address is ours: all else is zero, protocol included, which no packet has that is looked up.
func addressKey(a netip.Addr, vlan uint16) (k key, err error) {
	if a = a.Unmap(); !a.Is4() || a.IsUnspecified() || a.IsMulticast() {
		return k, fmt.Errorf("xdp: address %v: not one of an IPv4 interface", a)
	}
	if vlan > 4094 {
		return k, fmt.Errorf("xdp: address %v: VLAN %d: must be 0 to 4094", a, vlan)
	}
	b := a.As4()
	copy(k[keyDst:], b[:])
	binary.BigEndian.PutUint16(k[keyVLAN:], vlan)
	return k, nil
}
