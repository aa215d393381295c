// Package steering says which flows a ring claims from the kernel, and claims them. It is used by the driver of package offload.
//
// A [Table] belongs to one ring. It has the targets at which flows can be claimed (an interface, for frames of one tag), and how many
// sockets of the ring share each claim: it is made with the first and released with the last. [SocketFlows] are the flows that a socket needs,
// and [HeldClaims] the claims that it has:
//
//	SocketFlows ──Table.Claims──► list ──Table.Set──► HeldClaims, target.Claim, target.Release
//
// A claim that is refused leaves the packets to the kernel, which delivers them to the socket's shadow. A flow is claimed only on the interfaces
// that a socket is on: what comes for the same address and port by others, the kernel may have other sockets for.
//
// A claim is an entry of a steering program's maps, which have locks of their own: no call here waits for the kernel's configuration lock.
//
// Claims are neither batched nor asynchronous: the goroutine that binds, joins or closes makes each of them by system calls of its own, and has
// the answer when the call returns. The reasons:
//
//   - They are a part of opening and closing a socket, not of a packet, and cheap (BenchmarkSet, over a veth, with the guard; 2 processors with
//     other work beside it):
//
//     flow                   claim made    released    found as it is    a turn that makes 1,000    4,096
//     UDP                    3 to 6 µs     2 to 5 µs   0.4 µs            3 to 4 ms                  13 to 25 ms
//     connection of TCP      5 to 6 µs     4 to 6 µs   0.4 µs            6 ms                       21 ms
//
//     A claim of TCP, which has an entry in the guard as well, takes 1 to 2 times as long as one of UDP. One of a listener also asks the kernel
//     which connections it has on the port; that is not in the figures.
//
//   - The answer decides: a socket with RequireOffload, or a listener of TCP, fails in the call that asked, and a path has the reason of a
//     refused claim from the start. A claim under way would be a third state, which all of these would have to wait for.
//
// The price is paid where many are made at once. An interface that is opened again is no such case: package nic keeps the claims of all sockets
// while its device is lost, and the job that opens the next device makes them there. So a turn finds them as they are to be. These make many:
//
//	a poller opens one more interface              in the call that opens it, before it returns
//	a poller opens its share of an open interface  in one turn: claims that no other ring of the process has there
//	a member joins a bond                          noted in a turn, without a call; made by the job that opens the member
//	what stands on an interface has changed        in one turn: until the last is released, frames of the others come to this ring
//
// The last one is not spread over several turns for that reason: with 4,096 sockets that turn takes some 20 ms, and does so once.
package steering
