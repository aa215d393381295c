package xtreme

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// Adopt takes over the descriptor of a socket that was made elsewhere: a connection that another owner's AcceptTo took, a socket from
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
func (o *Owner) Adopt(fd int, opt ...Option) (*Socket, error) {
	if err := o.mayUse(); err != nil {
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
	o.engine.fill(c)
	if err := o.possible("Adopt", adoptScope(f), f.String(), c); err != nil {
		return nil, err
	}
	o.making = true
	defer func() { o.making = false }()
	s, err := o.set.Adopt(f, c.socket, c.apply)
	if err != nil {
		dieOf(err)
		return nil, fmt.Errorf("xtreme: Adopt: %w", err)
	}
	o.engine.opened.Inc()
	return s, nil
}

// adoptScope is which options fit a socket that Adopt takes over.
func adoptScope(f ring.Adopted) scope {
	switch {
	case f.Family == ring.UnixDomain && f.Kind == ring.Listener:
		return forAdoptedUnixListener
	case f.Family == ring.UnixDomain:
		return forAdoptedUnix
	case f.Kind == ring.Listener:
		return forAdoptedListener
	case f.Kind == ring.Datagram:
		return forAdoptedDatagram
	}
	return forAdoptedStream
}
