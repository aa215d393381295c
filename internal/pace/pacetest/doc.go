// Package pacetest judges a paced sender by what its receiver saw, on a machine that may stop either of them at any time.
//
// The rule is that of a token bucket: of what is let go within any time T there are at most rate × T + burst bytes. A receiver sees arrivals,
// which come late by what the machine did in between: a sender that was stopped after it had looked at the clock, an interrupt. So the
// sender takes notes (Notes) of when it began each turn and of what still waited; that gives for each datagram a time before which it was
// not let go. From the i-th to the j-th datagram then
//
//	bytes(i … j) ≤ rate × (arrival(j) − since(i)) + burst
//
// holds for every i and j on any machine, however busy (Rule.Check), and a sender that is a tenth too fast or whose burst is twice as
// large breaks it wherever it was let run for some milliseconds. Rule.Least is the other side, less the time in which the sender was stopped.
package pacetest
