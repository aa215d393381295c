package tops_test

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/iextp/tops"
)

func Example() {
	m := tops.Quote{Symbol: feed.SymbolOf("ZIEXT"), BidSize: 300, BidPrice: 990500, AskSize: 100, AskPrice: 990700}.Append(nil)
	q, err := tops.ParseQuote(m)
	fmt.Println(q.Symbol, q.BidSize, "×", q.BidPrice, q.AskSize, "×", q.AskPrice, err)
	_, err = tops.ParseQuote(m[:10])
	fmt.Println(err)
	// Output:
	// ZIEXT 300 × 990500 100 × 990700 <nil>
	// tops: message shorter than its type: type 81 (0x51, 'Q') at byte 0: have 10, want 42
}
