// Package book keeps books: aggregated price levels (IEX DEEP), single orders (ITCH) and levels by position (CME market
// by price). Everything hot is preallocated; what outgrows it is allocated once more and kept. Books are for one
// goroutine.
package book
