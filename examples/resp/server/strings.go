package server

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/socketxtreme/socketxtreme/examples/resp/resp"
	"github.com/socketxtreme/socketxtreme/examples/resp/store"
)

// The sentences that clients compare.
const (
	syntaxError   = "ERR syntax error"
	notAnInteger  = "ERR value is not an integer or out of range"
	notAFloat     = "ERR value is not a valid float"
	noSuchKey     = "ERR no such key"
	tooLong       = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	wouldOverflow = "ERR increment or decrement would overflow"
)

func (c *Session) get(args [][]byte) { c.value(c.keys().Look(args[1])) }

// value answers with what an entry holds.
func (c *Session) value(e *store.Entry) {
	if e == nil {
		c.out.Null()
	} else {
		c.out.Bulk(e.Value)
	}
}

// store sets a key as SET does: the value is new and does not expire.
func (c *Session) store(key, value []byte) *store.Entry {
	e := c.keys().GetOrAdd(key)
	e.SetValue(value)
	c.keys().Persist(e)
	return e
}

// setOptions are the words after SET key value.
type setOptions struct {
	nx, xx, get, keep bool
	expires           expiry
}

// set is the command SET.
func (c *Session) set(args [][]byte) {
	if len(args) == 3 {
		c.store(args[1], args[2])
		c.out.Simple("OK")
		return
	}
	o, ok := parseSet(args[3:])
	if !ok {
		c.out.Error(syntaxError)
		return
	}
	at, ok := c.deadline(o.expires, "set")
	if !ok {
		return
	}
	db, key := c.keys(), args[1]
	e := db.Get(key)
	if o.get { // the old value is the answer whatever becomes of the new one
		c.value(e)
	}
	if o.nx && e != nil || o.xx && e == nil {
		if !o.get {
			c.out.Null()
		}
		return
	}
	if e = db.GetOrAdd(key); !o.keep {
		db.Persist(e)
	}
	e.SetValue(args[2])
	if at > 0 {
		db.Expire(e, at)
	}
	if !o.get {
		c.out.Simple("OK")
	}
}

// parseSet reads the options of SET.
func parseSet(words [][]byte) (o setOptions, ok bool) {
	for i := 0; i < len(words); i++ {
		switch word := upper(words[i]); {
		case word == "NX" && !o.xx:
			o.nx = true
		case word == "XX" && !o.nx:
			o.xx = true
		case word == "GET":
			o.get = true
		case word == "KEEPTTL" && o.expires.unit == "":
			o.keep = true
		case isExpiry(word) && !o.keep && o.expires.unit == "" && i+1 < len(words):
			i++
			o.expires = expiry{unit: word, value: words[i]}
		default:
			return o, false
		}
	}
	return o, true
}

// setnx is the command SETNX.
func (c *Session) setnx(args [][]byte) {
	free := c.keys().Get(args[1]) == nil
	if free {
		c.store(args[1], args[2])
	}
	c.out.Bool(free)
}

func (c *Session) setex(args [][]byte)  { c.setFor(args, "EX", "setex") }
func (c *Session) psetex(args [][]byte) { c.setFor(args, "PX", "psetex") }

// setFor is the commands SETEX and PSETEX.
func (c *Session) setFor(args [][]byte, unit, name string) {
	if at, ok := c.deadline(expiry{unit, args[2]}, name); ok {
		c.keys().Expire(c.store(args[1], args[3]), at)
		c.out.Simple("OK")
	}
}

func (c *Session) getset(args [][]byte) {
	c.value(c.keys().Look(args[1]))
	c.store(args[1], args[2])
}

func (c *Session) getdel(args [][]byte) {
	c.value(c.keys().Look(args[1]))
	c.keys().Delete(args[1])
}

