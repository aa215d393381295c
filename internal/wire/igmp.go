package wire

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Types of IGMP.
const (
	IGMPQuery    uint8 = 0x11
	IGMPv1Report uint8 = 0x12
	IGMPv2Report uint8 = 0x16
	IGMPv2Leave  uint8 = 0x17
	IGMPv3Report uint8 = 0x22
)

// Group addresses of IGMP.
var (
	AllSystems     = Addr{224, 0, 0, 1}  // general queries go here
	AllRouters     = Addr{224, 0, 0, 2}  // leaves of version 2
	AllIGMPRouters = Addr{224, 0, 0, 22} // reports of version 3
)

// IGMPLen is the length of the header that all messages share.
const IGMPLen = 8

// IGMP is the first 8 bytes of a message; holding one proves that they are there.
type IGMP [IGMPLen]byte

// Type is the message type.
func (h *IGMP) Type() uint8 { return h[0] }

// Group is the group of a query, of a report of version 1 or 2, or of a leave; zero in a general query.
func (h *IGMP) Group() Addr { return Addr(h[4:8]) }

// Records is the number of group records of a version 3 report.
func (h *IGMP) Records() int { return int(binary.BigEndian.Uint16(h[6:8])) }

// ParseIGMP reads the payload of an IPv4 packet; body is what follows the first 8 bytes. Bytes behind the fields are part of
// the sum and else ignored (RFC 9776 4.1.10).
func ParseIGMP(b []byte) (h *IGMP, body []byte, d Drop) {
	if len(b) < IGMPLen {
		return nil, nil, IGMPShort
	}
	if !Sum(0).Add(b).Valid() {
		return nil, nil, IGMPSum
	}
	h = (*IGMP)(b)
	switch h.Type() {
	case IGMPQuery, IGMPv3Report:
	case IGMPv1Report, IGMPv2Report, IGMPv2Leave:
		if !h.Group().IsMulticast() {
			return nil, nil, IGMPGroup
		}
	default:
		return nil, nil, IGMPType
	}
	return h, b[IGMPLen:], Accept
}

// Query is a membership query of any version (RFC 9776 7.1: the length reports which).
type Query struct {
	Version     uint8
	Group       Addr          // zero: a general query
	MaxResponse time.Duration // version 1: 10 s; 0 means at once, not never
	Suppress    bool          // version 3: routers are not to update timers
	Robustness  uint8         // version 3
	Interval    time.Duration // version 3: the querier's
	Sources     []byte        // version 3: addresses of 4 bytes; nil for a group or general query
}

// NumSources is the number of sources; Source is the i-th.
func (q *Query) NumSources() int   { return len(q.Sources) / 4 }
func (q *Query) Source(i int) Addr { return Addr(q.Sources[4*i : 4*i+4]) }

// ParseQuery reads a message of type IGMPQuery as ParseIGMP returned it.
func ParseQuery(h *IGMP, body []byte) (q Query, d Drop) {
	q.Group = h.Group()
	if !q.Group.IsZero() && !q.Group.IsMulticast() {
		return Query{}, IGMPGroup
	}
	switch {
	case len(body) == 0 && h[1] == 0:
		q.Version, q.MaxResponse = 1, 10*time.Second
		return q, Accept
	case len(body) == 0:
		q.Version, q.MaxResponse = 2, time.Duration(h[1])*100*time.Millisecond
		return q, Accept
	case len(body) < 4:
		return Query{}, IGMPLength
	}
	n := int(binary.BigEndian.Uint16(body[2:4])) * 4
	if n > len(body)-4 {
		return Query{}, IGMPSources
	}
	if n > 0 && q.Group.IsZero() {
		return Query{}, IGMPGroup // sources of no group
	}
	q.Version, q.Suppress, q.Robustness = 3, body[0]&8 != 0, body[0]&7
	q.MaxResponse = time.Duration(fromCode(h[1])) * 100 * time.Millisecond
	q.Interval = time.Duration(fromCode(body[1])) * time.Second
	if n > 0 {
		q.Sources = body[4 : 4+n : 4+n]
	}
	return q, Accept
}

// fromCode reads the floating-point codes of version 3 (RFC 9776 4.1.1, 4.1.7).
func fromCode(c uint8) int {
	if c < 128 {
		return int(c)
	}
	return int(c&0xf|0x10) << (c>>4&7 + 3)
}

// toCode is the largest code whose value is not above n.
func toCode(n int) uint8 {
	if n < 128 {
		return uint8(max(n, 0))
	}
	for c := 255; ; c-- {
		if fromCode(uint8(c)) <= n || c == 128 {
			return uint8(c)
		}
	}
}

