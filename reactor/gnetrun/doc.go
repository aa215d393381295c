// Package gnetrun runs an unchanged gnet handler on SocketXtreme rings: types, options and import stay gnet's, one
// call changes.
//
//	err := gnetrun.Run(handler, "tcp://:9000", gnet.WithMulticore(true)) // was gnet.Run
//
// The handler and everything it is given is gnet's, but for one thing that gnet does not let anybody make: an Engine of
// an engine that is not its own. OnBoot and OnShutdown are therefore given the Engine of a carrier, a gnet engine that
// listens on an abstract unix socket with a name of chance: no file is made, and TMPDIR does not matter. Who else connects to that name
// is closed, and the handler is not called. It costs two goroutines asleep and two descriptors or three.
//
//	Engine method        with the carrier                                    without (Config.NoCarrier: gnet.Engine{})
//	Stop                 works: it returns when the server has ended         ErrEmptyEngine
//	Validate             works until Run's end                               ErrEmptyEngine
//	Register             works, but the connection is the carrier's: a       ErrEmptyEngine
//	                     socket in gnet's own epoll, with its events on
//	                     another goroutine than those of the loops
//	CountConnections     counts only what Register made                      -1
//	Dup, DupListener     the carrier's listener, ErrInvalidNetworkAddress    -1, ErrEmptyEngine
//
// Stop takes half a second, as gnet's does: gnet looks every 500 ms whether the carrier has ended. Called by the handler it
// waits for itself, as gnet's does: it blocks the loop until ctx is done, so give it a context that ends, or return
// Shutdown, or call it on another goroutine.
//
// An option that a later gnet has and package gnet beside this one does not know is an error if it is set.
//
// gnet.Stop(ctx, address) does not know the address and answers ErrEngineInShutdown. Register of a connection's EventLoop
// puts connections on the rings, like everything else. A program for which that is not enough changes its import to
// package gnet beside this one, whose Engine is whole.
package gnetrun
