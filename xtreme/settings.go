package xtreme

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
)

// programName returns the name of the executable without its folder, by which the rules' groups are chosen.
func programName() string { return filepath.Base(os.Args[0]) }

// openLog returns an engine's log: the one that code gave, else the one that the settings describe, else slog.Default(). It is closed with the
// engine. The first lines are the settings and their warnings.
func openLog(s *conf.Settings) (log *conf.Log, err error) {
	switch {
	case s.Logger != nil:
		log = s.LogThrough(s.Logger)
	case s.OwnLog():
		if log, err = s.OpenLog(); err != nil {
			return nil, err
		}
	default:
		log = s.LogThrough(slog.Default())
	}
	s.Announce(log.Logger)
	for _, w := range s.Warnings {
		log.Warn(w)
	}
	if err := tryCongestion(s.Congestion); err != nil {
		log.Warn("VMA_TCP_CC_ALGO="+s.Congestion+": the kernel refuses it; connections that the kernel carries have its default", "error", err)
	}
	return log, nil
}

// tryCongestion sets a congestion control on a throw-away socket, to learn whether the kernel accepts it: that depends on the kernel's modules
// and on the caller's privileges. "" is accepted.
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

// The bytes of IP and TCP headers without options, by which a segment is shorter than the MTU.
const (
	headersIPv4 = 20 + 20
	headersIPv6 = 40 + 20
)

// ringConfig returns the configuration with which package ring makes a socket: the options, completed by the settings.
func (e *Engine) ringConfig(o *options) ring.Config {
	c := o.ringConfig()
	c.ReceiveMin, c.ReportDrops = e.settings.RxBytesMin, e.settings.ReportDrops
	if c.Timestamps && o.hardwareTimestamps == nil {
		c.HardwareTimestamps = ring.HardwareTimestamps(e.settings.CardTime)
	}
	return c
}

// applySettings sets the options of a new socket that the settings ask for. It is called before the socket's own configuration is applied,
// which overrides them. VMA_EXCEPTION_HANDLING decides whether an option that the kernel refuses is an error.
func (e *Engine) applySettings(s *Socket, of protocol) error {
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
		if mss := maxSegment(set, s.ID()); mss > 0 {
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

// maxSegment returns the largest TCP segment that the settings (VMA_MSS, else VMA_MTU) allow the socket fd, in bytes without options; 0 leaves
// it to the interface.
func maxSegment(s *conf.Settings, fd int) int {
	if s.MSS > 0 || s.MTU == 0 {
		return s.MSS
	}
	if family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil && family == unix.AF_INET {
		return s.MTU - headersIPv4
	}
	return s.MTU - headersIPv6 // also if the family is not known: the longer headers are safe for both
}

// LoopCPU returns the processor to which the next reactor is bound, as a list of one: those of the setting SX_LOOP_CPUS in turn. It is nil
// without the setting. Packages that make loops call it. Any goroutine.
func (e *Engine) LoopCPU() []int {
	cpus := e.settings.LoopCPUs
	if len(cpus) == 0 {
		return nil
	}
	i := int(e.loops.Inc()-1) % len(cpus)
	return cpus[i : i+1 : i+1]
}
