package xtreme

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload"
	"github.com/socketxtreme/socketxtreme/ring/offload/flowrecord"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
	"github.com/socketxtreme/socketxtreme/ring/transport/stream"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// What is TCP's of a poller's offloading: with the setting SX_OFFLOAD_TCP its offloaded ring carries TCP over IPv4 as well.

// The reasons for which the kernel carries a TCP socket, beside those that UDP has too.
var (
	noTCP      = ring.Reason{Code: "offload.no_tcp", Text: "our own stack speaks UDP alone without SX_OFFLOAD_TCP=1: the kernel carries TCP"}
	noUnix     = ring.Reason{Code: "offload.no_unix", Text: "unix-domain sockets are the kernel's"}
	sameHost   = ring.Reason{Code: "tcp.same_host", Text: "a connection within the host is the kernel's"}
	adoptedWhy = ring.Reason{Code: "offload.adopted", Text: "a socket made elsewhere may have options and memberships that nobody can ask for: the kernel carries it"}
	paced      = ring.Reason{Code: "tcp.no_pacing", Text: "a rate was asked for: our own TCP has none, the kernel paces"}
	noIPv6     = ring.Reason{Code: "offload.no_ipv6", Text: "our own stack speaks IPv4: the kernel carries the socket"}
)

// unsupported returns why our own stack cannot carry a socket on any interface; nil if it can.
func (f *offloading) unsupported(s *ring.Socket) []ring.Reason {
	stream := s.Kind() != ring.KindDatagram
	switch {
	case s.Family() == ring.UnixDomain:
		return []ring.Reason{noUnix}
	case stream && !f.tcp():
		return []ring.Reason{noTCP}
	case ring.HandleOf(s).Adopted:
		return []ring.Reason{adoptedWhy}
	case stream && s.Pacing().Rate != 0:
		return []ring.Reason{paced}
	case s.Kind() == ring.KindListener && s.Family() == ring.IPv6 && offload.IsDualStack(s): // clients of IPv6 are the kernel's
	case s.Family() != ring.IPv4, !stream && !s.LocalAddr().Addr().Is4():
		return []ring.Reason{noIPv6}
	}
	return nil
}

// tcp reports whether the setting asks for TCP by our own stack.
func (f *offloading) tcp() bool { return f.poller.engine.settings.Offload.TCP }

// streamNeed completes the need of a TCP socket: that of a listener without an address is a wildcard's, that of one that connects is the
// interface of its route. The result is why no interface can carry the socket.
func (f *offloading) streamNeed(s *ring.Socket, snap *host.Snapshot, n *interfaceNeed) ring.Reason {
	if !n.local.IsValid() || n.local.IsUnspecified() {
		n.local = netip.IPv4Unspecified()
	}
	remote := s.RemoteAddr()
	if !remote.IsValid() {
		return ring.Reason{}
	}
	q := host.Query{Target: remote.Addr(), Interface: n.device}
	if !n.local.IsUnspecified() {
		q.Source = n.local
	}
	route, err := snap.Route(q)
	var none *host.RouteError
	switch {
	case errors.As(err, &none):
		return ring.Reason{Code: none.Code, Text: "no route to " + remote.Addr().String() + ": " + none.Error()}
	case err != nil:
		return ring.Reason{Code: "link.none", Text: "no route to " + remote.Addr().String() + ": " + err.Error()}
	case route.Type == host.Local:
		return sameHost
	}
	n.device = route.Interface
	return ring.Reason{}
}

// sourceOf returns the local address that a stream which connects and is not bound will have, as the routing table says; not valid for other
// sockets, and where the kernel has chosen it already.
func (p *Poller) sourceOf(s *ring.Socket) netip.Addr {
	f := p.offloaded
	if f == nil || !f.tcp() || s.Kind() != ring.KindStream || s.Family() != ring.IPv4 || !s.RemoteAddr().IsValid() || s.LocalAddr().IsValid() ||
		f.openMirror() != nil {
		return netip.Addr{}
	}
	route, err := f.mirror.Snapshot().Route(host.Query{Target: s.RemoteAddr().Addr(), Interface: s.Device()})
	if err != nil {
		return netip.Addr{}
	}
	return route.Source
}

// openTCP has the poller's offloaded ring carry TCP, and returns the reason if it cannot.
func (f *offloading) openTCP() ring.Reason {
	err := offload.OpenTCP(f.driver)
	var refused *ring.FeatureError
	switch {
	case err == nil:
		return ring.Reason{}
	case errors.As(err, &refused):
		return ring.Reason{Code: refused.Code, Text: refused.Feature}
	}
	return ring.Reason{Code: noTCP.Code, Text: err.Error()}
}

// flowRecord says where the connections of our own TCP are written down; nil without SX_OFFLOAD_TCP.
func (f *offloading) flowRecord() *flowrecord.Config {
	if !f.tcp() {
		return nil
	}
	return &flowrecord.Config{}
}

// openForAccepted prepares the offloaded ring for a connection that another poller has accepted: it opens the interface of the connection's
// address. It returns the offloaded set, or why it cannot carry the connection.
func (f *offloading) openForAccepted(a *ring.Adopted) (*ring.Set, []ring.Reason) {
	snap := f.mirror.Snapshot()
	n := interfaceNeed{device: a.Device, local: a.Local.Addr(), named: f.named}
	list, why := n.interfaces(snap)
	opened := 0
	for i, index := range list {
		reasons := f.attach(snap, index, len(list)-i, stampSource(f.time, &ring.Config{}), openNow)
		if reasons == nil {
			if r := offload.StreamRefusal(f.driver, index); r.Code != "" {
				reasons = []ring.Reason{r}
			}
		}
		if reasons == nil {
			opened++
		}
		why = append(why, reasons...)
	}
	if opened == 0 {
		return nil, why
	}
	if r := f.openTCP(); r.Code != "" {
		return nil, []ring.Reason{r}
	}
	return f.set.Load(), nil
}

