package offload

import (
	"strconv"

	"github.com/socketxtreme/socketxtreme/internal/host"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/offload/nic"
)

// Counters appends every count: the reasons for which frames were not delivered as package wire names them, "neighbour.…" for what could
// not be sent, "stack.…", "offload.…", and for each link its own names behind its interface's, and its queue's
// where there are several links: "eth0/2.rx_frames".
func (d *driver) Counters(dst []ring.Counter) []ring.Counter {
	add := func(name string, v uint64) { dst = append(dst, ring.Counter{Name: name, Value: v}) }
	for i, n := range d.ip.Drops() {
		if name := wire.Drop(i).String(); i > 0 && name != "unknown" { // 0 is Accept; "unknown": a number without a reason
			add(name, n)
		}
	}
	givenUp := uint64(0)
	for _, why := range []host.GiveUp{host.GiveUpTime, host.GiveUpFailed, host.GiveUpOldest, host.GiveUpFull, host.GiveUpClosed} {
		n := d.ip.GivenUp(why)
		add(why.String(), n)
		givenUp += n
	}
	s, u := d.ip.Stats(), d.udp.Stats()
	d.streamCounters(add)
	add("stack.delivered", u.Delivered)
	add("stack.partial_sums", u.Partial)
	add("stack.kept", u.Backlogged)
	add("stack.discarded", u.Discarded)
	add("stack.gathered", s.Gathered)
	add("stack.no_buffer", s.NoBuffer+u.NoBuffer)
	add("stack.sent", s.Sent)
	add("stack.fragmented", s.Fragmented)
	add("stack.prepared_routes", u.Found)
	add("stack.looped", u.Looped)
	add("stack.loop_full", u.LoopFull)
	add("stack.waited_for_neighbour", s.Resolutions)
	add("stack.lost", s.Lost-givenUp) // each lost frame counts under one reason
	add("offload.os_packets", d.stats.ShadowPackets)
	add("offload.os_reads", d.stats.ShadowReads)
	add("offload.os_unheard", d.stats.ShadowNotJoined)
	add("offload.os_sends", d.stats.KernelSends+d.transport.KernelSends())
	add("offload.declined_ways", d.stats.Declined)
	add("offload.lost_sends", d.stats.LostSends)
	add("offload.gathered_sends", d.stats.Gathered)
	add("offload.path_changes", d.stats.PathChanges)
	add("offload.flush_failures", d.stats.FlushFailures)
	add("offload.release_failures", d.claims.Failures())
	between := d.handoff.Stats()
	add("handover.given", between.Given)
	add("handover.taken", between.Taken)
	add("handover.copied", u.Copied)
	add("handover.full", between.Full)
	add("handover.closed", between.Closed)
	add("handover.no_socket", u.NoReceiver)
	n := d.nics.Stats()
	add("offload.retry_failures", n.RetryFailures)
	add("offload.address_failures", n.AddressFailures)
	add("offload.illegal_moves", n.IllegalMoves)
	for _, c := range d.config.Exchange.nics.Counters(nil) {
		add(c.Name, c.Value)
	}
	var own []link.Counter
	for i := range d.links {
		l := d.links[i].Link
		if nic.IsChildLink(l) {
			continue // another's
		}
		info := l.Info()
		name := info.Name
		if len(d.links) > 1 {
			name += "/" + strconv.Itoa(info.Queue)
		}
		st := d.links[i].former.sum(l.Stats())
		add(name+".rx_frames", st.RxFrames)
		add(name+".rx_lost", st.RxLost)
		add(name+".tx_frames", st.TxFrames)
		add(name+".tx_lost", st.TxLost)
		add(name+".kicks", st.Kicks)
		own = d.links[i].tap.Counters(d.links[i].former.join(l.Counters(own[:0])))
		for _, c := range own {
			add(name+"."+c.Name, c.Value)
		}
	}
	return dst
}

// LinkLosses is how many frames the links have lost in both directions. It asks the kernel, and does not allocate.
func (d *driver) LinkLosses() (sum uint64) {
	for i := range d.links {
		if l := d.links[i].Link; !nic.IsChildLink(l) {
			st := d.links[i].former.sum(l.Stats())
			sum += st.RxLost + st.TxLost
		}
	}
	return sum
}
