package extraapi

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// noSocket returns the error of a public call that was given a nil socket.
func noSocket(call string) error {
	return fmt.Errorf("extraapi: %s: socket is nil: %w", call, unix.EBADF)
}

// receiveFailed adds the name of a public call to the error of a receive. io.EOF is returned bare, as io.Reader does.
func receiveFailed(call string, err error) error {
	if err == io.EOF {
		return err
	}
	return fmt.Errorf("extraapi: %s: %w", call, err)
}

// badFlags returns EINVAL for flags that a public call does not have.
func badFlags(call string, flags int) error {
	return fmt.Errorf("extraapi: %s: flags %#x: %w", call, flags, unix.EINVAL)
}
