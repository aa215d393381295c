package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/testnet/firewall"
)

// cause is something that happens to the feed.
type cause struct {
	name  string
	place string // as xtstat why calls it
	note  string // what is said with the answer

	kernelRing  bool     // the feed handler is on a ring of the kernel's: what is done does not meet redirected frames
	queues      int      // of the veth; 0: 1
	environment []string // of the victim
	ofAudit     bool     // what is lost are datagrams of the audit line alone
	diverts     bool     // packets are not lost, but take the way through the kernel

	inject func(g *game, a *answer) error
}

// causes are all there are, in the order of a packet's way.
var causes = []cause{
	{name: "sender skips a sequence", place: "upstream", inject: skip},
	{name: "checksum", place: "upstream", inject: damage},
	{name: "VLAN tag", place: "card", inject: tag,
		note: "The kernels that this was written on have no VLAN interfaces (8021q): frames came with a tag that no interface here has, " +
			"as from a switch whose port is set wrong, instead of without one that the card has stripped."},
	{name: "link flap", place: "card", inject: flap},
	{name: "a queue that no ring serves", place: "card", queues: 2, diverts: true, environment: []string{"SX_OFFLOAD_INTERFACES=" + device + ":0", "SX_OFFLOAD_XDP_MODE=native"},
		inject: strayQueue},
	{name: "program displaced", place: "kernel", diverts: true, inject: displace,
		note: "From then on packets came through the kernel, until the feed handler had attached another one: some ten milliseconds, up to a second."},
	{name: "nft drop", place: "kernel", kernelRing: true, inject: dropByRule},
	{name: "ring full", place: "application", inject: stall},
	{name: "no buffers, because they are held", place: "application", inject: holdBuffers, environment: []string{"VMA_RX_WRE=512"}},
	{name: "budget", place: "socket", ofAudit: true, inject: spendBudget},
	{name: "source filter", place: "socket", inject: otherSource},
	{name: "membership lost", place: "application", inject: leave},
	{name: "garbage collection", place: "application", inject: collect},
	{name: "SIGSTOP", place: "application", inject: stop},
}

func causeNames() (names []string) {
	for i := range causes {
		names = append(names, causes[i].name)
	}
	return names
}

func findCause(name string) (*cause, error) {
	for i := range causes {
		if causes[i].name == name {
			return &causes[i], nil
		}
	}
	return nil, fmt.Errorf("-cause %q: want one of %s", name, strings.Join(causeNames(), ", "))
}

// ring is the kind of ring on which the victim receives.
func (c *cause) ring() string {
	if c.kernelRing {
		return "epoll"
	}
	return "offload"
}

// skip: the exchange does not send some packets.
func skip(g *game, a *answer) (err error) {
	a.Begin, a.End, err = g.feed.spoil(g.size, func([]byte) error { return nil })
	return err
}

// damage: packets come with a wrong UDP checksum.
func damage(g *game, a *answer) (err error) {
	a.Begin, a.End, err = g.feed.spoil(g.size, func(p []byte) error { return g.feed.sendFrame(p, frame{from: exchangeAddress, damaged: true}) })
	return err
}

// tag: packets come with the tag of a VLAN.
func tag(g *game, a *answer) (err error) {
	a.Begin, a.End, err = g.feed.spoil(g.size, func(p []byte) error { return g.feed.sendFrame(p, frame{from: exchangeAddress, vlan: 42}) })
	return err
}

// otherSource: packets come from another address of the exchange, and the feed handler has joined for the first one alone.
func otherSource(g *game, a *answer) (err error) {
	a.Begin, a.End, err = g.feed.spoil(g.size, func(p []byte) error { return g.feed.sendFrame(p, frame{from: strangerAddress}) })
	return err
}

// flap: the interface is set down and up again.
func flap(g *game, a *answer) error {
	return g.world.victim(func() error {
		l, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		a.Begin = time.Now()
		if err := netlink.LinkSetDown(l); err != nil {
			return err
		}
		time.Sleep(time.Duration(g.size) * 5 * time.Millisecond)
		err = netlink.LinkSetUp(l)
		a.End = time.Now()
		return errors.Join(err, setRoute(l))
	})
}

