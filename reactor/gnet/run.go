package gnet

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2/pkg/logging"
)

// engines finds the last engine of an address, for Stop.
var engines sync.Map

// Run serves an address such as "tcp://127.0.0.1:9000" until the engine is stopped: networks tcp, tcp4, tcp6, udp, udp4,
// udp6 and unix. It returns nil after an orderly end; otherwise why the engine could not start, or what ended it (exact
// gnet: nil in that case).
func Run(handler EventHandler, address string, options ...Option) error {
	return Rotate(handler, []string{address}, options...)
}

// Rotate is Run for several addresses.
func Rotate(handler EventHandler, addresses []string, options ...Option) (err error) {
	o := applyOptions(options)
	defer logging.Cleanup()
	if err = o.openLog(); err != nil {
		return err
	}
	eng, err := newEngine(handler, o)
	if err != nil {
		return err
	}
	if err = eng.bind(addresses); err != nil {
		if also := eng.abandon(); also != nil {
			err = errors.Join(err, also)
		}
		return err // gnet's values, as they are: programs compare them
	}
	if eng.boot() == Shutdown {
		return eng.abandon()
	}
	logging.Infof("Launching gnet with %d event-loops, listening on: %s", len(eng.loops), strings.Join(addresses, " | "))
	eng.start()
	for _, a := range addresses {
		engines.Store(a, eng)
		defer engines.CompareAndDelete(a, eng) // a later engine of the address stays
	}
	<-eng.ending.Done()
	eng.windDown()
	if eng.opts.ExactGnet {
		return nil
	}
	return eng.failure
}

// Stop ends the engine that was last started on an address.
//
// Deprecated: two engines may share an address. Use Engine.Stop.
func Stop(ctx context.Context, address string) error {
	found, ok := engines.LoadAndDelete(address)
	if !ok || found.(*engine).inShutdown() {
		return ErrEngineInShutdown
	}
	return found.(*engine).stop(ctx)
}

// bind makes the loops and their listeners. The loops do not run yet, so nothing is accepted.
func (eng *engine) bind(addresses []string) error {
	ends := make([]*endpoint, len(addresses))
	var datagrams, unix, groups bool
	for i, a := range addresses {
		network, address, err := parseAddress(a)
		if err != nil {
			return err
		}
		ends[i] = &endpoint{network: network, address: address}
		if err := ends[i].resolve(); err != nil {
			return err
		}
		datagrams, unix = datagrams || ends[i].udp(), unix || ends[i].unix()
		groups = groups || ends[i].udp() && ends[i].bind.Addr().IsMulticast()
	}
	if eng.opts.MulticastInterfaceIndex != 0 && !groups {
		eng.log.Warnf("option MulticastInterfaceIndex %d: no address is a multicast group", eng.opts.MulticastInterfaceIndex)
	}
	if len(ends) == 0 {
		return ErrInvalidNetworkAddress
	}
	switch {
	case datagrams:
		eng.opts.ReusePort = true // each loop reads datagrams of its own
	case unix:
		eng.opts.ReusePort = false
	}
	if err := eng.makeLoops(); err != nil {
		return err
	}
	for _, e := range ends {
		eng.openInterfaces(e)
		on := eng.loops
		switch {
		case eng.distributes(e):
			if eng.ingress == nil {
				if err := eng.makeIngress(); err != nil {
					return err
				}
			}
			on = []*eventloop{eng.ingress}
		case !eng.opts.ReusePort || e.unix():
			on = eng.loops[:1]
		}
		for i, el := range on {
			a, err := el.listen(e)
			if err != nil {
				return err
			}
			if i == 0 {
				eng.listeners = append(eng.listeners, a)
			}
		}
	}
	if eng.opts.ExactGnet {
		eng.watchDescriptorLimit()
	}
	return nil
}

// abandon closes the loops of an engine that never ran.
func (eng *engine) abandon() (err error) {
	eng.end()
	for _, el := range eng.all {
		el.tasks.refuseAll()
		err = errors.Join(err, el.poller.Close())
		close(el.done)
	}
	close(eng.ended)
	return errors.Join(err, eng.engine.Close())
}

// watchDescriptorLimit ends the engine when the process has no free descriptors, as gnet does. It is for exact gnet; otherwise the rings
// pause accepting until there are some.
func (eng *engine) watchDescriptorLimit() {
	const every = 20 * time.Millisecond
	for _, el := range eng.all {
		if len(el.listeners) == 0 {
			continue
		}
		var look func()
		look = func() {
			for _, a := range el.listeners {
				if a.socket.Stats().AcceptFailures > 0 {
					eng.log.Errorf("Accept() failed: out of descriptors or memory")
					eng.shutdown(nil)
					return
				}
			}
			el.loop.After(every, look)
		}
		el.loop.After(every, look)
	}
}
