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

// closeAccount ends what openAccount began. What the application holds is still charged to it.
func (s *Socket) closeAccount() {
	if s.handle.Account != 0 {
		_ = s.ring().pool.CloseAccount(s.handle.Account)
	}
}

// isOverBudget reports whether the socket holds more buffer memory than it may.
func (s *Socket) isOverBudget() bool {
	return s.handle.Account != 0 && s.ring().pool.Over(s.handle.Account)
}
