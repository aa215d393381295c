package stream

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// What a host without a kernel sends to itself. Beside a kernel such connections are the kernel's.

// loopLimit is how many segments of this host for itself may wait.
const loopLimit = 256

// addLoop makes an IPv4 packet of a segment that this host sends to itself, in a buffer of the pool, and queues it for loop. Without a free
// buffer, or with loopLimit waiting, the segment is lost and counted; TCP retransmits it.
func (t *Transport) addLoop(s *tcp.Segment) {
	n := s.HeaderLen() + int(s.Payload.Length)
	class := buffers.Small
	if wire.IPv4Len+n > t.pool.Layout().SmallSize {
		class = buffers.Large
	}
	if len(t.looped) >= loopLimit {
		t.stats.LoopFull++
		return
	}
	i, ok := t.pool.Take(class)
	if !ok {
		t.stats.NoBuffer++
		return
	}
	headroom := t.pool.Layout().Headroom
	b := t.pool.Memory(i)[headroom : headroom+wire.IPv4Len+n]
	f := wire.IPv4Fields{TOS: s.TOS | byte(s.ECN), ID: t.ip.NextID(), DontFragment: !s.MayFrag, TTL: s.TTL, Protocol: wire.ProtocolTCP,
		Source: s.Local.Addr, Target: s.Remote.Addr}
	if _, err := f.Append(b[:0], n); err != nil {
		t.pool.Return(i)
		return
	}
	segment := b[wire.IPv4Len:]
	if s.Payload.Length > 0 {
		p := &t.pieces[s.Payload.Buffer]
		copyFrom(segment[s.HeaderLen():], p.packet, int(s.Payload.Offset)+int(p.head))
	}
	s.Put(segment, wire.Pseudo(s.Local.Addr, s.Remote.Addr, wire.ProtocolTCP, uint16(n)), wire.Sum(0).Add(segment[s.HeaderLen():]))
	t.looped = append(t.looped, t.pool.Fill(i, headroom, len(b), 0))
}

// loop takes in what this host has sent to itself. The answers are the next Output's.
func (t *Transport) loop() {
	if len(t.looped) == 0 {
		return
	}
	now := t.now()
	for i, p := range t.looped {
		t.looped[i] = buffers.Packet{}
		if !t.looping(now, p) {
			_ = p.Release()
		}
	}
	t.looped = t.looped[:0]
}
