package ring

import (
	"net/netip"
	"syscall"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// sendQueue is the packets given to SendPacket that are not done.
type sendQueue struct {
	waiting   queue // not yet taken by the driver
	inflight  int   // taken by the driver
	detaching bool
}

func (q *sendQueue) hasWaiting() bool { return q.waiting.n > 0 }

// unsent is how many of the socket's datagrams are frames of our stack that have not left yet; 0 on kernel sockets.
func (s *Socket) unsent() int {
	if s.stack() == nil {
		return 0
	}
	return s.stack().Unsent(s)
}

// isSendQueueFull reports whether as many sends are not done as Config.SendQueue allows.
func (s *Socket) isSendQueueFull() bool {
	return int(s.active().sending.waiting.n)+s.active().sending.inflight+s.unsent() >= s.config().SendQueue
}

// announceLowWater raises EventOut before the queue is empty: an application that paces datagrams must be able to refill the queue in time.
func (s *Socket) announceLowWater() {
	if s.active().shaper != nil && s.wantOut && s.state == stateOpen && int(s.active().sending.waiting.n)+s.active().sending.inflight <= s.config().SendQueue/2 {
		s.wantOut = false
		s.raise(EventOut, nil)
	}
}

// sendFailed reports a datagram that Send had taken. A socket that was closed gets no event for it.
func (s *Socket) sendFailed(to netip.AddrPort, e syscall.Errno) {
	if s.state == stateOpen {
		s.raise(EventErr, &OpError{Op: "send", Addr: to, Err: e})
	}
}

// dropCopy frees the buffer of a copy that Send made: its end is not reported.
func (s *Socket) dropCopy(p buffers.Packet) {
	s.ring().pool.Complete(p)
	_ = p.Release() // it was alone when it was queued
}

// finishSend queues the EventSent; the buffer returns to the pool first, so that the application can take it again when it sees the event.
func (s *Socket) finishSend(t Transmission, err error) {
	if !t.IsComplete {
		s.ring().pool.Complete(t.Packet)
	}
	_ = t.Packet.Release()
	s.activate().done.push(&s.ring().slab, record{sent: true, token: t.Token, err: err})
	s.makeReady()
}

// isBusy reports that sends are not done, hasWaiting that the driver has not taken all of them.
func (q *sendQueue) isBusy() bool { return q.waiting.n > 0 || q.inflight > 0 }

// Sending reports whether something of the socket is still on its way out on this side of the kernel: packets given to
// SendPacket, or data that Send did not take, so that the application waits for EventOut. Owner only.
func (s *Socket) Sending() bool {
	return s.readable() && s.state <= stateOpen && (s.active().sending.isBusy() || s.wantOut)
}
