package handler

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/feed/iextp"
	"github.com/socketxtreme/socketxtreme/feed/mdp3"
	"github.com/socketxtreme/socketxtreme/feed/moldudp64"
	"github.com/socketxtreme/socketxtreme/feed/pitch"
)

// Proto is a market-data protocol.
type Proto uint8

// The protocols.
const (
	Auto      Proto = iota // what the first packet looks like
	DEEP                   // IEX-TP 1, DEEP 1.0
	TOPS                   // IEX-TP 1, TOPS 1.6
	MDP3                   // CME MDP 3.0
	MoldUDP64              // MoldUDP64, ITCH 5.0
	PITCH                  // Cboe multicast PITCH
	ITCH                   // ITCH 5.0 in Nasdaq's BinaryFILE: messages without packets or sequence numbers
)

var protoNames = [...]string{"auto", "deep", "tops", "mdp3", "moldudp64", "pitch", "itch"}

// String is the protocol's name on the command line.
func (p Proto) String() string { return protoNames[p] }

// ParseProto reads a protocol's name.
func ParseProto(s string) (Proto, error) {
	for i, n := range protoNames {
		if s == n {
			return Proto(i), nil
		}
	}
	return Auto, fmt.Errorf("protocol %q: want auto, deep, tops, mdp3, moldudp64, pitch or itch", s)
}

// Recognize reports which protocol a packet is of; Auto if of none. IEX-TP names its version and message protocol; MDP
// 3.0 names its schema; PITCH's length is the packet's own; MoldUDP64 begins with ten digits or capital letters, or
// with zeros where headers were blanked.
func Recognize(b []byte) Proto {
	if h, _, err := iextp.Parse(b); err == nil {
		switch h.Protocol() {
		case iextp.DEEP10:
			return DEEP
		case iextp.TOPS16:
			return TOPS
		}
		return Auto
	}
	if _, messages, err := mdp3.Parse(b); err == nil {
		if m, _ := mdp3.Next(messages); m != nil && m.Schema() == 1 {
			return MDP3
		}
	}
	if h, _, err := pitch.Parse(b); err == nil && h.Len() == len(b) {
		return PITCH
	}
	if h, blocks, err := moldudp64.Parse(b); err == nil && (h.Count() > 0 || h.RawCount() == 0 || h.End()) {
		blank, text := true, true
		for _, c := range h[:10] {
			blank = blank && c == 0
			text = text && (c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c == ' ')
		}
		if text || blank && len(b) == moldudp64.HeaderLen+len(blocks) && len(blocks) > 0 {
			return MoldUDP64
		}
	}
	return Auto
}
