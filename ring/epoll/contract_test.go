package epoll

import (
	"testing"

	"github.com/socketxtreme/socketxtreme/ring/ringtest"
)

func TestContract(t *testing.T) {
	ringtest.Run(t, ringtest.Backend{Name: "epoll", Driver: New})
}
