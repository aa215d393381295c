package uring_test

import (
	"testing"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
	"github.com/socketxtreme/socketxtreme/ring/uring"
)

func TestContract(t *testing.T) {
	ringtest.Run(t, ringtest.Backend{Name: "uring", Driver: uring.New, Caps: ring.CapThreadBound | ring.CapZeroCopySend | ring.CapTxTimestamps,
		Overshoot: 128})
}
