package offload

import (
	"context"
	"fmt"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/offload/flowrecord"
)

// openRecord resets the peers of processes that have crashed, which takes two seconds at the most and must be done before anything is
// claimed, and makes the record of this ring's connections. Where that is not possible streams are carried all the same, and their paths say so.
func (t *streamPart) openRecord(c *flowrecord.Config) {
	missing := func(err error) {
		t.unrecorded = ring.Reason{Code: "tcp.no_record", Text: fmt.Sprintf("idle peers are not reset when a process of the program is killed: %v", err)}
	}
	if _, err := flowrecord.ResetDead(context.Background(), *c); err != nil {
		missing(err) // the next start could not reset this one's peers either; the record is made all the same, for xtreset
	}
	r, err := flowrecord.Create(*c)
	if err != nil {
		missing(err)
		return
	}
	t.record = r
}

// closeRecord removes the record: the connections were reset, or have ended.
func (t *streamPart) closeRecord() error {
	r := t.record
	t.record = nil
	if r == nil {
		return nil
	}
	return r.Close()
}
