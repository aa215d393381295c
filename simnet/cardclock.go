package simnet

import (
	"fmt"

	"github.com/socketxtreme/socketxtreme/ring"
)

// cardClock is the clock of a host's cards: it shows what the world's does, at any moment.
type cardClock struct{ w *World }

func (c cardClock) Compare() (card, system int64, err error) {
	return epoch + c.w.now, epoch + c.w.now, nil
}

func (cardClock) Close() error { return nil }

// card returns an error for the clock of a network card (ring.SetConfig.Card): a host has none, and the cards of the real machine are not its
// own.
func (h *Host) card(index int) (ring.CardClock, error) {
	if index < 1 || index > len(h.nics) {
		return nil, fmt.Errorf("simnet: host %s: interface %d of %d has no clock", h.name, index, len(h.nics))
	}
	return cardClock{h.world}, nil
}