// strayQueue: packets have other ports, so that some come by the queue that the feed handler does not serve.
func strayQueue(g *game, a *answer) (err error) {
	port := uint16(15000)
	a.Begin, a.End, err = g.feed.spoil(2*g.size, func(p []byte) error {
		port++
		return g.feed.sendFrame(p, frame{from: exchangeAddress, port: port})
	})
	return err
}

// displace: somebody takes the steering program off the interface.
func displace(g *game, a *answer) error {
	return g.world.victim(func() error {
		l, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		all := new(link.Iterator)
		defer all.Close()
		for all.Next() {
			info, err := all.Link.Info()
			if err != nil || info.XDP() == nil || int(info.XDP().Ifindex) != l.Attrs().Index {
				continue
			}
			if x := l.Attrs().Xdp; x != nil && uint32(info.Program) == x.ProgId { // an index is unique in its namespace only
				a.Begin = time.Now()
				err := all.Link.Detach()
				a.End = time.Now()
				return err
			}
		}
		return errors.Join(all.Err(), errors.New("no steering program is on the interface"))
	})
}

// dropByRule: a rule of a firewall drops the feed for a while.
func dropByRule(g *game, a *answer) error {
	return g.world.victim(func() error {
		a.Begin = time.Now()
		if err := firewall.DropUDP("gameday"); err != nil {
			return err
		}
		time.Sleep(time.Duration(g.size) * time.Millisecond)
		a.End = time.Now()
		return firewall.Remove("gameday")
	})
}

// stall: a handler takes so long that the ring becomes full.
func stall(g *game, a *answer) error { return g.away(a, "stall 400ms") }

// collect: garbage is collected while the ring becomes full.
func collect(g *game, a *answer) error {
	if _, err := g.tell("ballast"); err != nil {
		return err
	}
	time.Sleep(quiet) // what this has lost is of another time
	return g.away(a, "collect 400ms")
}

// away has the loop do something else.
func (g *game) away(a *answer, command string) error {
	r, err := g.tell(command)
	a.Begin, a.End = r.Begin, r.End
	return err
}

// stop: the process is stopped, and goes on.
func stop(g *game, a *answer) error {
	a.Begin = time.Now()
	if err := g.child.Process.Signal(unix.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(400 * time.Millisecond)
	a.End = time.Now()
	return g.child.Process.Signal(unix.SIGCONT)
}

// spendBudget: the application keeps datagrams of the audit line, whose first socket has a budget.
func spendBudget(g *game, a *answer) error {
	before, err := g.tell("hold")
	if err != nil {
		return err
	}
	a.Begin = time.Now()
	if err := g.sendAudit(200+g.size, 1); err != nil {
		return err
	}
	a.End = time.Now()
	_, err = g.endHold(a, before, 200+g.size)
	return err
}

// holdBuffers: the application keeps buffers and datagrams, until none lie ready for the card.
func holdBuffers(g *game, a *answer) error {
	before, err := g.tell("exhaust")
	if err != nil {
		return err
	}
	a.Begin = before.Begin
	if err := g.sendAudit(5000, auditSockets); err != nil {
		return err
	}
	a.End, err = g.endHold(a, before, 5000) // until then frames are lost
	return err
}

// endHold has the application release what it holds, and counts what the audit line has lost meanwhile. It returns when all was released.
func (g *game) endHold(a *answer, before report, sent int) (released time.Time, err error) {
	if _, err := g.tell("report"); err != nil { // what came is counted
		return released, err
	}
	release, err := g.tell("release")
	if err != nil {
		return released, err
	}
	after, err := g.tell("report") // what waited was delivered
	if err != nil {
		return released, err
	}
	a.Packets += sent - (after.Audit - before.Audit)
	return release.End, nil
}

// leave: the feed handler leaves its group and joins it again.
func leave(g *game, a *answer) error {
	r, err := g.tell("leave")
	if err != nil {
		return err
	}
	a.Begin = r.Begin
	time.Sleep(time.Duration(g.size) * 2 * time.Millisecond)
	r, err = g.tell("join")
	a.End = r.End
	return err
}
