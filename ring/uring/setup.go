package uring

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/internal/direct"
)

// Codes of the reasons why io_uring cannot be used. They are stable.
const (
	CodeDisabled     = "uring.disabled"      // kernel.io_uring_disabled forbids it
	CodeNoPermission = "uring.no_permission" // a seccomp filter or the like forbids it
	CodeKernel       = "uring.kernel"        // the kernel is too old, or was built without it
	CodeMemlock      = "uring.memlock"       // RLIMIT_MEMLOCK or memory does not suffice
	CodeNoZeroCopy   = "uring.no_zero_copy"  // the kernel refused a zero-copy send; sends are copied
)

// Sizes of the queues. The completion queue holds what one io_uring_enter can bring (660 were seen from 20 sockets). The kernel refuses a
// submission queue that is longer than the completion queue.
const (
	minEntries  = 256
	maxEntries  = 4096
	completions = 4096
)

const since = "Linux 6.1"

// ops are the operations the driver uses, with the kernel that brought each.
var ops = []struct {
	op    uint8
	name  string
	since string
}{
	{sys.UringOpPollAdd, "POLL_ADD", "Linux 5.1"},
	{sys.UringOpSendmsg, "SENDMSG", "Linux 5.3"},
	{sys.UringOpRecvmsg, "RECVMSG", "Linux 5.3"},
	{sys.UringOpTimeout, "TIMEOUT", "Linux 5.4"},
	{sys.UringOpTimeoutRemove, "TIMEOUT_REMOVE", "Linux 5.5"},
	{sys.UringOpAccept, "ACCEPT", "Linux 5.5"},
	{sys.UringOpAsyncCancel, "ASYNC_CANCEL", "Linux 5.5"},
	{sys.UringOpRecv, "RECV", "Linux 5.6"},
	{sys.UringOpSendmsgZC, "SENDMSG_ZC", "Linux 6.1"},
}

