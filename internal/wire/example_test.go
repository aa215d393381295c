package wire_test

import (
	"fmt"
	"net/netip"

	"github.com/socketxtreme/socketxtreme/internal/wire"
)

// A flow's headers are prepared once; per packet only lengths, identification and sums are written.
func Example() {
	source, _ := wire.AddrFrom(netip.MustParseAddr("10.0.0.1"))
	target, _ := wire.AddrFrom(netip.MustParseAddr("239.1.2.3"))
	t, err := wire.NewUDPTemplate(wire.UDPFlow{
		Link:   wire.EthernetFields{Target: wire.GroupMAC(target), Source: wire.MAC{2, 0, 0, 0, 0, 1}},
		TTL:    1,
		Source: source, SourcePort: 4000,
		Target: target, TargetPort: 5000,
	})
	if err != nil {
		panic(err)
	}
	frame := make([]byte, t.Len()+5)
	copy(frame[t.Len():], "hello")
	t.Put(frame, 0)

	eth, _, _, rest, drop := wire.ParseEthernet(frame)
	ip, _, rest, drop2 := wire.ParseIPv4(rest)
	udp, payload, drop3 := wire.ParseUDP(rest)
	fmt.Println(drop, drop2, drop3, wire.CheckUDP(ip, udp, payload))
	fmt.Printf("%v to %v: %s\n", eth.Source(), eth.Target(), payload)

	frame[30] ^= 1 // a bit of the address
	_, _, _, drop = wire.ParseIPv4(frame[wire.EthernetLen:])
	fmt.Println(drop)
	// Output:
	// accept accept accept good
	// 02:00:00:00:00:01 to 01:00:5e:01:02:03: hello
	// ipv4.sum
}
