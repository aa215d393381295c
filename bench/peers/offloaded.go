package peers

import (
	"errors"
	"net/netip"
	"strings"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// offloaded is an engine with one poller of kind offload, as any program has it: all that is not said here is xtreme's default, or what the
// environment says.
type offloaded struct {
	device string
	engine *xtreme.Engine
	poller *xtreme.Poller
}

// openOffloaded makes them. The interface is opened with the first socket.
func openOffloaded(device string, native bool) (*offloaded, error) {
	settings := conf.FromEnvironment()
	settings.Ring = conf.RingOffload
	if native {
		settings.Offload.Mode = conf.XDPNative
	}
	engine, err := xtreme.New(settings)
	if err != nil {
		return nil, err
	}
	poller, err := engine.NewPoller("bench", xtreme.PollerConfig{Interfaces: []conf.Interface{{Name: device}}})
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return &offloaded{device, engine, poller}, nil
}

// bind makes a socket with the address; of a group, one that has joined it. A socket that cannot be offloaded is an error with the reasons.
func (o *offloaded) bind(local netip.AddrPort, c xtreme.UDPConfig) (*xtreme.Socket, error) {
	c.LargestDatagram, c.RequireOffload = 2048, true
	if local.Addr().IsMulticast() {
		c.Groups = []xtreme.Group{{Interface: o.device}}
	}
	return o.poller.OpenUDP(local, c)
}

// systemCalls is how many the poller's rings have made since they were opened: those that moved frames, and looks at the kernel's side with
// what was read and sent there. Two a second for the state of a link are not in it.
func (o *offloaded) systemCalls() (kicks, looks uint64) {
	for _, r := range o.poller.Rings() {
		for _, c := range r.Stats().Driver {
			switch {
			case strings.HasSuffix(c.Name, ".kicks"):
				kicks += c.Value
			case c.Name == "offload.os_reads" || c.Name == "offload.os_packets" || c.Name == "offload.os_sends":
				looks += c.Value
			}
		}
	}
	return kicks, looks
}

// close closes sockets, owner and engine.
func (o *offloaded) close() error { return errors.Join(o.poller.Close(), o.engine.Close()) }
