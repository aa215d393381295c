package server

import "github.com/socketxtreme/socketxtreme/examples/resp/store"

// One command can ask for more than the server wants to hold for a client: MGET for a thousand large values, or for one of them a
// thousand times. Its answer is made in parts of about mostReply bytes, each when the client has read most of those before, from the
// values as they were when the command came: what is left is remembered as references to values and names, and not as bytes. A value
// that changes meanwhile goes to other memory (store.Entry.Freeze), so that the old one lives until it was sent.

// rest is the part of an answer that is still to be made: values, nil for a key that is not there, or names of keys.
type rest struct {
	values [][]byte
	names  []string
}

// enough reports whether this call of Serve has collected what the caller should send before more is made.
func (c *Session) enough() bool { return len(c.out.B)-c.begin >= mostReply }

// freeze looks up keys, and keeps their values as they are.
func (c *Session) freeze(keys [][]byte) rest {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		if e := c.keys().Look(key); e != nil {
			if values[i] = e.Freeze(); values[i] == nil {
				values[i] = []byte{}
			}
		}
	}
	return rest{values: values}
}

// names answers with the keys of entries.
func (c *Session) names(of []*store.Entry) {
	c.out.Array(len(of))
	for i, e := range of {
		if c.enough() {
			names := make([]string, 0, len(of)-i)
			for _, e := range of[i:] {
				names = append(names, e.Key())
			}
			c.rest = rest{names: names}
			return
		}
		c.out.BulkString(e.Key())
	}
}

// Answering reports whether a part of the last answer is still to be made: Serve makes it before it looks at further commands.
func (c *Session) Answering() bool { return len(c.rest.values)+len(c.rest.names) > 0 }

// resume makes the next part of an answer.
func (c *Session) resume() {
	r := &c.rest
	for len(r.values) > 0 && !c.enough() {
		if v := r.values[0]; v == nil {
			c.out.Null()
		} else {
			c.out.Bulk(v)
		}
		r.values[0] = nil
		r.values = r.values[1:]
	}
	for len(r.names) > 0 && !c.enough() {
		c.out.BulkString(r.names[0])
		r.names = r.names[1:]
	}
	if !c.Answering() {
		*r = rest{}
	}
}
