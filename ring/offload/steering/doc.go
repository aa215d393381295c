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
package steering
