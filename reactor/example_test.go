package reactor_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

var anyPort = netip.MustParseAddrPort("127.0.0.1:0")

// A UDP echo server, and a client that uses the standard library.
func Example() {
	engine, err := xtreme.New(conf.FromEnvironment())
	if err != nil {
		fmt.Println(err)
		return
	}
	poller, err := engine.NewPoller("echo", xtreme.PollerConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	echo := reactor.HandlerFunc(func(l *reactor.Loop, c *xtreme.Completion) {
		if c.Events.Has(xtreme.EventPacket) {
			_, _ = c.Socket.SendTo(c.Packet.Bytes(), c.Source)
			_ = c.Packet.Release()
		}
	})
	loop, err := reactor.New(poller, echo, reactor.Config{Rest: reactor.Wait})
	if err != nil {
		fmt.Println(err)
		return
	}
	socket, err := poller.OpenUDP(anyPort, xtreme.UDPConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}

	go func() {
		defer loop.BeginShutdown()
		c, err := net.Dial("udp", socket.LocalAddr().String())
		if err != nil {
			fmt.Println(err)
			return
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		answer := make([]byte, 100)
		_, _ = c.Write([]byte("hello"))
		n, err := c.Read(answer)
		fmt.Println(string(answer[:n]), err)
	}()
	fmt.Println(loop.Run(context.Background()))
	// Output:
	// hello <nil>
	// <nil>
}

// One idle timer per connection, moved with every packet: constant time and no allocation.
func ExampleLoop_AfterData() {
	const idleLimit = 30 * time.Second
	type connection struct {
		socket *xtreme.Socket
		idle   reactor.Timer
	}
	var connections []connection
	expired := func(l *reactor.Loop, i uint64) { _ = connections[i].socket.Close() }

	handler := reactor.HandlerFunc(func(l *reactor.Loop, c *xtreme.Completion) {
		if c.Events.Has(xtreme.EventNewConnection) {
			i := uint64(len(connections))
			c.Socket.SetUserData(i)
			connections = append(connections, connection{c.Socket, l.AfterData(idleLimit, expired, i)})
		}
		if c.Events.Has(xtreme.EventPacket) {
			i := c.Socket.UserData()
			connections[i].idle, _ = l.Reset(connections[i].idle, idleLimit)
			_ = c.Packet.Release()
		}
		if c.Events.Any(xtreme.EventRdHup | xtreme.EventHup) {
			_ = c.Socket.Close()
		}
		if c.Events.Has(xtreme.EventClosed) {
			l.Cancel(connections[c.UserData].idle)
		}
	})
	_ = handler
}

// Two loops share an address: the kernel spreads the connections over them.
func ExampleRunGroup() {
	engine, err := xtreme.New(conf.Default())
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // a server passes the context of signal.NotifyContext
	err = reactor.RunGroup(ctx, engine, 2, func(l *reactor.Loop) (reactor.Handler, error) {
		_, err := l.Poller().ListenTCP(anyPort, xtreme.ListenConfig{IPConfig: xtreme.IPConfig{ReusePort: true}})
		return reactor.HandlerFunc(func(l *reactor.Loop, c *xtreme.Completion) { _ = c.Packet.Release() }), err
	}, reactor.Config{Name: "server", Rest: reactor.Adaptive})
	fmt.Println(err)
	// Output: <nil>
}
