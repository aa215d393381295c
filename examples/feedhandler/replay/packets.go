package replay

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/feed/iextp"
	"github.com/socketxtreme/socketxtreme/feed/moldudp64"
)

// largest is the most bytes put into one packet.
const largest = 1400

// packet is what the replayer understands of one: enough to cut, renumber and store its messages.
type packet struct {
	seq      uint64
	count    int
	messages []byte // each behind its length
}

// dialect reads and writes the packets of one protocol.
type dialect struct {
	proto   handler.Proto
	iex     iextp.Segment
	session string
}

// newDialect is for the protocols whose messages can be asked for.
func newDialect(p handler.Proto) (*dialect, error) {
	switch p {
	case handler.DEEP, handler.TOPS, handler.MoldUDP64:
		return &dialect{proto: p}, nil
	}
	return nil, fmt.Errorf("protocol %v: messages cannot be cut, renumbered or asked for; want deep, tops or moldudp64", p)
}

// parse reads a packet and remembers what its header says of the session.
func (d *dialect) parse(b []byte) (p packet, ok bool) {
	if d.proto == handler.MoldUDP64 {
		h, blocks, err := moldudp64.Parse(b)
		if err != nil {
			return p, false
		}
		d.session = h.Session()
		return packet{h.Seq(), int(h.Count()), blocks}, true
	}
	h, blocks, err := iextp.Parse(b)
	if err != nil {
		return p, false
	}
	d.iex = iextp.Segment{Protocol: h.Protocol(), Channel: h.Channel(), Session: h.Session(), Offset: h.Offset(),
		SendTime: h.SendTime()}
	return packet{h.Seq(), int(h.Count()), blocks}, true
}

// begin starts a packet with the session of the last one parsed.
func (d *dialect) begin(b []byte, seq uint64) []byte {
	if d.proto == handler.MoldUDP64 {
		return moldudp64.AppendHeader(b, d.session, seq, 0)
	}
	s := d.iex
	s.Seq = seq
	return iextp.AppendHeader(b, s)
}

// finish completes the header of a packet with its number of messages.
func (d *dialect) finish(b []byte, count int) []byte {
	if d.proto == handler.MoldUDP64 {
		moldudp64.SetCount(b, count)
	} else {
		iextp.Finish(b, count)
	}
	return b
}

// cut takes the first message, length included, off blocks.
func (d *dialect) cut(blocks []byte) (m, rest []byte) {
	n := 2
	if d.proto == handler.MoldUDP64 {
		n += int(binary.BigEndian.Uint16(blocks))
	} else {
		n += int(binary.LittleEndian.Uint16(blocks))
	}
	return blocks[:n], blocks[n:]
}

// renumber makes a packet one of another session or with other sequence numbers, in place; IEX's send times move by
// later.
func (d *dialect) renumber(b []byte, seq uint64, otherSession bool, later int64) {
	if d.proto == handler.MoldUDP64 {
		binary.BigEndian.PutUint64(b[10:], seq)
		if otherSession {
			b[9] = 'Z'
		}
		return
	}
	put64(b[24:], seq)
	put64(b[32:], get64(b[32:])+uint64(later))
	if otherSession {
		b[8]++
	}
}

// together is the longest time between the send times of two packets whose messages are put together. A sender keeps
// nothing for seconds, and a receiver takes old messages with a much newer send time for a restart
// (feed.Config.RestartAfter, 1 s): messages of one packet under the other one's send time would look like that on
// whichever line is read second.
const together = int64(100 * time.Millisecond)

// recutter cuts the messages of two packets into packets of three.
type recutter struct {
	d     *dialect // with the header of the first packet while there are messages
	first uint64
	buf   []byte
	count int
	pair  int
}

// take collects a packet's messages, so that they leave in packets that are cut differently. One that does not continue the sequence makes it
// emit what was collected.
func (r *recutter) take(b []byte, emit func([]byte)) {
	d := *r.d
	p, ok := d.parse(b)
	if !ok || p.count == 0 || r.count > 0 && !r.continues(&d, p.seq) {
		r.flush(emit)
		if !ok || p.count == 0 {
			emit(b)
			return
		}
	}
	if r.count == 0 {
		r.first, *r.d = p.seq, d
	}
	r.buf = append(r.buf, p.messages...)
	r.count += p.count
	if r.pair++; r.pair == 2 {
		r.flush(emit)
	}
}

// continues reports whether a packet with such a header belongs behind the messages that wait.
func (r *recutter) continues(d *dialect, seq uint64) bool {
	return seq == r.first+uint64(r.count) && d.session == r.d.session && d.iex.Session == r.d.iex.Session &&
		d.iex.SendTime-r.d.iex.SendTime <= together
}

// flush emits the messages that are left as a last packet.
func (r *recutter) flush(emit func([]byte)) {
	rest, seq := r.buf, r.first
	for r.count > 0 {
		b, n := r.d.begin(nil, seq), 0
		for n < r.count && n < 3 {
			m, more := r.d.cut(rest)
			if n > 0 && len(b)+len(m) > largest {
				break
			}
			b, rest = append(b, m...), more
			n++
		}
		emit(r.d.finish(b, n))
		r.count -= n
		seq += uint64(n)
	}
	r.buf, r.pair = r.buf[:0], 0
}
