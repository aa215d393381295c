package gnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/panjf2000/gnet/v2/pkg/socket"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Register connects to an address and puts the connection on this loop; the answer comes over the channel. Any
// goroutine.
func (el *eventloop) Register(ctx context.Context, a net.Addr) (<-chan RegisteredResult, error) {
	switch {
	case el.eng.inShutdown():
		return nil, ErrEngineInShutdown
	case a == nil:
		return nil, ErrInvalidNetworkAddress
	}
	return el.answer(func() (Conn, error) {
		c, err := net.Dial(a.Network(), a.String())
		if err != nil {
			return nil, err
		}
		return el.enroll(c, FromContext(ctx))
	}), nil
}

// Enroll puts a connection of package net on this loop and closes c: its descriptor is duplicated. Any goroutine.
func (el *eventloop) Enroll(ctx context.Context, c net.Conn) (<-chan RegisteredResult, error) {
	switch {
	case el.eng.inShutdown():
		return nil, ErrEngineInShutdown
	case c == nil:
		return nil, ErrInvalidNetConn
	}
	return el.answer(func() (Conn, error) { return el.enroll(c, FromContext(ctx)) }), nil
}

// answer runs f, which may block, on a goroutine of its own and sends its result over the channel that it returns.
func (el *eventloop) answer(f func() (Conn, error)) <-chan RegisteredResult {
	result := make(chan RegisteredResult, 1)
	go func() {
		defer close(result)
		c, err := f()
		result <- RegisteredResult{Conn: c, Err: err}
	}()
	return result
}

// Execute runs a function on the loop. Any goroutine.
func (el *eventloop) Execute(ctx context.Context, r Runnable) error {
	switch {
	case el.eng.inShutdown():
		return ErrEngineInShutdown
	case r == nil:
		return ErrNilRunnable
	}
	return el.tasks.push(task{kind: taskRun, run: func() { el.execute(ctx, r) }})
}

// Schedule runs a function on the loop after a delay. Exact gnet: ErrUnsupportedOp. Any goroutine.
func (el *eventloop) Schedule(ctx context.Context, r Runnable, delay time.Duration) error {
	switch {
	case el.exact:
		return ErrUnsupportedOp
	case el.eng.inShutdown():
		return ErrEngineInShutdown
	case r == nil:
		return ErrNilRunnable
	}
	return el.runOnLoop(func() error {
		el.loop.After(el.turnAge()+delay, func() {
			el.depth = 1
			el.execute(ctx, r)
			el.depth = 0
			el.after()
		})
		return nil
	})
}

// execute runs a function on the loop. Its error is dropped, except ErrEngineShutdown, which ends the server, as in gnet.
func (el *eventloop) execute(ctx context.Context, r Runnable) {
	err := r.Run(ctx)
	if errors.Is(err, ErrEngineShutdown) {
		_ = el.doAction(nil, Shutdown)
	} else if err != nil {
		el.eng.log.Debugf("runnable: %v", err)
	}
}

// Close closes a connection of this loop. Loop only. Exact gnet calls OnClose before it returns, otherwise that waits
// for the handler to return.
func (el *eventloop) Close(c Conn) error {
	switch c := c.(type) {
	case *conn:
		if c.el == el {
			return el.close(c, nil)
		}
	case *datagram:
		if c.us.el == el {
			return c.us.close(c, nil)
		}
	case connected:
		if c.us.el == el {
			return c.us.close(c.datagram, nil)
		}
	}
	return fmt.Errorf("gnet: EventLoop.Close: a %T of another loop: %w", c, ErrUnsupportedOp)
}

// duplicate returns a copy of the descriptor of a connection of package net.
func duplicate(c net.Conn) (fd int, err error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return -1, errors.New("gnet: the net.Conn has no descriptor: it is no syscall.Conn")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd = -1
	var dup error
	if err := raw.Control(func(own uintptr) { fd, dup = socket.Dup(int(own)) }); err != nil {
		return -1, err
	}
	return fd, dup
}

