package itch_test

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/feed/itch"
)

// Messages are told apart by their first byte.
func Example() {
	added := []byte("A\x00\x0d\x00\x00\x00\x00\x00\x00\x00\x07" + "\x00\x00\x00\x00\x00\x00\x01\x02" + "B\x00\x00\x00\x64" + "AAPL    " +
		"\x00\x30\xe4\x88")
	executed := []byte("E\x00\x0d\x00\x00\x00\x00\x00\x00\x00\x08" + "\x00\x00\x00\x00\x00\x00\x01\x02" + "\x00\x00\x00\x28" +
		"\x00\x00\x00\x00\x00\x00\x00\x01")
	for _, m := range [][]byte{added, executed, added[:20], []byte("?")} {
		var err error
		switch m[0] {
		case itch.TypeAddOrder, itch.TypeAddOrderMPID:
			var a itch.AddOrder
			if a, err = itch.ParseAddOrder(m); err == nil {
				fmt.Println("order", a.Ref, "to buy:", a.Buy, a.Shares, a.Stock, "at", a.Price)
			}
		case itch.TypeOrderExecuted, itch.TypeOrderExecutedWithPrice:
			var e itch.OrderExecuted
			if e, err = itch.ParseOrderExecuted(m); err == nil {
				fmt.Println("order", e.Ref, "executed:", e.Shares)
			}
		default:
			err = itch.Check(m)
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// order 258 to buy: true 100 AAPL at 3204232
	// order 258 executed: 40
	// itch: message shorter than its type: type 65 (0x41, 'A') at byte 0: have 20, want 36
	// itch: unknown message type 63 (0x3f, '?')
}
