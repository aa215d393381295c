package xtreme_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// worldWith is a world whose engine has the settings changed, of the kind of ring that the sub-test is called after, else of epoll.
func worldWith(t *testing.T, change func(*conf.Settings)) *world {
	t.Helper()
	s := conf.Default()
	s.Ring, s.SmallBuffers, s.LargeBuffers = kindOf(t), 512, 16
	change(&s)
	e, err := xtreme.New(s)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	w := &world{Assertions: require.New(t), t: t, engine: e, room: 64}
	t.Attr("ring", string(s.Ring))
	w.poller, err = e.NewPoller("test", xtreme.PollerConfig{})
	w.NoError(err)
	t.Cleanup(func() { require.NoError(t, w.poller.Close()) })
	return w
}

// kindOf is the kind of ring that the sub-test is called after (onEach); else epoll, which works everywhere.
func kindOf(t *testing.T) conf.RingKind {
	for _, part := range strings.Split(t.Name(), "/") {
		switch k := conf.RingKind(part); k {
		case conf.RingUring, conf.RingEpoll, conf.RingOffload:
			return k
		}
	}
	return conf.RingEpoll
}

// ruled is worldWith with a rules file.
func ruled(t *testing.T, rules string, change ...func(*conf.Settings)) *world {
	t.Helper()
	return worldWith(t, func(s *conf.Settings) {
		s.RulesFile = rulesFile(t, rules)
		for _, f := range change {
			f(s)
		}
	})
}

func rulesFile(t *testing.T, rules string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules")
	require.NoError(t, os.WriteFile(path, []byte(rules), 0o600))
	return path
}

func hasRule(s *xtreme.Socket, code string) bool { return slices.Contains(codes(s.Path()), code) }

// reason is the sentence of a reason of the socket's path.
func reason(t *testing.T, s *xtreme.Socket, code string) string {
	t.Helper()
	for _, r := range s.Path().Reasons {
		if r.Code == code {
			return r.Text
		}
	}
	t.Fatalf("no reason %s in %v", code, s.Path())
	return ""
}

