package ring

import (
	"fmt"
	"math"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
)

// Socket options. Each is the kernel's own; errors name the option and the value. Accepted sockets inherit what Linux lets them
// inherit: no-delay, keepalive, buffers, TTL, TOS; linger is inherited as well. A unix-domain socket has a send buffer and refuses all
// else, also what the kernel would take and not heed.

// SetNoDelay turns Nagle's algorithm off (TCP_NODELAY).
func (s *Socket) SetNoDelay(on bool) error {
	return s.setOption("no delay", OptionNoDelay, number(on))
}

// SetQuickAck turns delayed acknowledgements off for now (TCP_QUICKACK; the kernel may turn them on again).
func (s *Socket) SetQuickAck(on bool) error {
	return s.setOption("quick ack", OptionQuickAck, number(on))
}

// SetKeepAlive probes an idle peer after idle, then every interval, and gives it up after count probes without answer: the
// socket ends with ETIMEDOUT. idle 0 turns probing off; interval and count 0 keep what the socket has, at first
// the kernel's defaults; with our own TCP 75 s and 9. Times are 1 s to 32,767 s, fractions of a second are cut off;
// count is 1 to 127.
func (s *Socket) SetKeepAlive(idle, interval time.Duration, count int) error {
	if err := s.mayUse("set keepalive"); err != nil {
		return err
	}
	const most = 32767 * time.Second
	switch {
	case idle != 0 && (idle < time.Second || idle > most):
		return s.badOption("keepalive", "idle", idle)
	case interval != 0 && (interval < time.Second || interval > most):
		return s.badOption("keepalive", "interval", interval)
	case count < 0 || count > 127:
		return s.badOption("keepalive", "count", count)
	}
	if err := s.setOption("keepalive", OptionKeepAlive, number(idle != 0)); err != nil || idle == 0 {
		return err
	}
	if err := s.setOption("keepalive idle", OptionKeepAliveIdle, int(idle/time.Second)); err != nil {
		return err
	}
	if interval != 0 {
		if err := s.setOption("keepalive interval", OptionKeepAliveInterval, int(interval/time.Second)); err != nil {
			return err
		}
	}
	if count != 0 {
		return s.setOption("keepalive count", OptionKeepAliveCount, count)
	}
	return nil
}

// SetUserTimeout ends the connection with ETIMEDOUT when sent data stays unacknowledged for d, in whole milliseconds
// (TCP_USER_TIMEOUT, RFC 5482); 0 is the kernel's default.
func (s *Socket) SetUserTimeout(d time.Duration) error {
	if err := s.mayUse("set user timeout"); err != nil {
		return err
	}
	if d != 0 && d < time.Millisecond || d > math.MaxInt32*time.Millisecond {
		return s.badOption("user timeout", "time", d)
	}
	return s.setOption("user timeout", OptionUserTimeout, int(d/time.Millisecond))
}

// SetLinger says what Close does on a TCP connection. Negative: FIN after everything that was sent, without waiting (default). 0:
// reset. Positive: FIN, then what the peer still sends is read and thrown away until its FIN or until d is over. Unlike SO_LINGER it
// never blocks the caller (VMA's close spins for the whole time).
func (s *Socket) SetLinger(d time.Duration) error {
	if err := s.mayUse("set linger"); err != nil {
		return err
	}
	return traced(s, "set linger", d, s.setLinger(d))
}

// setLinger is SetLinger for a caller that is the owner.
func (s *Socket) setLinger(d time.Duration) error {
	if err := s.ipOnly("set linger"); err != nil {
		return err
	}
	if s.handle.Kind == KindDatagram {
		return stateError("linger", s)
	}
	s.activate().linger = lingerTime{d >= 0, d}
	return nil
}

// SetReceiveBuffer and SetSendBuffer size the kernel's queues in bytes (SO_RCVBUF, SO_SNDBUF; the kernel doubles the value and
// limits it to net.core.rmem_max, wmem_max). A receive buffer is at least Config.ReceiveMin.
func (s *Socket) SetReceiveBuffer(n int) error {
	if err := s.mayUse("set receive buffer"); err != nil {
		return err
	}
	if n <= 0 {
		return s.badOption("receive buffer", "size", n)
	}
	return s.setOption("receive buffer", OptionReceiveBuffer, max(n, s.config().ReceiveMin))
}

// SetSendBuffer sizes the kernel's send queue, in bytes.
func (s *Socket) SetSendBuffer(n int) error {
	if err := s.mayUse("set send buffer"); err != nil {
		return err
	}
	if n <= 0 {
		return s.badOption("send buffer", "size", n)
	}
	return s.setOption("send buffer", OptionSendBuffer, n)
}

// SetReuseAddr sets SO_REUSEADDR; before Bind.
func (s *Socket) SetReuseAddr(on bool) error {
	return s.setOption("reuse address", OptionReuseAddr, number(on))
}

// SetReusePort sets SO_REUSEPORT: several sockets share an address and the kernel spreads the load; before Bind.
func (s *Socket) SetReusePort(on bool) error {
	return s.setOption("reuse port", OptionReusePort, number(on))
}

