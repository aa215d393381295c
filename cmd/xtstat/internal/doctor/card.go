package doctor

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	curing "github.com/socketxtreme/socketxtreme/internal/cure"
)

// The bits of the kernel's xdp-features (netdev family).
const (
	xdpBasic    = 1 << 0
	xdpRedirect = 1 << 1
	xdpZeroCopy = 1 << 3
)

// isHardware reports whether the interface is a card, or one of a virtual machine.
func isHardware(i *Interface) bool {
	return !i.Loopback && (i.Kind == "" || i.Kind == "device")
}

// xdpModes: where a program can run, and whether one of another program is there.
func xdpModes(_ *System, i *Interface, _ []Interface) []Result {
	switch {
	case i.Loopback:
		return nil
	case i.XDP != "":
		return note("an XDP program is attached (%s): a ring's own, or one by which it is busy (xdp.busy): ip link show %s", i.XDP, i.Name)
	case i.Kind == "veth":
		return good("generic is best for a veth, whose frames are the kernel's")
	case !i.HasXDPFeatures:
		return []Result{{Status: Unknown, Text: "the kernel does not tell what the driver can (Linux 6.3)"}}
	case i.XDPFeatures&(xdpBasic|xdpRedirect) != xdpBasic|xdpRedirect:
		return cure("use a card whose driver has native XDP", "the driver has no native XDP: the program runs behind it, at the kernel's speed (xdp.no_native)")
	}
	return good("native")
}

// zeroCopy needs the driver and a huge page.
func zeroCopy(_ *System, i *Interface, _ []Interface) []Result {
	switch {
	case !isHardware(i):
		return nil
	case !i.HasXDPFeatures:
		return []Result{{Status: Unknown, Text: "the kernel does not tell what the driver can (Linux 6.3)"}}
	case i.XDPFeatures&xdpZeroCopy == 0:
		return note("the driver has no zero-copy: each frame is copied (xdp.no_zerocopy)")
	}
	return good("the driver has it; it is tried with all buffers in one huge page (VMA_MEM_ALLOC_TYPE=2)")
}

// queues: more of them than rings that serve them leave frames on queues that nobody polls.
func queues(s *System, i *Interface, _ []Interface) []Result {
	if i.Loopback {
		return nil
	}
	n := i.Combined
	if n <= 0 {
		list, _ := fs.Glob(s.Root, "sys/class/net/"+i.Name+"/queues/rx-*")
		n = len(list)
	}
	cpus, _ := fs.Glob(s.Root, "sys/devices/system/cpu/cpu[0-9]*")
	switch {
	case n == 0:
		return []Result{{Status: Unknown, Text: "the number of queues is not known"}}
	case n > 1 && len(cpus) > 0 && n > len(cpus):
		return cure(fmt.Sprintf("ethtool -L %s combined %d", i.Name, len(cpus)), "%d queues for %d processors", n, len(cpus))
	case n > 1:
		return note("%d queues: one ring serves all of them; several pollers divide them by SX_OFFLOAD_INTERFACES=%s:0,… ", n, i.Name)
	}
	return good("one queue")
}

// ringSizes: what a card can keep while nobody polls.
func ringSizes(_ *System, i *Interface, _ []Interface) []Result {
	if i.Rings == nil {
		if isHardware(i) {
			return []Result{{Status: Unknown, Text: "the driver does not tell the sizes of its rings"}}
		}
		return nil
	}
	r := i.Rings
	if r.Rx < r.RxMax && r.Rx < 2048 {
		return cure(fmt.Sprintf("ethtool -G %s rx %d (the link goes down for a moment)", i.Name, min(r.RxMax, 4096)), "%d received frames have room, of %d", r.Rx, r.RxMax)
	}
	return good("rx %d of %d, tx %d of %d", r.Rx, r.RxMax, r.Tx, r.TxMax)
}

// mtu: a frame of AF_XDP lies in one page, with headroom and what the kernel keeps at its end.
func mtu(_ *System, i *Interface, _ []Interface) []Result {
	switch {
	case i.Loopback:
		return nil
	case i.MTU > curing.PageMTU:
		return cure(curing.Command("xdp.no_jumbo", curing.Place{Interface: i.Name}),
			"%d: native XDP carries frames of a page, some %d bytes; longer ones are the kernel's (xdp.no_jumbo, steer.oversize)", i.MTU, curing.PageMTU)
	case i.MTU < 1500:
		return note("%d: datagrams longer than that leave in fragments, by the kernel", i.MTU)
	}
	return good("%d", i.MTU)
}

// vlanStripping: a steering program does not see tags that the card has taken out.
func vlanStripping(_ *System, i *Interface, all []Interface) []Result {
	on, known := i.Features["rx-vlan-hw-parse"]
	if !known {
		return nil
	}
	stacked := slices.ContainsFunc(all, func(o Interface) bool { return o.Kind == "vlan" && o.Parent == i.Name })
	switch {
	case on && stacked:
		return cure(curing.Command("link.tags_apart", curing.Place{Interface: i.Name}), "the device takes VLAN tags out of frames, and VLANs stand on it: they are not offloaded (link.tags_apart)")
	case on:
		return note("the device takes VLAN tags out of frames: ethtool -K %s rxvlan off, before a VLAN on it is offloaded", i.Name)
	}
	return good("tags stay in frames")
}

