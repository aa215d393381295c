// Package top is the live screen of xtstat top: what a process does now, second by second, from its statistics file. Command xtstat runs it.
//
//	stats.Reader ──► Model.Update ──► Render ──► lines of styled text ──► terminal (screen.go), or plain text on a pipe
//
// The history of a second's rates comes from the samples in the file, so that the screen has the last minutes from the beginning.
package top
