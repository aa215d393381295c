package itch

import (
	"encoding/binary"

	"github.com/socketxtreme/socketxtreme/feed"
)

// AddOrder is a new displayed order.
type AddOrder struct {
	Header
	Ref    uint64
	Stock  feed.Symbol
	Shares uint32
	Price  uint32  // 1/10,000 of a dollar
	MPID   [4]byte // of the participant, with TypeAddOrderMPID; otherwise zero
	Buy    bool
}

// ParseAddOrder reads a message of type TypeAddOrder or TypeAddOrderMPID.
func ParseAddOrder(m []byte) (a AddOrder, err error) {
	mpid := is(m, TypeAddOrderMPID)
	if !mpid && !is(m, TypeAddOrder) {
		return a, refuse(m, TypeAddOrder)
	}
	a = AddOrder{Header: header(m), Ref: binary.BigEndian.Uint64(m[11:]), Buy: m[19] == 'B',
		Shares: binary.BigEndian.Uint32(m[20:]), Stock: symbol(m[24:]), Price: binary.BigEndian.Uint32(m[32:])}
	if mpid {
		a.MPID = [4]byte(m[36:])
	}
	return a, nil
}

// OrderExecuted is a trade against a displayed order: Shares come off it.
type OrderExecuted struct {
	Header
	Ref       uint64
	Match     uint64
	Shares    uint32
	Price     uint32 // with TypeOrderExecutedWithPrice, 1/10,000 of a dollar; otherwise 0: the trade was at the order's price
	Printable bool   // the trade counts for volume statistics; a trade that is not is in a cross message again
}

// ParseOrderExecuted reads a message of type TypeOrderExecuted or TypeOrderExecutedWithPrice.
func ParseOrderExecuted(m []byte) (e OrderExecuted, err error) {
	priced := is(m, TypeOrderExecutedWithPrice)
	if !priced && !is(m, TypeOrderExecuted) {
		return e, refuse(m, TypeOrderExecuted)
	}
	e = OrderExecuted{Header: header(m), Ref: binary.BigEndian.Uint64(m[11:]), Shares: binary.BigEndian.Uint32(m[19:]),
		Match: binary.BigEndian.Uint64(m[23:]), Printable: true}
	if priced {
		e.Printable, e.Price = m[31] == 'Y', binary.BigEndian.Uint32(m[32:])
	}
	return e, nil
}

// OrderCancel takes Shares off an order.
type OrderCancel struct {
	Header
	Ref    uint64
	Shares uint32
}

// ParseOrderCancel reads a message of type TypeOrderCancel.
func ParseOrderCancel(m []byte) (c OrderCancel, err error) {
	if !is(m, TypeOrderCancel) {
		return c, refuse(m, TypeOrderCancel)
	}
	return OrderCancel{Header: header(m), Ref: binary.BigEndian.Uint64(m[11:]), Shares: binary.BigEndian.Uint32(m[19:])}, nil
}

// OrderDelete removes an order.
type OrderDelete struct {
	Header
	Ref uint64
}

// ParseOrderDelete reads a message of type TypeOrderDelete.
func ParseOrderDelete(m []byte) (d OrderDelete, err error) {
	if !is(m, TypeOrderDelete) {
		return d, refuse(m, TypeOrderDelete)
	}
	return OrderDelete{Header: header(m), Ref: binary.BigEndian.Uint64(m[11:])}, nil
}

// OrderReplace removes order Ref and adds order NewRef of the same side and stock.
type OrderReplace struct {
	Header
	Ref, NewRef uint64
	Shares      uint32
	Price       uint32 // 1/10,000 of a dollar
}

// ParseOrderReplace reads a message of type TypeOrderReplace.
func ParseOrderReplace(m []byte) (r OrderReplace, err error) {
	if !is(m, TypeOrderReplace) {
		return r, refuse(m, TypeOrderReplace)
	}
	return OrderReplace{Header: header(m), Ref: binary.BigEndian.Uint64(m[11:]), NewRef: binary.BigEndian.Uint64(m[19:]),
		Shares: binary.BigEndian.Uint32(m[27:]), Price: binary.BigEndian.Uint32(m[31:])}, nil
}

// Trade is a trade against an order that was not displayed. It does not touch the book.
type Trade struct {
	Header
	Ref    uint64
	Match  uint64
	Stock  feed.Symbol
	Shares uint32
	Price  uint32 // 1/10,000 of a dollar
	Buy    bool
}

// ParseTrade reads a message of type TypeTrade.
func ParseTrade(m []byte) (t Trade, err error) {
	if !is(m, TypeTrade) {
		return t, refuse(m, TypeTrade)
	}
	return Trade{Header: header(m), Ref: binary.BigEndian.Uint64(m[11:]), Buy: m[19] == 'B',
		Shares: binary.BigEndian.Uint32(m[20:]), Stock: symbol(m[24:]), Price: binary.BigEndian.Uint32(m[32:]),
		Match: binary.BigEndian.Uint64(m[36:])}, nil
}
