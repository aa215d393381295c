package udp_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/udp"
)

// What a host sends to itself stays in the stack: unicast, groups that it is a member of, refused ports.
func TestLoop(t *testing.T) {
	w := newWorld(t)
	w.Socket(udp.Endpoint{Owner: 1, Local: us})
	member := w.Socket(udp.Endpoint{})
	b := w.Socket(udp.Endpoint{Owner: 2, Local: us, LocalPort: 54, Remote: us, RemotePort: 99})
	v, err := w.Send(b, us, 53, "to myself")
	w.NoError(err)
	w.Equal(udp.Done, v)
	w.Empty(w.Out())
	w.Loop()
	w.Len(w.Got, 1)
	w.Equal("to myself", string(w.Got[0].Packet.Bytes()))
	w.Equal(udp.Flow{Source: us, SourcePort: 54, Target: us, TargetPort: 53, Interface: iface}, w.Got[0].Flow)
	w.Release()
	_, err = w.Send(b, us, 99, "nobody")
	w.NoError(err)
	w.Loop()
	w.Empty(w.Got)
	w.Equal([]udp.SocketError{{Owner: 2, Errno: unix.ECONNREFUSED}}, w.UDP.Errors())
	w.UDP.ClearErrors()
	w.IP.ClearFailures()

	w.NoError(w.UDP.Join(w.Now, member, grp, iface, none4))
	w.Out()
	for _, c := range []struct {
		ttl          uint8
		loop         bool
		looped, sent int
	}{{1, true, 1, 1}, {1, false, 0, 1}, {0, true, 1, 0}, {0, false, 0, 0}} {
		s := w.Socket(udp.Endpoint{LocalPort: 60}, func(o *udp.Options) { o.MulticastTTL, o.MulticastLoop = c.ttl, c.loop })
		_, err := w.Send(s, grp, 53, "x")
		w.NoError(err)
		w.Loop()
		w.Len(w.Got, c.looped, "%+v", c)
		w.Len(w.Out(), c.sent, "%+v", c)
		w.Release()
		w.UDP.Remove(w.Now, s)
	}
	for range udp.LoopLimit + 5 {
		_, err := w.Send(b, us, 53, "x")
		w.NoError(err)
		if w.Pool.Available(0) < 3 {
			break
		}
	}
	w.NotZero(w.UDP.Stats().LoopFull + w.UDP.Stats().Looped)
	w.Loop()
}