// getex is the command GETEX.
func (c *Session) getex(args [][]byte) {
	var x expiry
	persist := false
	for i := 2; i < len(args); i++ {
		switch word := upper(args[i]); {
		case word == "PERSIST" && x.unit == "" && !persist:
			persist = true
		case isExpiry(word) && x.unit == "" && !persist && i+1 < len(args):
			i++
			x = expiry{word, args[i]}
		default:
			c.out.Error(syntaxError)
			return
		}
	}
	e := c.keys().Look(args[1])
	if e == nil {
		c.out.Null()
		return
	}
	at, ok := c.deadline(x, "getex")
	if !ok {
		return
	}
	c.value(e)
	if persist {
		c.keys().Persist(e)
	} else if at > 0 {
		c.keys().Expire(e, at)
	}
}

// mget is the command MGET.
func (c *Session) mget(args [][]byte) {
	c.out.Array(len(args) - 1)
	for i, key := range args[1:] {
		if c.enough() {
			c.rest = c.freeze(args[1+i:])
			return
		}
		c.value(c.keys().Look(key))
	}
}

// mset is the command MSET.
func (c *Session) mset(args [][]byte) {
	if c.pairs(args) {
		for i := 1; i < len(args); i += 2 {
			c.store(args[i], args[i+1])
		}
		c.out.Simple("OK")
	}
}

// msetnx is the command MSETNX.
func (c *Session) msetnx(args [][]byte) {
	if !c.pairs(args) {
		return
	}
	for i := 1; i < len(args); i += 2 {
		if c.keys().Get(args[i]) != nil {
			c.out.Int(0)
			return
		}
	}
	for i := 1; i < len(args); i += 2 {
		c.store(args[i], args[i+1])
	}
	c.out.Int(1)
}

// pairs answers with an error unless each key has a value.
func (c *Session) pairs(args [][]byte) bool {
	if len(args)%2 == 0 {
		c.out.Error("ERR wrong number of arguments for '" + strings.ToLower(string(args[0])) + "' command")
	}
	return len(args)%2 == 1
}

// strlen is the command STRLEN.
func (c *Session) strlen(args [][]byte) {
	if e := c.keys().Look(args[1]); e != nil {
		c.out.Int(int64(len(e.Value)))
	} else {
		c.out.Int(0)
	}
}

// append is the command APPEND.
func (c *Session) append(args [][]byte) {
	e := c.keys().Get(args[1])
	if e != nil && len(e.Value)+len(args[2]) > c.server.config.Limits.Bulk {
		c.out.Error(tooLong)
		return
	}
	e = c.keys().GetOrAdd(args[1])
	e.Value = append(e.Value, args[2]...)
	c.out.Int(int64(len(e.Value)))
}

// getrange is the command GETRANGE.
func (c *Session) getrange(args [][]byte) {
	from, ok1 := resp.ParseInt(args[2])
	to, ok2 := resp.ParseInt(args[3])
	if !ok1 || !ok2 {
		c.out.Error(notAnInteger)
		return
	}
	var v []byte
	if e := c.keys().Look(args[1]); e != nil {
		v = e.Value
	}
	n := int64(len(v))
	if from < 0 && to < 0 && from > to {
		c.out.Bulk(nil)
		return
	}
	from, to = fromEnd(from, n), min(fromEnd(to, n), n-1)
	if from > to || n == 0 {
		c.out.Bulk(nil)
		return
	}
	c.out.Bulk(v[from : to+1])
}

// fromEnd turns a place counted from the end into one counted from the start.
func fromEnd(i, n int64) int64 {
	if i < 0 {
		i = max(i+n, 0)
	}
	return i
}

// setrange is the command SETRANGE.
func (c *Session) setrange(args [][]byte) {
	at, ok := resp.ParseInt(args[2])
	switch {
	case !ok:
		c.out.Error(notAnInteger)
		return
	case at < 0:
		c.out.Error("ERR offset is out of range")
		return
	}
	e, part := c.keys().Get(args[1]), args[3]
	if len(part) == 0 { // nothing to write creates nothing
		n := 0
		if e != nil {
			n = len(e.Value)
		}
		c.out.Int(int64(n))
		return
	}
	if at > int64(c.server.config.Limits.Bulk-len(part)) {
		c.out.Error(tooLong)
		return
	}
	e = c.keys().GetOrAdd(args[1])
	if end := int(at) + len(part); end > len(e.Value) {
		e.Value = append(e.Value, make([]byte, end-len(e.Value))...)
	}
	e.Thaw()
	copy(e.Value[at:], part)
	c.out.Int(int64(len(e.Value)))
}

