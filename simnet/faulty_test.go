package simnet

import (
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/link"
)

// every is true each n-th time that it is asked.
type every struct{ n, of int }

func (e *every) now() bool {
	e.n++
	return e.n%e.of == 0
}

// faulty is a card whose driver sees something else.
type faulty struct {
	*NIC
	receive func(n *NIC, dst []link.Frame, k int) int
	send    func(n *NIC, src []link.Out) []link.Out
	turn    every
}

func (f *faulty) Receive(dst []link.Frame) int {
	k := f.NIC.Receive(dst)
	if k > 0 && f.receive != nil && f.turn.now() {
		return f.receive(f.NIC, dst, k)
	}
	return k
}

func (f *faulty) Send(src []link.Out) int {
	if len(src) > 0 && f.send != nil && f.turn.now() {
		f.NIC.Send(f.send(f.NIC, src))
		return len(src)
	}
	return f.NIC.Send(src)
}

func onReceive(do func(n *NIC, dst []link.Frame, k int) int) func() plant {
	return onCard(func(f *faulty) { f.receive = do })
}

func onSend(do func(n *NIC, src []link.Out) []link.Out) func() plant {
	return onCard(func(f *faulty) { f.send = do })
}

func onCard(set func(f *faulty)) func() plant {
	return func() plant {
		return plant{host: func(c *HostConfig) {
			c.link = func(l link.Staged) link.Staged {
				f := &faulty{NIC: l.(*NIC), turn: every{of: 50}}
				set(f)
				return f
			}
		}}
	}
}

func isUDP(f link.Frame) bool {
	return kindOf(f.Packet.Bytes())&(Unicast|Multicast) != 0 && f.Packet.Len() >= 58
}

// alter changes the last frame if it is a datagram, and takes its checksum away.
func alter(dst []link.Frame, k int, change func(b []byte)) int {
	if isUDP(dst[k-1]) {
		b := dst[k-1].Packet.Bytes()
		change(b)
		b[40], b[41] = 0, 0
	}
	return k
}

// clone is a second frame like the first; without a packet when there is no buffer.
func clone(n *NIC, f link.Frame) link.Frame {
	f.Packet = n.fill(f.Packet.Bytes())
	return f
}

// tampered is a ring whose completions are changed before the application sees them.
type tampered struct {
	poller
	change func([]ring.Completion) []ring.Completion
}

func (p *tampered) Poll(dst []ring.Completion) (int, error) {
	n, err := p.poller.Poll(dst[:len(dst)/2])
	return len(p.change(dst[:n])), err
}

func onPoll(with ring.Event, do func(list []ring.Completion, i int) []ring.Completion) func() plant {
	return func() plant {
		return plant{host: func(c *HostConfig) {
			turn := every{of: 20}
			if with == ring.EventClosed { // seldom enough
				turn.of = 1
			}
			c.poller = func(p poller) poller {
				return &tampered{p, func(list []ring.Completion) []ring.Completion {
					for i := range list {
						if list[i].Events.Has(with) && turn.now() {
							return do(list, i)
						}
					}
					return list
				}}
			}
		}}
	}
}

// afterClose gives the application the packet that came last once more when its socket has been closed.
func afterClose() plant {
	return plant{host: func(c *HostConfig) {
		last := map[*ring.Socket]ring.Completion{}
		c.poller = func(p poller) poller {
			return &tampered{p, func(list []ring.Completion) []ring.Completion {
				for _, x := range list {
					if old, ok := last[x.Socket]; ok && x.Events.Has(ring.EventClosed) {
						delete(last, x.Socket)
						return append(list, old)
					}
					if x.Events.Has(ring.EventPacket) {
						last[x.Socket] = ring.Completion{Events: ring.EventPacket, Socket: x.Socket, UserData: x.UserData}
					}
				}
				return list
			}}
		}
	}}
}

func onLine(do func(l *Line, e event, push func(event))) func() plant {
	return func() plant {
		return plant{world: func(w *World) {
			for _, l := range w.lines {
				push, turn := l.schedule, every{of: 300}
				l.schedule = func(e event) {
					if turn.now() {
						do(l, e, push)
						return
					}
					push(e)
				}
			}
		}}
	}
}

// offloaded is what the driver of a host can do.
type offloaded interface {
	ring.ProtocolDriver
	ring.PathReporter
	ring.CounterSource
}

// missesLeave is a driver whose sockets' transport does not see that a membership ends.
type missesLeave struct{ offloaded }

func (d missesLeave) Attach(s *ring.Socket) error {
	err := d.offloaded.Attach(s)
	if t, ok := ring.TransportOf(s).(ring.StackTransport); ok {
		ring.SetTransport(s, missesLeaveTransport{t}, ring.HandleOf(s).Conn)
	}
	return err
}

type missesLeaveTransport struct{ ring.StackTransport }

func (t missesLeaveTransport) Changed(s *ring.Socket) error {
	if len(ring.OptionsOf(s).Groups) == 0 {
		return nil
	}
	return t.StackTransport.Changed(s)
}

func (t missesLeaveTransport) MembershipChanged(s *ring.Socket, m ring.Membership) error {
	if len(ring.OptionsOf(s).Groups) == 0 {
		return nil
	}
	return t.StackTransport.MembershipChanged(s, m)
}

// asleep is a card that receives nothing any more after a while.
type asleep struct {
	*NIC
	n int
}

func (a *asleep) Receive(dst []link.Frame) int {
	if a.n > 2000 {
		return 0
	}
	k := a.NIC.Receive(dst)
	a.n += k
	return k
}

func (a *asleep) Arm() bool { return a.n <= 2000 && a.NIC.Arm() }

// restless is a ring that never wants to sleep.
type restless struct{ poller }

func (p restless) Arm() (bool, error) {
	_, err := p.poller.Arm()
	return true, err
}
