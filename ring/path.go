package ring

import (
	"fmt"
	"strings"
)

// Reason says why a better path was not taken. Code is stable and meant for programs; Text is a sentence for people.
type Reason struct {
	Code string // such as "uring.disabled"
	Text string // such as "io_uring_setup: operation not permitted (kernel.io_uring_disabled = 2)"
}

// String is the sentence with the code behind it.
func (r Reason) String() string { return r.Text + " [" + r.Code + "]" }

// The tiers of a path.
const (
	TierKernel = "kernel" // a socket of the kernel carries the bytes
	TierBypass = "bypass" // a stack of this library carries them; the kernel's stack does not see them
)

// Path is how a socket's bytes travel, and why not better. It never changes silently: EventPath announces a change.
type Path struct {
	Tier  string   // TierKernel or TierBypass
	Kind  string   // the kind of ring: "uring", "epoll", "offload"
	Links []string // the links that carry the socket's frames, each such as "xdp eth1/0 (generic, copy)"
	// Shadow, with TierKernel: what carries the bytes is the kernel's socket beside one of a stack of this library, in whichever way the ring
	// reads it. The line of String leaves Kind out then.
	Shadow bool
	// Lost is the code of the reason for which the kernel carries the socket; empty where bypass was not asked for. With TierBypass, of a TCP
	// connection, it is the code of the reason for which nothing carries its segments at the moment.
	Lost    string
	Reasons []Reason // every better path that was not taken
}

// notAsked is the reason of a poller whose kind of ring is not offload.
const notAsked = "offload.not_asked"

// String is one short line, such as "bypass xdp eth1/0 (generic, copy)" or "kernel uring (bypass lost: rule.os)".
func (p Path) String() string {
	if p.Tier == "" {
		return "no path"
	}
	if p.Tier == TierBypass {
		line := p.Tier
		switch n := len(p.Links); n {
		case 0:
			line += " " + p.Kind
		case 1:
			line += " " + p.Links[0]
		default:
			line = fmt.Sprintf("%s %s and %d more", line, p.Links[0], n-1)
		}
		if p.Lost != "" {
			line += " (lost: " + p.Lost + ")"
		}
		return line
	}
	line := p.Tier
	if !p.Shadow {
		line += " " + p.Kind
	}
	var lost []string
	if p.Lost != "" {
		lost = append(lost, "bypass lost: "+p.Lost)
	}
	for _, r := range p.Reasons {
		if p.Kind == "epoll" && strings.HasPrefix(r.Code, "uring.") && r.Code != "uring.not_asked" {
			lost = append(lost, "uring lost: "+r.Code)
			break
		}
	}
	if len(lost) > 0 {
		line += " (" + strings.Join(lost, "; ") + ")"
	}
	return line
}

// Explain is the long form: the line of String, then each further link, then each reason as a sentence with its code, one per line.
func (p Path) Explain() string {
	lines := []string{p.String()}
	for i, l := range p.Links {
		if i > 0 || p.Tier != TierBypass {
			lines = append(lines, l)
		}
	}
	for _, r := range p.Reasons {
		lines = append(lines, r.String())
	}
	return strings.Join(lines, "\n  ")
}
