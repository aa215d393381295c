package book_test

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/feed/book"
	"github.com/socketxtreme/socketxtreme/feed/iextp/deep"
	"github.com/socketxtreme/socketxtreme/feed/mdp3"
)

// Price levels of IEX DEEP. The book is looked at when an event is complete.
func ExampleByPrice() {
	books := book.NewByPrice(book.Capacity{Instruments: 1000, Levels: 10_000})
	for _, m := range [][]byte{
		deep.PriceLevel{Symbol: feed.SymbolOf("ZIEXT"), Buy: true, Price: 990500, Size: 300, Complete: true}.Append(nil),
		deep.PriceLevel{Symbol: feed.SymbolOf("ZIEXT"), Buy: true, Price: 990600, Size: 100}.Append(nil),
		deep.PriceLevel{Symbol: feed.SymbolOf("ZIEXT"), Buy: true, Price: 990500, Size: 0, Complete: true}.Append(nil),
	} {
		l, err := deep.ParsePriceLevel(m)
		if err != nil {
			fmt.Println(err)
			return
		}
		books.Set(l.Symbol, l.Buy, l.Price, uint64(l.Size))
		if l.Complete && books.Changed() {
			x := books.Find(l.Symbol)
			fmt.Println(x.Symbol, x.Bid.Len(), "bid levels, best", x.Bid.Best().Size, "at", x.Bid.Best().Price)
		}
	}
	// Output:
	// ZIEXT 1 bid levels, best 300 at 990500
	// ZIEXT 1 bid levels, best 100 at 990600
}

// Orders of ITCH or PITCH.
func ExampleByOrder() {
	books := book.NewByOrder(book.Capacity{Instruments: 1000, Levels: 10_000, Orders: 100_000})
	aapl := feed.SymbolOf("AAPL")
	books.Add(book.Order{Ref: 1, Symbol: aapl, Buy: false, Shares: 100, Price: 3206000})
	books.Add(book.Order{Ref: 2, Symbol: aapl, Buy: false, Shares: 200, Price: 3206000})
	books.Reduce(1, 40)               // executed
	books.Replace(2, 3, 200, 3205900) // a better price
	books.Delete(7)                   // its begin was missed
	ask := &books.Find(aapl).Ask
	for i := range ask.Len() {
		l := ask.Level(i)
		fmt.Println(l.Size, "at", l.Price, "in", l.Orders, "orders")
	}
	o, _ := books.FindOrder(1)
	fmt.Println("order 1 has", o.Shares, "shares;", books.Len(), "orders,", books.Unknown(), "unknown")
	// Output:
	// 200 at 3205900 in 1 orders
	// 60 at 3206000 in 1 orders
	// order 1 has 60 shares; 2 orders, 1 unknown
}

// Numbered levels of CME MDP 3.0. Update 3 of the instrument is missed: what was known is not any more.
func ExampleByLevel() {
	books, err := book.NewByLevel(1000, 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	const security = 42
	show := func() {
		for i, e := range books.Security(security).Sides[book.Offer][:3] {
			fmt.Print("level ", i+1, ": ", e.Known, " ", e.Price, "; ")
		}
		fmt.Println("missed", books.Missed())
	}
	for _, u := range []struct {
		rptSeq uint32
		book.Update
	}{
		{1, book.Update{Action: mdp3.ActionNew, Side: book.Offer, Level: 1, Entry: book.Entry{Price: 101, Size: 5}}},
		{2, book.Update{Action: mdp3.ActionNew, Side: book.Offer, Level: 1, Entry: book.Entry{Price: 100, Size: 3}}},
		{4, book.Update{Action: mdp3.ActionChange, Side: book.Offer, Level: 2, Entry: book.Entry{Price: 102, Size: 4}}},
	} {
		books.Apply(books.CountUpdate(security, u.rptSeq), u.Update)
		show()
	}
	// Output:
	// level 1: true 101; level 2: false 0; level 3: false 0; missed 0
	// level 1: true 100; level 2: true 101; level 3: false 0; missed 0
	// level 1: false 0; level 2: true 102; level 3: false 0; missed 1
}
