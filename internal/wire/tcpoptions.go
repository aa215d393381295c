package wire

import "encoding/binary"

// TCPOptionSet says which options a TCPOptions has.
type TCPOptionSet uint8

// The options. Their order is no rule of the RFCs; Len and Put write them as Linux does.
const (
	TCPHasMSS           TCPOptionSet = 1 << iota // RFC 9293 section 3.7.1
	TCPHasWindowScale                            // RFC 7323 section 2
	TCPHasSACKPermitted                          // RFC 2018 section 2
	TCPHasTimestamps                             // RFC 7323 section 3
	TCPHasSACK                                   // RFC 2018 section 3: SACKCount blocks
)

// TCPMaxSACK is how many blocks fit into the options; beside timestamps one fewer does.
const TCPMaxSACK = 4

// SACKBlock is a range of sequence numbers that has been received: Left is its first, Right the first behind it.
type SACKBlock struct{ Left, Right uint32 }

// TCPOptions are the options of a segment that this stack speaks.
type TCPOptions struct {
	Has             TCPOptionSet
	SACKCount       uint8
	WindowScale     uint8 // as it came; a shift over 14 counts as 14 (RFC 7323 section 2.3)
	MSS             uint16
	TSValue, TSEcho uint32
	SACK            [TCPMaxSACK]SACKBlock
}

// The kinds.
const (
	tcpEnd = iota
	tcpNop
	tcpMSS
	tcpWindowScale
	tcpSACKPermitted
	tcpSACK
	_
	_
	tcpTimestamps
)

// timestampsAlone are the first four bytes of options that are two no-operations and timestamps.
const timestampsAlone = tcpNop<<24 | tcpNop<<16 | tcpTimestamps<<8 | 10

// Parse reads options. It never fails: an unknown kind is skipped, a known one of another length than its own too, and an illegal length
// ends the list (RFC 9293 MUST-5, MUST-6, MUST-7). ok reports whether the list was well formed. Of two options of a kind the later one
// counts.
func (o *TCPOptions) Parse(b []byte) (ok bool) {
	o.Has, o.SACKCount = 0, 0
	if len(b) == 12 && binary.BigEndian.Uint32(b) == timestampsAlone {
		o.Has = TCPHasTimestamps
		o.TSValue, o.TSEcho = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
		return true
	}
	for len(b) > 0 {
		switch b[0] {
		case tcpEnd:
			return true
		case tcpNop:
			b = b[1:]
			continue
		}
		if len(b) < 2 || b[1] < 2 || int(b[1]) > len(b) {
			return false
		}
		o.parseOne(b[0], b[2:b[1]])
		b = b[b[1]:]
	}
	return true
}

// parseOne stores one option of a known kind and length; others are ignored.
func (o *TCPOptions) parseOne(kind byte, data []byte) {
	switch {
	case kind == tcpMSS && len(data) == 2:
		o.Has |= TCPHasMSS
		o.MSS = binary.BigEndian.Uint16(data)
	case kind == tcpWindowScale && len(data) == 1:
		o.Has |= TCPHasWindowScale
		o.WindowScale = data[0]
	case kind == tcpSACKPermitted && len(data) == 0:
		o.Has |= TCPHasSACKPermitted
	case kind == tcpTimestamps && len(data) == 8:
		o.Has |= TCPHasTimestamps
		o.TSValue, o.TSEcho = binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:])
	case kind == tcpSACK && len(data) >= 8 && len(data)%8 == 0:
		o.Has |= TCPHasSACK
		o.SACKCount = 0
		for ; len(data) > 0 && o.SACKCount < TCPMaxSACK; data = data[8:] {
			o.SACK[o.SACKCount] = SACKBlock{binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:])}
			o.SACKCount++
		}
	}
}

// Len is the length of the options, padded to a multiple of 4.
//
//	MSS                   4   MSS
//	timestamps           12   NOP NOP TS         with SACK-permitted: SACKOK TS
//	SACK-permitted alone  4   NOP NOP SACKOK
//	window scale          4   NOP WS
//	SACK             4 + 8n   NOP NOP SACK
func (o *TCPOptions) Len() int {
	n := 0
	if o.Has&TCPHasMSS != 0 {
		n += 4
	}
	if o.Has&TCPHasTimestamps != 0 {
		n += 12
	} else if o.Has&TCPHasSACKPermitted != 0 {
		n += 4
	}
	if o.Has&TCPHasWindowScale != 0 {
		n += 4
	}
	if o.Has&TCPHasSACK != 0 && o.SACKCount > 0 {
		n += 4 + 8*int(o.SACKCount)
	}
	return n
}

// Put writes the options to b, which is Len long or longer.
func (o *TCPOptions) Put(b []byte) {
	if o.Has == TCPHasTimestamps {
		_ = b[11]
		binary.BigEndian.PutUint32(b, timestampsAlone)
		binary.BigEndian.PutUint32(b[4:], o.TSValue)
		binary.BigEndian.PutUint32(b[8:], o.TSEcho)
		return
	}
	if o.Has&TCPHasMSS != 0 {
		b[0], b[1] = tcpMSS, 4
		binary.BigEndian.PutUint16(b[2:], o.MSS)
		b = b[4:]
	}
	permitted := o.Has&TCPHasSACKPermitted != 0
	if permitted {
		b[0], b[1] = tcpSACKPermitted, 2
	} else if o.Has&TCPHasTimestamps != 0 {
		b[0], b[1] = tcpNop, tcpNop
	}
	switch {
	case o.Has&TCPHasTimestamps != 0:
		b[2], b[3] = tcpTimestamps, 10
		binary.BigEndian.PutUint32(b[4:], o.TSValue)
		binary.BigEndian.PutUint32(b[8:], o.TSEcho)
		b = b[12:]
	case permitted:
		b[0], b[1], b[2], b[3] = tcpNop, tcpNop, tcpSACKPermitted, 2
		b = b[4:]
	}
	if o.Has&TCPHasWindowScale != 0 {
		b[0], b[1], b[2], b[3] = tcpNop, tcpWindowScale, 3, o.WindowScale
		b = b[4:]
	}
	if o.Has&TCPHasSACK != 0 && o.SACKCount > 0 {
		b[0], b[1], b[2], b[3] = tcpNop, tcpNop, tcpSACK, 2+8*o.SACKCount
		for i := range int(o.SACKCount) {
			binary.BigEndian.PutUint32(b[4+8*i:], o.SACK[i].Left)
			binary.BigEndian.PutUint32(b[8+8*i:], o.SACK[i].Right)
		}
	}
}
