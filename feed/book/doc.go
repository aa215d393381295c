// Package book keeps order books of many instruments from what the decoders of feed deliver. Feed handlers use it behind a feed.Channel,
// so that every message is applied once and in order.
//
//	ByPrice  a message is the whole size at a price          IEX DEEP; Quote for TOPS
//	ByOrder  messages are single orders and their changes    ITCH, PITCH
//	ByLevel  messages are changes of numbered levels         CME MDP 3.0, market by price
//
// Prices and sizes are the integers of the feed: a book neither knows nor changes their unit. Symbols are feed.Symbol, the instruments
// of ByLevel are numbers.
//
// # Price levels
//
// ByPrice and ByOrder share Books: an Instrument for each symbol seen, with two sides sorted by price. Level.Size is the sum at a price.
// A level without size, for ByOrder without orders, is removed. A crossed book is kept as it is: during an auction it is right, and
// after a loss it is a sign that the application wants to see.
//
// # Orders
//
// ByOrder finds an order by its reference. A change of an order that it does not know is counted (Unknown) and otherwise ignored. An
// order that is added under a reference in use replaces the old one. Size that is taken off beyond what an order has removes the
// order. The queue position of an order is not kept.
//
// # Numbered levels
//
// ByLevel keeps up to MaxDepth levels a side by their numbers, 1 is the best, and implied levels apart. A level is known only when a
// message described it: a book that is begun in mid-stream, or damaged, has unknown levels between known ones. Entry.Known is false for
// these, and nothing is guessed. An inserted level moves the worse ones down, and what moves beyond the depth is forgotten.
//
// # Losses
//
// A book cannot report that a message was lost; feed.Channel can. MarkStale then marks every instrument, because nobody knows which ones
// the message concerned, and Clear at the begin of an epoch empties the books and takes the marks away. Instruments of ByLevel have
// update counts of their own (CountUpdate): only those are damaged that missed an update.
//
// # Memory
//
// A constructor allocates for the Capacity it is given. What outgrows it allocates once more and stays; nothing else allocates. Books
// are for one goroutine. A pointer to an Instrument or a Security is valid until the next new one is seen.
package book
