package xdp

import (
	"errors"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// NumQueues is how many queues of an interface frames can arrive on, and so how many Open takes when none are named. In the calling
// thread's network namespace.
func NumQueues(name string) (int, error) {
	found, err := netlink.LinkByName(name)
	if err != nil {
		var missing netlink.LinkNotFoundError
		if errors.As(err, &missing) {
			err = unix.ENODEV
		}
		return 0, refuse(err, "interface "+name)
	}
	return queueCount(name, found.Attrs().NumRxQueues), nil
}
