// Package readme holds the test that compiles the README's program and runs it. Only tests use it.
package readme
