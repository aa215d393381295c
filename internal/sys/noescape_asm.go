//go:build amd64 || arm64

package sys

import "unsafe"

// noescape is in noescape_amd64.s and noescape_arm64.s. The pointer is never held as a number, so a stack that moves takes it along.
//
//go:noescape
func noescape(p unsafe.Pointer) unsafe.Pointer
