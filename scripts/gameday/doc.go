// Gameday lets an operator practise: it makes two network namespaces with a veth between them, sends a feed from a synthetic exchange to a feed
// handler, and does one of 14 things to them that lose or divert packets. The operator, who does not know which, finds with xtstat and
// docs/monitoring.md what happened, how much was lost and when, and then opens the sealed answer.
//
//	go run ./scripts/gameday -seed 7                   as root; prints how to reach the feed handler, and where the answer lies
//	go run ./scripts/gameday open ANSWER               prints the answer
//
//	this process                                            the victim, a child process
//	┌───────────────────┐   the feed, 10,000 packets/s      ┌──────────────────────────────────┐
//	│ exchange      p0 ─┼──────────── veth ────────────────►│ v0  feed handler (package live)  │
//	│ cause             ├── commands, by standard input ───►│     an audit line beside it      │
//	│                   │◄─ what the application missed ────┤                                  │
//	└───────────────────┘                                   └──────────────────────────────────┘
//
// The answer does not come from the statistics that xtstat reads: losses are what was sent and what the application says it has missed.
package main
