package epoll_test

import (
	"testing"

	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/epoll"
	"github.com/socketxtreme/socketxtreme/ring/ringtest"
)

func TestContract(t *testing.T) {
	ringtest.Run(t, ringtest.Backend{Name: "epoll", Driver: epoll.New, Caps: ring.CapTxTimestamps})
}
