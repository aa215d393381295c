package peers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/socketxtreme/socketxtreme/bench/harness"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/transport/stream"
	"github.com/socketxtreme/socketxtreme/tcp"
)

var tcpStackLoop = harness.Peer{
	Name: "ours-tcp-stack", About: "SocketXtreme, TCP echo over a link in memory with its own stack", Go: true, Protos: []string{"memory"},
	Subcommands: []harness.Subcommand{{Name: "tcpstack", Run: timeTCPStack}},
}

// timeTCPStack times echoes on as many connections as a turn has messages. The far end has no stack: it turns each answer into the next request,
// which acknowledges it.
func timeTCPStack(args []string, out, errs io.Writer) error {
	return timedLoop("tcpstack", args, out, errs, func(batch int) (func() (uint64, error), func() error, error) {
		l := &tcpEchoLoop{stackEchoLoop: newStackEchoLoop(batch)}
		if err := l.open(); err != nil {
			return nil, nil, errors.Join(err, l.close())
		}
		return l.turn, l.close, nil
	})
}

// tcpEchoLoop is both ends of the link, of one goroutine.
type tcpEchoLoop struct {
	*stackEchoLoop
	requests [][]byte // frames, one for each connection
}

// Places in a frame of Ethernet, IPv4 and TCP without options.
const (
	atSeq, atAck, atFlags, atSum, atText = 38, 42, 47, 50, 54
)

// open makes the link and the ring, and opens the connections.
func (l *tcpEchoLoop) open() error {
	if err := l.openLink(); err != nil {
		return err
	}
	if err := l.openRing(&stream.Options{}); err != nil {
		return err
	}
	s, err := l.set.NewSocket(ring.KindStream, ring.IPv4, ring.Config{})
	if err != nil {
		return err
	}
	if err := s.Bind(netip.MustParseAddrPort(fmt.Sprintf("%s:%d", harness.ServerAddr, memoryPort))); err != nil {
		return err
	}
	if err := s.Listen(l.batch); err != nil {
		return err
	}
	for i := range l.batch {
		if err := l.connect(i); err != nil {
			return err
		}
	}
	return nil
}

// connect opens connection i and prepares its first request.
func (l *tcpEchoLoop) connect(i int) error {
	server := tcp.Endpoint{Addr: netip.MustParseAddr(harness.ServerAddr).As4(), Port: memoryPort}
	s := tcp.Segment{Local: tcp.Endpoint{Addr: netip.MustParseAddr(harness.ClientAddr).As4(), Port: uint16(9000 + i)}, Remote: server, Flags: wire.TCPSyn, Window: 65535}
	for range 2 { // SYN, then the acknowledgement of the answer
		if err := l.sendFrame(tcpFrame(&s, nil)); err != nil {
			return err
		}
		if err := l.pollAndFlush(); err != nil {
			return err
		}
		l.far.Complete(l.dones)
		for _, f := range l.frames[:l.far.Receive(l.frames)] {
			b := f.Packet.Bytes()
			if s.Flags == wire.TCPSyn && wire.TCPFlags(b[atFlags]) == wire.TCPSyn|wire.TCPAck {
				s.Flags, s.Seq, s.Ack = wire.TCPAck, 1, tcp.Seq(binary.BigEndian.Uint32(b[atSeq:]))+1
			}
			if err := f.Packet.Release(); err != nil {
				return err
			}
		}
	}
	if s.Flags != wire.TCPAck {
		return errors.New("the handshake was not answered")
	}
	text := make([]byte, harness.MessageSize)
	harness.MakeRequest(text, 1)
	s.Flags |= wire.TCPPsh
	l.requests = append(l.requests, tcpFrame(&s, text))
	return nil
}

