// Package sys is where this module touches the kernel and the runtime below Go's usual surface: memory outside the heap,
// the identity of goroutines and threads, and the system calls of sockets and rings. Unsafe pointers and assembly live
// here and in files named *_unsafe.go, nowhere else.
//
// The functions are thin: they keep the kernel's names and errno, they decide nothing about sockets or buffers, and they
// do not retry. What is allowed here is a call or a layout; a policy belongs to the package above that needs it.
//
// Two kinds of functions live side by side. Set-up (a Region, an EventFD, PinThread) returns errors, wrapped once. The
// calls of the path return a bare syscall.Errno, allocate nothing, and enter the kernel without telling the scheduler;
// only calls that cannot sleep are made that way.
//
// The package is for Linux.
package sys
