//go:build amd64 || arm64

package sys

// goroutine is in goroutine_amd64.s and goroutine_arm64.s.
func goroutine() uintptr
