package netconn

import (
	"net"
	"time"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// set changes an option of the connection's socket, on its loop, and waits for that.
func (c *Conn) set(f func(*xtreme.Socket) error) error {
	if err := c.onLoop(f); err != nil {
		return c.fail("set", asNetError("setsockopt", err))
	}
	return nil
}

// onLoop calls f with the connection's socket on its loop and waits for it; net.ErrClosed if the connection is closed.
func (c *Conn) onLoop(f func(*xtreme.Socket) error) error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return net.ErrClosed
	}
	return c.loop.do(func() error {
		if c.socketClosed {
			return ring.ErrClosed
		}
		return f(c.socket)
	})
}

// SetNoDelay turns Nagle's algorithm off (the default) or on. TCP only.
func (c *Conn) SetNoDelay(on bool) error {
	return c.set(func(s *xtreme.Socket) error { return s.SetNoDelay(on) })
}

// SetKeepAlive turns probing of an idle peer on, with package net's times, or off. TCP only.
func (c *Conn) SetKeepAlive(on bool) error {
	return c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: on})
}

// SetKeepAlivePeriod is the time without traffic before the first probe and between probes, rounded up to seconds. TCP only.
func (c *Conn) SetKeepAlivePeriod(d time.Duration) error {
	return c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: d, Interval: d})
}

// SetKeepAliveConfig sets when an idle peer is probed: 0 is 15 s, 15 s and 9 probes, as in package net; a negative value
// leaves the kernel's for interval and count. TCP only.
func (c *Conn) SetKeepAliveConfig(k net.KeepAliveConfig) error {
	return c.set(func(s *xtreme.Socket) error {
		if !k.Enable {
			return s.SetKeepAlive(0, 0, 0)
		}
		return s.SetKeepAlive(keepAliveSeconds(k.Idle), keepAliveSeconds(k.Interval), keepAliveProbes(k.Count))
	})
}

// keepAliveSeconds returns a time of a net.KeepAliveConfig for the kernel: 0 means 15 s, as in package net, a negative time 0, which leaves
// it to the kernel; others are rounded up to seconds.
func keepAliveSeconds(d time.Duration) time.Duration {
	switch {
	case d == 0:
		return 15 * time.Second
	case d < 0:
		return 0
	}
	return (d + time.Second - 1).Truncate(time.Second)
}

// keepAliveProbes returns the count of a net.KeepAliveConfig for the kernel: 0 means 9, as in package net, a negative number 0, which leaves
// it to the kernel.
func keepAliveProbes(n int) int {
	switch {
	case n == 0:
		return 9
	case n < 0:
		return 0
	}
	return n
}

// SetLinger says what Close does. Negative, the default: data is sent as Close describes. 0: it is dropped and the connection is reset.
// Positive: it is sent, and for so many seconds data that the peer still sends is read and discarded; Close does not wait for that. TCP only.
func (c *Conn) SetLinger(sec int) error {
	err := c.set(func(s *xtreme.Socket) error {
		if sec < 0 {
			return s.SetLinger(-1)
		}
		return s.SetLinger(time.Duration(sec) * time.Second)
	})
	if err == nil {
		c.mu.Lock()
		c.reset = sec == 0
		c.mu.Unlock()
	}
	return err
}

// SetReadBuffer sizes the kernel's receive queue, in bytes; Config.ReceiveBuffer is this package's own.
func (c *Conn) SetReadBuffer(bytes int) error {
	return c.set(func(s *xtreme.Socket) error { return s.SetReceiveBuffer(bytes) })
}

// SetWriteBuffer sizes the kernel's send queue, in bytes; Config.SendBuffer is this package's own.
func (c *Conn) SetWriteBuffer(bytes int) error {
	return c.set(func(s *xtreme.Socket) error { return s.SetSendBuffer(bytes) })
}
