// Package server is the key-value server apart from its sockets: sessions that turn the bytes of a client into the bytes of an answer
// (Session.Serve), over the key space of package store.
//
// Handler puts it on gnet: it is written against gnet.Conn alone, so that the same handler runs on reactor/gnet and on gnet itself,
// whose Conn is the same type. What differs between the two, the Engine that OnBoot and OnShutdown are given, is left to the program:
//
//	type app struct{ *server.Handler }
//
//	func (a app) OnBoot(gnet.Engine) gnet.Action { return gnet.None } // gnet: whichever of the two is imported
//	func (a app) OnShutdown(gnet.Engine)         {}
//
//	gnet.Run(app{server.NewHandler(s)}, "tcp://127.0.0.1:6379", gnet.WithNumEventLoop(1), gnet.WithTicker(true))
//
// The commands are those of COMMAND LIST: strings, keys with expiry, and what a client asks about a server. EVAL, OBJECT and all others
// are unknown commands, and said to be; COMMAND reports flags, arity and keys, COMMAND DOCS of summary and group only: no key
// specifications, tips, history or arguments.
//
// One event loop owns the Server and everything in it.
//
// A read costs nothing but the lookup: commands are parsed where they lie (Peek), the answers of all commands that came together are
// put into one buffer of the handler and leave with one Write, and neither allocates.
package server
