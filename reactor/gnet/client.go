package gnet

import (
	"errors"
	"net"

	"github.com/panjf2000/gnet/v2/pkg/logging"
	"github.com/panjf2000/gnet/v2/pkg/socket"
)

// Client runs loops for connections that this side opens. Its connections go to the loop with the fewest. All methods
// may be called from any goroutine.
type Client struct {
	eng     *engine
	started bool
}

// NewClient makes a client; Start starts it.
func NewClient(handler EventHandler, options ...Option) (*Client, error) {
	o := collect(options)
	o.openLog()
	eng, err := newEngine(handler, o)
	if err != nil {
		return nil, err
	}
	eng.lb = LeastConnections
	return &Client{eng: eng}, nil
}

// Start calls OnBoot and starts the loops.
func (cli *Client) Start() error {
	eng := cli.eng
	switch {
	case eng.ending.Err() != nil:
		return ErrEngineInShutdown
	case cli.started:
		return errors.New("gnet: Client.Start: it was started before")
	}
	eng.handler.OnBoot(Engine{eng})
	if err := eng.makeLoops(); err != nil {
		return errors.Join(err, eng.abandon())
	}
	cli.started = true
	eng.start()
	return nil
}

// Stop closes all connections and ends the loops; it returns when that is done. A second Stop does nothing.
func (cli *Client) Stop() error {
	defer logging.Cleanup()
	eng := cli.eng
	if eng.inShutdown() {
		return nil
	}
	eng.end()
	if !cli.started {
		eng.handler.OnShutdown(Engine{eng})
		return eng.abandon()
	}
	eng.wind()
	if eng.opts.ExactGnet {
		return nil
	}
	return eng.failure
}

// Dial connects and returns when OnOpen has returned.
func (cli *Client) Dial(network, address string) (Conn, error) {
	return cli.DialContext(network, address, nil)
}

// DialContext is Dial with a value for the connection's Context and SafeContext.
func (cli *Client) DialContext(network, address string, ctx any) (Conn, error) {
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return cli.EnrollContext(c, ctx)
}

// Enroll takes a connection of package net over: its descriptor is duplicated and c is closed.
func (cli *Client) Enroll(c net.Conn) (Conn, error) { return cli.EnrollContext(c, nil) }

// EnrollContext is Enroll with a value for the connection's Context and SafeContext.
func (cli *Client) EnrollContext(c net.Conn, ctx any) (Conn, error) {
	if c == nil {
		return nil, ErrInvalidNetConn
	}
	if len(cli.eng.loops) == 0 || cli.eng.inShutdown() {
		_ = c.Close()
		return nil, ErrEngineInShutdown
	}
	return cli.eng.balance(c.RemoteAddr()).enroll(c, ctx, cli.prepare)
}

// prepare sets the options of a connection that was dialled.
func (cli *Client) prepare(fd int, c net.Conn) error {
	o := cli.eng.opts
	if o.SocketSendBuffer > 0 {
		if err := socket.SetSendBuffer(fd, o.SocketSendBuffer); err != nil {
			return err
		}
	}
	if o.SocketRecvBuffer > 0 {
		if err := socket.SetRecvBuffer(fd, o.SocketRecvBuffer); err != nil {
			return err
		}
	}
	if _, ok := c.(*net.TCPConn); !ok {
		return nil
	}
	if o.TCPNoDelay == TCPNoDelay {
		if err := socket.SetNoDelay(fd, 1); err != nil {
			return err
		}
	}
	if o.TCPKeepAlive > 0 {
		return setKeepAlive(fd, o)
	}
	return nil
}
