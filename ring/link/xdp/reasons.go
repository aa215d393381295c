package xdp

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Codes of reasons. They are stable: programs may compare them.
const (
	ReasonNoKernel       = "xdp.no_kernel"     // the kernel has no AF_XDP, or an older one than this package needs
	ReasonNoCapability   = "xdp.no_capability" // the process lacks a privilege
	ReasonMemlock        = "xdp.memlock"       // the pool is larger than may be locked in memory
	ReasonNoDevice       = "xdp.no_device"     // no such interface
	ReasonBusy           = "xdp.busy"          // another program is on the interface, or another socket on the queue
	ReasonNoNative       = "xdp.no_native"     // the driver refused the program: it runs behind the driver
	ReasonNoZeroCopy     = "xdp.no_zerocopy"   // the kernel copies each frame
	ReasonNoJumbo        = "xdp.no_jumbo"      // frames longer than one buffer are lost
	ReasonNoXDPTime      = "xdp.no_xdp_time"   // the kernel cannot stamp in the program
	ReasonNoHardwareTime = "xdp.no_hw_time"    // the card has no clock that the program can read
	ReasonNoBusyPoll     = "xdp.no_busy_poll"  // preferred busy polling was asked for and cannot be had
	ReasonNoRules        = "xdp.no_rules"      // the card takes no receive rules, or no more of them
	ReasonRefused        = "xdp.refused"       // the kernel refused for a reason that has no name here
)

// refusal makes the error of Open or OpenQueue: the reason's code, its text, and the error it wraps (nil for none).
func refusal(code string, err error, format string, args ...any) *link.Refusal {
	return &link.Refusal{Reason: link.Reason{Code: code, Text: fmt.Sprintf(format, args...)}, Err: err}
}

// refuse makes a *link.Refusal of an error of a step of set-up: the errno decides the reason's code. An error that is a refusal already is
// returned as it is, nil as nil.
func refuse(err error, step string) error {
	var known *link.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, unix.EPERM):
		// Without what package ebpf adds: that the limit of locked memory may be too low is said of each EPERM there.
		return refusal(ReasonNoCapability, unix.EPERM, "%s needs CAP_NET_RAW, CAP_BPF and CAP_NET_ADMIN%s", step, missingCapabilities())
	case errors.Is(err, unix.EACCES) || errors.Is(err, os.ErrPermission):
		return refusal(ReasonNoCapability, err, "%s needs CAP_NET_RAW, CAP_BPF and CAP_NET_ADMIN%s", step, missingCapabilities())
	case errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.ENOSYS) || errors.Is(err, ebpf.ErrNotSupported) ||
		errors.Is(err, unix.ENOPROTOOPT) || errors.Is(err, unix.EPROTO):
		return refusal(ReasonNoKernel, err, "%s: not in this kernel (AF_XDP since Linux 5.4, links of programs since 5.9)", step)
	case errors.Is(err, unix.ENOBUFS):
		return refusal(ReasonMemlock, err, "%s: more memory than RLIMIT_MEMLOCK allows, and no CAP_IPC_LOCK", step)
	case errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO):
		return refusal(ReasonNoDevice, err, "%s: no such interface", step)
	case isBusy(err):
		return refusal(ReasonBusy, err, "%s: in use", step)
	}
	return refusal(ReasonRefused, err, "%s", step)
}

// missingCapabilities is which of the three the thread lacks, as the end of a sentence; empty if it has them: it is another user namespace's
// interface then. CAP_SYS_ADMIN has what CAP_BPF allows.
func missingCapabilities() string {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return ""
	}
	has := func(c int) bool { return data[c/32].Effective>>(c%32)&1 == 1 }
	var missing []string
	for _, c := range []struct {
		name string
		has  bool
	}{{"CAP_NET_RAW", has(unix.CAP_NET_RAW)}, {"CAP_BPF", has(unix.CAP_BPF) || has(unix.CAP_SYS_ADMIN)}, {"CAP_NET_ADMIN", has(unix.CAP_NET_ADMIN)}} {
		if !c.has {
			missing = append(missing, c.name)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return " (missing: " + strings.Join(missing, ", ") + ")"
}

// isBusy reports whether an error of attaching or binding means that another is there: EBUSY for a program or socket of the same kind,
// EEXIST for a program of the other mode.
func isBusy(err error) bool { return errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) }

// scans and loads are how often /proc was gone through and how often a program was loaded, for tests.
var scans, loads atomic.Uint64

// holderOf looks for the process that holds a BPF program or its link, in what /proc shows; 0 when it is not to be seen (another user's
// process, another pid namespace, or a program attached without a link, which needs no process).
func holderOf(program uint32) (pid int) {
	scans.Add(1)
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && holds(e.Name(), program) {
			return pid
		}
	}
	return 0
}

// holds reports whether a process has a descriptor of this BPF program or of its link: /proc/PID/fdinfo names the program's id for both.
// False also when the process's descriptors may not be read.
func holds(pid string, program uint32) bool {
	dir := "/proc/" + pid + "/fd/"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	want := "prog_id:\t" + strconv.FormatUint(uint64(program), 10)
	for _, e := range entries {
		name, err := os.Readlink(dir + e.Name())
		if err != nil || !strings.HasPrefix(name, "anon_inode:bpf") {
			continue
		}
		info, err := os.ReadFile("/proc/" + pid + "/fdinfo/" + e.Name())
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(info)) {
			if strings.TrimSpace(line) == want {
				return true
			}
		}
	}
	return false
}
