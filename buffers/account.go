package buffers

import (
	"fmt"
	"slices"
)

// Account is a socket's budget of buffer memory. It counts whole strides, not payload, because a one-byte datagram occupies 2 KiB. 0 is no
// account, and has no limit.
//
// The number is the slot in the low 20 bits and the slot's use count above, so that the number of a closed socket does
// not reach the next one.
type Account int32

const (
	slotBits = 20
	slotMask = 1<<slotBits - 1
	usesMask = 1<<(31-slotBits) - 1
)

type account struct {
	id     Account // 0: slot is not in use
	uses   int32
	used   [NumClasses]int32 // buffers
	limit  int               // bytes; 0: none
	holder uint64            // see AskCredit
	credit uint32            // bytes that came back, if it asks
	asks   bool              // see AskCredit
	listed bool              // in Pool.credits, also when it was closed meanwhile
	closed bool              // waits for its last buffer
}

// OpenAccount opens an account with a limit in bytes of buffer memory; with 0 only the dynamic rule of Over applies.
// Allocates when more accounts are open than ever before.
func (p *DriverPool) OpenAccount(limit int) (Account, error) {
	if limit < 0 {
		return 0, fmt.Errorf("buffers: OpenAccount: limit is %d: %w", limit, ErrSize)
	}
	var slot uint32
	if n := len(p.freeAccounts); n > 0 {
		slot = p.freeAccounts[n-1]
		p.freeAccounts = p.freeAccounts[:n-1]
	} else {
		if len(p.accounts) > slotMask {
			return 0, fmt.Errorf("buffers: OpenAccount: %d accounts are open: %w", len(p.accounts)-1, ErrExhausted)
		}
		slot = uint32(len(p.accounts))
		p.accounts = append(p.accounts, account{})
		p.freeAccounts = slices.Grow(p.freeAccounts, len(p.accounts))
		if p.filled != nil {
			p.credits = slices.Grow(p.credits, len(p.accounts)) // freeBuffer must not allocate
		}
	}
	a := &p.accounts[slot]
	*a = account{id: Account(a.uses<<slotBits) | Account(slot), uses: (a.uses + 1) & usesMask, limit: limit, listed: a.listed}
	return a.id, nil
}

// SetLimit changes the limit in bytes of buffer memory; 0 is none. It takes nothing back from the holder. Errors:
// ErrAccount, ErrSize.
func (p *DriverPool) SetLimit(a Account, limit int) error {
	if limit < 0 {
		return fmt.Errorf("buffers: SetLimit: limit is %d: %w", limit, ErrSize)
	}
	acc := p.account(a)
	if a == 0 || acc == nil {
		return fmt.Errorf("buffers: SetLimit: account %d: %w", a, ErrAccount)
	}
	acc.limit = limit
	return nil
}

// CloseAccount ends the account. Buffers still charged to it stay good; the slot is used again when the last of them
// has returned. Error: ErrAccount when it is not open.
func (p *DriverPool) CloseAccount(a Account) error {
	acc := p.account(a)
	if a == 0 || acc == nil || acc.closed {
		return fmt.Errorf("buffers: CloseAccount: account %d: %w", a, ErrAccount)
	}
	acc.closed = true
	p.freeClosedAccount(uint32(a & slotMask))
	return nil
}

// Used is the buffer memory charged to a, in bytes; for account 0, of the buffers in use that are charged to no account. 0 for an account that
// is not open.
func (p *DriverPool) Used(a Account) int {
	acc := p.account(a)
	if acc == nil {
		return 0
	}
	return acc.bytes(&p.Pool)
}

// Over reports whether the holder of a should take no more: it has reached its limit, or has more buffers of a class than receiving can still
// get there (filling, or free beyond the reserve for sending; of what lies ready on several queues of cards, see ReadyQueue). The second is
// the dynamic threshold of Choudhury and Hahne (Dynamic queue length thresholds for shared-memory packet switches, 1998): one greedy holder
// gets half of a class, N of them 1/(N+1) each as buffers come and go, and as much is left for the others, without a limit having to be set
// for anyone. Classes count apart, since a large buffer is not replaced by free small ones. Over only advises: a holder of nothing is never
// over by the dynamic rule, even if nothing is available (many holders at once), so Take may still fail. Account 0 is never over, a closed
// one without buffers always. O(1).
func (p *DriverPool) Over(a Account) bool {
	if a == 0 {
		return false
	}
	acc := p.account(a)
	if acc == nil {
		return true
	}
	return acc.used[Small] > p.forAnyQueue(Small) || acc.used[Large] > p.forAnyQueue(Large) ||
		acc.limit > 0 && acc.bytes(&p.Pool) >= acc.limit
}

// OverFree is Over's dynamic rule for one class, against the buffers alone that are free beyond the reserve: for accounts whose packets are
// copied, which cannot use the buffers that lie ready for a card. O(1).
func (p *DriverPool) OverFree(a Account, c Class) bool {
	if a == 0 || c >= NumClasses {
		return false
	}
	acc := p.account(a)
	return acc == nil || int(acc.used[c]) > max(p.free[c].n-p.free[c].reserve, 0)
}

// bytes is the memory of all buffers that are charged to the account.
func (a *account) bytes(p *Pool) int {
	return int(a.used[Small])*int(p.strides[Small]) + int(a.used[Large])*int(p.strides[Large])
}

// account is the account with this number, or nil.
func (p *Pool) account(a Account) *account {
	slot := int(a & slotMask)
	if slot >= len(p.accounts) || p.accounts[slot].id != a {
		return nil
	}
	return &p.accounts[slot]
}

// freeClosedAccount frees the slot of a closed account, unless buffers are still charged to it.
func (p *Pool) freeClosedAccount(slot uint32) {
	a := &p.accounts[slot]
	if a.used != [NumClasses]int32{} {
		return
	}
	a.id, a.closed, a.limit, a.asks, a.credit = 0, false, 0, false, 0
	p.freeAccounts = append(p.freeAccounts, slot)
}

// Slot is a small number that no other open account of the pool has: an index for tables.
func (a Account) Slot() int { return int(a & slotMask) }