// OpenInterface has the poller's offloaded ring open the interface of a local address, as a listener there would; of an unspecified one all
// that are up, and do what the first socket of our own TCP does: see DialTCP. Later calls then do not wait for it. A poller that is to serve
// connections which others accept may call it before they come, and learns whether it can. Errors: ErrNotSupported with the reason, such as
// that SX_OFFLOAD_TCP is not set. Owner only, or anyone before the first Poll.
func (p *Poller) OpenInterface(local netip.Addr) error {
	if local = local.Unmap(); local == netip.IPv6Unspecified() {
		local = netip.IPv4Unspecified()
	}
	if err := p.mayUse(); err != nil {
		return fmt.Errorf("xtreme: OpenInterface: %w", err)
	}
	if _, err := p.adoptingSet(&ring.Adopted{Conn: stream.TransitBase, Local: netip.AddrPortFrom(local, 0)}); err != nil {
		return fmt.Errorf("xtreme: OpenInterface %v: %w", local, err)
	}
	return nil
}

// transit is where connections of the engine's own TCP wait that AcceptTo was offered; nil: there is none.
func (e *Engine) transit() *stream.Transit {
	if x := e.nics.currentExchange(); x != nil {
		return x.Transit()
	}
	return nil
}

// CloseAccepted ends a connection that a listener's AcceptTo took, by its number, and that no poller is to adopt: a descriptor of the kernel is
// closed, a connection of our own stack is reset. Any goroutine.
func (e *Engine) CloseAccepted(fd int) error {
	if fd < int(stream.TransitBase) {
		return unix.Close(fd)
	}
	x := e.transit()
	if x == nil {
		return fmt.Errorf("xtreme: CloseAccepted: connection %d: %w", fd, unix.EBADF)
	}
	if err := x.Refuse(ring.Conn(fd)); err != nil {
		return fmt.Errorf("xtreme: CloseAccepted: connection %d: %w", fd, err)
	}
	return nil
}

// inspect describes what AcceptTo took, for Adopt.
func (e *Engine) inspect(fd int) (ring.Adopted, error) {
	if fd < int(stream.TransitBase) {
		return kernel.Inspect(fd)
	}
	if x := e.transit(); x != nil {
		return x.Inspect(ring.Conn(fd))
	}
	return ring.Adopted{}, unix.EBADF
}

// adoptingSet is the set that takes a connection over: the kernel's for descriptors, the offloaded one for connections of our own stack.
func (p *Poller) adoptingSet(a *ring.Adopted) (*ring.Set, error) {
	if a.Conn < stream.TransitBase {
		return p.set, nil
	}
	if p.offloaded == nil {
		return nil, notOffloadedError([]ring.Reason{notAsked(p.kind)})
	}
	if !p.offloaded.tcp() {
		return nil, notOffloadedError([]ring.Reason{noTCP})
	}
	why := p.offloaded.openMirror()
	if why == nil {
		var set *ring.Set
		if set, why = p.offloaded.openForAccepted(a); set != nil {
			return set, nil
		}
	}
	return nil, notOffloadedError(why)
}

// congestions are the congestion controls that our own TCP has, by the names of the setting.
var congestions = map[string]tcp.Congestion{"": tcp.CUBIC, "cubic": tcp.CUBIC, "reno": tcp.NewReno, conf.NoCongestionControl: tcp.NoCongestionControl}

// streamOptions is what the settings ask of our own TCP; nil without SX_OFFLOAD_TCP. A congestion control that our own TCP does not have is
// CUBIC: see tryCongestion.
func (f *offloading) streamOptions() *stream.Options {
	if !f.tcp() {
		return nil
	}
	e := &f.poller.engine.settings
	o := &e.OwnTCP
	s := tcp.DefaultSettings()
	s.QuickAck, s.QuickAckMost, s.SendBuffer = o.QuickAck, uint32(o.QuickAckThreshold), o.SendBuffer
	s.RTOMin, s.DelayedAck = clock.Duration(o.RTOMin), clock.Duration(o.DelayedAck)
	s.RTOInitial, s.RTOMax = max(s.RTOInitial, s.RTOMin), max(s.RTOMax, s.RTOMin)
	s.Timestamps = o.Timestamps == 1 || o.Timestamps == 2 && kernelHasTimestamps() // 2: as the kernel has it
	s.Congestion = congestions[e.Congestion]
	s.TTL = kernelTTL()
	if e.MSS > 0 {
		s.MaxSegment = uint16(e.MSS)
	} else if e.MTU > 0 {
		s.MaxSegment = uint16(e.MTU - headersIPv4)
	}
	return &stream.Options{Settings: &s, Table: tcp.Config{SynRate: o.SynRate}, PollOnSend: o.PollOnSend}
}

// kernelTTL is the kernel's default time to live of unicast in this thread's network namespace; 64 where that is not known.
func kernelTTL() uint8 {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_default_ttl")
	n, e := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 8)
	if err != nil || e != nil || n == 0 {
		return 64
	}
	return uint8(n)
}

// kernelHasTimestamps reports whether the kernel's TCP offers timestamps in this thread's network namespace.
func kernelHasTimestamps() bool {
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_timestamps")
	return err != nil || strings.TrimSpace(string(text)) != "0"
}

// transport makes what is below the stacks of the offloaded ring.
func (f *offloading) transport() ring.Transport {
	if f.tcp() {
		return offload.NewKernelPorts(f.mirror)
	}
	return kernel.New()
}
