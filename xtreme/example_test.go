package xtreme_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

var anyPort = netip.MustParseAddrPort("127.0.0.1:0")

// must keeps the examples short; a program looks at its errors.
func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A UDP receiver: pull completions, read the packet where the kernel put it, give it back.
func Example() {
	engine := must(xtreme.New(conf.FromEnvironment()))
	poller := must(engine.NewPoller("feed", xtreme.PollerConfig{}))
	socket := must(poller.OpenUDP(anyPort, xtreme.UDPConfig{}))

	sender := must(net.Dial("udp", socket.LocalAddr().String()))
	for _, text := range []string{"bid 100", "ask 101", "end"} {
		must(sender.Write([]byte(text)))
	}

	var done [64]xtreme.Completion
	for end := false; !end; {
		n := must(poller.Poll(done[:]))
		for i := range done[:n] {
			if c := &done[i]; c.Events.Has(xtreme.EventPacket) {
				text := string(c.Packet.Bytes())
				fmt.Println(text)
				end = text == "end"
				check(c.Packet.Release())
			}
		}
	}
	check(sender.Close())
	check(poller.Close()) // aborts what is open, and checks that every buffer is back in the pool
	check(engine.Close())
	// Output:
	// bid 100
	// ask 101
	// end
}

// A TCP echo server. Connections are accepted by the ring; the client is an ordinary one. With nothing to do the poller sleeps.
func ExamplePoller_ListenTCP() {
	engine := must(xtreme.New(conf.FromEnvironment()))
	poller := must(engine.NewPoller("echo", xtreme.PollerConfig{}))
	listener := must(poller.ListenTCP(anyPort, xtreme.ListenConfig{NoDelay: xtreme.On}))

	answer := make(chan string, 1)
	go func() {
		c := must(net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(listener.LocalAddr())))
		must(c.Write([]byte("hello")))
		check(c.CloseWrite())
		answer <- string(must(io.ReadAll(c)))
		check(c.Close())
	}()

	var done [64]xtreme.Completion
	for open := true; open; {
		n := must(poller.Poll(done[:]))
		if n == 0 {
			check(poller.Wait(context.Background()))
		}
		for i := range done[:n] {
			c := &done[i]
			if c.Events.Has(xtreme.EventNewConnection) {
				fmt.Println("connection from", c.Source.Addr())
			}
			if c.Events.Has(xtreme.EventPacket) {
				must(c.Socket.Send(c.Packet.Bytes())) // short only when the peer does not read: see examples/echo
				check(c.Packet.Release())
			}
			if c.Events.Any(xtreme.EventRdHup | xtreme.EventHup) {
				check(c.Socket.Close())
			}
			open = open && !c.Events.Has(xtreme.EventClosed)
		}
	}
	fmt.Println(<-answer)
	check(poller.Close())
	// Output:
	// connection from 127.0.0.1
	// hello
}

// One poller accepts, two others serve: each connection goes to the next of them as a descriptor, before anything of it was read, and
// is adopted there. (With ReusePort each poller would have a listener and the kernel would choose.)
func ExamplePoller_Adopt() {
	engine := must(xtreme.New(conf.FromEnvironment()))
	var pollers []*xtreme.Poller
	served := make(chan string)
	stopped := make(chan bool)
	for i := range 2 {
		poller := must(engine.NewPoller(fmt.Sprint("server ", i), xtreme.PollerConfig{}))
		pollers = append(pollers, poller)
		go func() {
			serve(poller, served)
			stopped <- true
		}()
	}

	front := must(engine.NewPoller("front", xtreme.PollerConfig{}))
	next := 0
	toNext := func(fd int, _ netip.AddrPort) bool {
		poller := pollers[next%len(pollers)]
		next++
		err := poller.Post(func() { must(poller.Adopt(fd, xtreme.AdoptConfig{})) })
		return err == nil // a poller that was closed takes nothing: then the connection stays here
	}
	listener := must(front.ListenTCP(anyPort, xtreme.ListenConfig{AcceptTo: toNext}))

	var done [8]xtreme.Completion
	for range 2 {
		client := must(net.Dial("tcp", listener.LocalAddr().String()))
		must(client.Write([]byte("hello")))
		for before := next; next == before; {
			must(front.Poll(done[:]))
		}
		fmt.Println(<-served)
		check(client.Close())
	}
	fmt.Println("given away:", listener.Ring().Stats().AcceptedAway)
	<-stopped
	<-stopped
	check(front.Close())
	// Output:
	// server 0: hello
	// server 1: hello
	// given away: 2
}

