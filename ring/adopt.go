package ring

import (
	"fmt"
	"net/netip"
)

// Adopted describes a socket that was made elsewhere, for Set.Adopt; kernel.Inspect fills it in.
type Adopted struct {
	Conn                  Conn
	Kind                  SocketKind
	Family                Family // zero: it was not inspected
	Local, Remote         netip.AddrPort
	LocalName, RemoteName string // of unix-domain sockets
	Device                int    // index of the interface it is tied to, 0 for none
	WriteClosed           bool   // its write side was shut down
	Copies                bool   // its protocol has no zero-copy sends
}

// String is the kind in words: "TCP", "TCP listener", "UDP", "unix", "unix listener".
func (a Adopted) String() string { return kindOf(a.Kind, a.Family == UnixDomain) }

// Adopt takes over a socket that was made elsewhere: by another owner (Config.AcceptTo), by package net, by the process that started
// this one. prepare, which may be nil, sets options before the socket is read.
//
// On success the descriptor is the socket's, Close closes it, and nobody else may: a program that has it from an *os.File or a
// net.Conn duplicates it first, because the finalizer of either would close it. It becomes non-blocking and close-on-exec, which
// the first of holds for its duplicates too; SO_LINGER becomes SetLinger's equivalent, because close(2) would wait for it. On an
// error the descriptor is the caller's, and as it was but for options that prepare set.
//
// No completion announces the socket. What waits in the kernel comes as any other packet does, an error that is pending and the
// peer's FIN as on sockets of the ring's own. A UDP socket that is neither bound nor connected has no ring before it is.
// Owner only, or anyone before the first Poll.
func (set *Set) Adopt(a Adopted, c Config, prepare func(*Socket) error) (*Socket, error) {
	if err := set.BeginCall(); err != nil {
		return nil, a.failed(err)
	}
	adopter, ok := set.config.Transport.(Adopter)
	if !ok {
		return nil, a.failed(&FeatureError{Feature: "a descriptor of the kernel's, where the sockets are not", Code: "offload.no_kernel"})
	}
	if a.Family == 0 {
		return nil, badArgument("adopt", "socket that was not inspected:", a.Conn)
	}
	if err := c.complete(); err != nil {
		return nil, err
	}
	s := set.newSocket(Handle{Conn: a.Conn, Kind: a.Kind, Copies: a.Copies, Adopted: true}, a.Family, c)
	s.ends.set(a.Local, a.Remote)
	x := s.activate()
	x.device = a.Device
	if x.unix != nil {
		x.unix.local, x.unix.remote = a.LocalName, a.RemoteName
	}
	s.closeWriteCalled, x.closeWriteDone = a.WriteClosed, a.WriteClosed
	linger, undo, err := adopter.TakeOver(s)
	undoAdopt := func() { // the descriptor stays open
		delete(s.set().withoutRing, s) // the socket is the caller's again
		undo()
		s.state = stateGone
		s.forget()
	}
	if err != nil {
		undoAdopt()
		return nil, a.failed(err)
	}
	s.activate().linger = lingerTime{linger >= 0, linger}
	if prepare != nil {
		err = prepare(s)
	}
	if err == nil {
		if err = adopter.Ready(s); err != nil {
			err = a.failed(err)
		}
	}
	if err != nil {
		undoAdopt()
		return nil, err // they say which option it was
	}
	if err := s.startAdopted(); err != nil {
		undoAdopt()
		return nil, a.failed(err)
	}
	return s, nil
}

// failed is err as the error of Adopt, with the descriptor's number.
func (a *Adopted) failed(err error) error {
	return &OpError{Op: "adopt", Err: fmt.Errorf("descriptor %d: %w", a.Conn, err)}
}

// startAdopted is the last step of Adopt: it gives the socket its ring and starts reading. A UDP socket that is neither bound nor connected has
// nothing to read and gets no ring yet.
func (s *Socket) startAdopted() error {
	if s.handle.Kind == KindDatagram && s.localPort() == 0 && !s.isConnected() {
		s.setLocal(netip.AddrPort{}) // neither bound nor connected: as NewSocket makes it
		return nil
	}
	if err := s.joinRing(); err != nil {
		return err
	}
	r := s.ring()
	if err := r.drv.SetReceiving(s, true); err != nil {
		r.drv.Detach(s) // nothing is armed, so it lets go at once
		s.leaveRing()
		return err
	}
	s.stops = 0
	s.touched = true
	s.state = stateOpen
	if s.handle.Kind == KindListener {
		s.state = stateListening
		r.listeners = append(r.listeners, s)
	}
	s.describe()
	return nil
}
