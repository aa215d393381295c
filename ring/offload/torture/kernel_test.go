package torture

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// meeting lets both sides listen before one connects.
type meeting struct {
	ports uint16        // the port of flow 0
	ready chan struct{} // receives from each side, once it listens
	start chan struct{} // closed when both do
	ended chan error    // receives the near side's result, where that goes on to serve its connections
	stop  chan struct{} // closed when the trial is over
	until time.Time     // the time bound
}

func (m *meeting) port(flow int) uint16 { return m.ports + uint16(flow) }

// runKernel is a side whose TCP is the kernel's. It returns when all its streams have ended, with what was wrong.
func (x *trial) runKernel(n *network, side int, m *meeting) error {
	k := x.kernel(side)
	control := func(_, _ string, c syscall.RawConn) (err error) {
		if e := c.Control(func(fd uintptr) { err = k.apply(int(fd)) }); e != nil {
			return e
		}
		return err
	}
	listeners := make([]net.Listener, len(x.Flows))
	err := within(n.sides[side], func() (err error) {
		config := net.ListenConfig{Control: control}
		config.SetMultipathTCP(false)
		for i, f := range x.Flows {
			if f.From != side && err == nil {
				listeners[i], err = config.Listen(context.Background(), "tcp4", netip.AddrPortFrom(addresses[side], m.port(i)).String())
			}
		}
		return err
	})
	defer func() {
		for _, l := range listeners {
			if l != nil {
				_ = l.Close()
			}
		}
	}()
	m.ready <- struct{}{}
	if err != nil {
		return err
	}
	select {
	case <-m.start:
	case <-m.stop:
		return errors.New("the other side was not ready")
	}
	results := make(chan error, len(x.Flows))
	for i := range x.Flows {
		open := func() (net.Conn, error) { return listeners[i].Accept() }
		if l := listeners[i]; l != nil {
			_ = l.(*net.TCPListener).SetDeadline(m.until)
		} else {
			open = func() (c net.Conn, err error) {
				err = within(n.sides[side], func() (err error) {
					d := net.Dialer{Control: control, Deadline: m.until}
					d.SetMultipathTCP(false)
					c, err = d.Dial("tcp4", netip.AddrPortFrom(addresses[1-side], m.port(i)).String())
					return err
				})
				return c, err
			}
		}
		go func() {
			c, err := open()
			if err == nil {
				err = x.exchange(c, side, i, m)
			}
			if err != nil {
				err = fmt.Errorf("flow %d at the kernel: %w", i, err)
			}
			results <- err
		}()
	}
	var errs []error
	for range x.Flows {
		errs = append(errs, <-results)
	}
	return errors.Join(errs...)
}

// apply sets the options of a socket before it listens or connects.
func (k kernelTCP) apply(fd int) error {
	if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, k.Control); err != nil {
		return fmt.Errorf("congestion control %s: %w", k.Control, err)
	}
	for option, size := range map[int]int{unix.SO_RCVBUF: k.Buffer, unix.SO_SNDBUF: k.SendBuffer} {
		if size == 0 {
			continue
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, size); err != nil {
			return err
		}
	}
	return nil
}

// slowly is how long a slow reader waits after each read.
const slowly = 5 * time.Millisecond

// exchange carries a flow's streams over a connection of the kernel.
func (x *trial) exchange(c net.Conn, side, number int, m *meeting) error {
	defer c.Close()
	if err := c.SetDeadline(m.until); err != nil {
		return err
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-over:
		case <-m.stop:
			_ = c.SetDeadline(time.Now())
		}
	}()
	written := make(chan error, 1)
	go func() {
		_, err := c.Write(x.text(side, number))
		if err == nil {
			err = c.(*net.TCPConn).CloseWrite()
		}
		written <- err
	}()
	sum, got := sha256.New(), 0
	b := make([]byte, 64<<10)
	var err error
	for err == nil {
		var n int
		n, err = c.Read(b)
		_, _ = sum.Write(b[:n])
		if got += n; x.Flows[number].Slow[side] {
			time.Sleep(slowly)
		}
	}
	if err == io.EOF {
		err = x.check(side, number, got, [32]byte(sum.Sum(nil)))
	}
	return errors.Join(err, <-written)
}

// check compares what a side has received with what the other one has sent.
func (x *trial) check(side, number, got int, sum [32]byte) error {
	want := x.text(1-side, number)
	switch {
	case got != len(want):
		return fmt.Errorf("the stream has %d bytes, not %d", got, len(want))
	case sum != sha256.Sum256(want):
		return errors.New("the stream has other bytes than were sent")
	}
	return nil
}