// Each role is asked at its call, with the addresses that VMA asks with.
func TestRulesAreAskedByRole(t *testing.T) {
	onEach(t, func(t *testing.T, _ conf.RingKind) {
		var (
			server = func(w *world) (*xtreme.Socket, error) { return w.poller.ListenTCP(loopback, xtreme.ListenConfig{}) }
			client = func(w *world) (*xtreme.Socket, error) {
				l := w.server("tcp", "127.0.0.1:0")
				return w.poller.DialTCP(addr(l.Addr()), xtreme.DialConfig{})
			}
			receiver  = func(w *world) (*xtreme.Socket, error) { return w.poller.OpenUDP(loopback, xtreme.UDPConfig{}) }
			connected = func(w *world) (*xtreme.Socket, error) {
				return w.poller.OpenUDP(netip.AddrPort{}, xtreme.UDPConfig{Remote: netip.MustParseAddrPort("127.0.0.9:53")})
			}
			both = func(w *world) (*xtreme.Socket, error) {
				return w.poller.OpenUDP(loopback, xtreme.UDPConfig{Remote: netip.MustParseAddrPort("127.0.0.9:53")})
			}
			member = func(w *world) (*xtreme.Socket, error) {
				return w.poller.OpenUDP(netip.MustParseAddrPort("0.0.0.0:17001"),
					xtreme.UDPConfig{Groups: []xtreme.Group{{Address: netip.MustParseAddr("239.1.2.3"), Interface: "lo"}}})
			}
			bare = func(w *world) (*xtreme.Socket, error) {
				s, err := w.poller.NewTCP(xtreme.IPv4, xtreme.TCPConfig{})
				if err == nil {
					err = s.Bind(loopback)
				}
				if err == nil {
					err = s.Listen(0)
				}
				return s, err
			}
			inSteps = func(calls ...func(*xtreme.Socket) error) func(w *world) (*xtreme.Socket, error) {
				return func(w *world) (*xtreme.Socket, error) {
					s, err := w.poller.NewUDP(xtreme.IPv4, xtreme.UDPSocketConfig{})
					for _, call := range calls {
						if err == nil {
							err = call(s)
						}
					}
					return s, err
				}
			}
			bind    = func(s *xtreme.Socket) error { return s.Bind(loopback) }
			connect = func(s *xtreme.Socket) error { return s.Connect(netip.MustParseAddrPort("127.0.0.9:53")) }
			send    = func(s *xtreme.Socket) error {
				_, err := s.SendTo([]byte("x"), netip.MustParseAddrPort("127.0.0.9:53"))
				return err
			}
			join    = func(s *xtreme.Socket) error { return s.JoinGroup(netip.MustParseAddr("239.1.2.3"), "lo", netip.Addr{}) }
			server6 = func(w *world) (*xtreme.Socket, error) { return w.poller.ListenTCP(loopback6, xtreme.ListenConfig{}) }
		)
		for _, c := range []struct {
			name, rules string
			open        func(*world) (*xtreme.Socket, error)
			os          bool
		}{
			{"listen", "use os tcp_server *:*", server, true},
			{"listen, address", "use os tcp_server 127.0.0.0/8:*", server, true},
			{"listen, another address", "use os tcp_server 10.0.0.0/8:*", server, false},
			{"listen, role of connect", "use os tcp_client *:*", server, false},
			{"listen, in steps", "use os tcp_server *:*", bare, true},
			{"listen, ipv6", "use os tcp_server *:*", server6, true},
			{"connect", "use os tcp_client 127.0.0.1:*", client, true},
			{"connect, local address too", "use os tcp_client *:*:127.0.0.0/8:*", client, true},
			{"connect, another local address", "use os tcp_client *:*:10.0.0.0/8:*", client, false},
			{"bind", "use os udp_receiver 127.0.0.1:*", receiver, true},
			{"bind, role of connect", "use os udp_connect *:*", receiver, false},
			{"join", "use os udp_receiver 239.0.0.0/8:17001", member, true},
			{"join, another port", "use os udp_receiver 239.0.0.0/8:17002", member, false},
			{"udp connect", "use os udp_connect *:53", connected, true},
			{"udp connect, role of bind", "use os udp_receiver *:*", connected, false},
			{"udp connect of a bound socket", "use os udp_connect *:53", both, true},
			{"udp destination", "use os udp_sender 127.0.0.9:50-60", both, true},
			{"udp connect in steps", "use os udp_connect *:53", inSteps(connect), true},
			{"udp connect after bind", "use os udp_connect *:53", inSteps(bind, connect), false},
			{"udp destination, connect in steps", "use os udp_sender *:53", inSteps(connect), true},
			{"udp destination, connect after bind", "use os udp_sender *:53", inSteps(bind, connect), false},
			{"udp destination of a datagram", "use os udp_sender *:53", inSteps(bind, send), false},
			{"first send, which binds", "use os udp_receiver *:*", inSteps(send), true},
			{"destination of a first send", "use os udp_sender *:53", inSteps(send), false},
			{"any of its roles", "use sx udp_connect *:53\nuse os udp_sender *:53", connected, true},
			{"join before bind", "use os udp_receiver 239.0.0.0/8:*", inSteps(join, bind), true},
			{"join after bind", "use os udp_receiver 239.0.0.0/8:*", inSteps(bind, join), false},
			{"first match", "use vma udp_connect 127.0.0.9:53\nuse os udp_connect *:53", connected, false},
			{"another program", "application-id nobody *\nuse os tcp_server *:*", server, false},
			{"this program", "application-id *test *\nuse os tcp_server *:*", server, true},
			{"another id", "application-id *test B1\nuse os tcp_server *:*", server, false},
		} {
			t.Run(c.name, func(t *testing.T) {
				w := ruled(t, c.rules)
				s, err := c.open(w)
				w.NoError(err)
				w.Equal(c.os, hasRule(s, "rule.os"), s.Path())
				w.Equal("kernel", s.Path().Tier)
				if c.os {
					w.Contains(reason(t, s, "rule.os"), "line ")
				}
				w.close(s)
			})
		}
	})
}

