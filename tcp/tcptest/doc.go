// Package tcptest proves package tcp: it drives its tables in virtual time. Tests use it.
//
// [Host] is a transport of a few lines: it has the buffers, parses and builds packets, and keeps an account of what the table owes. Two things
// stand on it:
//
//   - [Play] plays scripts in the packetdrill language (internal/packetdrill) against one table.
//   - The simulator, in this package's tests: hosts in a network of package simnet, with applications whose streams have a known content.
package tcptest
