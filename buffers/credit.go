package buffers

import "fmt"

// A transport with a receive window opens the window when received data is released: by the owner, by the last Lent, or because the
// application sent the packet on and it has left. An account for which AskCredit was called adds up the bytes of its buffers that return.

// Credit is how many received bytes of an account were released since its last Credit.
type Credit struct {
	Account Account
	Holder  uint64 // as given to AskCredit
	Bytes   int
}

// AskCredit makes the pool add up, for TakeCredit, the bytes of the account's buffers that return; buffers filled before the call do not
// count. holder is the caller's own name for the account's user, and comes back in Credit.Holder. The first call on a pool allocates. Error:
// ErrAccount.
func (p *DriverPool) AskCredit(a Account, holder uint64) error {
	acc := p.account(a)
	if a == 0 || acc == nil {
		return fmt.Errorf("buffers: AskCredit: account %d: %w", a, ErrAccount)
	}
	if p.filled == nil {
		p.filled = make([]uint32, len(p.meta))
		p.credits = make([]uint32, 0, cap(p.accounts))
	}
	acc.asks, acc.holder = true, holder
	return nil
}

// IsUnused reports that nothing is charged to an open account, and that no credit of it waits.
func (p *DriverPool) IsUnused(a Account) bool {
	acc := p.account(a)
	return a != 0 && acc != nil && acc.used == [NumClasses]int32{} && acc.credit == 0
}

// HasCredit reports whether an account has credit that TakeCredit has not taken.
func (p *DriverPool) HasCredit() bool { return len(p.credits) > 0 }

// TakeCredit takes one account's credit; false when there is none. It allocates nothing.
func (p *DriverPool) TakeCredit() (Credit, bool) {
	for n := len(p.credits); n > 0; n = len(p.credits) {
		a := &p.accounts[p.credits[n-1]]
		p.credits = p.credits[:n-1]
		c := Credit{a.id, a.holder, int(a.credit)}
		a.credit, a.listed = 0, false
		if !a.closed && c.Bytes > 0 { // else the slot has another owner by now
			return c, true
		}
	}
	return Credit{}, false
}

// credit adds the bytes that were filled into buffer i, which has returned, to its account's credit. Each account is in the list once.
func (p *Pool) credit(i uint32, slot uint32, a *account) {
	n := p.filled[i]
	p.filled[i] = 0
	if n == 0 || a.closed {
		return
	}
	if !a.listed {
		a.listed = true
		p.credits = append(p.credits, slot) // has room: see OpenAccount
	}
	a.credit += n
}
