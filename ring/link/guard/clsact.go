package guard

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	beatName  = "xtreme_gbeat"
	beatEvery = 200 * time.Millisecond
	// ownQdisc is at the end of the name of a filter whose guard has made the qdisc: the guard that removes the filter removes both.
	ownQdisc = "+qdisc"
)

// trafficControl is what is needed of netlink; *netlink.Handle is the real one.
type trafficControl interface {
	QdiscAdd(netlink.Qdisc) error
	QdiscDel(netlink.Qdisc) error
	QdiscList(netlink.Link) ([]netlink.Qdisc, error)
	FilterAdd(netlink.Filter) error
	FilterDel(netlink.Filter) error
	FilterList(device netlink.Link, parent uint32) ([]netlink.Filter, error)
	Close()
}

// clsact is a filter of a clsact qdisc. It stays when the process is killed, so it needs a time that a goroutine renews.
type clsact struct {
	handle  trafficControl
	device  netlink.Link
	filter  *netlink.BpfFilter
	program ebpf.ProgramID
	stop    chan struct{}
	stopped sync.WaitGroup
}

// attachClsact loads the program that outlives the process, adds a clsact qdisc unless there is one, adds the program as its filter, and
// starts the goroutine that renews the time. Error: a refusal.
func (g *Guard) attachClsact() error {
	if err := g.load(outlivesProcess); err != nil {
		return err
	}
	if err := g.Heartbeat(); err != nil {
		return refuse(err, "writing the guard's time")
	}
	info, err := g.program.Info()
	if err != nil {
		return refuse(err, "asking for the guard")
	}
	c := &clsact{stop: make(chan struct{})}
	c.program, _ = info.ID()
	if c.handle, c.device, err = openDevice(g.config.Index); err != nil {
		return err
	}
	name := programName
	switch err := c.handle.QdiscAdd(clsactOf(g.config.Index)); {
	case err == nil:
		name += ownQdisc
	case errors.Is(err, unix.EEXIST):
		has, err := hasClsact(c.handle, c.device)
		if err == nil && !has {
			err = fmt.Errorf("%w: a qdisc of another kind is there", unix.EBUSY)
		}
		if err != nil {
			c.handle.Close()
			return refuse(err, "adding a clsact qdisc to the ingress of "+c.device.Attrs().Name)
		}
	default:
		c.handle.Close()
		return refuse(err, "adding a clsact qdisc")
	}
	// Priority 0: the kernel chooses one, before those that are there.
	c.filter = &netlink.BpfFilter{FilterAttrs: netlink.FilterAttrs{LinkIndex: g.config.Index, Parent: netlink.HANDLE_MIN_INGRESS,
		Protocol: unix.ETH_P_ALL}, Fd: g.program.FD(), Name: name, DirectAction: true}
	if err := c.handle.FilterAdd(c.filter); err != nil {
		_ = removeQdisc(c.handle, c.device, name)
		c.handle.Close()
		return refuse(err, "adding the guard's filter")
	}
	c.stopped.Go(func() { g.beats(c.stop) })
	g.attachment = c
	return nil
}

// Heartbeat renews the time that shows the process to live. A guard does so by itself, five times a second.
func (g *Guard) Heartbeat() error {
	if g.beat == nil {
		return nil // of TCX, which needs none
	}
	return g.beat.Put(uint32(0), now())
}

// beats is the goroutine of a clsact guard: it renews the time every beatEvery until stop is closed.
func (g *Guard) beats(stop chan struct{}) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			_ = g.Heartbeat() // if it fails, the filter passes everything, and counts that
		}
	}
}

// isAttached reports whether the interface has a filter with this guard's program.
func (c *clsact) isAttached() (bool, error) {
	list, err := guards(c.handle, c.device)
	return slices.ContainsFunc(list, func(f *netlink.BpfFilter) bool { return f.Id == int(c.program) }), err
}

// detach ends the goroutine and removes this guard's filter, and the qdisc too if this guard has made it and no other filter is there.
func (c *clsact) detach() error {
	close(c.stop)
	c.stopped.Wait()
	defer c.handle.Close()
	list, err := guards(c.handle, c.device)
	for _, f := range list {
		if f.Id == int(c.program) {
			err = errors.Join(err, c.handle.FilterDel(f), removeQdisc(c.handle, c.device, f.Name))
		}
	}
	return err
}

