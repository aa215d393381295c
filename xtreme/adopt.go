package xtreme

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// Adopt takes over the descriptor of a socket that was made elsewhere: a connection that another poller's AcceptTo took, a socket from
// package net, one inherited from the process that started this one. What it is the kernel is asked: a connected TCP stream, a TCP
// listener, a UDP socket (bound, connected or neither yet), a connected unix-domain stream or a listener for such. Everything
// else is an error that says what it is; so is a stream that is not connected.
//
// On success the descriptor belongs to the socket: Close closes it and nobody else may. From a net.Conn or an *os.File duplicate it
// first (their Close and finalizers would close it). On an error it stays the caller's, as it was. No completion
// announces the socket; what waits in the kernel comes as any other packet, an error that is pending as the event it is.
//
// The options are those that fit the kind of socket found; an error names those that do not. Owner only, or anyone before the first
// Poll.
func (p *Poller) Adopt(fd int, opt ...Option) (*Socket, error) {
	if err := p.mayUse(); err != nil {
		return nil, fmt.Errorf("xtreme: Adopt: %w", err)
	}
	f, err := kernel.Inspect(fd)
	if err != nil {
		return nil, fmt.Errorf("xtreme: Adopt: %w", err)
	}
	c, err := collect("Adopt of a "+f.String(), adoptScope(f), opt)
	if err != nil {
		return nil, err
	}
	p.engine.fill(c)
	if err := p.possible("Adopt", adoptScope(f), f.String(), c); err != nil {
		return nil, err
	}
	p.making = true
	defer func() { p.making = false }()
	s, err := p.set.Adopt(f, c.socket, c.apply)
	if err != nil {
		dieOf(err)
		return nil, fmt.Errorf("xtreme: Adopt: %w", err)
	}
	p.engine.opened.Inc()
	return s, nil
}

// adoptScope is which options fit a socket that Adopt takes over.
func adoptScope(f ring.Adopted) scope {
	switch {
	case f.Family == ring.UnixDomain && f.Kind == ring.KindListener:
		return forAdoptedUnixListener
	case f.Family == ring.UnixDomain:
		return forAdoptedUnix
	case f.Kind == ring.KindListener:
		return forAdoptedListener
	case f.Kind == ring.KindDatagram:
		return forAdoptedDatagram
	}
	return forAdoptedStream
}
