package peers

import (
	"errors"
	"net/netip"
	"strings"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link/xdp"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	"github.com/socketxtreme/socketxtreme/udp"
)

// offloaded is one ring with its own stack on one interface of this process's namespace. It stands on package offload and not on xtreme
// because the mode of the steering program is part of the comparison, and xtreme chooses it.
type offloaded struct {
	device string
	region *sys.Region
	xdp    *xdp.Device
	mirror *host.Host
	set    *ring.Set
	ring   *ring.Ring
}

// gatherFrames is Offload.Gather, unless SX_OFFLOAD_GATHER says another: of a window of 32 that both ends work on, one end sends while the
// other one gathers from what is left and comes. With 16 both could wait for each other, with more than 18 one of them is idle for longer. A
// single request is answered at once in any case.
const gatherFrames = 18

// openOffloaded opens all queues of the interface. The pool is laid out as xtreme does by default, and a queue keeps as many buffers ready
// as xtreme would give it there (VMA_RX_WRE bounds both).
func openOffloaded(device string, native bool) (o *offloaded, err error) {
	o = &offloaded{device: device}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.close())
		}
	}()
	layout := buffers.DefaultLayout()
	if o.region, err = sys.NewRegion(sys.RegionConfig{Bytes: layout.Bytes()}); err != nil {
		return o, err
	}
	pool, err := buffers.New(o.region.Bytes(), layout)
	if err != nil {
		return o, err
	}
	c := xdp.Config{Interface: device}
	if native {
		c.Mode = xdp.ModeNative
	}
	if o.xdp, err = xdp.Open(c); err != nil {
		return o, err
	}
	if err = o.xdp.AddAddrs(); err != nil {
		return o, err
	}
	if o.mirror, err = host.Open(host.Config{}); err != nil {
		return o, err
	}
	var links []offload.Link
	fill := layout.SmallCount * 3 / 4 * 4 / 5 / len(o.xdp.Queues())
	if most := conf.FromEnvironment().Offload.Fill; most > 0 { // VMA_RX_WRE
		fill = min(fill, most)
	}
	for _, queue := range o.xdp.Queues() {
		q, err := o.xdp.OpenQueueWith(queue, pool, fill)
		if err != nil {
			return o, errors.Join(err, closeLinks(links))
		}
		// A veth peer leaves its checksums unfinished.
		links = append(links, offload.Link{Link: q, Checksum: udp.AcceptPartial, Steering: o.xdp})
	}
	gather := gatherFrames
	if conf.IsSet("SX_OFFLOAD_GATHER") {
		gather = conf.FromEnvironment().Offload.Gather
	}
	o.set, err = ring.NewSet(ring.SetConfig{Transport: kernel.New(), Pool: pool, Kind: "offload", OneRing: offload.OneRing,
		Driver: offload.New(offload.Config{Links: links, Host: o.mirror, Gather: gather})})
	if err != nil {
		return o, errors.Join(err, closeLinks(links))
	}
	o.ring, err = o.set.NewRing()
	return o, err
}

func closeLinks(links []offload.Link) (err error) {
	for _, l := range links {
		err = errors.Join(err, l.Link.Close())
	}
	return err
}

// bind makes a socket with the address; of a group, one that has joined it.
func (o *offloaded) bind(local netip.AddrPort) (*ring.Socket, error) {
	s, err := o.set.NewSocket(ring.Datagram, false, ring.Config{LargestDatagram: 2048})
	if err != nil {
		return nil, err
	}
	if err := s.Bind(local); err != nil {
		return nil, err
	}
	if local.Addr().IsMulticast() {
		err = s.JoinGroup(local.Addr(), o.device, netip.Addr{})
	}
	return s, err
}

// systemCalls is how many the ring has made since it was opened: those that moved frames, and looks at the kernel's side with what was
// read and sent there. Two a second for the state of a link are not in it.
func (o *offloaded) systemCalls() (kicks, looks uint64) {
	for _, c := range o.ring.Counters(nil) {
		switch {
		case strings.HasSuffix(c.Name, ".kicks"):
			kicks += c.Value
		case c.Name == "offload.os_reads" || c.Name == "offload.os_packets" || c.Name == "offload.os_sends":
			looks += c.Value
		}
	}
	return kicks, looks
}

// close ends what there is of it.
func (o *offloaded) close() (err error) {
	if o.set != nil {
		err = o.set.Close()
	}
	if o.xdp != nil {
		err = errors.Join(err, o.xdp.Close())
	}
	if o.mirror != nil {
		err = errors.Join(err, o.mirror.Close())
	}
	if o.region != nil {
		err = errors.Join(err, o.region.Close())
	}
	return err
}
