// Package record keeps the last frames of links in memory and writes them as pcapng: what a ring received and sent, with what became of it.
// Package ring/offload records with it, package xtreme and xtstat's capture write.
//
//	ring's goroutine                                    any goroutine
//	Tap.Received ─┐                                  ┌─ Recorder.Write      what memory has
//	Tap.Dropped   ├──► chunks of the memory ──► cursor ─ Stream      and what comes, until told to stop
//	Tap.Sending  ─┘    the oldest is written over       ├─ alarms      by itself, when something is lost
//	                                                    └─ Capture     all there is, from the first frame on
//
// A chunk belongs to one tap while it is filled: a record is a copy of the first bytes of a frame behind a head. The tap publishes the records
// of a burst when the stack has handled it, so that the reason of a drop stands in the record of the frame that was dropped. A reader takes a
// chunk by counting itself in; chunks with a reader are not written over. Nobody waits for anybody.
//
//	|  time 8  |  length 4  |  taken 4  |  lost 4  |  sequence 4  |  drop 1  |  flags 1  |  0 6  |  frame …
//
// time is the processor's counter, or with flagStamped the link's own stamp in Unix nanoseconds. lost is how many frames the link had lost when
// this one came, since the one before (epb_dropcount). Events of the loop (gaps between polls, changes of paths, gaps of a feed) become comments
// of the next frame of that loop, or of the last one before.
package record