// openDevice opens a netlink socket in the calling thread's network namespace and asks for the interface. The caller closes the handle.
func openDevice(index int) (trafficControl, netlink.Link, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, nil, refuse(err, "opening a netlink socket")
	}
	device, err := h.LinkByIndex(index)
	if err != nil {
		h.Close()
		var missing netlink.LinkNotFoundError
		if errors.As(err, &missing) {
			err = unix.ENODEV
		}
		return nil, nil, refuse(err, "finding the interface")
	}
	return h, device, nil
}

func clsactOf(index int) *netlink.Clsact {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
}

// mostLists is how often the kernel is asked for a list that changes while it is read.
const mostLists = 10

// listed asks for a list of the kernel's. It asks again if the list has changed meanwhile.
func listed[T any](ask func() ([]T, error)) (list []T, err error) {
	for range mostLists {
		if list, err = ask(); err == nil {
			return list, nil
		}
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return nil, err
}

// hasClsact reports whether the interface has a clsact qdisc.
func hasClsact(h trafficControl, device netlink.Link) (bool, error) {
	list, err := listed(func() ([]netlink.Qdisc, error) { return h.QdiscList(device) })
	return slices.ContainsFunc(list, func(q netlink.Qdisc) bool { return q.Type() == "clsact" }), err
}

// filtersOf are the filters on an interface, at its ingress or egress.
func filtersOf(h trafficControl, device netlink.Link, parent uint32) ([]netlink.Filter, error) {
	return listed(func() ([]netlink.Filter, error) { return h.FilterList(device, parent) })
}

// guards are the filters of guards on an interface.
func guards(h trafficControl, device netlink.Link) (list []*netlink.BpfFilter, err error) {
	filters, err := filtersOf(h, device, netlink.HANDLE_MIN_INGRESS)
	for _, f := range filters {
		if b, ok := f.(*netlink.BpfFilter); ok && strings.HasPrefix(b.Name, programName) {
			list = append(list, b)
		}
	}
	return list, err
}

// removeQdisc removes the qdisc if the name of the removed filter says that its guard made it, and no filter is left. If another guard's filter
// is left, the qdisc stays for good, since that filter's name does not have the mark. A qdisc without filters does nothing.
func removeQdisc(h trafficControl, device netlink.Link, name string) error {
	if !strings.HasSuffix(name, ownQdisc) {
		return nil
	}
	for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
		if left, err := filtersOf(h, device, parent); err != nil || len(left) > 0 {
			return err
		}
	}
	return h.QdiscDel(clsactOf(device.Attrs().Index))
}

// removeStale removes the filters that killed processes have left on an interface.
func removeStale(index int) error {
	h, device, err := openDevice(index)
	if err != nil {
		return err
	}
	defer h.Close()
	list, err := guards(h, device)
	if err != nil {
		return refuse(err, "looking for filters of processes that have ended")
	}
	for _, f := range list {
		if !isStale(ebpf.ProgramID(f.Id)) {
			continue
		}
		if err := h.FilterDel(f); err != nil && !errors.Is(err, unix.ENOENT) {
			return refuse(err, "removing the filter of a process that has ended")
		}
		if err := removeQdisc(h, device, f.Name); err != nil && !errors.Is(err, unix.ENOENT) {
			return refuse(err, "removing the qdisc of a process that has ended")
		}
	}
	return nil
}

// isStale reports whether the process of a guard's program has ended: the program is gone, or nobody renews the time in its map. It waits
// until that is certain, about a second at the most. A program that cannot be read counts as alive.
func isStale(id ebpf.ProgramID) bool {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	defer func() { _ = p.Close() }()
	info, err := p.Info()
	if err != nil {
		return false
	}
	ids, _ := info.MapIDs()
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			continue
		}
		info, err := m.Info()
		stale := err == nil && info.Name == beatName && stopped(m)
		_ = m.Close()
		if stale {
			return true
		}
	}
	return false
}

// stopped waits until the time in the map is renewed (false) or is older than staleAfter (true).
func stopped(beat *ebpf.Map) bool {
	var first, at uint64
	for beat.Lookup(uint32(0), &at) == nil {
		switch {
		case int64(now()-at) > staleAfter:
			return true
		case first != 0 && at != first:
			return false
		}
		first = at
		time.Sleep(beatEvery / 10)
	}
	return false
}
