package simnet

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// HostConfig describes a host. Only Addrs is needed.
type HostConfig struct {
	// Addrs are its addresses with their subnets: the first one's interface is eth0, the next one's eth1, and so on.
	Addrs   []netip.Prefix
	MTU     int            // of all interfaces; 0 means 1,500
	Slots   int            // frames that wait at each card for the host, more are lost; 0 means 256
	Layout  buffers.Layout // of the pool; zero: 512 buffers of 2 KiB, 4 of 64 KiB
	Latency time.Duration  // from the arrival of a frame until the host polls
	Batch   int            // completions taken by one Poll; 0 means 64

	link   func(link.Staged) link.Staged // for tests that plant bugs: what stands between card and driver,
	driver func(ring.Driver) ring.Driver
	poller func(poller) poller
}

// checkAddrs returns an error unless there are addresses of interfaces, each of IPv4 with its subnet.
func checkAddrs(list []netip.Prefix) error {
	if len(list) == 0 {
		return errors.New("no address in Addrs")
	}
	for _, a := range list {
		if !a.IsValid() || !a.Addr().Is4() || a.Addr() == a.Masked().Addr() || a.Addr().IsMulticast() {
			return fmt.Errorf("address %v in Addrs: want an IPv4 address with its subnet, such as 10.0.0.1/24", a)
		}
	}
	return nil
}

// complete checks the fields and sets those that are zero to their defaults.
func (c *HostConfig) complete(name string) error {
	bad := func(field, what string, args ...any) error {
		return fmt.Errorf("simnet: host %s: %s %s", name, field, fmt.Sprintf(what, args...))
	}
	if err := checkAddrs(c.Addrs); err != nil {
		return fmt.Errorf("simnet: host %s: %w", name, err)
	}
	if c.MTU == 0 {
		c.MTU = 1500
	}
	if c.Slots == 0 {
		c.Slots = 256
	}
	if c.Layout == (buffers.Layout{}) {
		c.Layout = buffers.Layout{SmallSize: 2048, SmallCount: 512, LargeSize: 65536, LargeCount: 4, Headroom: 192}
	}
	if c.Batch == 0 {
		c.Batch = 64
	}
	switch {
	case c.MTU < 68 || c.MTU > 65535:
		return bad("MTU", "is %d, must be 68 to 65535", c.MTU)
	case c.Slots < 0:
		return bad("Slots", "is %d, must not be negative", c.Slots)
	case c.Latency < 0:
		return bad("Latency", "is %v, must not be negative", c.Latency)
	case c.Batch < 0:
		return bad("Batch", "is %d, must not be negative", c.Batch)
	case c.Layout.SmallCount == 0:
		return bad("Layout", "has no small buffers, which frames are received into")
	}
	return nil
}
