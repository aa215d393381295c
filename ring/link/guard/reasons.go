package guard

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/link"
)

// Codes of reasons. They are stable: programs may compare them.
const (
	ReasonNoKernel     = "guard.no_kernel"     // the kernel is older than this package needs
	ReasonNoCapability = "guard.no_capability" // the process lacks a privilege
	ReasonNoDevice     = "guard.no_device"     // no such interface
	ReasonBusy         = "guard.busy"          // a qdisc of another kind is where the filter would be
	ReasonRefused      = "guard.refused"       // the kernel refused for a reason that has no name here
)

// refuse makes a *link.Refusal of the error of a step of set-up: the errno decides the reason's code. nil stays nil.
func refuse(err error, step string) error {
	if err == nil {
		return nil
	}
	refusal := func(code, why string) error {
		return &link.Refusal{Reason: link.Reason{Code: code, Text: fmt.Sprintf("%s%s", step, why)}, Err: err}
	}
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, os.ErrPermission):
		return refusal(ReasonNoCapability, " needs CAP_BPF and CAP_NET_ADMIN")
	case errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP):
		return refusal(ReasonNoKernel, ": not in this kernel (Linux 5.2)")
	case errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO):
		return refusal(ReasonNoDevice, ": no such interface")
	case errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST):
		return refusal(ReasonBusy, ": in use")
	}
	return refusal(ReasonRefused, "")
}
