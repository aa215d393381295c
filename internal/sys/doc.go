// Package sys has this module's low-level access to the kernel and the Go runtime: memory outside the heap, the identity of goroutines and
// threads, and the system calls of sockets and rings. Drivers, transports and package xtreme use it. Unsafe pointers and assembly are in this
// package and in files named *_unsafe.go, nowhere else.
//
// The functions are thin: they keep the kernel's names and errno, decide nothing about sockets or buffers, and do not retry. Decisions belong to
// the packages above.
//
// There are two kinds of functions. Those for set-up (a Region, an EventFD, PinThread) return errors, wrapped once. Those for each packet
// return a bare syscall.Errno, allocate nothing, and enter the kernel without the Go scheduler's knowledge (RawSyscall), which is allowed only
// for calls that cannot sleep.
//
// The package is for Linux.
package sys
