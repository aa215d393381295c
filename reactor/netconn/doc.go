// Package netconn gives package net's interfaces over rings: net.Conn, net.Listener and net.PacketConn, for programs that
// are written for them. TLS, HTTP and database drivers run on it unchanged.
//
//	engine, err := xtreme.New(conf.FromEnvironment())
//	network, err := netconn.New(engine, netconn.Config{})
//	defer network.Close()
//
//	listener, err := network.Listen("tcp", ":8443")
//	err = http.ServeTLS(listener, handler, "cert.pem", "key.pem")
//
//	client := &http.Client{Transport: &http.Transport{DialContext: network.DialContext, ForceAttemptHTTP2: true}}
//
// A Network runs reactor loops of its own, each on a goroutine with a poller of its own. Everything it makes may be used from
// any goroutine, as package net's may, and errors are package net's: *net.OpError around an errno, net.ErrClosed or
// os.ErrDeadlineExceeded, and io.EOF bare. docs/from-net.md says what changes for a program that moves here.
//
// # Receiving
//
// The loop takes what the ring received and leaves it with the connection. To a reader that waits in Read it is copied
// straight into the reader's slice. Otherwise small packets are gathered in heap memory, and large ones (with
// Config.LargeStream) are lent: the reader copies out of the ring's buffer, and WriteTo, which io.Copy
// uses, writes from it without copying. A burst of packets wakes a reader once.
//
// When Config.ReceiveBuffer bytes wait, the ring stops reading the connection, the kernel's buffer fills, and the peer's
// window closes. What the kernel had given an io_uring ring before reading was stopped is kept, too: with two hundred
// connections that all sent at once it came to between 0.5 and 1 MB for each; an epoll ring stops within a packet or two.
// None of it stays in the pool's buffers, so that any number of connections that nobody reads leaves buffers for the others.
//
// # Sending
//
// Write copies into heap memory and returns; the loop sends whatever has gathered by the time it comes. The first Write of
// a burst wakes the loop, the others, of this and all other connections, do not. When Config.SendBuffer bytes wait, Write
// does. ReadFrom reads straight into that memory.
//
// As with the kernel's own queue, that Write returned does not mean that the peer has the bytes; an error comes with a later
// call. Close and CloseWrite return when the kernel has them, so that the process may end then. A process that ends without Close can
// lose what Write has accepted in the last moment, Config.SendBuffer bytes of a connection at most.
//
// # Loops and goroutines
//
// A loop and the goroutines it serves share the processors. So a loop sleeps at once when it has nothing to do (see
// Config.Rest), and lets a goroutine that it has woken run before it goes on. A ring of kind epoll makes that cheapest: it is
// not tied to a thread, and the runtime changes between its loop and a goroutine in a fraction of a microsecond. An io_uring
// ring belongs to a thread, and each change is a thread's wake-up. So a Network on an engine whose setting is auto uses epoll; a kind that
// is asked for by name, by the setting or by Config.Poller, is used.
//
// With several loops a listener gives its connections to them in turn. A connection stays on its loop.
package netconn
