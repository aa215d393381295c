package feed_test

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/book"
	"github.com/socketxtreme/socketxtreme/feed/iextp"
	"github.com/socketxtreme/socketxtreme/feed/iextp/deep"
)

// packet is an IEX-TP packet with price levels, as the exchange sends one.
func packet(seq uint64, levels ...deep.PriceLevel) []byte {
	b := iextp.AppendHeader(nil, iextp.Segment{Protocol: iextp.DEEP10, Channel: 1, Session: 1, Seq: seq})
	for _, l := range levels {
		b = iextp.AppendMessage(b, l.Append(nil))
	}
	iextp.Finish(b, len(levels))
	return b
}

// A whole feed handler for DEEP: packets of two lines are parsed and arbitrated, messages decoded and applied to the books. With a ring,
// Payload is Packet.Bytes() of a completion, Ref is the packet, and d.Ref.Release() follows when d.Done is set.
func Example_bookFromTwoLines() {
	channel, err := feed.New[int](feed.Config{Lines: 2, Start: 1, GapTime: 5e6})
	if err != nil {
		fmt.Println(err)
		return
	}
	books := book.NewByPrice(book.Capacity{Instruments: 10_000, Levels: 100_000})

	input := func(line uint8, payload []byte) {
		h, _, err := iextp.Parse(payload)
		if err != nil {
			fmt.Println(err) // a packet that is malformed is lost on its line
			return
		}
		channel.Input(&feed.Segment[int]{Session: uint64(h.Session()), Seq: h.Seq(), Count: h.Count(), Sent: h.SendTime(),
			Line: line, Payload: payload})
		for d := (feed.Delivery[int]{}); channel.Next(&d); {
			if d.Lost > 0 {
				books.MarkStale()
			}
			rest := d.Payload[iextp.HeaderLen:]
			for i := range d.Skip + d.Count {
				var m []byte
				if m, rest = iextp.Next(rest); i < d.Skip {
					continue // the other line brought it
				}
				if len(m) == 0 || m[0] != deep.TypeBuyLevel && m[0] != deep.TypeSellLevel {
					continue
				}
				l, err := deep.ParsePriceLevel(m)
				if err != nil {
					fmt.Println(err)
					continue
				}
				books.Set(l.Symbol, l.Buy, l.Price, uint64(l.Size))
				if l.Complete && books.Changed() {
					x := books.Find(l.Symbol)
					fmt.Printf("%v: bid %d × %d, ask %d × %d\n", x.Symbol, x.Bid.Best().Size, x.Bid.Best().Price,
						x.Ask.Best().Size, x.Ask.Best().Price)
				}
			}
		}
	}

	zvzzt := feed.SymbolOf("ZVZZT")
	first := packet(1, deep.PriceLevel{Symbol: zvzzt, Buy: true, Price: 990500, Size: 300, Complete: true})
	second := packet(2, deep.PriceLevel{Symbol: zvzzt, Price: 990700, Size: 100},
		deep.PriceLevel{Symbol: zvzzt, Price: 990600, Size: 200, Complete: true})
	third := packet(4, deep.PriceLevel{Symbol: zvzzt, Buy: true, Price: 990500, Complete: true})
	const a, b = 0, 1
	input(a, first)
	input(a, third) // line A has lost the second
	input(b, first)
	input(b, second)
	fmt.Println(channel.Stats().State)
	// Output:
	// ZVZZT: bid 300 × 990500, ask 0 × 0
	// ZVZZT: bid 300 × 990500, ask 200 × 990600
	// ZVZZT: bid 0 × 0, ask 200 × 990600
	// SYNC
}
