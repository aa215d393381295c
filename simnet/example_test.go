package simnet_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/simnet"
)

// Two hosts and a line that loses a tenth: the program asks again until it is answered, in virtual time.
func ExampleWorld() {
	w := simnet.New(1)
	var hosts [2]*simnet.Host
	var sockets [2]*ring.Socket
	for i, name := range []string{"client", "server"} {
		addr := netip.MustParsePrefix(fmt.Sprintf("10.0.0.%d/24", i+1))
		h, err := w.Host(name, simnet.HostConfig{Addrs: []netip.Prefix{addr}})
		if err != nil {
			panic(err)
		}
		s, err := h.OpenUDP(netip.AddrPortFrom(addr.Addr(), 7000), ring.Config{})
		if err != nil {
			panic(err)
		}
		hosts[i], sockets[i] = h, s
	}
	cable, err := w.Connect(hosts[0].NIC(0), hosts[1].NIC(0))
	if err != nil {
		panic(err)
	}
	if err := cable.Set(simnet.Impairment{Delay: 5 * time.Millisecond, Loss: 0.1, Kinds: simnet.Unicast}); err != nil {
		panic(err)
	}

	// The server answers what it gets.
	hosts[1].Handle(func(c *ring.Completion) {
		if c.Events.Has(ring.EventPacket) {
			_, _ = c.Socket.SendTo(c.Packet.Bytes(), c.Source) // what does not go out is asked for again
			_ = c.Packet.Release()
		}
	})
	// The client asks for 0, 1, 2 …, each until it is answered.
	next, asked := 0, 0
	var ask func()
	ask = func() {
		asked++
		now := next
		_, _ = sockets[0].SendTo(fmt.Append(nil, next), sockets[1].LocalAddr())
		hosts[0].After(20*time.Millisecond, func() {
			if next == now && next < 100 {
				ask()
			}
		})
	}
	hosts[0].Handle(func(c *ring.Completion) {
		if c.Events.Has(ring.EventPacket) {
			news := string(c.Packet.Bytes()) == fmt.Sprint(next)
			_ = c.Packet.Release()
			if news && next < 100 {
				next++
				ask()
			}
		}
	})
	hosts[0].After(0, ask)

	if err := w.RunWhile(time.Minute, func() bool { return next < 100 }); err != nil {
		panic(err)
	}
	s := cable.AB.Stats()
	fmt.Println("answered:", next)
	fmt.Println("asked more often than that:", asked > next, "— lost on the way:", s.Lost[simnet.LostRandom] > 0)
	fmt.Println("every frame is accounted for:", s.Sent == s.Arrived+s.Losses()+s.InFlight)
	if err := w.Close(); err != nil {
		panic(err)
	}
	// Output:
	// answered: 100
	// asked more often than that: true — lost on the way: true
	// every frame is accounted for: true
}

// An exchange sends each message by two lines, each of which loses one in twenty; package feed puts them together again.
func ExampleWorld_feed() {
	w := simnet.New(7)
	lines := []netip.Addr{netip.MustParseAddr("233.252.0.1"), netip.MustParseAddr("233.252.0.2")}
	host := func(name, a, b string) *simnet.Host {
		h, err := w.Host(name, simnet.HostConfig{Addrs: []netip.Prefix{netip.MustParsePrefix(a), netip.MustParsePrefix(b)}})
		if err != nil {
			panic(err)
		}
		return h
	}
	exchange, handler := host("exchange", "10.0.1.1/24", "10.0.2.1/24"), host("handler", "10.0.1.2/24", "10.0.2.2/24")
	var out, in [2]*ring.Socket
	for i, group := range lines {
		cable, err := w.Connect(exchange.NIC(i), handler.NIC(i))
		if err != nil {
			panic(err)
		}
		err = cable.AB.Set(simnet.Impairment{Delay: time.Duration(1+i) * time.Millisecond, Jitter: time.Millisecond, Loss: 0.05})
		if err != nil {
			panic(err)
		}
		if out[i], err = exchange.OpenUDP(netip.MustParseAddrPort("0.0.0.0:0"), ring.Config{}); err == nil {
			err = out[i].SetMulticastInterface(exchange.NIC(i).Name())
		}
		if err != nil {
			panic(err)
		}
		if in[i], err = handler.OpenUDP(netip.AddrPortFrom(group, 5000), ring.Config{}); err == nil {
			err = in[i].JoinGroup(group, handler.NIC(i).Name(), netip.Addr{})
		}
		if err != nil {
			panic(err)
		}
		in[i].SetUserData(uint64(i))
	}

	channel, err := feed.New[buffers.Packet](feed.Config{Lines: 2, Start: 1, GapTime: int64(10 * time.Millisecond)})
	if err != nil {
		panic(err)
	}
	messages, lost := 0, uint64(0)
	handler.Handle(func(c *ring.Completion) {
		if !c.Events.Has(ring.EventPacket) {
			return
		}
		channel.Input(&feed.Segment[buffers.Packet]{Line: uint8(c.UserData), Seq: binary.BigEndian.Uint64(c.Packet.Bytes()), Count: 1,
			Arrival: int64(w.Now()), Payload: c.Packet.Bytes(), Ref: c.Packet})
		for d := (feed.Delivery[buffers.Packet]{}); channel.Next(&d); {
			messages += int(d.Count)
			lost += d.Lost
			if d.Done {
				_ = d.Ref.Release()
			}
		}
	})
	const all = 5000
	for seq := uint64(1); seq <= all; seq++ {
		exchange.After(time.Duration(seq)*100*time.Microsecond, func() {
			for i, s := range out {
				if _, err := s.SendTo(binary.BigEndian.AppendUint64(nil, seq), netip.AddrPortFrom(lines[i], 5000)); err != nil {
					w.Fail(err)
				}
			}
		})
	}
	if err := w.Run(2 * time.Second); err != nil {
		panic(err)
	}
	a, b := channel.Line(0), channel.Line(1)
	fmt.Println("on the lines:", a.Segments > all*9/10 && a.Segments < all, b.Segments > all*9/10 && b.Segments < all)
	fmt.Println("in order:", messages > all*99/100, "and whole but for what both lost:", messages+int(lost) == all)
	if err := w.Close(); err != nil {
		panic(err)
	}
	// Output:
	// on the lines: true true
	// in order: true and whole but for what both lost: true
}
