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

// Refusal is the reason why an interface's card does not stamp received packets, or why its clock cannot be read.
type Refusal struct {
	Code string // one of the codes below, which do not change
	Text string
	Err  error // the kernel's; nil if the card does not have it
}

// Error is the reason in a sentence.
func (r *Refusal) Error() string {
	if r.Err != nil {
		return r.Text + ": " + r.Err.Error()
	}
	return r.Text
}

// Unwrap returns the kernel's error, or nil.
func (r *Refusal) Unwrap() error { return r.Err }

// Reason returns the code and the sentence, for the path of a socket.
func (r *Refusal) Reason() (code, text string) { return r.Code, r.Error() }

// The codes.
const (
	CodeNoInterface = "card.no_interface"
	CodeNoStamps    = "card.no_stamps"  // the card or its driver does not stamp received packets
	CodeStampsOff   = "card.stamps_off" // it can, and an administrator has not turned it on
	CodeNoClock     = "card.no_clock"   // it stamps by a clock that is no PTP device of the system
	CodeClosed      = "card.no_access"  // the clock's device cannot be opened
	CodeNoCompare   = "card.no_compare" // the kernel cannot read the card's and the system's clock at one instant
)

// Clock is the open clock of a network card.
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
		config = nil // the driver has no such call, and may stamp nevertheless
	}
	index, refusal := stampingClock(i.Name, info, config)
	if refusal != nil {
		return nil, refusal
	}
	return openDevice(index, i.Name)
}

// stampingClock returns the number of the PTP device by which a card stamps received packets, or why it does not stamp. info is what the card
// can, config its present configuration; nil: not known.
func stampingClock(name string, info *unix.EthtoolTsInfo, config *unix.HwTstampConfig) (index int, r *Refusal) {
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

// openDevice opens the PTP device with an index and checks that its clock can be compared with the system's. name is the interface, for errors.
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

// samples is how many comparisons Compare makes, of which it takes the most exact one.
const samples = 5

// Compare reads the card's clock and the system's (CLOCK_REALTIME) at the same instant, in nanoseconds. A card that can compares them itself
// (PTP_SYS_OFFSET_PRECISE); else the kernel reads the card's clock between two readings of the system's (PTP_SYS_OFFSET_EXTENDED, Linux 5.0).
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
	card, system, ok := narrowest(triples[:n])
	if !ok {
		return 0, 0, fmt.Errorf("phc: compare %s with the system's clock: %w", c.name, errNoSample)
	}
	return card, system, nil
}

var errNoSample = errors.New("no sample between two readings of the system's clock")

// narrowest returns the sample whose two readings of the system's clock are closest to each other: the card's clock, and the middle of the
// two. A sample is the system's clock, the card's, and the system's again.
func narrowest(samples [][3]int64) (card, system int64, ok bool) {
	least := int64(0)
	for _, s := range samples {
		if window := s[2] - s[0]; window >= 0 && (!ok || window < least) {
			card, system, least, ok = s[1], s[0]+window/2, window, true
		}
	}
	return card, system, ok
}

// nanos converts a time of the kernel's PTP interface to nanoseconds.
func nanos(t unix.PtpClockTime) int64 { return t.Sec*1e9 + int64(t.Nsec) }

// Close closes the clock.
func (c *Clock) Close() error { return unix.Close(c.fd) }

// TAI returns how far the kernel's CLOCK_TAI is ahead of its Unix clock: 37 s if a time service has set it, else 0.
func TAI() time.Duration {
	var tai, system unix.Timespec
	if unix.ClockGettime(unix.CLOCK_TAI, &tai) != nil || unix.ClockGettime(unix.CLOCK_REALTIME, &system) != nil {
		return 0
	}
	return time.Duration(tai.Nano() - system.Nano()).Round(time.Second)
}
