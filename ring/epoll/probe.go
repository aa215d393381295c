package epoll

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
)

// Probe reports whether a ring of this kind can be made here and now; nil means yes. Otherwise it is a *ring.FeatureError. Any
// goroutine.
func Probe() error {
	layout := buffers.Layout{SmallSize: 64, SmallCount: 1}
	pool, err := buffers.New(make([]byte, layout.Bytes()), layout)
	if err != nil {
		return err
	}
	d, err := New(ring.DriverConfig{Pool: pool})
	if err != nil {
		return err
	}
	return d.Close()
}

// featureError makes a *ring.FeatureError, with a stable code, of the error that kept the driver from being made.
func featureError(err error) error {
	f := &ring.FeatureError{Feature: "epoll ring", Err: err}
	switch {
	case errors.Is(err, unix.ENOSYS):
		f.Code, f.Since = "epoll.kernel", "Linux 2.6.27"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		f.Code = "epoll.no_permission"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		f.Code = "epoll.no_descriptors"
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOSPC):
		f.Code = "epoll.no_memory"
	default:
		f.Code = "epoll.refused"
	}
	return f
}
