package ringtest

import "testing"

func TestContractOverTheFakeDriver(t *testing.T) {
	Run(t, Backend{Name: "fake", Driver: NewFake})
}