// New makes an io_uring driver. Errors: a *ring.FeatureError when io_uring cannot be used here (see Probe); an error naming the
// pool or its headroom when that does not fit; what making an eventfd or mapping memory says, with errno kept.
func New(c ring.DriverConfig) (ring.Driver, error) {
	d, err := newDriver(c)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Probe reports whether io_uring can be used here: nil, or a *ring.FeatureError that names the missing feature and the kernel that
// has it, or the permission that is missing. Any other error (out of descriptors) says nothing about io_uring. Any goroutine.
func Probe() error {
	u, err := newUring(minEntries)
	if err != nil {
		return err
	}
	defer func() { _ = u.Close() }()
	return check(u)
}

// newDriver is New; the concrete type is for tests.
func newDriver(c ring.DriverConfig) (*Driver, error) {
	switch {
	case c.Pool == nil:
		return nil, fmt.Errorf("uring: new driver: pool is nil: %w", unix.EINVAL)
	case c.Entries < 0:
		return nil, fmt.Errorf("uring: new driver: entries %d: %w", c.Entries, unix.EINVAL)
	case c.Pool.Layout().Headroom < minHeadroom:
		return nil, fmt.Errorf("uring: new driver: headroom of the pool's buffers is %d bytes, a datagram's header needs %d: %w",
			c.Pool.Layout().Headroom, minHeadroom, unix.EINVAL)
	}
	u, err := newUring(min(max(c.Entries, minEntries), maxEntries))
	if err != nil {
		return nil, err
	}
	d := &Driver{u: u, pool: c.Pool, headroom: c.Pool.Layout().Headroom, timerAt: clock.Never, freeSend: none}
	if err := d.init(); err != nil {
		_ = u.Close()
		return nil, err
	}
	d.direct = direct.New(c.Pool)
	d.share = joinShare(c.Pool)
	return d, nil
}

// init checks what the kernel can do and makes the eventfds. On an error only the io_uring instance is left, for the caller to close.
func (d *Driver) init() (err error) {
	if err := check(d.u); err != nil {
		return err
	}
	d.receiveHeader = d.u.Scratch.ReceiveHeader(nameLen, d.headroom-sys.RecvmsgOutLen-nameLen)
	if d.wake.ready, err = sys.NewEventFD(); err != nil {
		return fmt.Errorf("uring: new driver: %w", err)
	}
	if d.wake.wait, err = sys.NewEventFD(); err == nil {
		d.u.CQ.SetFlags(sys.UringCQEventFDDisabled)
		if e := d.u.RegisterEventFD(d.wake.ready.FD()); e == 0 {
			return nil
		} else {
			err = os.NewSyscallError("io_uring_register IORING_REGISTER_EVENTFD", e)
		}
		_ = d.wake.wait.Close()
	}
	_ = d.wake.ready.Close()
	return fmt.Errorf("uring: new driver: %w", err)
}

// newUring makes an instance in the one form that the driver is written for; doc.go says why. SUBMIT_ALL: an operation that the kernel refuses
// does not keep back those behind it.
func newUring(entries int) (*sys.Uring, error) {
	p := sys.UringParams{
		Flags: sys.UringSetupCQSize | sys.UringSetupDisabled | sys.UringSetupSubmitAll |
			sys.UringSetupSingleIssuer | sys.UringSetupDeferTaskrun | sys.UringSetupTaskrunFlag | sys.UringSetupNoSQArray,
		CQEntries: completions,
	}
	u, err := sys.NewUring(entries, p)
	if errors.Is(err, unix.EINVAL) {
		p.Flags &^= sys.UringSetupNoSQArray // since Linux 6.6; only a little memory is at stake
		u, err = sys.NewUring(entries, p)
	}
	if err != nil {
		disabled, _ := os.ReadFile("/proc/sys/kernel/io_uring_disabled") // absent before Linux 6.6
		return nil, explain(err, sys.KernelRelease(), string(disabled))
	}
	return u, nil
}

// check reports whether the kernel has every operation that the driver uses; else a *ring.FeatureError that names the missing one.
func check(u *sys.Uring) error {
	list := make([]uint8, len(ops))
	for i, o := range ops {
		list[i] = o.op
	}
	missing, e := u.Supports(list...)
	if e != 0 {
		return &ring.FeatureError{Feature: "io_uring probe (IORING_REGISTER_PROBE) on Linux " + sys.KernelRelease(), Since: "Linux 5.6",
			Code: CodeKernel, Err: e}
	}
	for _, o := range ops {
		if bytes.IndexByte(missing, o.op) >= 0 {
			return &ring.FeatureError{Feature: "io_uring operation " + o.name + " on Linux " + sys.KernelRelease(), Since: o.since,
				Code: CodeKernel, Err: unix.EOPNOTSUPP}
		}
	}
	return nil
}

// explain makes a *ring.FeatureError with the cause of a refusal of io_uring_setup. release is the kernel's, disabled the sysctl
// kernel.io_uring_disabled. Errors that do not concern io_uring itself (EMFILE …) are only wrapped.
func explain(err error, release, disabled string) error {
	var e syscall.Errno
	if !errors.As(err, &e) {
		return fmt.Errorf("uring: %w", err)
	}
	disabled = strings.TrimSpace(disabled)
	hasUring, known := sys.ReleaseAtLeast(release, 5, 1)
	switch {
	case e == unix.EPERM && (disabled == "1" || disabled == "2"):
		return &ring.FeatureError{Feature: "io_uring_setup (kernel.io_uring_disabled = " + disabled + ")", Code: CodeDisabled, Err: e}
	case e == unix.EPERM || e == unix.EACCES:
		return &ring.FeatureError{Feature: "io_uring_setup (refused by a seccomp filter or security module)",
			Code: CodeNoPermission, Err: e}
	case e == unix.ENOSYS && (hasUring || !known):
		return &ring.FeatureError{Feature: "io_uring_setup (Linux " + release + " has it: hidden by a seccomp filter, or built without)",
			Code: CodeNoPermission, Err: e}
	case e == unix.ENOSYS:
		return &ring.FeatureError{Feature: "io_uring on Linux " + release, Since: since, Code: CodeKernel, Err: e}
	case e == unix.EINVAL:
		return &ring.FeatureError{Feature: "io_uring with deferred task work (IORING_SETUP_DEFER_TASKRUN) on Linux " + release,
			Since: since, Code: CodeKernel, Err: e}
	case e == unix.ENOMEM:
		return &ring.FeatureError{Feature: "memory for io_uring's queues (RLIMIT_MEMLOCK " + memlock() + ")", Code: CodeMemlock, Err: e}
	}
	return fmt.Errorf("uring: %w", err)
}

// memlock is the limit on locked memory (RLIMIT_MEMLOCK), for a sentence.
func memlock() string {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil {
		return "unknown"
	}
	if l.Cur == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return strconv.FormatUint(l.Cur, 10) + " bytes"
}