// checksums: a kernel on this machine leaves those of its own packets unfinished.
func checksums(_ *System, i *Interface, _ []Interface) []Result {
	switch i.Kind {
	case "veth", "tun", "macvlan", "bridge":
		return note("the peer is a kernel of this machine, which leaves checksums unfinished: SX_CHECKSUM=auto accepts them here")
	}
	on, known := i.Features["rx-checksum"]
	switch {
	case !known:
		return nil
	case !on:
		return note("the card checks no checksums; the library always does")
	}
	return good("checked by the card, and again by the library")
}

// gro: frames that the card has joined do not fit XDP.
func gro(_ *System, i *Interface, _ []Interface) []Result {
	for _, f := range []struct{ feature, option string }{{"rx-lro", "lro"}, {"rx-gro-hw", "rx-gro-hw"}} {
		if i.Features[f.feature] {
			return cure("ethtool -K "+i.Name+" "+f.option+" off", "%s is on: the card joins frames, which native XDP refuses", f.feature)
		}
	}
	if len(i.Features) == 0 {
		return nil
	}
	if i.Features["rx-gro"] && i.Kind == "veth" {
		return note("rx-gro is on: the kernel joins TCP segments behind the program; datagrams of offloaded sockets are not touched")
	}
	return good("no frames are joined before the program")
}

// deferredInterrupts: while nobody busy-polls the queue, they delay what comes.
func deferredInterrupts(s *System, i *Interface, _ []Interface) []Result {
	if i.Loopback {
		return nil
	}
	dir := "sys/class/net/" + i.Name + "/"
	hard, err := s.number(dir + "napi_defer_hard_irqs")
	if err != nil {
		return nil // before Linux 5.11
	}
	timeout, err := s.number(dir + "gro_flush_timeout")
	if err != nil {
		return unknown(err)
	}
	if (hard > 0 || timeout > 0) && s.Getenv("SX_OFFLOAD_BUSY_POLL") != "1" {
		return fixable([]fix{{dir + "napi_defer_hard_irqs", "0"}, {dir + "gro_flush_timeout", "0"}},
			"interrupts wait up to %d ns: right only beside SX_OFFLOAD_BUSY_POLL=1, else each frame is late", timeout)
	}
	return good("interrupts are not deferred, or a ring polls the queue itself")
}

// numa: memory of another node is slower.
func numa(s *System, i *Interface, _ []Interface) []Result {
	nodes, _ := fs.Glob(s.Root, "sys/devices/system/node/node[0-9]*")
	node, err := s.number("sys/class/net/" + i.Name + "/device/numa_node")
	switch {
	case len(nodes) <= 1:
		return good("one node")
	case err != nil || node < 0:
		return note("%d nodes, and the device does not tell on which one it is", len(nodes))
	}
	local, err := s.read("sys/devices/system/node/node" + strconv.Itoa(node) + "/cpulist")
	if err != nil {
		return unknown(err)
	}
	isolated, _ := s.read("sys/devices/system/cpu/isolated")
	near := cpuList(local)
	for _, c := range cpuList(isolated) {
		if !slices.Contains(near, c) {
			return cure("isolate processors among "+local, "the card is on node %d, and processor %d, which is isolated, on another one", node, c)
		}
	}
	return note("the card is on node %d: loops belong on processors %s (SX_LOOP_CPUS)", node, local)
}

// irqAffinity: an interrupt on the processor of a loop stops it.
func irqAffinity(s *System, i *Interface, _ []Interface) []Result {
	text, err := s.read("proc/interrupts")
	if err != nil {
		return unknown(err)
	}
	isolated := cpuList(first(s.read("sys/devices/system/cpu/isolated")))
	found := 0
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !(strings.HasPrefix(fields[len(fields)-1], i.Name+"-") || fields[len(fields)-1] == i.Name) {
			continue
		}
		irq := strings.TrimSuffix(fields[0], ":")
		on, err := s.read("proc/irq/" + irq + "/smp_affinity_list")
		if err != nil {
			return unknown(err)
		}
		found++
		for _, c := range cpuList(on) {
			if slices.Contains(isolated, c) {
				return cure("echo CPUS-THAT-ARE-NOT-ISOLATED > /proc/irq/"+irq+"/smp_affinity_list; systemctl disable --now irqbalance",
					"interrupt %s may come to processor %d, which is isolated for a loop", irq, c)
			}
		}
	}
	switch {
	case found == 0:
		return nil
	case len(isolated) == 0:
		return note("%d interrupts, and no isolated processors to keep free of them", found)
	}
	return good("%d interrupts, none on an isolated processor", found)
}

func first(text string, _ error) string { return text }

// cpuList reads a list such as "0-3,8".
func cpuList(text string) (list []int) {
	for part := range strings.SplitSeq(text, ",") {
		low, high, ranged := strings.Cut(part, "-")
		a, err := strconv.Atoi(low)
		if err != nil {
			continue
		}
		b := a
		if ranged {
			if b, err = strconv.Atoi(high); err != nil {
				continue
			}
		}
		for ; a <= b && len(list) < 1<<16; a++ {
			list = append(list, a)
		}
	}
	return list
}
