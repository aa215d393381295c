package link

import (
	"fmt"
	"strings"
)

// Reason says why something better was not had. Code is stable and meant for programs; Text is a sentence for people. It converts to
// the ring package's type of the same shape.
type Reason struct {
	Code string // such as "xdp.no_zerocopy"
	Text string
}

// String is the sentence with the code behind it.
func (r Reason) String() string { return r.Text + " [" + r.Code + "]" }

// Path is how frames travel, and why not better.
type Path struct {
	Kind      string // "xdp", "memory"
	Interface string
	Queue     int
	Mode      string // "native": in the driver; "generic": behind it; empty where there is no such choice
	ZeroCopy  bool   // the card reads and writes our buffers itself
	Jumbo     bool   // frames may be chains of buffers
	Clock     Clock  // what stamps received frames
	Reasons   []Reason
}

// String is one short line: kind, interface and queue, then the properties, such as "xdp eth1/0 (generic, copy)".
func (p Path) String() string { return p.With() }

// With is String with further properties behind those of the link.
func (p Path) With(properties ...string) string {
	line := p.Kind
	if p.Interface != "" {
		line += fmt.Sprintf(" %s/%d", p.Interface, p.Queue)
	}
	var own []string
	if p.Mode != "" {
		copied := "copy"
		if p.ZeroCopy {
			copied = "zero-copy"
		}
		own = append(own, p.Mode, copied)
	}
	if p.Jumbo {
		own = append(own, "jumbo")
	}
	if p.Clock != ClockNone {
		own = append(own, p.Clock.String()+" time")
	}
	if own = append(own, properties...); len(own) > 0 {
		line += " (" + strings.Join(own, ", ") + ")"
	}
	return line
}

// Explain is the long form: the line of String, then each reason as a sentence with its code, one per line.
func (p Path) Explain() string {
	line := p.String()
	for _, r := range p.Reasons {
		line += "\n  " + r.String()
	}
	return line
}

// Has reports whether a reason with this code is among the reasons.
func (p Path) Has(code string) bool {
	for _, r := range p.Reasons {
		if r.Code == code {
			return true
		}
	}
	return false
}

// Refusal is a link that could not be had, with the reason that a path shows instead of it.
type Refusal struct {
	Reason Reason
	Err    error // what the kernel said, for errors.Is; may be nil
}

// Error is the reason.
func (r *Refusal) Error() string {
	if r.Err == nil {
		return "link: " + r.Reason.String()
	}
	return "link: " + r.Reason.Text + ": " + r.Err.Error() + " [" + r.Reason.Code + "]"
}

// Unwrap gives what the kernel said.
func (r *Refusal) Unwrap() error { return r.Err }

// Caps is what a link can do beyond carrying frames.
type Caps uint32

// The capabilities.
const (
	CapZeroCopy     Caps = 1 << iota // the card reads and writes the pool's buffers itself
	CapJumbo                         // frames longer than one buffer
	CapKernelTime                    // stamps of the kernel
	CapHardwareTime                  // stamps of the card
	CapSteering                      // frames are chosen by flow before they come here; on other links all come
)

var capNames = [...]string{"zero-copy", "jumbo", "kernel-time", "hardware-time", "steering"}

// AllCaps is every capability, for tests that assert each one both ways.
func AllCaps() []Caps {
	all := make([]Caps, len(capNames))
	for i := range all {
		all[i] = 1 << i
	}
	return all
}

// Has reports whether all of want are there.
func (c Caps) Has(want Caps) bool { return c&want == want }

// String lists the capabilities by name.
func (c Caps) String() string {
	var names []string
	for i, name := range capNames {
		if c&(1<<i) != 0 {
			names = append(names, name)
			c &^= 1 << i
		}
	}
	if c != 0 {
		names = append(names, fmt.Sprintf("%#x", uint32(c)))
	}
	return strings.Join(names, ",")
}
