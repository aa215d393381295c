package netconn

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
)

// A program that moves from package net looks into errors: errors.As for *net.OpError and net.Error, errors.Is for an errno,
// net.ErrClosed, os.ErrDeadlineExceeded. So errors here are built as package net builds them.

// asNetError wraps an error of a ring or of the kernel as package net does: the errno with the name of the system call.
func asNetError(call string, err error) error {
	var no syscall.Errno
	if errors.As(err, &no) {
		if errors.Is(err, net.ErrClosed) { // ring.ErrClosed is both, an errno (EBADF) and net.ErrClosed
			return net.ErrClosed
		}
		return os.NewSyscallError(call, no)
	}
	return err
}

// dialEnded returns the error of a dial whose context ended, as package net has it; errors.Is finds the context's error in it.
func dialEnded(err error) error {
	switch err {
	case context.Canceled:
		return canceledError{}
	case context.DeadlineExceeded:
		return timeoutError{}
	}
	return err
}

type canceledError struct{}

func (canceledError) Error() string        { return "operation was canceled" }
func (canceledError) Is(target error) bool { return target == context.Canceled }

// timeoutError is a net.Error.
type timeoutError struct{}

func (timeoutError) Error() string        { return "i/o timeout" }
func (timeoutError) Timeout() bool        { return true }
func (timeoutError) Temporary() bool      { return true }
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// errorOf makes a *net.OpError for a call.
func errorOf(op, network string, local, remote net.Addr, cause error) error {
	return &net.OpError{Op: op, Net: network, Source: local, Addr: remote, Err: cause}
}
