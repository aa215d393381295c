// Package phc reads the clocks of network cards (PTP hardware clocks) beside the system's, and says why a card has none that stamps what
// it receives. A Clock belongs to one goroutine.
package phc

import (
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Refusal is why an interface's card does not stamp, or its clock cannot be read.
type Refusal struct {
	Code string // stable
	Text string
	Err  error // what the kernel said; nil when the card just has not
}

// Error is the refusal in a sentence.
func (r *Refusal) Error() string {
	if r.Err != nil {
		return r.Text + ": " + r.Err.Error()
	}
	return r.Text
}

// Unwrap gives what the kernel said.
func (r *Refusal) Unwrap() error { return r.Err }

// Reason is the refusal as a reason code and its sentence.
func (r *Refusal) Reason() (code, text string) { return r.Code, r.Error() }

// The codes.
const (
	CodeNoInterface = "card.no_interface"
	CodeNoStamps    = "card.no_stamps"  // the card, or its driver, stamps nothing it receives
	CodeStampsOff   = "card.stamps_off" // it could, and is not told to
	CodeNoClock     = "card.no_clock"   // it stamps by a clock that the system does not see
	CodeClosed      = "card.no_access"  // the clock's device may not be opened
	CodeNoCompare   = "card.no_compare" // the kernel cannot read both clocks at an instant
)

// Clock is an open clock.
type Clock struct {
	fd   int
	name string
}

// Open opens the clock of an interface's card. Errors are *Refusal.
func Open(index int) (*Clock, error) {
	i, err := net.InterfaceByIndex(index)
	if err != nil {
		return nil, &Refusal{CodeNoInterface, fmt.Sprintf("interface %d", index), err}
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, &Refusal{CodeNoStamps, i.Name + ": a socket for asking", err}
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolTsInfo(fd, i.Name)
	if err != nil {
		return nil, &Refusal{CodeNoStamps, i.Name + ": what the card can stamp is not known", err}
	}
	config, err := unix.IoctlGetHwTstamp(fd, i.Name)
	if err != nil {
		config = nil // the driver cannot tell: some stamp all the same
	}
	index, refusal := judge(i.Name, info, config)
	if refusal != nil {
		return nil, refusal
	}
	return openDevice(index, i.Name)
}

// judge says whether a card stamps, by its description and its present configuration (nil: not known), and which clock it has.
func judge(name string, info *unix.EthtoolTsInfo, config *unix.HwTstampConfig) (index int, r *Refusal) {
	const need = unix.SOF_TIMESTAMPING_RX_HARDWARE | unix.SOF_TIMESTAMPING_RAW_HARDWARE
	switch {
	case info.So_timestamping&need != need:
		return 0, &Refusal{CodeNoStamps, name + ": its driver has no hardware time stamps of received packets", nil}
	case config != nil && config.Rx_filter == unix.HWTSTAMP_FILTER_NONE:
		return 0, &Refusal{CodeStampsOff, name +
			": hardware time stamps are off; as an administrator: hwstamp_ctl -i " + name + " -r 1 -t 1", nil}
	case info.Phc_index < 0:
		return 0, &Refusal{CodeNoClock, name + ": its card stamps by a clock that is no PTP device", nil}
	}
	return int(info.Phc_index), nil
}

func openDevice(index int, name string) (*Clock, error) {
	device := fmt.Sprintf("/dev/ptp%d", index)
	fd, err := unix.Open(device, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &Refusal{CodeClosed, fmt.Sprintf("%s: its clock %s", name, device), err}
	}
	c := &Clock{fd: fd, name: name + " " + device}
	if _, _, err := c.Compare(); err != nil {
		_ = unix.Close(fd)
		return nil, &Refusal{CodeNoCompare, c.name, err}
	}
	return c, nil
}

// samples of which the one that took least is taken.
const samples = 5

// Compare reads the card's clock and the system's (CLOCK_REALTIME) at the same instant: by the card's own means where it has them
// (PTP_SYS_OFFSET_PRECISE), else between two readings of the system's (PTP_SYS_OFFSET_EXTENDED, Linux 5.0).
func (c *Clock) Compare() (card, system int64, err error) {
	if p, err := unix.IoctlPtpSysOffsetPrecise(c.fd); err == nil {
		return nanos(p.Device), nanos(p.Realtime), nil
	}
	x, err := unix.IoctlPtpSysOffsetExtended(c.fd, samples)
	if err != nil {
		return 0, 0, fmt.Errorf("phc: compare %s with the system's clock: %w", c.name, err)
	}
	var triples [samples][3]int64
	n := min(int(x.Samples), samples)
	for i := range n {
		for j := range 3 {
			triples[i][j] = nanos(x.Ts[i][j])
		}
	}
	card, system, ok := best(triples[:n])
	if !ok {
		return 0, 0, fmt.Errorf("phc: compare %s with the system's clock: %w", c.name, errNoSample)
	}
	return card, system, nil
}

var errNoSample = errors.New("no sample between two readings of the system's clock")

// best takes the sample (system's clock before, card's, system's after) with the narrowest window, and its middle.
func best(samples [][3]int64) (card, system int64, ok bool) {
	least := int64(0)
	for _, s := range samples {
		if window := s[2] - s[0]; window >= 0 && (!ok || window < least) {
			card, system, least, ok = s[1], s[0]+window/2, window, true
		}
	}
	return card, system, ok
}

func nanos(t unix.PtpClockTime) int64 { return t.Sec*1e9 + int64(t.Nsec) }

// Close closes the clock.
func (c *Clock) Close() error { return unix.Close(c.fd) }

// TAI is how far the kernel's CLOCK_TAI is ahead of its Unix clock: 37 s where a time service has told it so, else 0.
func TAI() time.Duration {
	var tai, system unix.Timespec
	if unix.ClockGettime(unix.CLOCK_TAI, &tai) != nil || unix.ClockGettime(unix.CLOCK_REALTIME, &system) != nil {
		return 0
	}
	return time.Duration(tai.Nano() - system.Nano()).Round(time.Second)
}
