package xdp

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// rule is a receive rule of a network card (ntuple filter): frames of the flow go to the queue, whatever the card's hash says.
type rule struct {
	Flow     Flow
	Queue    int
	Location uint32 // in the card's table
}

// Parts of struct ethtool_rx_flow_spec (include/uapi/linux/ethtool.h).
//
//	0     4          56      76          128     148     152         160       164  168
//	| type | fields   | ext   | masks     | ext   | hole  | ring      | location | hole |
const (
	specFields   = 4
	specExt      = 56
	specMasks    = 76
	specMaskExt  = 128
	specRing     = 152
	specLocation = 160
	specBytes    = 168
)

// Places in struct ethtool_tcpip4_spec and ethtool_flow_ext.
const (
	ruleSrc     = 0
	ruleDst     = 4
	ruleSrcPort = 8
	ruleDstPort = 10
	extVLAN     = 10
)

// Flow types of ethtool.
const (
	flowTCP = 1
	flowUDP = 2
	flowExt = 0x80000000
)

// spec is the rule as the kernel takes it, its location aside.
func (r rule) spec() (s [specBytes]byte, err error) {
	k, err := keyOf(r.Flow)
	if err != nil {
		return s, err
	}
	if r.Queue < 0 || r.Queue > math.MaxUint16 {
		return s, fmt.Errorf("xdp: rule: queue %d: must be 0 to %d", r.Queue, math.MaxUint16)
	}
	kind := uint32(flowUDP)
	if r.Flow.Protocol == link.TCP {
		kind = flowTCP
	}
	// A mask bit of 1 is compared. What is zero in the flow is not asked about.
	match := func(at int, value []byte) {
		zero := true
		for _, b := range value {
			zero = zero && b == 0
		}
		if zero {
			return
		}
		copy(s[specFields+at:], value)
		for i := range value {
			s[specMasks+at+i] = 0xff
		}
	}
	match(ruleDst, k[keyDst:keyDst+4])
	match(ruleSrc, k[keySrc:keySrc+4])
	match(ruleDstPort, k[keyDstPort:keyDstPort+2])
	match(ruleSrcPort, k[keySrcPort:keySrcPort+2])
	if r.Flow.VLAN != 0 {
		kind |= flowExt
		binary.BigEndian.PutUint16(s[specExt+extVLAN:], r.Flow.VLAN)
		binary.BigEndian.PutUint16(s[specMaskExt+extVLAN:], 0x0fff)
	}
	binary.NativeEndian.PutUint32(s[:], kind)
	binary.NativeEndian.PutUint64(s[specRing:], uint64(r.Queue))
	return s, nil
}
