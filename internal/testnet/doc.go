// Package testnet makes networks for tests: two network namespaces joined by veth pairs, where the test's thread is in one and the
// kernel is the peer in the other, its offloads as they are (checksums that are only partial among them).
//
//	n := testnet.New(t, testnet.Pair{}, testnet.Pair{Queues: 4})
//
//	here (the test's thread)                      there (InPeer)
//	v0  10.0.0.1/24, 10.0.0.77/24  ────────────  p0  10.0.0.2/24
//	v1  10.0.1.1/24, 10.0.1.77/24  ────────────  p1  10.0.1.2/24
//
// Both sides have a route for groups (224.0.0.0/4) over each pair and know each other's MAC address, and lo is up in both. The names and
// addresses are the same in every test: nothing of it is seen outside the two namespaces, which go with the test. At its
// end the peer must not have found a single wrong UDP checksum.
//
// EndEarly and AllClosed need no network of their own: they connect to a server on loopback, and ask the kernel what is left of that.
//
// A test without the privileges is skipped and says what is missing.
package testnet
