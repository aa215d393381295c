package offload

import "github.com/socketxtreme/socketxtreme/ring/offload/nic"

// In the tests of this package a change of an attachment's state that is not in the table is a panic.
func init() { nic.PanicOnIllegalMoves() }
