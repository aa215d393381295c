//go:build !amd64 && !arm64

package sys

import "unsafe"

// noescape lets p escape: a caller's buffer on the stack becomes one on the heap.
func noescape(p unsafe.Pointer) unsafe.Pointer { return p }
