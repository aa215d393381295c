// Package xtreme is the public face of SocketXtreme for Go: an Engine makes Pollers, a Poller makes sockets and is polled by one
// goroutine for their completions.
//
//	engine, err := xtreme.New(conf.FromEnvironment())
//	poller, err := engine.NewPoller("feed", xtreme.PollerConfig{})
//	line := xtreme.UDPConfig{Groups: []xtreme.Group{{Interface: "eth1"}}}
//	socket, err := poller.OpenUDP(netip.MustParseAddrPort("233.215.21.4:10378"), line)
//	fmt.Println(socket.Path())
//
//	var done [64]xtreme.Completion
//	for {
//		n, err := poller.Poll(done[:])
//		if err != nil { ... }
//		for i := range done[:n] {
//			if c := &done[i]; c.Events.Has(xtreme.EventPacket) {
//				book.Apply(c.Packet.Bytes())
//				c.Packet.Release()
//			}
//		}
//	}
//
// Sockets are TCP, UDP and unix-domain streams (ListenTCP, DialTCP, OpenUDP, ListenUnix, DialUnix). One made elsewhere, by package
// net or by another poller's listener, is taken over with Adopt; ListenConfig.AcceptTo is how a listener gives connections away, or refuses
// them. Each call has a configuration of its own, whose zero value is good, so that what does not fit does not compile. All embed SocketConfig,
// those of TCP and UDP IPConfig as well:
//
//	c := xtreme.ListenConfig{NoDelay: xtreme.On, Backlog: 128}
//	c.ReuseAddr = true // of IPConfig; in the literal it is IPConfig: xtreme.IPConfig{ReuseAddr: true}
//	listener, err := poller.ListenTCP(address, c)
//
// A poller sleeps by Wait, which a context ends, and ends by Shutdown, which lets what was sent go out, or by Close.
//
// A poller of kind offload (conf.RingOffload) carries UDP over IPv4 by our own stack over the network interfaces that its sockets name, and
// all else by a kernel ring beside it; both are polled together and share the poller's buffers. See docs/offload.md.
//
// Which kind of ring carries a socket is decided here and nowhere else; Socket.Path reports which it was and, for every better
// one, why not. What a completion may contain and in which order is package ring's contract; memory is package buffers'.
package xtreme
