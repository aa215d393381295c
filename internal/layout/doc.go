// Package layout holds the tests of the repository's own shape: which package may import which, and where unsafe may stand. It has
// no code.
package layout
