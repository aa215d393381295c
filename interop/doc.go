// Package interop runs programs that are written for package net on reactor/netconn: go-redis, pgx, grpc-go, net/http. It has no code, only
// tests, and it is a module of its own, so that what they need is no dependency of the library. CI runs it.
//
// Each program runs over package net and over a Network of each kind of ring, against the same server, and does the same work. What is
// compared besides the answers is the number of connections it dialled: a driver that takes good connections for dead ones shows there.
package interop
