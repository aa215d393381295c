// Package view makes what xtstat prints from what a process has published: vma_stats' five views, with its columns and rows, and the same as
// JSON. The commands of xtstat use it.
//
// A Snapshot is what the file had at a moment; Rates makes one whose totals are per second from two of them. Every view prints either.
package view
