// Package doctor checks whether a machine and its interfaces are set up for offloaded rings: each check is a line, good or with the command that
// cures it. Command xtstat runs it.
//
// What it reads is a System: files of /proc and /sys, interfaces, and the output of a few commands. Tests give it a made-up one. A check that
// cannot be made says why and is never counted as good.
package doctor

import (
	"fmt"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Status is what a check has found.
type Status string

// The statuses.
const (
	Good    Status = "good"
	Cure    Status = "cure"    // something is to be changed
	Note    Status = "note"    // nothing is wrong, and something is to be known
	Unknown Status = "unknown" // it could not be found out
)

// Result is a line of the doctor.
type Result struct {
	Check  string `json:"check"`
	On     string `json:"on,omitempty"` // the interface
	Status Status `json:"status"`
	Text   string `json:"text"`
	Cure   string `json:"cure,omitempty"` // a command

	// Of --fix: what is written, and what was there. Empty: the cure is for a person.
	fixes []fix
	Fixed string `json:"fixed,omitempty"` // what was done
	Undo  string `json:"undo,omitempty"`  // the command that undoes it
}

// fix is a file that is written with another value.
type fix struct{ path, value string }

// System is the machine as the doctor sees it.
type System struct {
	Root       fs.FS // with proc and sys
	Interfaces func() ([]Interface, error)
	Command    func(name string, args ...string) (string, error) // its output; fs.ErrNotExist for one that is not installed
	Write      func(path, value string) error                    // of a file below Root
	Clock      func() (offset time.Duration, synchronized bool, err error)
	Getenv     func(name string) string
	Offloaded  func() ([]Port, error) // the ports that processes of this user have offloaded now
}

// Port is where an offloaded socket receives.
type Port struct {
	Protocol string // udp or tcp
	Local    netip.AddrPort
}

// Interface is a network interface. What the kernel or the driver does not tell is nil or -1.
type Interface struct {
	Name      string
	Kind      string // the kernel's: veth, vlan, bond …; empty or "device" for hardware
	Driver    string
	Index     int
	MTU       int
	Up        bool
	Carrier   bool
	Loopback  bool
	Master    string // the bond or bridge that it belongs to
	Parent    string // of a VLAN
	XDP       string // what is attached: empty, or the mode and the program's number
	Addresses []string

	Combined, CombinedMax int // channels
	Rings                 *Rings
	Features              map[string]bool
	XDPFeatures           uint64 // of the netdev family
	HasXDPFeatures        bool
}

// Rings are the sizes of a card's rings.
type Rings struct{ Rx, RxMax, Tx, TxMax int }

// check makes the lines of one topic.
type check struct {
	name string
	host func(s *System) []Result
	on   func(s *System, i *Interface, all []Interface) []Result
}

// Run makes all checks of the host and those of the interfaces with a name; without a name, of all that are up,
// but for the loopback interface.
func Run(s *System, name string) ([]Result, error) {
	all, err := s.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("interfaces: %w", err)
	}
	var picked []*Interface
	for i := range all {
		if name == "" && !all[i].Loopback && all[i].Up || all[i].Name == name {
			picked = append(picked, &all[i])
		}
	}
	if name != "" && len(picked) == 0 {
		return nil, fmt.Errorf("interface %q: there is none of that name in this network namespace", name)
	}
	var list []Result
	for _, c := range checks {
		if c.host != nil {
			for _, r := range c.host(s) {
				r.Check = c.name
				list = append(list, r)
			}
		}
	}
	for _, i := range picked {
		for _, c := range checks {
			if c.on != nil {
				for _, r := range c.on(s, i, all) {
					r.Check, r.On = c.name, i.Name
					list = append(list, r)
				}
			}
		}
	}
	return list, nil
}

// Names are the checks' names, in order.
func Names() (list []string) {
	for _, c := range checks {
		list = append(list, c.name)
	}
	return list
}

// Fix applies the cures that are safe: settings of the kernel that can be written back, and that take no link down. Each line that it cures
// says how to undo that.
func Fix(s *System, list []Result) {
	for i := range list {
		r := &list[i]
		if r.Status != Cure || len(r.fixes) == 0 {
			continue
		}
		var done, undo []string
		for _, f := range r.fixes {
			old, err := s.read(f.path)
			if err == nil {
				err = s.Write(f.path, f.value)
			}
			if err != nil {
				r.Text += fmt.Sprintf("; not fixed: /%s: %v", f.path, err)
				continue
			}
			done = append(done, fmt.Sprintf("/%s = %s", f.path, f.value))
			undo = append(undo, fmt.Sprintf("echo %s > /%s", selected(old), f.path))
		}
		if len(done) == len(r.fixes) {
			r.Status = Good
		}
		r.Fixed, r.Undo = strings.Join(done, ", "), strings.Join(undo, "; ")
	}
}

