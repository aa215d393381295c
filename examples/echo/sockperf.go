package main

import (
	"encoding/binary"
	"fmt"

	"github.com/socketxtreme/socketxtreme/xtreme"
)

// sockperf's message header, big-endian (sockperf src/message.h): sequence number u64, flags u16, length u32 of the whole message.
const (
	headerLen = 14
	longest   = 65507 // sockperf's largest message

	flagClient = 1 << 0 // sent by the client; cleared in an answer
	flagPong   = 1 << 1 // wants an answer
	flagWarmUp = 1 << 2 // does not count, and gets none
)

// answer makes the message an answer; false when it wants none.
func answer(m []byte) bool {
	flags := binary.BigEndian.Uint16(m[8:])
	if flags&flagClient == 0 || flags&flagPong == 0 || flags&flagWarmUp != 0 {
		return false
	}
	binary.BigEndian.PutUint16(m[8:], flags&^flagClient)
	return true
}

// sockperf answers the messages of a sockperf client. Over TCP the length in the header frames them.
func sockperf(cn *conn, c *xtreme.Completion) error {
	if cn == nil {
		defer c.Packet.Release() //nolint:errcheck // just polled: it is ours
		if m := c.Packet.Bytes(); len(m) >= headerLen && answer(m) {
			_, err := c.Socket.SendTo(m, c.Source)
			return err
		}
		return nil
	}
	// The usual case is one whole message in one packet: it is answered in place.
	m := c.Packet.Bytes()
	if len(cn.frame) == 0 && len(m) >= headerLen && int(binary.BigEndian.Uint32(m[10:])) == len(m) && c.Packet.NumBuffers() == 1 {
		if answer(m) {
			return echo(cn, c)
		}
		return c.Packet.Release()
	}
	for piece := range c.Packet.Segments() {
		cn.frame = append(cn.frame, piece...)
	}
	if err := c.Packet.Release(); err != nil {
		return err
	}
	return cn.frames()
}

// frames answers the whole messages that have been put together. Answers of a client that does not read them are not kept: the
// connection ends.
func (cn *conn) frames() error {
	f := cn.frame
	for len(f) >= headerLen {
		n := int(binary.BigEndian.Uint32(f[10:]))
		if n < headerLen || n > longest {
			return fmt.Errorf("message length %d: want %d to %d", n, headerLen, longest)
		}
		if len(f) < n {
			break
		}
		if answer(f[:n]) {
			if !cn.unsent.IsZero() {
				return xtreme.ErrWouldBlock // an earlier answer waits
			}
			if _, err := cn.socket.Send(f[:n]); err != nil {
				return err
			}
		}
		f = f[n:]
	}
	cn.frame = cn.frame[:copy(cn.frame, f)]
	return nil
}