// Types of group records (RFC 9776 4.2.12).
const (
	ModeIsInclude   uint8 = 1
	ModeIsExclude   uint8 = 2
	ChangeToInclude uint8 = 3
	ChangeToExclude uint8 = 4
	AllowNew        uint8 = 5
	BlockOld        uint8 = 6
)

// Record is one group record of a version 3 report.
type Record struct {
	Type    uint8
	Group   Addr
	Sources []byte // addresses of 4 bytes
}

// NumSources is the number of sources; Source is the i-th.
func (r *Record) NumSources() int   { return len(r.Sources) / 4 }
func (r *Record) Source(i int) Addr { return Addr(r.Sources[4*i : 4*i+4]) }

// ParseRecord reads the first record of b and returns the rest; a report has h.Records() of them, the first at its body.
func ParseRecord(b []byte) (r Record, rest []byte, d Drop) {
	if len(b) < 8 {
		return Record{}, nil, IGMPRecords
	}
	sources, auxiliary := int(binary.BigEndian.Uint16(b[2:4]))*4, int(b[1])*4
	r.Type, r.Group = b[0], Addr(b[4:8])
	switch {
	case len(b)-8 < sources+auxiliary:
		return Record{}, nil, IGMPRecords
	case r.Type < ModeIsInclude || r.Type > BlockOld || !r.Group.IsMulticast():
		return Record{}, nil, IGMPRecord
	}
	r.Sources = b[8 : 8+sources : 8+sources]
	return r, b[8+sources+auxiliary:], Accept
}

// Append writes a query behind b, in the form of its Version. Durations are rounded down to what the code can say.
func (q *Query) Append(b []byte) ([]byte, error) {
	if !q.Group.IsZero() && !q.Group.IsMulticast() {
		return b, fmt.Errorf("wire: Group %v is not multicast", q.Group)
	}
	tenths := int(q.MaxResponse / (100 * time.Millisecond))
	var code uint8
	switch q.Version {
	case 1:
	case 2:
		if tenths < 1 || tenths > 255 {
			return b, fmt.Errorf("wire: MaxResponse %v: version 2 has 0.1 s to 25.5 s", q.MaxResponse)
		}
		code = uint8(tenths)
	case 3:
		code = toCode(tenths)
	default:
		return b, fmt.Errorf("wire: Version %d of a query", q.Version)
	}
	if len(q.Sources)%4 != 0 || q.Version < 3 && len(q.Sources) > 0 || len(q.Sources) > 0 && q.Group.IsZero() {
		return b, fmt.Errorf("wire: Sources of %d bytes in a version %d query of %v", len(q.Sources), q.Version, q.Group)
	}
	at := len(b)
	b = append(append(b, IGMPQuery, code, 0, 0), q.Group[:]...)
	if q.Version == 3 {
		flags := q.Robustness & 7
		if q.Suppress {
			flags |= 8
		}
		b = append(b, flags, toCode(int(q.Interval/time.Second)))
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(q.Sources)/4)), q.Sources...)
	}
	binary.BigEndian.PutUint16(b[at+2:], Sum(0).Add(b[at:]).Check())
	return b, nil
}

// AppendReport writes a version 3 report with these records behind b. The packet goes to AllIGMPRouters with TTL 1 and the
// RouterAlert option (RFC 9776 4).
func AppendReport(b []byte, records []Record) ([]byte, error) {
	at := len(b)
	whole := append(b, IGMPv3Report, 0, 0, 0, 0, 0)
	whole = binary.BigEndian.AppendUint16(whole, uint16(len(records)))
	for i := range records {
		r := &records[i]
		switch {
		case r.Type < ModeIsInclude || r.Type > BlockOld:
			return b, fmt.Errorf("wire: Type %d of record %d", r.Type, i)
		case !r.Group.IsMulticast():
			return b, fmt.Errorf("wire: Group %v of record %d is not multicast", r.Group, i)
		case len(r.Sources)%4 != 0:
			return b, fmt.Errorf("wire: Sources of %d bytes in record %d", len(r.Sources), i)
		}
		whole = append(whole, r.Type, 0)
		whole = binary.BigEndian.AppendUint16(whole, uint16(len(r.Sources)/4))
		whole = append(append(whole, r.Group[:]...), r.Sources...)
	}
	if len(whole)-at > IPv4Max-IPv4Len-len(RouterAlert) || len(records) > 0xffff {
		return b, fmt.Errorf("wire: %d records need %d bytes", len(records), len(whole)-at)
	}
	binary.BigEndian.PutUint16(whole[at+2:], Sum(0).Add(whole[at:]).Check())
	return whole, nil
}