// tcpFrame is a whole frame from the far end to the near one.
func tcpFrame(s *tcp.Segment, text []byte) []byte {
	e := wire.EthernetFields{Target: wire.MAC(harness.ServerMAC), Source: wire.MAC(harness.ClientMAC), Type: wire.TypeIPv4}
	f := wire.IPv4Fields{DontFragment: true, TTL: 64, Protocol: wire.ProtocolTCP, Source: s.Local.Addr, Target: s.Remote.Addr}
	n := s.HeaderLen() + len(text)
	b, err := f.Append(e.Append(nil), n)
	if err != nil {
		panic(err) // the lengths are constants
	}
	at := len(b)
	b = append(b, make([]byte, n)...)
	copy(b[at+s.HeaderLen():], text)
	s.Put(b[at:], wire.Pseudo(s.Local.Addr, s.Remote.Addr, wire.ProtocolTCP, uint16(n)), wire.Sum(0).Add(text))
	return b
}

func (l *tcpEchoLoop) sendFrame(frame []byte) error {
	p, err := l.pools[1].Alloc(len(frame))
	if err != nil {
		return err
	}
	copy(p.Room(), frame)
	if p, err = l.pools[1].Transmit(p); err != nil {
		return err
	}
	if l.outs[0] = (link.Out{Packet: p}); l.far.Send(l.outs[:1]) != 1 {
		return errors.New("the link did not take the frame")
	}
	return l.far.Flush()
}

// pollAndFlush is a turn of the ring, which echoes.
func (l *tcpEchoLoop) pollAndFlush() error {
	n, err := l.ring.Poll(l.done)
	if err != nil {
		return err
	}
	for i := range l.done[:n] {
		c := &l.done[i]
		if !c.Events.Has(ring.EventPacket) {
			continue
		}
		if _, err := c.Socket.Send(c.Packet.Bytes()); err != nil {
			return err
		}
		if err := c.Packet.Release(); err != nil {
			return err
		}
	}
	return l.ring.Flush()
}

// turn is a batch of echoes.
func (l *tcpEchoLoop) turn() (sum uint64, err error) {
	for i, frame := range l.requests {
		p, err := l.pools[1].Alloc(len(frame))
		if err != nil {
			return 0, err
		}
		copy(p.Room(), frame)
		if p, err = l.pools[1].Transmit(p); err != nil {
			return 0, err
		}
		l.outs[i] = link.Out{Packet: p}
	}
	if n := l.far.Send(l.outs); n != len(l.outs) {
		return 0, fmt.Errorf("the link took %d of %d requests", n, len(l.outs))
	}
	if err := l.far.Flush(); err != nil {
		return 0, err
	}
	if err := l.pollAndFlush(); err != nil {
		return 0, err
	}
	l.far.Complete(l.dones)
	n := l.far.Receive(l.frames)
	for i := range l.frames[:n] {
		p := l.frames[i].Packet
		if err := l.answer(p.Bytes()); err != nil {
			return 0, err
		}
		sum += uint64(p.Len())
		if err := p.Release(); err != nil {
			return 0, err
		}
	}
	if n != l.batch {
		return 0, fmt.Errorf("%d answers to %d requests", n, l.batch)
	}
	return sum, nil
}

// answer makes the next request of a connection from an answer: addresses and ports change places, and so do sequence number and
// acknowledgement, which leaves the checksum as it is; then the text of the answer is acknowledged.
func (l *tcpEchoLoop) answer(b []byte) error {
	i := int(binary.BigEndian.Uint16(b[atPorts+2:])) - 9000
	if len(b) != atText+harness.MessageSize || i < 0 || i >= len(l.requests) {
		return fmt.Errorf("an answer of %d bytes", len(b))
	}
	frame := l.requests[i]
	if string(b[atText:]) != string(frame[atText:]) {
		return errors.New("an answer has another text than its request")
	}
	copy(frame, b)
	turnFrame(frame)
	acked, seq := binary.BigEndian.Uint32(b[atAck:]), binary.BigEndian.Uint32(b[atSeq:])
	binary.BigEndian.PutUint32(frame[atSeq:], acked)
	binary.BigEndian.PutUint32(frame[atAck:], seq+harness.MessageSize)
	// RFC 1624, equation 3.
	sum := uint32(^binary.BigEndian.Uint16(b[atSum:])) + uint32(^uint16(seq>>16)) + uint32(^uint16(seq))
	next := seq + harness.MessageSize
	sum += next>>16 + next&0xffff
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(frame[atSum:], ^uint16(sum))
	return nil
}
