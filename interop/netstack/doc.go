// Package netstack has only tests: the protocol engine of package tcp in one corner, gVisor's netstack in the other, and a wire between them
// that loses, doubles and reorders packets. Streams go both ways, with and without each option, and must arrive whole. It is a module of its
// own, so that nothing else depends on gVisor.
//
//	go test -C interop/netstack ./...                # 24 seeds
//	go test -C interop/netstack ./... -seeds=500
package netstack
