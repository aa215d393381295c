package extraapi

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// noSocket is the error for a nil socket.
func noSocket(call string) error {
	return fmt.Errorf("extraapi: %s: socket is nil: %w", call, unix.EBADF)
}

// receiveFailed wraps an error; io.EOF stays bare, as readers expect it.
func receiveFailed(call string, err error) error {
	if err == io.EOF {
		return err
	}
	return fmt.Errorf("extraapi: %s: %w", call, err)
}

func badFlags(call string, flags int) error {
	return fmt.Errorf("extraapi: %s: flags %#x: %w", call, flags, unix.EINVAL)
}