func (c *Session) incr(args [][]byte) { c.add(args[1], 1) }
func (c *Session) decr(args [][]byte) { c.add(args[1], -1) }

// incrby is the command INCRBY.
func (c *Session) incrby(args [][]byte) {
	if by, ok := resp.ParseInt(args[2]); ok {
		c.add(args[1], by)
	} else {
		c.out.Error(notAnInteger)
	}
}

// decrby is the command DECRBY.
func (c *Session) decrby(args [][]byte) {
	by, ok := resp.ParseInt(args[2])
	switch {
	case !ok:
		c.out.Error(notAnInteger)
	case by == math.MinInt64:
		c.out.Error("ERR decrement would overflow")
	default:
		c.add(args[1], -by)
	}
}

// add adds a number to the integer at a key, for INCR, DECR and their like.
func (c *Session) add(key []byte, by int64) {
	var v int64
	e := c.keys().Get(key)
	if e != nil {
		var ok bool
		if v, ok = resp.ParseInt(e.Value); !ok {
			c.out.Error(notAnInteger)
			return
		}
	}
	if by > 0 && v > math.MaxInt64-by || by < 0 && v < math.MinInt64-by {
		c.out.Error(wouldOverflow)
		return
	}
	if e == nil {
		e = c.keys().GetOrAdd(key)
	}
	var text [20]byte
	e.SetValue(strconv.AppendInt(text[:0], v+by, 10))
	c.out.Int(v + by)
}

// incrbyfloat reckons with 64 bits of mantissa and answers with at most 17 digits after the point, as redis does on x86; the largest
// number is that of a float64, some 1.8e308, where redis has 1.2e4932.
func (c *Session) incrbyfloat(args [][]byte) {
	e := c.keys().Get(args[1])
	sum := new(big.Float).SetPrec(64)
	if e != nil {
		v, ok := parseFloat(e.Value)
		if !ok {
			c.out.Error(notAFloat)
			return
		}
		sum = v
	}
	by, ok := parseFloat(args[2])
	if !ok {
		c.out.Error(notAFloat)
		return
	}
	if by.IsInf() || sum.IsInf() || sum.Add(sum, by).IsInf() {
		c.out.Error("ERR increment would produce NaN or Infinity")
		return
	}
	text := strings.TrimSuffix(strings.TrimRight(sum.Text('f', 17), "0"), ".")
	if text == "-0" {
		text = "0"
	}
	e = c.keys().GetOrAdd(args[1])
	e.SetValue([]byte(text))
	c.out.Bulk(e.Value)
}

// longestFloat is of the text of a number; longer ones are no numbers.
const longestFloat = 256

// parseFloat reads a number as INCRBYFLOAT accepts it.
func parseFloat(b []byte) (*big.Float, bool) {
	// The range is looked at first: big.Float would gladly work out ten to the power of a billion. NaN is refused, too.
	if v, err := strconv.ParseFloat(string(b), 64); len(b) > longestFloat || err != nil && !math.IsInf(v, 0) || math.IsNaN(v) {
		return nil, false
	} else if math.IsInf(v, 0) {
		return new(big.Float).SetInf(v < 0), true
	}
	f, _, err := big.ParseFloat(string(b), 10, 64, big.ToNearestEven)
	return f, err == nil
}

// upper is a word of a command in capitals; words are short, and long ones are none.
func upper(b []byte) string {
	if len(b) > longestName {
		return ""
	}
	return strings.ToUpper(string(b))
}