func TestApplicationIDChoosesTheGroup(t *testing.T) {
	onEveryKind(t, func(t *testing.T, _ conf.RingKind) {
		var log bytes.Buffer
		rules := rulesFile(t, "application-id * B1\nuse os tcp_server *:*\n")
		for id, want := range map[string]bool{"B1": true, "B2": false, conf.DefaultApplicationID: false} {
			log.Reset()
			w := worldWith(t, func(s *conf.Settings) {
				s.RulesFile, s.ApplicationID, s.Logger = rules, id, slog.New(slog.NewTextHandler(&log, nil))
			})
			l := w.listen()
			w.Equal(want, hasRule(l, "rule.os"), id)
			w.Equal(id == "B2", strings.Contains(log.String(), "no group of the rules is for this application id"), log.String())
			w.close(l)
		}
	})
}

func TestAddRuleAndReload(t *testing.T) {
	onEach(t, func(t *testing.T, _ conf.RingKind) {
		w := ruled(t, "use os tcp_server *:1\n")
		path := w.engine.Settings().RulesFile
		before := w.listen()
		w.False(hasRule(before, "rule.os"))

		w.NoError(w.engine.AddRule("use os tcp_server *:*", true))
		after := w.listen()
		w.Contains(reason(t, after, "rule.os"), "added at run time")
		w.False(hasRule(before, "rule.os"), "sockets are decided once")

		// A mistake changes nothing, in either.
		have := w.engine.Rules().String()
		var place *conf.RuleError
		w.ErrorAs(w.engine.AddRule("use os udp_sender *:1 use nonsense", true), &place)
		w.Equal(27, place.Column)
		w.NoError(os.WriteFile(path, []byte("use os tcp_server *:2\nuse os tcp_servant *:3\n"), 0o600))
		w.ErrorContains(w.engine.Reload(), path+": line 2, column 8")
		w.NoError(os.Remove(path))
		w.ErrorIs(w.engine.Reload(), os.ErrNotExist)
		w.Equal(have, w.engine.Rules().String())

		w.NoError(os.WriteFile(path, []byte("use os udp_receiver *:*\n"), 0o600))
		w.NoError(w.engine.Reload())
		u := w.udp(loopback)
		w.True(hasRule(u, "rule.os"))
		again := w.listen()
		w.True(hasRule(again, "rule.os"), "what was added is kept")
		w.NoError(w.engine.AddRule("use vma tcp_server *:*", false))
		last := w.listen()
		w.True(hasRule(last, "rule.os"), "a rule at the end is tried last")
		for _, s := range []*xtreme.Socket{before, after, u, again, last} {
			w.close(s)
		}
	})
}

// A group that the file gained since is not where the rules go that were added before, nor those that are added after.
func TestReloadKeepsAddedRulesInTheirGroup(t *testing.T) {
	w := ruled(t, "application-id * *\nuse os tcp_server *:1\n")
	path := w.engine.Settings().RulesFile
	w.NoError(w.engine.AddRule("use os udp_receiver *:*", true))
	w.NoError(os.WriteFile(path, []byte("application-id * *\nuse os tcp_server *:1\napplication-id other *\nuse os tcp_server *:2\n"), 0o600))
	w.NoError(w.engine.Reload())
	u := w.udp(loopback)
	w.Contains(reason(t, u, "rule.os"), "(added at run time, application-id * *)")
	w.Equal("application-id * *\nuse os tcp_server *:1\nuse os udp_receiver *:*\napplication-id other *\nuse os tcp_server *:2\n",
		w.engine.Rules().String())
	w.NoError(w.engine.AddRule("use os tcp_server *:*", false))
	l := w.listen()
	w.Contains(reason(t, l, "rule.os"), "(added at run time, application-id * *)")
	for _, s := range []*xtreme.Socket{u, l} {
		w.close(s)
	}
}

func TestRulesFileWithAMistake(t *testing.T) {
	var log bytes.Buffer
	path := rulesFile(t, "use os tcp_server *:*\nnonsense\n")
	w := worldWith(t, func(s *conf.Settings) { s.RulesFile, s.Logger = path, slog.New(slog.NewTextHandler(&log, nil)) })
	w.Contains(log.String(), "line 2, column 1")
	w.Equal("application-id * *\nuse os udp_connect *:53\n", w.engine.Rules().String(), "nothing of the file holds")

	s := conf.Default()
	s.RulesFile, s.ExceptionHandling = path, -2
	_, err := xtreme.New(s)
	w.ErrorContains(err, "line 2, column 1")
}

