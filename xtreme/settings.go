package xtreme

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
)

// programName is what the rules call this program: its executable without the folder.
func programName() string { return filepath.Base(os.Args[0]) }

// openLog is the engine's log: code's, or that of the settings, or the program's. What the settings have to say is said there.
func openLog(s *conf.Settings) (log *slog.Logger, end io.Closer, err error) {
	switch {
	case s.Logger != nil:
		log = s.Logger
	case s.OwnLog():
		l, err := s.OpenLog()
		if err != nil {
			return nil, nil, err
		}
		log, end = l.Logger, l
	default:
		log = slog.Default()
	}
	s.Announce(log)
	for _, w := range s.Warnings {
		log.Warn(w)
	}
	if err := tryCongestion(s.Congestion); err != nil {
		log.Warn("VMA_TCP_CC_ALGO="+s.Congestion+": the kernel refuses it, its own is used", "error", err)
	}
	return log, end, nil
}

// tryCongestion asks the kernel for a congestion control on a socket that is made for that: which there are depends on its modules, and
// on who asks.
func tryCongestion(name string) error {
	if name == "" {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("no socket to try it on: %w", err)
	}
	return errors.Join(unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name), unix.Close(fd))
}

// What an MTU has beyond a TCP segment: the headers without options.
const (
	headers4 = 20 + 20
	headers6 = 40 + 20
)

// ringConfig is what the core is told of a socket: what its configuration says, and the settings where that says nothing.
func (e *Engine) ringConfig(o *options) ring.Config {
	c := o.ringConfig()
	c.ReceiveMin, c.ReportDrops = e.settings.RxBytesMin, e.settings.ReportDrops
	if c.Timestamps && o.hardwareTimestamps == nil {
		c.HardwareTimestamps = ring.HardwareTimestamps(e.settings.CardTime)
	}
	return c
}

// standard gives a new socket what the settings say; its configuration has the last word. What the kernel refuses is a case for
// VMA_EXCEPTION_HANDLING.
func (e *Engine) standard(s *Socket, of protocol) error {
	set := &e.settings
	apply := func(name string, err error) error {
		if err == nil {
			return nil
		}
		return e.exception("setting", fmt.Errorf("setting %s: %w", name, err))
	}
	if of == protocolTCP {
		if set.NoDelay {
			if err := apply("VMA_TCP_NODELAY", s.SetNoDelay(true)); err != nil {
				return err
			}
		}
		if set.Congestion != "" {
			err := unix.SetsockoptString(s.ID(), unix.IPPROTO_TCP, unix.TCP_CONGESTION, set.Congestion)
			if err := apply("VMA_TCP_CC_ALGO="+set.Congestion, err); err != nil {
				return err
			}
		}
		if mss := segment(set, s.ID()); mss > 0 {
			if err := apply(fmt.Sprintf("VMA_MSS=%d", mss), unix.SetsockoptInt(s.ID(), unix.IPPROTO_TCP, unix.TCP_MAXSEG, mss)); err != nil {
				return err
			}
		}
	}
	if of == protocolUDP && set.NoMulticastLoop {
		return apply("VMA_TX_MC_LOOPBACK", s.SetMulticastLoop(false))
	}
	return nil
}

// segment is the largest TCP segment of a socket by the settings, 0 where they leave it to the interface.
func segment(s *conf.Settings, fd int) int {
	if s.MSS > 0 || s.MTU == 0 {
		return s.MSS
	}
	if family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil && family == unix.AF_INET {
		return s.MTU - headers4
	}
	return s.MTU - headers6 // of the two the safe one
}

// LoopCPU is the processor for the next reactor, by SX_LOOP_CPUS, as a list of one; empty without the setting. Any goroutine.
func (e *Engine) LoopCPU() []int {
	cpus := e.settings.LoopCPUs
	if len(cpus) == 0 {
		return nil
	}
	i := int(e.loops.Inc()-1) % len(cpus)
	return cpus[i : i+1 : i+1]
}
