// Package live makes what the live screens of xtstat show: what a process does now, second by second, from its statistics file. Packages top,
// in the terminal, and web, in a browser, show the same Model.
//
//	stats.Reader ──► Model.Update ──► top:  lines of styled text ──► terminal, or plain text on a pipe
//	                              └─► web:  JSON ──► a page in a browser
//
// The history of a second's rates comes from the samples in the file, so that a screen has the last two minutes from the beginning.
package live
