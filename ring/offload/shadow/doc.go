// Package shadow is the kernel's side of offloaded sockets: the kernel socket beside each, its shadow, and what other sockets of the host
// have in common with it. It is used by the driver of package offload.
//
//	List           the shadows of a ring's sockets in an epoll list, and the schedule of when it is looked at
//	Memberships    the groups of a socket, and the descriptors that hold them: the shadow, and membership sockets where that has no room
//	GroupWatcher   looks for other sockets of the host that are members of our groups, receive what ours send, or have our ports
//	Tie            what a socket has of an interface that was made again, made by a background job
//
// Joining, leaving and binding wait for the kernel's configuration lock: they are for set-up, for requests of the application and for
// background jobs, never for Poll.
package shadow
