package simnet

import (
	"errors"
	"fmt"
)

// RawEnd is an end of a cable without a stack: a function takes what arrives, and Send puts any bytes on the line. Hosts whose stack is under
// test by itself stand on it, and what makes hostile frames.
type RawEnd struct {
	world   *World
	name    string
	out     *Line
	receive func(frame []byte)
}

// RawEnd adds an end. receive is called for each frame when it arrives; the bytes are valid until it returns, and must not be changed. It may
// send.
func (w *World) RawEnd(name string, receive func(frame []byte)) *RawEnd {
	return &RawEnd{world: w, name: name, receive: receive}
}

// Send puts a copy of an Ethernet frame on the line.
func (e *RawEnd) Send(b []byte) error {
	switch {
	case e.out == nil:
		return fmt.Errorf("simnet: send on %s: it has no cable", e.name)
	case len(b) < 14:
		return errors.New("simnet: send: a frame has at least 14 bytes")
	}
	f := e.world.newFrame(len(b))
	copy(f.b, b)
	f.kind = kindOf(f.b)
	e.out.send(f)
	return nil
}

func (e *RawEnd) arrive(f *frame) {
	e.receive(f.b)
	e.world.releaseFrame(f)
}

// plug connects the end to the line out, on which it sends; an end has one cable.
func (e *RawEnd) plug(out *Line) (socketPlace, error) {
	if e.out != nil {
		return socketPlace{}, fmt.Errorf("simnet: connect %s: it has a cable already", e.name)
	}
	e.out = out
	return socketPlace{raw: e}, nil
}

func (e *RawEnd) label() string { return e.name }
func (e *RawEnd) home() *World  { return e.world }
