package nic

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// OpenLinks is the TableConfig.Open of links that the caller has made on the pool of the ring: each is the one queue of an interface of the
// tables, which every frame of its wire comes to. The ring closes the link with its attachment. A link that was lost is not made again: its
// interface is refused from then on.
func OpenLinks(tables Tables, links map[string]link.Staged) func(name string, _ Patience) (Device, error) {
	devices := map[string]*linkDevice{}
	for name, l := range links {
		devices[name] = &linkDevice{link: l}
	}
	return func(name string, _ Patience) (Device, error) {
		d := devices[name]
		at, here := tables.Snapshot().LinkByName(name)
		switch {
		case d == nil || !here:
			return nil, fmt.Errorf("offload: %s: no link was made for it, or it is not in the tables: %w", name, unix.ENODEV)
		case d.opened.Swap(true):
			return nil, &link.Refusal{Reason: link.Reason{Code: "link.detached", Text: "the link of " + name + " was lost, and is not made again"},
				Err: link.ErrDetached}
		}
		d.info = d.link.Info()
		d.info.Name, d.info.Index = name, at.Index
		return d, nil
	}
}

// linkDevice is the Device of a link that the caller has made. No frame of its wire goes elsewhere, so there is nothing to claim or to pass.
type linkDevice struct {
	link   link.Staged
	info   link.Info
	opened atomic.Bool
	taken  atomic.Bool // the link is an attachment's, which closes it
}

func (*linkDevice) Claim(link.Flow) error                      { return nil }
func (*linkDevice) Release(link.Flow) error                    { return nil }
func (*linkDevice) AddAddr(netip.Addr, uint16) error           { return nil }
func (*linkDevice) RemoveAddr(netip.Addr, uint16) error        { return nil }
func (*linkDevice) Pass(link.Flow) error                       { return nil }
func (*linkDevice) StopPassing(link.Flow) error                { return nil }
func (*linkDevice) OpenGuard() (Guard, error)                  { return nil, nil }
func (*linkDevice) OnLost(func())                              {}
func (*linkDevice) Queues() []int                              { return []int{0} }
func (d *linkDevice) Info() link.Info                          { return d.info }
func (d *linkDevice) Path() link.Path                          { return d.link.Path() }
func (*linkDevice) Check() error                               { return nil } // the link has its own
func (*linkDevice) Counters(dst []link.Counter) []link.Counter { return dst }

// PrepareQueue is the link, once: it has its pool, and takes its buffers when frames come.
func (d *linkDevice) PrepareQueue(int, *buffers.DriverPool, int) (link.Staged, error) {
	if d.taken.Swap(true) {
		return nil, fmt.Errorf("offload: %s: %w", d.info.Name, link.ErrDetached)
	}
	return d.link, nil
}

// Close closes the link if no attachment has it.
func (d *linkDevice) Close() error {
	if d.taken.Swap(true) {
		return nil
	}
	return d.link.Close()
}
