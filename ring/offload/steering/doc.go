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
//   - A claim of a UDP flow and its release took 4 to 16 microseconds together (BenchmarkClaim in ring/link/xdp, on 2 processors with other
//     work beside it). They are a part of opening and closing a socket, not of a packet. Claims of TCP, which have entries in the guard as
//     well, are not measured.
//   - The answer decides: a socket with RequireOffload, or a listener of TCP, fails in the call that asked, and a path has the reason of a
//     refused claim from the start. A claim under way would be a third state, which all of these would have to wait for.
//
// The price is paid where many are made at once: a poller whose interface was opened again claims the flows of all its sockets in one turn.
// What a turn with thousands of claims costs has not been measured.
package steering
