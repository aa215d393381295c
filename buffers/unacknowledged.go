package buffers

import "fmt"

// A transport that sends again what was lost keeps a buffer until the peer has confirmed it. While a link refers to the buffer it is
// transmitting, and nobody may write there; between two frames, and after the last one until the confirmation, it is unacknowledged: headers may
// be written again. A confirmed buffer ends as any other that was sent: Complete, or Sent.

// Unacknowledge notes that no link refers to the packet any more (transmitting to unacknowledged).
func (p *DriverPool) Unacknowledge(pk Packet) {
	if m := p.live("Unacknowledge", pk); m.state != stateTransmitting {
		panic(fmt.Sprintf("buffers: Unacknowledge: buffer %d is %v, not transmitting", pk.head, m.state))
	}
	p.setState(pk.head, stateUnacknowledged)
}

// Retransmit notes that a link refers to the packet again (unacknowledged to transmitting).
func (p *DriverPool) Retransmit(pk Packet) {
	if m := p.live("Retransmit", pk); m.state != stateUnacknowledged {
		panic(fmt.Sprintf("buffers: Retransmit: buffer %d is %v, not unacknowledged", pk.head, m.state))
	}
	p.setState(pk.head, stateTransmitting)
}
