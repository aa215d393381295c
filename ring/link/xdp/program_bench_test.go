package xdp

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/ring/link"
	"github.com/socketxtreme/socketxtreme/ring/link/internal/bpf"
)

// BenchmarkSteer is what the steering program costs a packet (kernel-ns/op, by test runs in the kernel), for each kind of claim that takes
// it. The row "port" is the least that a program can do: one port compared, no table and no counters.
func BenchmarkSteer(b *testing.B) {
	peer, me, group := ap("10.0.0.2:9000"), ap("10.0.0.1:53"), ap("239.1.1.1:53")
	frame := packet{src: peer, dst: me, payload: make([]byte, 64)}.bytes()
	toGroup := packet{src: peer, dst: group, payload: make([]byte, 64)}.bytes()
	bound, all := Flow{Protocol: link.UDP, Local: me}, Flow{Protocol: link.UDP, Local: netip.AddrPortFrom(netip.IPv4Unspecified(), me.Port())}
	joined, other := Flow{Protocol: link.UDP, Local: group}, Flow{Protocol: link.UDP, Local: ap("10.0.0.1:54"), Remote: peer}
	for _, test := range []struct {
		name   string
		claims []Flow
		frame  []byte
	}{
		{"connected", []Flow{{Protocol: link.UDP, Local: me, Remote: peer}}, frame},
		{"bound", []Flow{bound}, frame},
		{"bound, others connected", []Flow{bound, other}, frame},
		{"wildcard", []Flow{all}, frame},
		{"group", []Flow{joined}, toGroup},
		{"group, bound", []Flow{joined, bound}, toGroup},
		{"none", nil, frame},
	} {
		b.Run(test.name, func(b *testing.B) {
			p := needProgram(b, programOptions{protocols: []uint8{link.UDP}, flows: 4096})
			for _, f := range test.claims {
				require.NoError(b, p.Claim(f))
			}
			require.NoError(b, p.AddAddr(me.Addr(), 0))
			socketIn(b, p)
			kernelTime(b, p.program, test.frame)
		})
	}
	b.Run("port", func(b *testing.B) {
		p := needProgram(b, programOptions{})
		socketIn(b, p)
		least, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "Dual BSD/GPL", Instructions: onePort(p.sockets.FD(), me.Port())})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, least.Close()) })
		kernelTime(b, least, frame)
	})
}

// BenchmarkClaim is a claim and its release, each by the goroutine that asks for it: what a poller waits for when a socket is bound and closed.
func BenchmarkClaim(b *testing.B) {
	for _, others := range []int{0, 1000} { // claims that are there already
		b.Run(fmt.Sprint(others, " others"), func(b *testing.B) {
			p := needProgram(b, programOptions{protocols: []uint8{link.UDP}, flows: 4096})
			at := func(port int) Flow {
				return Flow{Protocol: link.UDP, Local: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), uint16(port))}
			}
			for i := range others {
				require.NoError(b, p.Claim(at(2000+i)))
			}
			f := at(1000)
			for b.Loop() {
				require.NoError(b, p.Claim(f))
				require.NoError(b, p.Release(f))
			}
		})
	}
}

// kernelTime reports the fastest of many batches, because the interrupts of the machine are in the others.
func kernelTime(b *testing.B, p *ebpf.Program, frame []byte) {
	const batch = 20_000
	best := float64(1e9)
	for n := 0; n == 0 || n < b.N; n += batch {
		_, d, err := p.Benchmark(frame, batch, nil)
		require.NoError(b, err)
		best = min(best, float64(d.Nanoseconds())) // of one run
	}
	b.ReportMetric(best, "kernel-ns/op")
}

// onePort redirects the datagrams to one port, of IPv4 without options.
func onePort(sockets int, port uint16) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R1, ctxData, asm.Word),
		asm.LoadMem(asm.R8, asm.R1, ctxDataEnd, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R7),
		asm.Add.Imm(asm.R2, 42),
		asm.JGT.Reg(asm.R2, asm.R8, "pass"),
		asm.LoadMem(asm.R3, asm.R7, 12, asm.Half),
		asm.JNE.Imm(asm.R3, bpf.Wire16(0x0800), "pass"),
		asm.LoadMem(asm.R3, asm.R7, 14, asm.Byte),
		asm.JNE.Imm(asm.R3, 0x45, "pass"),
		asm.LoadMem(asm.R3, asm.R7, 23, asm.Byte),
		asm.JNE.Imm(asm.R3, unix.IPPROTO_UDP, "pass"),
		asm.LoadMem(asm.R3, asm.R7, 36, asm.Half),
		asm.JNE.Imm(asm.R3, bpf.Wire16(port), "pass"),
		asm.LoadMapPtr(asm.R1, sockets),
		asm.LoadMem(asm.R2, asm.R6, ctxQueue, asm.Word),
		asm.Mov.Imm(asm.R3, xdpPass),
		asm.FnRedirectMap.Call(),
		asm.Return(),
		asm.Mov.Imm(asm.R0, xdpPass).WithSymbol("pass"),
		asm.Return(),
	}
}
