module github.com/socketxtreme/socketxtreme/interop/netstack

go 1.25.0

require (
	github.com/socketxtreme/socketxtreme v0.0.0-00010101000000-000000000000
	gvisor.dev/gvisor v0.0.0-20250503011706-39ed1f5ac29c
)

require (
	github.com/cilium/ebpf v0.22.0 // indirect
	github.com/google/btree v1.1.2 // indirect
	github.com/gopacket/gopacket v1.7.7 // indirect
	github.com/vishvananda/netlink v1.3.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	golang.org/x/net v0.55.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/time v0.7.0 // indirect
)

replace github.com/socketxtreme/socketxtreme => ../..
