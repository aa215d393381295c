package buffers_test

import (
	"github.com/socketxtreme/socketxtreme/buffers"
	"github.com/stretchr/testify/require"
)

func (m *model) openAccount() {
	limit := m.arg(16) * 300
	id, err := m.p.OpenAccount(limit)
	m.nofail(err)
	for _, a := range m.accounts {
		require.NotEqual(m.t, a.id, id)
	}
	m.accounts = append(m.accounts, &maccount{id: id, limit: limit})
}

func (m *model) closeAccount() {
	a, _ := pick(m, m.accounts)
	err := m.p.CloseAccount(a.id)
	if a.id == 0 || a.closed {
		m.fails(err, buffers.ErrAccount)
		return
	}
	m.nofail(err)
	a.closed = true
}

func (m *model) setLimit() {
	a, _ := pick(m, m.accounts)
	limit := m.arg(16) * 300
	err := m.p.SetLimit(a.id, limit)
	if a.id == 0 || a.settled() {
		m.fails(err, buffers.ErrAccount)
		return
	}
	m.nofail(err)
	a.limit = limit
}

func (a *maccount) settled() bool { return a.closed && a.used == [2]int{} }
