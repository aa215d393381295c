// Package layout holds the tests of the repository's own shape, for those who change it. It has no code.
//
//	layout_test.go      which package may import which, and where unsafe may stand
//	order_test.go       a package's files call downwards, in the order of ARCHITECTURE.md
//	core_test.go        package ring holds no descriptor
//	types_test.go,
//	names_test.go       what xtreme's signatures and documentation use has a name in xtreme
//	comments_test.go    comments and documents use the words of the field
//	documents_test.go   documents name files, tests and counters that there are
package layout
