package mdp3_test

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/feed/mdp3"
)

// A packet with one message that has one entry: the best offer of instrument 42.
func Example() {
	packet := []byte("\x4d\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + // sequence, sending time
		"\x38\x00" + "\x0b\x00\x2e\x00\x01\x00\x09\x00" + // size; block length, template, schema, version
		"\x00\x00\x00\x00\x00\x00\x00\x00\x80\x00\x00" + // block
		"\x20\x00\x01" + // entry length, count
		"\x00\xf2\x05\x2a\x01\x00\x00\x00" + "\x05\x00\x00\x00" + "\x2a\x00\x00\x00" + "\x09\x00\x00\x00" + // price, size, security, RptSeq
		"\x03\x00\x00\x00" + "\x01" + "\x00" + "1" + "\x00\x00\x00\x00\x00") // orders, level, action, type
	p, messages, err := mdp3.Parse(packet)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("packet", p.Seq())
	for m, rest := mdp3.Next(messages); m != nil; m, rest = mdp3.Next(rest) {
		switch t := m.Template(); t {
		case mdp3.Book32, mdp3.Book46:
			g, err := m.Group(mdp3.BookEntryLen)
			if err != nil {
				fmt.Println(err)
				return
			}
			for i := range g.Count {
				e := (*mdp3.BookEntry)(g.Entry(i))
				fmt.Printf("security %d, offer: %v, level %d: %d at %de%d, %d orders\n", e.Security(), e.Type() == mdp3.EntryOffer,
					e.Level(), e.Size(), e.Price(), mdp3.PriceExponent(t), e.Orders())
			}
		default:
			fmt.Println(m.Check())
		}
	}
	_, _, err = mdp3.Parse(packet[:40])
	fmt.Println(err)
	// Output:
	// packet 77
	// security 42, offer: true, level 1: 5 at 5000000000e-9, 3 orders
	// mdp3: message size does not fit into the packet: at byte 12: have 28, want 56
}
