package buffers

import "fmt"

// state is where a buffer is. The owner is the only writer.
//
//	free ──Take──► filling ──Fill──► received ──Deliver──► held ──Lend──► lent
//	  ▲ ▲            │                  │                  │ ▲              │
//	  │ └──Return────┘                  │     ┌─Transmit───┘ └─Deliver──┐   │
//	  │                                 │     ▼                         │   │
//	  │                                 │ transmitting ──Complete──► completing
//	  │                                 │   │      ▲                    ▲   │
//	  │                                 │ Unacknowledge, Retransmit     │   │
//	  │                                 │   ▼      │                    │   │
//	  │                                 │ unacknowledged ──Complete─────┘   │
//	  └──────────── Release, Reclaim ───┴───┴───────────────────────────┴───┘
//
// UndoTransmit undoes Transmit when the ring's driver refuses. When a packet is freed, those of its buffers that Buffer.Retain still refers to
// become retained instead of free; Buffer.Release frees them.
type state uint8

const (
	stateFree           state = iota // on a free list
	stateFilling                     // given to a driver, nothing in it yet
	stateReceived                    // filled, waiting inside the ring
	stateHeld                        // the owner goroutine's application has it
	stateLent                        // only other goroutines have it
	stateTransmitting                // the ring is sending it
	stateUnacknowledged              // no link refers to it, the peer has not confirmed it
	stateCompleting                  // sent, its completion not yet delivered
	stateRetained                    // its packet is gone, Buffer.Retain keeps it: counted as held
	numStates
)

// String is the state's name in errors and panics.
func (s state) String() string {
	if s >= numStates {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return [numStates]string{
		"free", "filling", "received", "held", "lent", "transmitting", "unacknowledged", "completing", "retained",
	}[s]
}

// setState moves a whole chain.
func (p *Pool) setState(head uint32, s state) {
	for i := head; i != none; i = p.meta[i].next {
		p.meta[i].state = s
	}
}
