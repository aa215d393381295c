// Package itch reads the messages of Nasdaq TotalView-ITCH 5.0: every displayed order of the exchange and what becomes of it. Feed
// handlers use it on the messages that package moldudp64 takes out of a packet; the orders go into a book.ByOrder.
//
// The format is that of "Nasdaq TotalView-ITCH 5.0". Numbers are big-endian. Prices are in 1/10,000 of a dollar, times in nanoseconds
// since midnight, Eastern Time. A stock is named by its symbol and by a number of the day, the stock locate code.
//
//	type  bytes   message                           read by
//	A, F  36, 40  add order, without and with MPID  ParseAddOrder
//	E, C  31, 36  order executed, at another price  ParseOrderExecuted
//	X     23      order cancel                      ParseOrderCancel
//	D     19      order delete                      ParseOrderDelete
//	U     35      order replace                     ParseOrderReplace
//	P     44      trade of a hidden order           ParseTrade
//	R     39      stock directory                   ParseStockDirectory
//	H     25      stock trading action              ParseTradingAction
//	S     12      system event                      ParseSystemEvent
//
// # A book from orders
//
// An order has a reference number that is unique on its day. Executed and cancelled shares come off it; when none are left it is gone.
// A replacement has a new reference, the side and the stock of the old order, and the last place in the queue. A Trade never touches
// the book: its order was never displayed.
//
// # Errors
//
// A message that is shorter than its type says is a *feed.FormatError with ErrShort; one of another type than the function reads has
// ErrType. An unknown type is an UnknownTypeError. A longer message is accepted. Nothing allocates but the first two errors.
//
// # What is not decoded
//
// Messages Y, L, V, W, K, J, h, Q, B, I, N and O (Reg SHO, market participants, circuit breakers, IPO, price collars, operational halts,
// crosses, broken trades, imbalances, retail interest, direct listings). Check knows their lengths, ParseHeader reads their begin.
package itch
