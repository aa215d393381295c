package pitch_test

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/feed/pitch"
)

// A packet with a time and a new order.
func Example() {
	packet := []byte("\x28\x00\x02\x01\x09\x00\x00\x00" + // length, count, unit, sequence
		"\x06\x20\x90\x7e\x00\x00" + // 32,400 s
		"\x1a\x22\x00\x00\x00\x00\x02\x01\x00\x00\x00\x00\x00\x00B\x64\x00ZVZZT \x10\x27\x01")
	h, messages, err := pitch.Parse(packet)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("unit %d, messages %d to %d\n", h.Unit(), h.Seq(), h.Seq()+h.Count()-1)
	for m, rest := pitch.Next(messages); m != nil; m, rest = pitch.Next(rest) {
		switch m[1] {
		case pitch.TypeTime:
			seconds, err := pitch.ParseTime(m)
			fmt.Println("second", seconds, err)
		case pitch.TypeAddOrderLong, pitch.TypeAddOrderShort:
			a, err := pitch.ParseAddOrder(m)
			fmt.Println("order", a.Order, "to buy:", a.Buy, a.Shares, a.Symbol, "at", a.Price, err)
		}
	}
	_, err = pitch.ParseAddOrder(packet[14:30])
	fmt.Println(err)
	// Output:
	// unit 1, messages 9 to 10
	// second 32400 <nil>
	// order 258 to buy: true 100 ZVZZT at 1000000 <nil>
	// pitch: packet or message too short: type 34 (0x22, '"') at byte 0: have 16, want 26
}
