// Package torture holds tests of the library's TCP against the kernel's, with a relay between them that spoils the traffic. It contains nothing
// but tests; go test runs some seeds of it, make torture many.
//
//	near namespace            relay namespace              far namespace
//	v0 10.0.0.1 ── veth ── r0 ─ packet sockets ─ r1 ── veth ── p0 10.0.0.2
//	our stack                 loses, delays, …             the kernel
//
// Each seed runs twice: first with the kernel's TCP at both ends, then with ours at the near end. The first run gives the time bound of the
// second.
package torture
