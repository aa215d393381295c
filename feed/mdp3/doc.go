// Package mdp3 reads CME MDP 3.0: packets, and of their messages the price levels, trades, volumes and statistics. Feed handlers use it
// on the UDP payload; the levels go into a book.ByLevel.
//
// The format is that of "CME MDP 3.0 Market Data", Simple Binary Encoding, schema 1, versions 6 to 9 and later ones that only append.
// All numbers are little-endian. Prices are mantissas: PriceExponent returns the power of ten of a template. Times are in nanoseconds
// since 1970 UTC.
//
//	packet   | 0 sequence number of the packet | 4 sending time | 12 message | message …
//	message  | 0 size, with this header | 2 block length | 4 template | 6 schema | 8 version | 10 block | groups …
//	group    | 0 entry length | 2 entry count | 3 entry | entry …
//
// The sequence counts packets, not messages: for a feed.Channel a packet has the count 1.
//
// Messages, blocks and entries are stepped over by the lengths that are sent. So a newer version, which appends fields and groups, is
// read as an older one. A packet is parsed once and nothing is copied or allocated: messages and entries are the packet's own bytes.
//
//	template  message                    exponent  entry
//	32, 46    market by price            -7, -9    BookEntry
//	42, 48    trade summary              -7, -9    TradeEntry
//	37        volume                               VolumeEntry
//	35, 51    session statistics         -7, -9    StatisticsEntry
//	4         channel reset                        none: all books of the channel are empty
//	12        heartbeat                            none
//	30, 38, 43, 47, 52  security status, snapshot, order book, order book, snapshot: not decoded
//
// # Gaps of one instrument
//
// Every entry has an RptSeq that counts the updates of its instrument over all templates. After a lost packet it reports which books are
// damaged; book.ByLevel checks it.
//
// # Errors
//
// Parse checks that the messages fill the packet. It returns a *feed.FormatError with ErrShort or ErrSize. Message.Root and
// Message.Group return one with ErrBlock or ErrGroup when lengths inside the message do not fit. Message.Check returns one with
// ErrSchema for another schema, and an UnknownTemplateError. Nothing allocates but the errors for what is malformed.
//
// # What is not decoded
//
// Snapshots, market by order, instrument definitions, security status, the fields of an entry behind those that are named here, and
// groups behind the first one (in trade summaries the orders of a trade).
package mdp3
