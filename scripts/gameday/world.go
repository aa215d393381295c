package main

import (
	"errors"
	"fmt"
	"net"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// The network of a game.
const (
	device, peerDevice = "v0", "p0"
	ourAddress         = "10.57.0.1"
	exchangeAddress    = "10.57.0.2"
	strangerAddress    = "10.57.0.3" // another address of the exchange's host
	lineAddress        = "233.252.0.1:14340"
	otherLineAddress   = "233.252.0.2:14340" // line B of the exchange, on which nothing is sent
	auditPort          = 14350               // the first of the audit line's sockets
)

// world is two network namespaces with a veth between them: the victim is here, the exchange there.
type world struct {
	here, there netns.NsHandle
	queues      int
}

// newWorld makes the namespaces. Each end of the veth has the given number of queues.
func newWorld(queues int) (w *world, err error) {
	w = &world{here: netns.None(), there: netns.None(), queues: queues}
	err = onThread(func() error {
		if w.there, err = netns.New(); err != nil {
			return fmt.Errorf("a network namespace (needs root, or CAP_SYS_ADMIN): %w", err)
		}
		if w.here, err = netns.New(); err != nil {
			return fmt.Errorf("a network namespace (needs root, or CAP_SYS_ADMIN): %w", err)
		}
		pair := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: peerDevice, PeerNamespace: netlink.NsFd(w.there),
			PeerNumTxQueues: uint32(queues), PeerNumRxQueues: uint32(queues)}
		pair.Name, pair.NumTxQueues, pair.NumRxQueues = device, queues, queues
		if err := netlink.LinkAdd(pair); err != nil {
			return fmt.Errorf("a veth: %w", err)
		}
		return errors.Join(setUp("lo"), setUp(device, ourAddress+"/24"))
	})
	if err == nil {
		err = w.peer(func() error {
			return errors.Join(setUp("lo"), setUp(peerDevice, exchangeAddress+"/24", strangerAddress+"/24"))
		})
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// close lets the namespaces go: they end with the last process in them.
func (w *world) close() (err error) {
	for _, ns := range []*netns.NsHandle{&w.here, &w.there} {
		if ns.IsOpen() {
			err = errors.Join(err, ns.Close())
		}
	}
	return err
}

// victim runs f in the victim's namespace, on a thread of its own; peer in the exchange's.
func (w *world) victim(f func() error) error { return in(w.here, f) }

func (w *world) peer(f func() error) error { return in(w.there, f) }

func in(ns netns.NsHandle, f func() error) error {
	return onThread(func() error {
		if err := netns.Set(ns); err != nil {
			return err
		}
		return f()
	})
}

// onThread runs f on a thread that ends with it: a thread that has changed its namespace is not used again.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// setUp sets an interface of the present namespace up, with its addresses and, unless it has none, a route for multicast.
func setUp(name string, addresses ...string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	for _, s := range addresses {
		a, err := netlink.ParseAddr(s)
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(l, a); err != nil {
			return fmt.Errorf("%s: %s: %w", name, s, err)
		}
	}
	if err := netlink.LinkSetUp(l); err != nil || len(addresses) == 0 {
		return err
	}
	return setRoute(l)
}

// setRoute makes a route for multicast over an interface.
func setRoute(l netlink.Link) error {
	return netlink.RouteReplace(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: &net.IPNet{IP: net.IPv4(224, 0, 0, 0), Mask: net.CIDRMask(4, 32)}})
}
