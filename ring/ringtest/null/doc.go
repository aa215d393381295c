// Package null measures the completion layer alone. Driver is a ring.Driver over memory: it asks no kernel and delivers datagrams as
// often as it is asked, so that what a Poll costs is the core's own work. Layer is a ring over it with the loop of an application;
// Bare is the same loop over the same kind of memory as one would write it by hand, without a ring. What Layer costs beyond Bare is
// the price of the contract:
//
//	layer, err := null.NewLayer(16)
//	bare, err := null.NewBare(16)
//	sum, err := layer.Turn() // Poll, read, release: 16 completions
//	sum = bare.Turn()        // take 16 indexes, read, put them back
//
// It is for benchmarks (ring's own and the program bench). Everything belongs to one goroutine.
package null