// serve is a poller's goroutine: it reports the first packet and ends with its connection.
func serve(poller *xtreme.Poller, served chan<- string) {
	var done [8]xtreme.Completion
	for open := true; open; {
		n := must(poller.Poll(done[:]))
		if n == 0 {
			check(poller.Wait(context.Background()))
		}
		for i := range done[:n] {
			c := &done[i]
			if c.Events.Has(xtreme.EventPacket) {
				served <- poller.Name() + ": " + string(c.Packet.Bytes())
				check(c.Packet.Release())
			}
			open = open && !c.Events.Any(xtreme.EventRdHup|xtreme.EventHup)
		}
	}
	check(poller.Close())
}

// A packet is lent to another goroutine, which reads it in place and releases it; the poller polls on meanwhile.
func ExamplePoller_lending() {
	engine := must(xtreme.New(conf.FromEnvironment()))
	poller := must(engine.NewPoller("feed", xtreme.PollerConfig{}))
	socket := must(poller.OpenUDP(anyPort, xtreme.UDPConfig{}))

	lent, finished := make(chan xtreme.Lent, 8), make(chan bool)
	go func() {
		for packet := range lent {
			fmt.Println(strings.ToUpper(string(packet.Bytes())))
			check(packet.Release())
		}
		close(finished)
	}()

	must(socket.SendTo([]byte("read elsewhere"), socket.LocalAddr())) // to itself
	var done [8]xtreme.Completion
	for taken := 0; taken < 1; {
		n := must(poller.Poll(done[:]))
		for i := range done[:n] {
			lent <- must(done[i].Packet.Lend()) // the handle is used up: the packet is the other goroutine's now
			taken++
		}
	}
	close(lent)
	<-finished
	check(poller.Close())
	// Output: READ ELSEWHERE
}

// A path says how a socket's bytes travel and, for every better way, why not. Codes are for programs, sentences for people.
func ExamplePath() {
	engine := must(xtreme.New(conf.Default()))
	poller := must(engine.NewPoller("feed", xtreme.PollerConfig{RingKind: conf.RingEpoll}))
	path := must(poller.OpenUDP(anyPort, xtreme.UDPConfig{})).Path()

	fmt.Println(path.Tier, path.Kind)
	for _, r := range path.Reasons[:2] {
		fmt.Println(r.Code)
	}
	fmt.Println(path.Reasons[1])
	check(poller.Close())
	// Output:
	// kernel epoll
	// offload.not_asked
	// uring.not_asked
	// not uring: epoll was asked for [uring.not_asked]
}

// A receive callback sees each packet inside Poll, before it becomes a completion: here it drops what is of no interest.
func ExampleSocketConfig_receiveCallback() {
	engine := must(xtreme.New(conf.FromEnvironment()))
	poller := must(engine.NewPoller("feed", xtreme.PollerConfig{}))
	onlyOrders := func(_ *xtreme.Socket, c *xtreme.Completion) xtreme.Verdict {
		if strings.HasPrefix(string(c.Packet.Bytes()), "order") {
			return xtreme.Keep
		}
		return xtreme.Drop
	}
	socket := must(poller.OpenUDP(anyPort, xtreme.UDPConfig{SocketConfig: xtreme.SocketConfig{ReceiveCallback: onlyOrders}}))
	for _, text := range []string{"order 1", "heartbeat", "order 2"} {
		must(socket.SendTo([]byte(text), socket.LocalAddr()))
	}

	var done [8]xtreme.Completion
	for got := 0; got < 2; {
		n := must(poller.Poll(done[:]))
		for i := range done[:n] {
			fmt.Println(string(done[i].Packet.Bytes()))
			check(done[i].Packet.Release())
			got++
		}
	}
	fmt.Println("dropped:", socket.Ring().Stats().CallbackDrops)
	check(poller.Close())
	// Output:
	// order 1
	// order 2
	// dropped: 1
}

// Other goroutines reach a poller by Post: the function runs inside its next Poll, and a sleeping owner is woken for it.
func ExamplePoller_Post() {
	engine := must(xtreme.New(conf.FromEnvironment()))
	poller := must(engine.NewPoller("feed", xtreme.PollerConfig{}))
	stop := false
	go func() {
		time.Sleep(time.Millisecond)
		check(poller.Post(func() { stop = true }))
	}()

	var done [8]xtreme.Completion
	for !stop {
		if n := must(poller.Poll(done[:])); n == 0 && !stop {
			check(poller.Wait(context.Background()))
		}
	}
	fmt.Println("stopped by another goroutine")
	check(poller.Close())
	// Output: stopped by another goroutine
}
