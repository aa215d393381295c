package server

import (
	"math"

	"github.com/socketxtreme/socketxtreme/examples/resp/resp"
)

// expiry is a time as a client says it: EX and PX count from now in seconds and milliseconds, EXAT and PXAT from 1970.
type expiry struct {
	unit  string // "": none was said
	value []byte
}

func isExpiry(word string) bool {
	return word == "EX" || word == "PX" || word == "EXAT" || word == "PXAT"
}

// deadline is when that is, in milliseconds since 1970; 0 when none was said. It answers with an error when it must be above 0 and is
// not, in the words of the command called name.
func (c *Session) deadline(x expiry, name string) (at int64, ok bool) {
	if x.unit == "" {
		return 0, true
	}
	v, isNumber := resp.ParseInt(x.value)
	if !isNumber {
		c.out.Error(notAnInteger)
		return 0, false
	}
	if at, ok = c.milliseconds(x.unit, v); v <= 0 || !ok || at <= 0 {
		c.invalidExpire(name)
		return 0, false
	}
	return at, true
}

// milliseconds turns v into milliseconds since 1970; ok is false when that overflows.
func (c *Session) milliseconds(unit string, v int64) (at int64, ok bool) {
	if unit == "EX" || unit == "EXAT" {
		if v > math.MaxInt64/1000 || v < math.MinInt64/1000 {
			return 0, false
		}
		v *= 1000
	}
	if unit == "EX" || unit == "PX" {
		now := c.server.clock.Now()
		if v > math.MaxInt64-now {
			return 0, false
		}
		v += now
	}
	return v, true
}

func (c *Session) invalidExpire(name string) {
	c.out.Error("ERR invalid expire time in '" + name + "' command")
}

func (c *Session) expire(args [][]byte)    { c.expireBy(args, "EX", "expire") }
func (c *Session) pexpire(args [][]byte)   { c.expireBy(args, "PX", "pexpire") }
func (c *Session) expireat(args [][]byte)  { c.expireBy(args, "EXAT", "expireat") }
func (c *Session) pexpireat(args [][]byte) { c.expireBy(args, "PXAT", "pexpireat") }

// expireBy is EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT: the key ends after a time in the given unit, or at one.
func (c *Session) expireBy(args [][]byte, unit, name string) {
	when, ok := c.parseExpireOptions(args[3:])
	if !ok {
		return
	}
	v, ok := resp.ParseInt(args[2])
	if !ok {
		c.out.Error(notAnInteger)
		return
	}
	at, ok := c.milliseconds(unit, v)
	if !ok {
		c.invalidExpire(name)
		return
	}
	db := c.keys()
	e := db.Get(args[1])
	if e == nil || !when.allows(e.Expires(), at) {
		c.out.Int(0)
		return
	}
	if at <= c.server.clock.Now() {
		db.Delete(args[1])
	} else {
		db.Expire(e, at)
	}
	c.out.Int(1)
}

// expireOptions say when EXPIRE may change the time of a key: it has none, it has one, the new one is later, earlier.
type expireOptions struct{ nx, xx, gt, lt bool }

// allows reports whether the options NX, XX, GT and LT allow that an expiry changes from old to at.
func (o expireOptions) allows(old, at int64) bool {
	switch {
	case o.nx && old != 0, o.xx && old == 0:
		return false
	case o.gt && (old == 0 || at <= old), o.lt && old != 0 && at >= old: // no time is the latest of all
		return false
	}
	return true
}

// parseExpireOptions answers with an error when they cannot be.
func (c *Session) parseExpireOptions(words [][]byte) (o expireOptions, ok bool) {
	for _, w := range words {
		switch upper(w) {
		case "NX":
			o.nx = true
		case "XX":
			o.xx = true
		case "GT":
			o.gt = true
		case "LT":
			o.lt = true
		default:
			c.out.Error("ERR Unsupported option " + string(w))
			return o, false
		}
	}
	switch {
	case o.nx && (o.xx || o.gt || o.lt):
		c.out.Error("ERR NX and XX, GT or LT options at the same time are not compatible")
		return o, false
	case o.gt && o.lt:
		c.out.Error("ERR GT and LT options at the same time are not compatible")
		return o, false
	}
	return o, true
}

// The units of replies, in milliseconds.
const millisecond, second = 1, 1000

func (c *Session) ttl(args [][]byte)         { c.replyExpiry(args[1], c.server.clock.Now(), second) }
func (c *Session) pttl(args [][]byte)        { c.replyExpiry(args[1], c.server.clock.Now(), millisecond) }
func (c *Session) expiretime(args [][]byte)  { c.replyExpiry(args[1], since1970, second) }
func (c *Session) pexpiretime(args [][]byte) { c.replyExpiry(args[1], since1970, millisecond) }

// since1970 is the time from which replyExpiry counts for EXPIRETIME.
const since1970 = 0

// replyExpiry replies how long after a time a key expires, in a unit: 0 when it was before, -1 when it does not expire, -2 when there is no key.
func (c *Session) replyExpiry(key []byte, from, unit int64) {
	e := c.keys().Look(key)
	switch {
	case e == nil:
		c.out.Int(-2)
	case e.Expires() == 0:
		c.out.Int(-1)
	default:
		c.out.Int((max(e.Expires()-from, 0) + unit/2) / unit)
	}
}

func (c *Session) persist(args [][]byte) {
	e := c.keys().Get(args[1])
	c.out.Bool(e != nil && c.keys().Persist(e))
}
