package stats

// feedCounters are the words of what xtreme.FeedPublisher stores of a feed, lineCounters those of each of its lines.
var feedCounters = []Counter{
	{Name: "delivered_messages", Unit: "messages", Type: Total, Help: "messages that the feed delivered"},
	{Name: "recovered_messages", Unit: "messages", Type: Total, Help: "of these, messages that came from the recovery server"},
	{Name: "unrecovered_messages", Unit: "messages", Type: Total, Help: "messages that were given up"},
	{Name: "gaps", Unit: "gaps", Type: Total, Help: "gaps that opened: no line had brought the messages yet"},
	{Name: "filled_by_line_messages", Unit: "messages", Type: Total, Help: "messages of gaps that a line filled"},
	{Name: "recovery_requests", Unit: "requests", Type: Total, Help: "requests to the recovery server"},
	{Name: "recovery_rejects", Unit: "requests", Type: Total, Help: "requests that the recovery server rejected"},
	{Name: "overflows", Unit: "gaps", Type: Total, Help: "gaps given up because what was parked no longer fitted"},
	{Name: "open_gaps", Unit: "gaps", Type: Gauge, Help: "gaps that are open now"},
	{Name: "next_sequence", Unit: "sequence number", Type: Gauge, Help: "the message that is delivered next"},
}

var lineCounters = []Counter{
	{Name: "segments", Unit: "packets", Type: Total, Help: "packets that the line brought"},
	{Name: "bytes", Unit: "bytes", Type: Total, Help: "bytes of payload that the line brought"},
	{Name: "first_messages", Unit: "messages", Type: Total, Help: "messages that the line brought first"},
	{Name: "duplicate_messages", Unit: "messages", Type: Total, Help: "messages that were there already"},
	{Name: "gaps", Unit: "gaps", Type: Total, Help: "times that the line skipped messages"},
	{Name: "lost_messages", Unit: "messages", Type: Gauge,
		Help: "messages that the line has not brought: fewer when it brings some of them later"},
	{Name: "filled_messages", Unit: "messages", Type: Total, Help: "messages of the feed's gaps that the line filled: recovered by it"},
	{Name: "reordered_messages", Unit: "messages", Type: Total, Help: "messages that the line brought after later ones"},
	{Name: "late_messages", Unit: "messages", Type: Total, Help: "messages that came after they had been given up"},
	{Name: "malformed", Unit: "packets", Type: Total, Help: "packets with impossible numbers"},
	{Name: "last_sequence", Unit: "sequence number", Type: Gauge, Help: "the last message that the line brought or announced"},
	{Name: "dead", Unit: "flag", Type: Gauge, Help: "1 while the line brings nothing"},
}
