package live

import (
	"fmt"
	"strings"

	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// journal is a channel's OnEvent that writes gaps, recoveries and silent lines into the journal that xtstat shows, and then calls more, unless
// it is nil.
func (l *Live) journal(lines []Line, more func(*handler.Channel, *feed.Event)) func(*handler.Channel, *feed.Event) {
	names := lineNames(lines)
	all := strings.Join(names, " ")
	return func(c *handler.Channel, e *feed.Event) {
		of := fmt.Sprintf("%s %d-%d", c.Name(), e.Seq, e.End-1)
		switch e.Kind {
		case feed.Missed:
			l.engine.NoteGap(&xtreme.FeedGap{Feed: c.Name(), Messages: e.End - e.Seq, Text: fmt.Sprintf("%s missing on %s: %v", of, all, e.Cause),
				Before: e.Since, Behind: e.Behind, Took: e.Took})
		case feed.Filled:
			by := "recovery"
			if int(e.Line) < len(names) {
				by = names[e.Line]
			}
			l.engine.Note(xtreme.NoteRecovery, e.End-e.Seq, of+" came by "+by)
		case feed.GaveUp:
			l.engine.Note(xtreme.NoteOther, e.End-e.Seq, fmt.Sprintf("%s given up: %v", of, e.Cause))
		case feed.LineDead, feed.LineAlive:
			l.engine.Note(xtreme.NoteOther, 1, fmt.Sprintf("%s %s %v", c.Name(), names[e.Line], e.Cause))
		}
		if more != nil {
			more(c, e)
		}
	}
}
