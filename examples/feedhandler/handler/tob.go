package handler

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/socketxtreme/socketxtreme/feed/book"
)

// TopOfBook is the best levels of a symbol.
type TopOfBook struct {
	Symbol               string
	Bid, Ask             book.Level
	BidLevels, AskLevels int
	Stale                bool
}

// Tops is every symbol of the channels that has a side, in the order of rows.
func Tops(channels ...*Channel) (all []TopOfBook) {
	for _, c := range channels {
		if c.books == nil {
			continue
		}
		symbols := c.books.Instruments()
		for i := range symbols {
			s := &symbols[i]
			if s.Bid.Len()+s.Ask.Len() == 0 {
				continue
			}
			all = append(all, TopOfBook{s.Symbol.String(), s.Bid.Best(), s.Ask.Best(), s.Bid.Len(), s.Ask.Len(), s.Stale})
		}
	}
	slices.SortFunc(all, func(a, b TopOfBook) int {
		return strings.Compare(a.Symbol+",", b.Symbol+",") // as the rows of the file sort
	})
	return all
}

// row is what the digest is taken over.
func (t *TopOfBook) row() string {
	return fmt.Sprintf("%s,%d,%d,%d,%d", t.Symbol, t.Bid.Price, t.Bid.Size, t.Ask.Price, t.Ask.Size)
}

// PositionRow is the best level of one side of an MDP 3.0 instrument.
type PositionRow struct {
	Security int32
	Type     byte // '0', '1', 'E', 'F'
	book.Entry
}

// Positions is the best levels that are known, of every instrument and side, in the order of identifiers.
func Positions(channels ...*Channel) (all []PositionRow) {
	for _, c := range channels {
		if c.levels == nil {
			continue
		}
		securities := c.levels.Securities()
		for i := range securities {
			s := &securities[i]
			for side, t := range []byte{'0', '1', 'E', 'F'} {
				if e := s.Sides[side][0]; e.Known {
					all = append(all, PositionRow{s.ID, t, e})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b PositionRow) int {
		if a.Security != b.Security {
			return int(a.Security) - int(b.Security)
		}
		return int(a.Type) - int(b.Type)
	})
	return all
}

func (p *PositionRow) row() string {
	return fmt.Sprintf("%d,%c,%d,%d,%d", p.Security, p.Type, p.Price, p.Size, p.Orders)
}

// Digest is SHA-256 over the rows, each with a newline, sorted bytewise.
func Digest(channels ...*Channel) string {
	var rows []string
	for _, t := range Tops(channels...) {
		rows = append(rows, t.row())
	}
	for _, p := range Positions(channels...) {
		rows = append(rows, p.row())
	}
	slices.Sort(rows)
	h := sha256.New()
	for _, r := range rows {
		_, _ = io.WriteString(h, r+"\n") // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))
}

// WriteTops writes the best levels as CSV: native fixed-point integers, 0 where a side is empty.
func WriteTops(w io.Writer, channels ...*Channel) error {
	b := bufio.NewWriter(w)
	tops, positions := Tops(channels...), Positions(channels...)
	if len(positions) == 0 || len(tops) > 0 {
		_, _ = fmt.Fprintln(b, "symbol,bid_px,bid_qty,ask_px,ask_qty,bid_levels,ask_levels") // Flush reports errors
		for _, t := range tops {
			_, _ = fmt.Fprintf(b, "%s,%d,%d\n", t.row(), t.BidLevels, t.AskLevels)
		}
	}
	if len(positions) > 0 {
		_, _ = fmt.Fprintln(b, "security_id,entry_type,price,size,orders")
		for _, p := range positions {
			_, _ = fmt.Fprintln(b, p.row())
		}
	}
	return b.Flush()
}
