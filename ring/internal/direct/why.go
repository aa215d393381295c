package direct

import "github.com/socketxtreme/socketxtreme/ring"

// Why says why a ring over kernel sockets, of whatever kind, lacks a capability that needs a stack of one's own; the zero Reason
// for capabilities that are not of that sort.
func Why(c ring.Caps) ring.Reason {
	switch c {
	case ring.CapWindowAtRelease:
		return ring.Reason{Code: "os.kernel_window",
			Text: "the kernel opens TCP's receive window when the ring takes the data, not when the packet is released; " +
				"the socket's budget stops the reading instead"}
	case ring.CapOutPerAck:
		return ring.Reason{Code: "os.no_ack_events",
			Text: "the kernel reports that a socket is writable, not each acknowledgement that advances"}
	case ring.CapSharedMulticast:
		return ring.Reason{Code: "os.copy_per_member",
			Text: "the kernel gives every member socket of a multicast group a copy of its own"}
	case ring.CapBackgroundProgress:
		return ring.Reason{Code: "os.kernel_progress",
			Text: "the kernel advances its protocols by itself; there is nothing for a thread of the library to do"}
	case ring.CapLaunchTime:
		return ring.Reason{Code: "os.no_launch_time",
			Text: "a launch time (SO_TXTIME) needs a queueing discipline that the administrator sets up (etf, fq): the ring's own pacing needs none"}
	case ring.CapPathChanges:
		return ring.Reason{Code: "os.one_path",
			Text: "the kernel's stack is the only way of a kernel socket's packets: there is no other to change to"}
	}
	return ring.Reason{}
}
