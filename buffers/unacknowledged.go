package buffers

import "fmt"

// A transport that retransmits keeps a buffer until the peer has acknowledged it. While a link's descriptor refers to the buffer it is
// transmitting, and its bytes must not change; between two transmissions, and after the last one until the acknowledgement, it is
// unacknowledged: headers may be written again. An acknowledged buffer ends as any other that was sent: Complete, or FreeTransmit.

// Unacknowledge notes that no link refers to the packet any more (transmitting, or completing as a link returns it, to unacknowledged).
func (p *DriverPool) Unacknowledge(pk Packet) {
	if m := p.mustBeLive("Unacknowledge", pk); m.state != stateTransmitting && m.state != stateCompleting {
		panic(fmt.Sprintf("buffers: Unacknowledge: buffer %d is %v, not transmitting or completing", pk.head, m.state))
	}
	p.setState(pk.head, stateUnacknowledged)
}

// Retransmit notes that a link refers to the packet again (unacknowledged to transmitting).
func (p *DriverPool) Retransmit(pk Packet) {
	if m := p.mustBeLive("Retransmit", pk); m.state != stateUnacknowledged {
		panic(fmt.Sprintf("buffers: Retransmit: buffer %d is %v, not unacknowledged", pk.head, m.state))
	}
	p.setState(pk.head, stateTransmitting)
}