// SetBroadcast permits sending to broadcast addresses (SO_BROADCAST).
func (s *Socket) SetBroadcast(on bool) error {
	return s.setOption("broadcast", OptionBroadcast, number(on))
}

// SetTTL sets the time to live (IPv4) or hop limit (IPv6) of unicast packets, 1 to 255.
func (s *Socket) SetTTL(n int) error {
	if err := s.mayUse("set ttl"); err != nil {
		return err
	}
	if n < 1 || n > 255 {
		return s.badOption("ttl", "value", n)
	}
	return s.setOption("ttl", OptionTTL, n)
}

// SetTOS sets the type of service byte: DSCP in the upper six bits (RFC 2474), 0 to 255.
func (s *Socket) SetTOS(n int) error {
	if err := s.mayUse("set tos"); err != nil {
		return err
	}
	if n < 0 || n > 255 {
		return s.badOption("tos", "value", n)
	}
	return s.setOption("tos", OptionTOS, n)
}

// SetV6Only keeps an IPv6 socket from IPv4 traffic (IPV6_V6ONLY); before Bind.
func (s *Socket) SetV6Only(on bool) error {
	return s.setOption("ipv6 only", OptionIPv6Only, number(on))
}

// SetOutPerAck asks for EventOut on every acknowledgement of a connection that advances, as VMA raises it. Only our own stack sees
// acknowledgements: for other sockets it is ErrNotSupported with the reason.
func (s *Socket) SetOutPerAck(on bool) error {
	if err := s.mayUse("out per ack"); err != nil {
		return err
	}
	return traced(s, "out per ack", on, s.setOutPerAck(on))
}

// setOutPerAck is SetOutPerAck for a caller that is the owner.
func (s *Socket) setOutPerAck(on bool) error {
	switch {
	case !on && s.ring() == nil:
		return nil
	case s.ring() == nil:
		return stateError("out per ack", s)
	}
	if why := s.Why(CapOutPerAck); on && why.Code != "" {
		return &OpError{Op: "out per ack", Err: &FeatureError{Feature: why.Text, Code: why.Code}}
	}
	s.handle.OutPerAck = on
	return nil
}

// refuse is the error for a capability the ring has not.
func (r *Ring) refuse(op string, c Caps) error {
	why := r.Why(c)
	return &OpError{Op: op, Err: &FeatureError{Feature: why.Text, Code: why.Code}}
}

// setOption has the transport set an option, keeps the value if a driver may ask for it (OptionsOf), and then tells the stack that carries the
// socket. what names the option in errors.
func (s *Socket) setOption(what string, o Option, value int) error {
	if err := s.mayUse("set " + what); err != nil {
		return err
	}
	err := s.changeOption(what, o, value)
	if t := s.callTracer(); t != nil {
		t.Call(s, "set "+what, itoa(value), err)
	}
	return err
}

// badOption is the error of an option with a value that is not possible.
func (s *Socket) badOption(what, name string, value any) error {
	return traced(s, "set "+what, value, badArgument(what, name, value))
}

// changeOption is setOption for a caller that is the owner.
func (s *Socket) changeOption(what string, o Option, value int) error {
	if o != OptionSendBuffer { // unix(7): the only one here that a unix-domain socket heeds
		if err := s.ipOnly("set " + what); err != nil {
			return err
		}
	}
	if err := s.transport().SetOption(s, o, value); err != nil {
		return &OpError{Op: "set " + what, Err: fmt.Errorf("value %d: %w", value, err)}
	}
	if s.handle.Kind == KindStream && s.state == stateNew {
		s.activate().options.noteStream(o, value)
	}
	if kept := (&SocketOptions{}).note(o, value); !kept { // an idle connection needs no active state for it
		return nil
	}
	s.activate().options.note(o, value)
	return s.notifyStack("set " + what)
}

// number is a switch as the value of an option.
func number(on bool) int {
	if on {
		return 1
	}
	return 0
}

// SetLargeStream makes a connection receive into large buffers from now on, or into small ones again; Config.LargeStream is what it
// begins with. What is under way still comes in the buffers it was received into, in order. It is worth it for a connection that turns
// out to bring much at a time.
// A pool without buffers of that class is an error. Owner only.
func (s *Socket) SetLargeStream(on bool) error {
	if err := s.usable("set large stream"); err != nil {
		return err
	}
	return traced(s, "set large stream", on, s.setLargeStream(on))
}

// setLargeStream is SetLargeStream for a caller that is the owner.
func (s *Socket) setLargeStream(on bool) error {
	if s.handle.Kind != KindStream {
		return stateError("set large stream", s)
	}
	class, count := buffers.Small, s.ring().pool.Layout().SmallCount
	if on {
		class, count = buffers.Large, s.ring().pool.Layout().LargeCount
	}
	if count == 0 {
		return badArgument("set large stream", "class without buffers", class)
	}
	if class == s.handle.Class {
		return nil
	}
	s.handle.Class = class
	if s.state != stateOpen || s.stops != 0 {
		return nil // reading begins with it
	}
	for _, reading := range [...]bool{false, true} { // what is armed receives into the old class
		if err := s.ring().drv.SetReceiving(s, reading); err != nil {
			return &OpError{Op: "set large stream", Err: err}
		}
	}
	return nil
}
