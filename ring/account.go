package ring

import "github.com/socketxtreme/socketxtreme/buffers"

// AccountOf is the account that the socket's buffers are charged to. A stream that has received nothing has none: the first call opens it. For
// drivers. Owner only.
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

// openAccount opens the socket's account in the pool, with the budget of its configuration.
func (s *Socket) openAccount(r *Ring) error {
	a, err := r.pool.OpenAccount(s.config().Budget)
	if err != nil {
		return err
	}
	s.handle.Account = a
	return s.askCredit()
}

// askCredit makes the pool add up the bytes released from the stream, if its transport opens a window by them (Creditor).
func (s *Socket) askCredit() error {
	if _, ok := s.transport().(Creditor); !ok || s.handle.Kind != KindStream || s.handle.Account == 0 {
		return nil
	}
	return s.ring().pool.AskCredit(s.handle.Account, uint64(RefOf(s)))
}

// idleAccounts are the streams of a ring that have an account and hold no buffer. The oldest entry is replaced by the next, and its account is
// closed then: the account of a connection that sent something once does not stay open for ever.
type idleAccounts struct {
	list    *[maxIdleAccounts]SocketRef // the oldest is replaced next; of a closed socket the reference may lead to none, or to a later one
	next    int
	fetched uint32 // of no meaning: see fetchAhead
}

const maxIdleAccounts = 1024

// fetchAhead is how many entries before its turn a stream's record is read. It was used a thousand streams ago, and is in no cache near: the
// processor goes on meanwhile, and finds it there later.
const fetchAhead = 16

// add puts a stream into the list, if its account has no buffers and it is not there yet, and closes the account of the entry it replaces.
func (q *idleAccounts) add(r *Ring, s *Socket) {
	if s.marks&markIdleAccount != 0 || !r.pool.IsUnused(s.handle.Account) {
		return
	}
	if q.list == nil {
		q.list = new([maxIdleAccounts]SocketRef)
	}
	q.fetched += q.list[(q.next+fetchAhead)%maxIdleAccounts].Fetch()
	x := &q.list[q.next]
	// A later socket in the place of a closed one is as idle, if it is marked and its account unused.
	if old := x.find(); old != nil && old.marks&markIdleAccount != 0 {
		old.marks &^= markIdleAccount
		if r.pool.IsUnused(old.handle.Account) && old.state < stateGone {
			old.closeAccount()
			old.handle.Account = 0
		}
	}
	s.marks |= markIdleAccount
	*x = RefOf(s)
	q.next = (q.next + 1) % maxIdleAccounts
}

// closeAccount closes the socket's account. Buffers that the application still holds stay charged to it until they return.
func (s *Socket) closeAccount() {
	if s.handle.Account != 0 {
		_ = s.ring().pool.CloseAccount(s.handle.Account)
	}
}