// enroll puts a connection of package net on the loop and returns when OnOpen has returned.
func (el *eventloop) enroll(nc net.Conn, ctx any, prepare ...func(fd int, nc net.Conn) error) (Conn, error) {
	defer func() { _ = nc.Close() }() // the copy of the descriptor is what counts
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn, *net.UDPConn:
	default:
		return nil, fmt.Errorf("gnet: unknown type of net.Conn %T: %w", nc, ErrUnsupportedProtocol)
	}
	fd, err := duplicate(nc)
	if err != nil {
		return nil, err
	}
	for _, f := range prepare {
		if err := f(fd, nc); err != nil {
			_ = unix.Close(fd)
			return nil, err
		}
	}
	var opened Conn
	result := make(chan error, 1)
	el.assigned.Add(1)
	err = el.tasks.push(task{kind: taskRun, run: func() {
		if el.stopping {
			_ = unix.Close(fd)
			el.assigned.Add(-1)
			result <- ErrEngineInShutdown
			return
		}
		err := ErrHandlerPanic // unless OnOpen returns
		defer func() { result <- err }()
		if opened, err = el.adopt(fd, nc, ctx); err != nil {
			_ = unix.Close(fd)
			el.assigned.Add(-1)
		}
	}})
	if err != nil {
		_ = unix.Close(fd)
		el.assigned.Add(-1)
		return nil, ErrEngineInShutdown
	}
	select {
	case err = <-result:
	case <-el.done:
		select {
		case err = <-result:
		default:
			_ = unix.Close(fd)
			return nil, ErrEngineInShutdown
		}
	}
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// adopt makes a connection from a descriptor. Loop only.
func (el *eventloop) adopt(fd int, nc net.Conn, ctx any) (Conn, error) {
	local, remote := nc.LocalAddr(), nc.RemoteAddr()
	if _, ok := nc.(*net.UDPConn); ok {
		return el.adoptDatagram(fd, local, remote, ctx)
	}
	network := "tcp"
	if u, ok := local.(*net.UnixAddr); ok {
		network = "unix"
		local = &net.UnixAddr{Net: u.Net, Name: remote.String() + "." + strconv.Itoa(fd)}
	}
	c := newConn(el, network, local, remote)
	c.SetContext(ctx)
	c.SetSafeContext(ctx)
	if err := el.adoptStream(c, fd); err != nil {
		return nil, err
	}
	return c, nil
}

// adoptStream opens the connection c on the descriptor fd. If it fails, the caller still owns fd. Loop only.
func (el *eventloop) adoptStream(c *conn, fd int) error {
	c.slot = el.admit(streamOrDatagram{c: c})
	s, err := el.poller.Adopt(fd, xtreme.AdoptConfig{SocketConfig: xtreme.SocketConfig{UserData: xtreme.Ptr(uint64(c.slot))},
		LargeStream: el.largeStream()})
	if err != nil {
		el.vacate(c.slot)
		return err
	}
	c.socket, c.fd, c.onStack = s, s.ID(), s.Ring().Kind() == string(conf.RingOffload)
	opened := false
	defer func() {
		if !opened { // OnOpen panicked, for a completion that is not c's or for none: CLOSED follows, and OnClose with it
			c.invalidateFD()
			_ = s.Abort()
		}
	}()
	el.open(c)
	opened = true
	return nil
}

// adoptDatagram makes a connected UDP socket from a descriptor and calls OnOpen. If OnOpen panics, the socket is closed. Loop only.
func (el *eventloop) adoptDatagram(fd int, local, remote net.Addr, ctx any) (Conn, error) {
	us := &udpSocket{el: el, local: local, fd: fd}
	us.connectedPeer = &datagram{us: us, remote: remote}
	us.connectedPeer.self = connected{us.connectedPeer}
	us.connectedPeer.SetContext(ctx)
	us.connectedPeer.SetSafeContext(ctx)
	us.slot = el.admit(streamOrDatagram{d: us})
	s, err := el.poller.Adopt(fd, xtreme.AdoptConfig{SocketConfig: xtreme.SocketConfig{UserData: xtreme.Ptr(uint64(us.slot))},
		LargestDatagram: el.eng.opts.largestDatagram()})
	if err != nil {
		el.vacate(us.slot)
		return nil, err
	}
	us.socket, us.family = s, sys.Family(s.LocalAddr().Addr())
	opened := false
	defer func() {
		if !opened {
			el.depth = 0 // as the panic left it, OnClose would wait for a handler to return
			_ = us.close(us.connectedPeer, ErrHandlerPanic)
		}
	}()
	us.open()
	opened = true
	return us.connectedPeer.self, nil
}
