package deep_test

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/iextp/deep"
)

// Messages are told apart by their first byte.
func Example() {
	messages := [][]byte{
		deep.PriceLevel{Buy: true, Complete: true, Symbol: feed.SymbolOf("ZIEXT"), Size: 300, Price: 990500}.Append(nil),
		deep.Trade{Symbol: feed.SymbolOf("ZIEXT"), Size: 100, Price: 990600, ID: 1}.Append(nil),
		[]byte("?"),
	}
	for _, m := range messages {
		switch m[0] {
		case deep.TypeBuyLevel, deep.TypeSellLevel:
			l, err := deep.ParsePriceLevel(m)
			fmt.Println(l.Symbol, "buy:", l.Buy, l.Size, "at", l.Price, "complete:", l.Complete, err)
		case deep.TypeTrade:
			t, err := deep.ParseTrade(m)
			fmt.Println(t.Symbol, "traded", t.Size, "at", t.Price, err)
		default:
			fmt.Println(deep.Check(m))
		}
	}
	// Output:
	// ZIEXT buy: true 300 at 990500 complete: true <nil>
	// ZIEXT traded 100 at 990600 <nil>
	// deep: unknown message type 63 (0x3f, '?')
}
