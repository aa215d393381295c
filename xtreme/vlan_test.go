package xtreme_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/internal/testnet"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// addVLAN makes a VLAN of pair 0 with the addresses 10.ID.0.1 and 10.ID.0.2. Both ends leave the tags in the frames, or take them out.
func (w *cabled) addVLAN(id int, takenOut bool) (name, peer string) {
	w.t.Helper()
	add := func(below, address string) string {
		l, err := netlink.LinkByName(below)
		w.NoError(err)
		testnet.TakeTagsOut(w.t, below, takenOut)
		v := &netlink.Vlan{LinkAttrs: netlink.NewLinkAttrs(), VlanId: id}
		v.Name, v.ParentIndex = fmt.Sprintf("%s.%d", below, id), l.Attrs().Index
		if err := netlink.LinkAdd(v); err != nil {
			testnet.Missing(w.t, "vlan", err)
		}
		a, err := netlink.ParseAddr(address)
		w.NoError(err)
		w.NoError(netlink.AddrAdd(v, a))
		w.NoError(netlink.LinkSetUp(v))
		return v.Name
	}
	name = add(w.net.Device(0), fmt.Sprintf("10.%d.0.1/24", id))
	w.net.InPeer(func() { peer = add("p0", fmt.Sprintf("10.%d.0.2/24", id)) })
	return name, peer
}

// A socket on a VLAN interface is offloaded by the interface below it: its frames have the tag, in both directions; groups too.
func TestVLANOverACable(t *testing.T) {
	w := newCabled(t)
	name, theirs := w.addVLAN(5, false)
	s := w.udp(netip.MustParseAddrPort("10.5.0.1:7500"))
	w.Equal("bypass", s.Path().Tier, s.Path())
	line := w.udp(netip.AddrPortFrom(group(20), 7501), xtreme.UDPConfig{Groups: []xtreme.Group{{Interface: name}}})
	w.Equal("bypass", line.Path().Tier, line.Path())
	peer := w.net.Dial(s.LocalAddr())
	for range 5 {
		answers(w.world, s, peer)
	}
	w.write(w.groupSender(0, theirs, line.LocalAddr()), "tagged")
	c := w.event(line, xtreme.EventPacket)
	w.Equal("tagged", string(c.Packet.Bytes()))
	w.False(c.ViaKernel, line.Path())
	w.Equal(uint32(w.index(name)), c.IfIndex)
	w.NoError(c.Packet.Release())
	w.GreaterOrEqual(counter(s.Ring(), w.net.Device(0)+".tx_frames"), uint64(5))
	w.close(s)
	w.close(line)
}

// The queues that a setting names with a VLAN are those of the interface below that are opened.
func TestQueuesOfAVLAN(t *testing.T) {
	w := newCabled(t, testnet.Pair{Queues: 4})
	w.addVLAN(5, false)
	named, err := conf.ParseInterfaces("v0.5:1-2")
	w.NoError(err)
	w.engine = w.newEngine(func(s *conf.Settings) { s.Offload.Interfaces = named })
	s := w.other(w.newPoller("named")).udp(netip.MustParseAddrPort("10.5.0.1:7500"))
	w.Equal("bypass", s.Path().Tier, s.Path())
	links := 0
	for _, c := range s.Ring().Stats().Driver {
		if strings.HasSuffix(c.Name, ".rx_frames") {
			links++
		}
	}
	w.Equal(2, links, "%v", s.Path())
}

// Where the device takes the tags out of the frames nothing is claimed on it, and the path says why; the kernel's side receives and sends all.
func TestVLANWhoseTagsTheDeviceTakes(t *testing.T) {
	w := newCabled(t)
	w.addVLAN(5, true)
	s := w.udp(netip.MustParseAddrPort("10.5.0.1:7500"))
	w.Equal("kernel", s.Path().Tier, s.Path())
	w.Contains(codes(s.Path()), "link.tags_apart")
	peer := w.net.Dial(s.LocalAddr())
	for range 5 {
		w.write(peer, "no tag")
		// PATH may come first.
		c := w.next("a datagram", func(c *ring.Completion) bool { return c.Socket == s && c.Events.Has(xtreme.EventPacket) })
		w.Equal("no tag", string(c.Packet.Bytes()))
		w.True(c.ViaKernel)
		w.sendTo(s, "answer", c.Source)
		w.NoError(w.poller.Flush())
		w.NoError(c.Packet.Release())
		b := make([]byte, 64)
		n, err := peer.Read(b)
		w.NoError(err)
		w.Equal("answer", string(b[:n]))
	}
	w.close(s)
}

// Two lines with a group each on two VLANs of one device, with the tags in the frames and taken out: each socket receives what its own VLAN
// brings, and what comes for its group by the other VLAN nobody receives.
func TestLinesOnTwoVLANs(t *testing.T) {
	for _, takenOut := range []bool{false, true} {
		t.Run(fmt.Sprintf("tags taken out: %v", takenOut), func(t *testing.T) {
			w := newCabled(t)
			ids := []int{5, 6}
			var names, theirs []string
			var lines []*xtreme.Socket
			for i, id := range ids {
				name, peer := w.addVLAN(id, takenOut)
				names, theirs = append(names, name), append(theirs, peer)
				lines = append(lines, w.udp(netip.AddrPortFrom(group(byte(30+i)), 7510),
					xtreme.UDPConfig{IPConfig: xtreme.IPConfig{ReuseAddr: true}, Groups: []xtreme.Group{{Interface: name}}}))
			}
			tier := map[bool]string{false: "bypass", true: "kernel"}[takenOut]
			w.until("both lines have their path", func() bool { return lines[0].Path().Tier == tier && lines[1].Path().Tier == tier })
			for round := range 20 {
				for i, peer := range theirs {
					w.write(w.groupSender(0, peer, lines[1-i].LocalAddr()), "for the other VLAN")
					w.write(w.groupSender(0, peer, lines[i].LocalAddr()), fmt.Sprint(round))
				}
				for i := range ids {
					c := w.next("a datagram", func(c *ring.Completion) bool { return c.Socket == lines[i] && c.Events.Has(xtreme.EventPacket) })
					w.Equal(fmt.Sprint(round), string(c.Packet.Bytes()))
					w.Equal(tier, lines[i].Path().Tier, lines[i].Path())
					w.Equal(uint32(w.index(names[i])), c.IfIndex)
					w.NoError(c.Packet.Release())
				}
			}
			for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
				w.poll()
			}
			for _, c := range w.kept {
				w.False(c.Packet.Valid(), "%v: what came by the other VLAN", c.Events) // there may be PATH
			}
			for _, s := range lines {
				w.close(s)
			}
		})
	}
}
