package gnet

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/panjf2000/gnet/v2/pkg/logging"
	"github.com/panjf2000/gnet/v2/pkg/socket"
)

// Client runs loops for connections that this side opens. Its connections go to the loop with the fewest. All methods
// may be called from any goroutine.
type Client struct {
	eng *engine

	mu       sync.Mutex // guards the two
	phase    phase
	stopping bool // Stop was called
}

// phase is how far Start has come.
type phase uint8

const (
	phaseNew phase = iota
	phaseStarting
	phaseStarted
)

// NewClient makes a client; Start starts it.
func NewClient(handler EventHandler, options ...Option) (*Client, error) {
	o := applyOptions(options)
	if err := o.openLog(); err != nil {
		return nil, err
	}
	eng, err := newEngine(handler, o)
	if err != nil {
		return nil, err
	}
	eng.lb = LeastConnections
	cli := &Client{eng: eng}
	eng.failed = cli.onLoopFailed
	return cli, nil
}

// onLoopFailed ends a started client after a loop or OnTick failed, as Stop would, unless Stop was called.
func (cli *Client) onLoopFailed() {
	cli.mu.Lock()
	first := !cli.stopping
	cli.stopping = true
	cli.mu.Unlock()
	if first {
		cli.eng.windDown()
	}
}

// Start calls OnBoot and starts the loops. If Stop is called meanwhile, by OnBoot for one, it is ErrEngineInShutdown.
func (cli *Client) Start() error {
	eng := cli.eng
	if err := cli.beginStart(); err != nil {
		return err
	}
	booted := false
	defer func() {
		if !booted { // OnBoot panicked: nobody waits in Stop for a start that will not be
			_ = cli.cancelStart()
		}
	}()
	eng.boot()
	booted = true
	if err := eng.makeLoops(); err != nil {
		return errors.Join(err, cli.cancelStart())
	}
	cli.mu.Lock()
	stopping := cli.stopping
	if !stopping {
		cli.phase = phaseStarted
		eng.start()
	}
	cli.mu.Unlock()
	if stopping {
		return errors.Join(ErrEngineInShutdown, cli.cancelStart())
	}
	return nil
}

// beginStart checks that Start may run, and notes that it does.
func (cli *Client) beginStart() error {
	cli.mu.Lock()
	defer cli.mu.Unlock()
	switch {
	case cli.stopping || cli.eng.ending.Err() != nil:
		return ErrEngineInShutdown
	case cli.phase != phaseNew:
		return errors.New("gnet: Client.Start: it was started before")
	}
	cli.phase = phaseStarting
	return nil
}

// cancelStart ends a client whose loops never ran. OnShutdown is called if Stop was called meanwhile, as in gnet.
func (cli *Client) cancelStart() error {
	cli.mu.Lock()
	stopping := cli.stopping
	cli.stopping = true
	cli.mu.Unlock()
	if stopping {
		cli.eng.shutdownHandler()
	}
	return cli.eng.abandon()
}

// Stop closes all connections, ends the loops and returns when that is done. If a loop failed, which has ended the client before, it returns
// that error. Concurrent and later calls wait for the same end. A handler cannot wait for its own end: called by one Stop only begins it.
func (cli *Client) Stop() error {
	defer logging.Cleanup()
	eng := cli.eng
	cli.mu.Lock()
	first, phase := !cli.stopping, cli.phase
	cli.stopping = true
	cli.mu.Unlock()
	eng.end()
	inside := eng.inHandler()
	switch {
	case !first || phase == phaseStarting: // the first one, or Start, does it
	case phase == phaseNew:
		eng.shutdownHandler()
		return eng.abandon()
	case inside:
		go eng.windDown()
	default:
		eng.windDown()
	}
	if inside {
		return nil
	}
	<-eng.ended
	if eng.opts.ExactGnet {
		return nil
	}
	return eng.failure
}

// Dial connects to an address and returns when OnOpen has returned. A handler runs on a loop and cannot wait for that: it gets
// ErrUnsupportedOp from Dial and Enroll, and uses Register and Enroll of a connection's EventLoop instead.
func (cli *Client) Dial(network, address string) (Conn, error) {
	return cli.DialContext(network, address, nil)
}

// DialContext is Dial with a value for the connection's Context and SafeContext.
func (cli *Client) DialContext(network, address string, ctx any) (Conn, error) {
	if err := cli.ready(); err != nil {
		return nil, err
	}
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
	if err := cli.ready(); err != nil {
		_ = c.Close()
		return nil, err
	}
	return cli.eng.balance(c.RemoteAddr()).enroll(c, ctx, cli.prepare)
}

// ready returns an error if connections cannot be opened: the client does not run, or the caller is on a loop, which cannot wait for itself.
func (cli *Client) ready() error {
	cli.mu.Lock()
	started := cli.phase == phaseStarted
	cli.mu.Unlock()
	switch {
	case !started || cli.eng.ending.Err() != nil:
		return ErrEngineInShutdown
	case cli.eng.onLoop():
		return fmt.Errorf("gnet: Client.Dial or Enroll on a loop, see EventLoop.Register: %w", ErrUnsupportedOp)
	}
	return nil
}

// prepare sets the client's socket options on a connection that it has dialled or enrolled.
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