// A rule that wants a socket offloaded which cannot be.
func TestExceptionHandling(t *testing.T) {
	onEach(t, func(t *testing.T, _ conf.RingKind) {
		for mode, want := range map[int]struct {
			level       string
			fails, dies bool
		}{-2: {level: "DEBUG"}, -1: {level: "DEBUG"}, 0: {level: "DEBUG"}, 1: {level: "ERROR"}, 2: {"ERROR", true, false},
			3: {"ERROR", true, true}} {
			var log bytes.Buffer
			path := rulesFile(t, "use sx tcp_server *:*\n")
			w := worldWith(t, func(s *conf.Settings) {
				s.RulesFile, s.ExceptionHandling = path, mode
				s.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			})
			if want.dies {
				open := descriptors(t)
				for range 3 {
					w.PanicsWithError("xtreme: VMA_EXCEPTION_HANDLING=3\n"+deadly+": offload required", func() {
						_, _ = w.poller.ListenTCP(loopback,
							xtreme.ListenConfig{})
					})
				}
				w.Equal(open, descriptors(t), "what the call had begun is undone first")
				l, err := w.poller.NewTCP(xtreme.IPv4, xtreme.TCPConfig{}) // its steps are the application's own
				w.NoError(err)
				w.NoError(l.Bind(loopback))
				w.Panics(func() { _ = l.Listen(0) })
				w.NoError(l.Close())
				w.Equal(open, descriptors(t))
			} else if l, err := w.poller.ListenTCP(loopback, xtreme.ListenConfig{}); want.fails {
				w.ErrorIs(err, ring.ErrNotSupported)
				w.ErrorContains(err, `the rule "use sx tcp_server *:*" (line 1, application-id * *) asks for an offloaded socket`)
			} else {
				w.NoError(err)
				w.True(hasRule(l, "rule.unmet"), l.Path())
				w.close(l)
			}
			w.Contains(log.String(), "level="+want.level, "mode %d", mode)
			u := w.udp(loopback) // which no rule is about
			w.False(hasRule(u, "rule.unmet"))
			w.close(u)
		}
	})
}

// A rule that takes either stack is followed on each kind of ring.
func TestARuleForEitherStackIsFollowed(t *testing.T) {
	onEach(t, func(t *testing.T, _ conf.RingKind) {
		w := ruled(t, "use * tcp_server *:*\n", func(s *conf.Settings) { s.ExceptionHandling = 2 })
		l := w.listen()
		w.False(hasRule(l, "rule.unmet"), l.Path())
		w.False(hasRule(l, "rule.os"), l.Path())
		w.close(l)
	})
}

func TestSocketsLeftToTheKernel(t *testing.T) {
	onEach(t, func(t *testing.T, _ conf.RingKind) {
		w := ruled(t, "use sx tcp_server *:*\n", func(s *conf.Settings) { s.KernelOnly, s.ExceptionHandling = true, 2 })
		l := w.listen()
		w.Contains(reason(t, l, "setting.offloaded_sockets"), "VMA_OFFLOADED_SOCKETS=0")
		server, client := w.pair(l)
		w.write(client, "hello")
		w.Equal("hello", w.text(server))
		w.True(hasRule(server, "setting.offloaded_sockets"), "a connection follows its listener: %v", server.Path())
		w.NoError(client.Close())
		for _, s := range []*xtreme.Socket{l, server} {
			w.close(s)
		}
	})
}

func TestRulesAreReadByAnyGoroutine(t *testing.T) {
	w := ruled(t, "use os tcp_server *:1\n")
	done := make(chan error)
	go func() {
		for i := range 400 { // each of 200 rules twice
			if err := w.engine.AddRule(fmt.Sprintf("use os udp_sender *:%d", i%200), true); err != nil {
				done <- err
				return
			}
		}
		done <- w.engine.Reload()
	}()
	for end := time.Now().Add(patience); ; {
		w.close(w.udp(loopback))
		select {
		case err := <-done:
			w.NoError(err)
			w.Len(w.engine.Rules().Groups()[0].Rules(conf.UDPSender), 200)
			return
		default:
			w.True(time.Now().Before(end))
		}
	}
}

const deadly = `the rule "use sx tcp_server *:*" (line 1, application-id * *) asks for an offloaded socket`
