// Package ringtest is the completion contract as a test suite: one set of cases that every kind of ring must pass. A driver's
// test calls Run:
//
//	func TestContract(t *testing.T) {
//		ringtest.Run(t, ringtest.Backend{Name: "epoll", Driver: epoll.New, Caps: 0})
//	}
//
// The peers are the kernel's sockets on loopback, unless the backend has peers of its own (Backend.Open). After each case the ledger must
// balance: every buffer is back in the pool.
//
// Fake is a driver that is as simple as one can be; the suite runs over it first, so that a failure over a real driver is the
// driver's.
package ringtest
