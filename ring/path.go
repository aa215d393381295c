package ring

import "strings"

// Reason says why something better was not had. Code is stable and meant for programs; Text is a sentence for people.
type Reason struct {
	Code string // such as "uring.disabled"
	Text string // such as "io_uring_setup: operation not permitted (kernel.io_uring_disabled = 2)"
}

// String is the sentence with the code behind it.
func (r Reason) String() string { return r.Text + " [" + r.Code + "]" }

// Path is how a socket's bytes travel, and why not better. It never changes silently.
type Path struct {
	Tier    string   // "os": the kernel's stack; "offload": our own
	Kind    string   // the kind of ring: "uring", "epoll"
	Detail  string   // what is special about it, such as "direct receive"
	Reasons []Reason // every better path that was not taken
}

// String is one line: the path, then the reasons, separated by a middle dot.
func (p Path) String() string {
	var b strings.Builder
	b.WriteString(p.Tier + " " + p.Kind)
	if p.Detail != "" {
		b.WriteString(" (" + p.Detail + ")")
	}
	for _, r := range p.Reasons {
		b.WriteString(" · " + r.String())
	}
	return b.String()
}
