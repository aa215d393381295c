// Package nic attaches rings to network interfaces: it opens devices and their queues, notices when they are lost, and opens them again. It is
// used by the driver of package offload.
//
// Rings of several goroutines share a [Table]: one device for each interface, its queues divided among the rings, its claims inserted once
// each. Each ring has its [Attachments]: one attachment for each interface and tag that it uses, each a state machine (type State, with the
// table of legal moves), and for a bond one for each member. VLANs on one device share its links.
//
// A driver sees two things of all this: a flat list of links, by places that stay the same, and events (interface [Events]) of links that
// come and go, interfaces that were made again, and paths that have changed. They come from within Add, Check and Close, on the ring's
// goroutine.
//
// A link that the caller made is the queue of a device too ([OpenLinks]): it is checked and closed as the others, and not opened again.
//
// Check is for Poll and waits for nothing: what may wait for the lock of the kernel's configuration (opening and closing devices and queues) is
// done by a [Job] on another goroutine, whose result a later Check applies.
//
//	owner     Check ─► start a job ··· polls on ··· Check ─► apply the result, events
//	job                  └─ open, bind, close ──────┘ wakes the ring
//
// # When an interface is lost, and comes back
//
// A loss is noticed within a second, or as soon as the mirror reports it: the steering program was taken off, the interface is down
// (link.down) or was deleted (link.gone). The interface is tried again after 10 ms, then after twice as long each time, once a second at
// the most; while another program is on it the reason is xdp.busy, and tries are down to one in 30 s unless that program ends or the mirror
// reports that it was taken off. An interface that was deleted and made again counts as the same if it has the same name.
//
// Where flows of TCP can be claimed an interface has a [Guard] beside its device, which stays while the device is lost. Where
// none can be opened the interface carries frames all the same, and Status.Unguarded says why.
package nic
