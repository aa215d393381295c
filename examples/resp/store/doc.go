// Package store is the key space of the example server: strings of bytes with a time to live.
//
// A DB belongs to one goroutine, the event loop that serves its clients: there are no locks in it. A server with several loops would
// give each loop the keys of its own (by hash) and pass commands for other keys on; this example has one loop.
//
// An expired key is gone for every caller at its time: the first access removes it, and Sweep removes those nobody
// looks at, some at a time, so that no sweep holds up the loop.
package store
