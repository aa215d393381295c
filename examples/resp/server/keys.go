package server

import (
	"strconv"

	"github.com/socketxtreme/socketxtreme/examples/resp/resp"
	"github.com/socketxtreme/socketxtreme/examples/resp/store"
)

// del is the command DEL.
func (c *Session) del(args [][]byte) {
	var n int64
	for _, key := range args[1:] {
		if c.keys().Delete(key) {
			n++
		}
	}
	c.out.Int(n)
}

// exists is the command EXISTS.
func (c *Session) exists(args [][]byte) {
	var n int64
	for _, key := range args[1:] {
		if c.keys().Look(key) != nil {
			n++
		}
	}
	c.out.Int(n)
}

// typeOf is the command TYPE.
func (c *Session) typeOf(args [][]byte) {
	if c.keys().Get(args[1]) == nil {
		c.out.Simple("none")
	} else {
		c.out.Simple("string")
	}
}

// keysLike is the command KEYS.
func (c *Session) keysLike(args [][]byte) {
	db, pattern := c.keys(), string(args[1])
	var found []*store.Entry
	db.Scan(0, db.Len(), func(e *store.Entry) {
		if store.Match(pattern, e.Key()) {
			found = append(found, e)
		}
	})
	c.names(found)
}

// usualScan is how many keys SCAN looks at if the client names no COUNT.
const usualScan = 10

// scan is the command SCAN.
func (c *Session) scan(args [][]byte) {
	cursor, err := strconv.ParseUint(string(args[1]), 10, 64)
	if err != nil {
		c.out.Error("ERR invalid cursor")
		return
	}
	pattern, kind, count := "*", "string", int64(usualScan)
	for i := 2; i < len(args); i += 2 {
		if i+1 == len(args) {
			c.out.Error(syntaxError)
			return
		}
		switch upper(args[i]) {
		case "MATCH":
			pattern = string(args[i+1])
		case "TYPE":
			kind = string(args[i+1])
		case "COUNT":
			var ok bool
			if count, ok = resp.ParseInt(args[i+1]); !ok {
				c.out.Error(notAnInteger)
				return
			}
			if count < 1 {
				c.out.Error(syntaxError)
				return
			}
		default:
			c.out.Error(syntaxError)
			return
		}
	}
	db := c.keys()
	var found []*store.Entry
	cursor = db.Scan(cursor, int(min(count, int64(db.Len())+1)), func(e *store.Entry) {
		if kind == "string" && store.Match(pattern, e.Key()) {
			found = append(found, e)
		}
	})
	c.out.Array(2)
	c.out.BulkString(strconv.FormatUint(cursor, 10))
	c.names(found)
}

// randomkey is the command RANDOMKEY.
func (c *Session) randomkey([][]byte) {
	if e := c.keys().Random(); e != nil {
		c.out.BulkString(e.Key())
	} else {
		c.out.Null()
	}
}

// rename is the command RENAME.
func (c *Session) rename(args [][]byte) {
	e := c.keys().Get(args[1])
	if e == nil {
		c.out.Error(noSuchKey)
		return
	}
	c.keys().Rename(e, args[2])
	c.out.Simple("OK")
}

// renamenx is the command RENAMENX.
func (c *Session) renamenx(args [][]byte) {
	e := c.keys().Get(args[1])
	switch {
	case e == nil:
		c.out.Error(noSuchKey)
	case c.keys().Get(args[2]) != nil:
		c.out.Int(0)
	default:
		c.keys().Rename(e, args[2])
		c.out.Int(1)
	}
}

func (c *Session) dbsize([][]byte) { c.out.Int(int64(c.keys().Len())) }

// flushdb is the command FLUSHDB.
func (c *Session) flushdb(args [][]byte) {
	if c.flushes(args) {
		c.keys().Clear()
		c.out.Simple("OK")
	}
}

// flushall is the command FLUSHALL.
func (c *Session) flushall(args [][]byte) {
	if c.flushes(args) {
		for _, db := range c.server.dbs {
			db.Clear()
		}
		c.out.Simple("OK")
	}
}

// flushes answers with an error unless the words are those of FLUSHDB; ASYNC and SYNC are the same here.
func (c *Session) flushes(args [][]byte) bool {
	if len(args) == 1 || len(args) == 2 && (upper(args[1]) == "ASYNC" || upper(args[1]) == "SYNC") {
		return true
	}
	c.out.Error(syntaxError)
	return false
}
