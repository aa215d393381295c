// Package metrics gives Prometheus what package stats publishes. A program that has a /metrics of its own registers a Collector for its own
// file; xtstat metrics serves one for another process. Packages that programs import for sockets do not import it, so that only a program that
// wants metrics has the client library.
//
// A scrape reads the mapped file: it asks no goroutine of the program and waits for none. There is no label for a connection: sockets are added
// up, and rings, whose blocks come and go, are too. Labels are the reason of a drop, a counter's name where drivers and the kernel name it,
// interface, poller, feed and line. What counts only grows: closed sockets and rings stay in the sums, and xtstat's zero is a baseline that is
// not subtracted here.
package metrics
