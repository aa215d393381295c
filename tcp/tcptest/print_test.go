package tcptest

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/tcp"
)

// With -seed and -v, the packets of the last run that failed are printed: of the fewest operations.
var (
	printing bool
	printed  string
)

func (x *scenario) printf(format string, args ...any) {
	fmt.Fprintf(&x.lines, "%12.6f "+format+"\n", append([]any{x.network.World.Now().Seconds()}, args...)...)
}

func (x *scenario) printPackets() {
	if !printing {
		return
	}
	inspect := x.network.Wire
	x.network.Wire = func(n *Node, packet []byte, arrived bool) {
		ip, _, b, _ := wire.ParseIPv4(packet)
		var s tcp.Segment
		s.Parse(ip.Source(), ip.Target(), b, 0, 0)
		what := "sends"
		if arrived {
			what = "gets"
		}
		x.printf("node %d %s %v>%v %v %d+%d ack %d win %d", n.Index, what, s.Remote.AddrPort(), s.Local.AddrPort(), s.Flags, s.Seq, s.Payload.Length, s.Ack,
			s.Window)
		inspect(n, packet, arrived)
	}
}

func (x *scenario) printForged(n *Node, f wire.TCPFields) {
	if printing {
		x.printf("node %d gets what is forged: %d>%d %v %d ack %d win %d", n.Index, f.SourcePort, f.TargetPort, f.Flags, f.Seq, f.Ack, f.Window)
	}
}

func (x *scenario) endPrint(err error) {
	if printing && err != nil {
		printed = fmt.Sprintf("%s%v\n", x.lines.String(), err)
	}
}
