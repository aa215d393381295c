package testnet

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// Reflect sends what comes in on an interface for an IPv4 address back to its sender, with source and destination exchanged, until the result is
// closed. It keeps no state, and no checksum changes. So a host whose veth ends there reaches itself over the wire, where the kernel would
// connect two of its own addresses within the host:
//
//	client   10.0.0.1:40000 ──► far:80          ┐            ┌ 10.0.0.1:40000 ──► far:80
//	                                            ├── veth ────┤
//	server   10.0.0.1:80    ◄── far:40000       ┘            └ far:40000 ──► 10.0.0.1:80
//
// The far address has a permanent entry in the host's table of neighbours; no interface has it. Linux 6.6 (TCX).
func Reflect(ifName string, far netip.Addr) (io.Closer, error) {
	i, err := net.InterfaceByName(ifName)
	if err != nil {
		return nil, fmt.Errorf("testnet: reflect: %w", err)
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Apache-2.0", Instructions: reflection(far.As4())})
	if err != nil {
		return nil, fmt.Errorf("testnet: reflect: %w", err)
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: i.Index, Program: p, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		_ = p.Close()
		return nil, fmt.Errorf("testnet: reflect: TCX on %s: %w", ifName, err)
	}
	_ = p.Close() // the link keeps it
	return l, nil
}

// reflection is the program of Reflect.
func reflection(far [4]byte) asm.Instructions {
	const (
		headers            = 14 + 20 // Ethernet and IPv4, copied to the stack, the addresses of IPv4 aligned
		at                 = -headers - 8
		target, source     = at, at + 6 // of Ethernet
		etherType          = at + 12
		from, to           = at + 26, at + 30 // of IPv4
		macs               = at - 22
		ifIndex            = 40 // in struct __sk_buff
		accept, redirected = -1, 0
	)
	copyHalf := func(dst, src int16) asm.Instructions {
		return asm.Instructions{asm.LoadMem(asm.R1, asm.R10, src, asm.Half), asm.StoreMem(asm.R10, dst, asm.R1, asm.Half)}
	}
	store := func(offset int32, stack int16, length int32) asm.Instructions {
		return asm.Instructions{asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R2, offset), asm.Mov.Reg(asm.R3, asm.R10), asm.Add.Imm(asm.R3, int32(stack)),
			asm.Mov.Imm(asm.R4, length), asm.Mov.Imm(asm.R5, 0), asm.FnSkbStoreBytes.Call()}
	}
	list := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.Mov.Imm(asm.R2, 0), asm.Mov.Reg(asm.R3, asm.R10), asm.Add.Imm(asm.R3, at), asm.Mov.Imm(asm.R4, headers),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "accept"),
		asm.LoadMem(asm.R1, asm.R10, etherType, asm.Half),
		asm.JNE.Imm(asm.R1, int32(binary.NativeEndian.Uint16([]byte{8, 0})), "accept"),
		asm.LoadMem(asm.R7, asm.R10, to, asm.Word), asm.LoadMem(asm.R8, asm.R10, from, asm.Word),
		asm.LoadImm(asm.R1, int64(binary.NativeEndian.Uint32(far[:])), asm.DWord),
		asm.JNE.Reg(asm.R7, asm.R1, "accept"),
		asm.StoreMem(asm.R10, from, asm.R7, asm.Word), asm.StoreMem(asm.R10, to, asm.R8, asm.Word),
	}
	for n := int16(0); n < 6; n += 2 {
		list = append(list, copyHalf(macs+n, source+n)...)
		list = append(list, copyHalf(macs+6+n, target+n)...)
	}
	list = append(list, store(0, macs, 12)...)
	list = append(list, store(26, from, 8)...)
	return append(list, asm.LoadMem(asm.R1, asm.R6, ifIndex, asm.Word), asm.Mov.Imm(asm.R2, redirected), asm.FnRedirect.Call(), asm.Return(),
		asm.Mov.Imm(asm.R0, accept).WithSymbol("accept"), asm.Return())
}
