// Package readme holds the tests that compile the programs of the documentation, the README's and the examples, and run them. Only tests use it.
package readme
