package wheel_test

import (
	"fmt"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/wheel"
)

// A connection's idle deadline moves with its traffic, in virtual time.
func Example() {
	var now clock.Manual
	w := wheel.New(now.Now(), time.Millisecond)

	const connection = 42
	idle := w.Start(now.Now().Add(30*time.Second), connection)
	for range 3 {
		now.Advance(20 * time.Second) // a packet every 20 seconds
		w.Reset(idle, now.Now().Add(30*time.Second))
		n, _ := w.Expire(now.Now(), 64, func(uint64) {})
		fmt.Println("fired:", n)
	}
	now.Advance(31 * time.Second)
	w.Expire(now.Now(), 64, func(data uint64) { fmt.Println("idle:", data) })
	// Output:
	// fired: 0
	// fired: 0
	// fired: 0
	// idle: 42
}
