package epoll

import "github.com/socketxtreme/socketxtreme/ring"

// Activity is what a driver of this package does for a stream: a driver around it that gives the connection to another transport asks for it,
// because what is under way here must not be lost, and what was asked for is to be asked for there.
type Activity struct {
	Sending    bool // a part of a transmission is in the kernel's queue, and the rest waits
	Receiving  bool // SetReceiving was called last with true
	AwaitsRoom bool // NotifyWritable was called, and Writable was not reported
	Over       bool // the peer's FIN was reported, or a failure is to be
}

// ActivityOf returns the zero Activity for a socket that is not attached, or another kind of driver. Owner only.
func ActivityOf(drv ring.Driver, s *ring.Socket) (a Activity) {
	d, ok := drv.(*driver)
	if !ok {
		return a
	}
	if r := d.table.of(s); r != nil {
		a = Activity{Sending: r.sending, Receiving: r.wantsRead, AwaitsRoom: r.notify, Over: r.ended || r.failed || r.broken || r.sendError != 0}
	}
	return a
}