// selected is the value of a file that may list several with the one that holds in brackets.
func selected(text string) string {
	if _, rest, ok := strings.Cut(text, "["); ok {
		text, _, _ = strings.Cut(rest, "]")
	}
	return text
}

// read is the content of a file without the end of its line.
func (s *System) read(path string) (string, error) {
	b, err := fs.ReadFile(s.Root, path)
	return strings.TrimSpace(string(b)), err
}

// number is the number in a file.
func (s *System) number(path string) (int, error) {
	text, err := s.read(path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("/%s: %w", path, err)
	}
	return n, nil
}

// sysctl is the path of a kernel setting.
func sysctl(name string) string { return "proc/sys/" + strings.ReplaceAll(name, ".", "/") }

// good, cure, note and unknown make one line.
func good(format string, args ...any) []Result {
	return []Result{{Status: Good, Text: fmt.Sprintf(format, args...)}}
}

func note(format string, args ...any) []Result {
	return []Result{{Status: Note, Text: fmt.Sprintf(format, args...)}}
}

func unknown(err error) []Result { return []Result{{Status: Unknown, Text: err.Error()}} }

func cure(command, format string, args ...any) []Result {
	return []Result{{Status: Cure, Text: fmt.Sprintf(format, args...), Cure: command}}
}

// fixable is cure for settings of the kernel that --fix may write.
func fixable(fixes []fix, format string, args ...any) []Result {
	r := cure("", format, args...)
	r[0].fixes = fixes
	var commands []string
	for _, f := range fixes {
		if name, ok := strings.CutPrefix(f.path, "proc/sys/"); ok {
			commands = append(commands, "sysctl -w "+strings.ReplaceAll(name, "/", ".")+"="+f.value)
		} else {
			commands = append(commands, "echo "+f.value+" > /"+f.path)
		}
	}
	if len(commands) > 4 {
		commands = append(commands[:3], fmt.Sprintf("… and %d more: xtstat doctor --fix", len(commands)-3))
	}
	r[0].Cure = strings.Join(commands, "; ")
	return r
}

// atLeast is the check of a setting that should have some value or more, which --fix may write.
func atLeast(s *System, name string, least int, why string) []Result {
	n, err := s.number(sysctl(name))
	switch {
	case err != nil:
		return unknown(err)
	case n >= least:
		return good("%s = %d", name, n)
	}
	return fixable([]fix{{sysctl(name), strconv.Itoa(least)}}, "%s = %d: %s", name, n, why)
}

// checks are all checks, in the order of their lines. docs/monitoring.md lists them.
var checks = []check{
	{name: "kernel", host: kernelVersion},
	{name: "capabilities", host: capabilities},
	{name: "unprivileged-bpf", host: unprivilegedBPF},
	{name: "io-uring", host: ioUring},
	{name: "locked-memory", host: lockedMemory},
	{name: "open-files", host: openFiles},
	{name: "huge-pages", host: hugePages},
	{name: "log-level", host: logLevel},
	{name: "cpu-isolation", host: isolation},
	{name: "governor", host: governor},
	{name: "c-states", host: idleStates},
	{name: "clock-source", host: clockSource},
	{name: "clock-offset", host: clockOffset},
	{name: "busy-poll", host: busyPoll},
	{name: "receive-buffers", host: func(s *System) []Result {
		return atLeast(s, "net.core.rmem_max", 4<<20, "the kernel's side of an offloaded socket gets a small receive buffer (offload.small_shadow)")
	}},
	{name: "igmp-limits", host: igmpLimits},
	{name: "arp-flux", host: arpFlux},
	{name: "firewall", host: firewall},
	{name: "conntrack", host: conntrack},
	{name: "link", on: linkState},
	{name: "xdp", on: xdpModes},
	{name: "zero-copy", on: zeroCopy},
	{name: "bonding", on: bonding},
	{name: "queues", on: queues},
	{name: "ring-sizes", on: ringSizes},
	{name: "mtu", on: mtu},
	{name: "vlan-stripping", on: vlanStripping},
	{name: "checksums", on: checksums},
	{name: "gro", on: gro},
	{name: "busy-poll-device", on: deferredInterrupts},
	{name: "numa", on: numa},
	{name: "irq-affinity", on: irqAffinity},
	{name: "rp-filter", on: rpFilter},
}
