package ring

import "github.com/socketxtreme/socketxtreme/buffers"

// AccountOf is what the socket's buffers are charged to. A stream that has received nothing has none: the first call opens it. For drivers.
// Owner only.
func AccountOf(s *Socket) buffers.Account {
	if !s.readable() {
		return 0
	}
	if r := s.ring(); r != nil && s.handle.Account == 0 && s.state < stateGone {
		if err := s.openAccount(r); err != nil {
			r.fail(&OpError{Op: "open account", Err: err}) // more than a million are open: this one is charged to none for now
		}
	}
	return s.handle.Account
}

func (s *Socket) openAccount(r *Ring) error {
	a, err := r.pool.OpenAccount(s.config().Budget)
	if err != nil {
		return err
	}
	s.handle.Account = a
	return s.askCredit()
}

// askCredit makes the pool note what is released of a stream whose transport wants to know.
func (s *Socket) askCredit() error {
	if _, ok := s.transport().(Creditor); !ok || s.handle.Kind != KindStream || s.handle.Account == 0 {
		return nil
	}
	return s.ring().pool.AskCredit(s.handle.Account, uint64(RefOf(s)))
}

// quietAccounts are the streams of a ring that hold no buffer any more and have an account. When one leaves the list its account is closed, so
// that a connection which has spoken once is compact again. Those that spoke last keep theirs.
type quietAccounts struct {
	list *[quietMax]uint64 // generation and slot; the oldest is replaced next
	next int
}

const quietMax = 1024

// add notes the account of a stream, if it is not in the list.
func (q *quietAccounts) add(r *Ring, s *Socket) {
	if s.marks&markQuiet != 0 || !r.pool.IsUnused(s.handle.Account) {
		return
	}
	if q.list == nil {
		q.list = new([quietMax]uint64)
	}
	x := &q.list[q.next]
	if old := r.slots.find(uint32(*x), uint32(*x>>32)); old != nil && old.marks&markQuiet != 0 {
		old.marks &^= markQuiet
		if r.pool.IsUnused(old.handle.Account) && old.state < stateGone {
			old.closeAccount()
			old.handle.Account = 0
		}
	}
	s.marks |= markQuiet
	*x = uint64(s.handle.Gen)<<32 | uint64(s.handle.Slot)
	q.next = (q.next + 1) % quietMax
}

// closeAccount ends what openAccount began. What the application holds is still charged to it.
func (s *Socket) closeAccount() {
	if s.handle.Account != 0 {
		_ = s.ring().pool.CloseAccount(s.handle.Account)
	}
}
