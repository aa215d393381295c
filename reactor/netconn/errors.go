package netconn

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// A program that moves from package net looks into errors: errors.As for *net.OpError and net.Error, errors.Is for an errno,
// net.ErrClosed, os.ErrDeadlineExceeded. So errors here are built as package net builds them.

// system is an error of a ring or of the kernel as package net has it: the errno with the name of the system call.
func system(call string, err error) error {
	var no syscall.Errno
	if errors.As(err, &no) {
		if errors.Is(err, net.ErrClosed) {
			return net.ErrClosed
		}
		return os.NewSyscallError(call, no)
	}
	return err
}

// errorOf wraps a cause for a call on an endpoint whose addresses are known.
func errorOf(op, network string, local, remote net.Addr, cause error) error {
	return &net.OpError{Op: op, Net: network, Source: local, Addr: remote, Err: cause}
}
