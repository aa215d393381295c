package doctor

import (
	"errors"
	"io/fs"
	"net/netip"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/stats"
)

// ports are some that are offloaded.
func ports(list ...string) func() ([]Port, error) {
	var all []Port
	for i := 0; i < len(list); i += 2 {
		all = append(all, Port{list[i], netip.MustParseAddrPort(list[i+1])})
	}
	return func() ([]Port, error) { return all, nil }
}

// The line of the firewall is about the ports that are offloaded: one that a rule drops passes by that rule. What could not be read is not good.
func TestFirewallOnOffloadedPorts(t *testing.T) {
	const chain = "table inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter; policy %;\n\t\t$\n\t}\n}\n"
	input := func(policy, rule string) string {
		var b []byte
		for _, c := range []byte(chain) {
			switch c {
			case '%':
				b = append(b, policy...)
			case '$':
				b = append(b, rule...)
			default:
				b = append(b, c)
			}
		}
		return string(b)
	}
	feed := ports("udp", "233.252.0.1:5000")
	for name, x := range map[string]struct {
		nft       string
		err       error
		offloaded func() ([]Port, error)
		status    Status
		text      string
		cure      string
	}{
		"no rule":           {"", nil, feed, Good, "drops nothing", ""},
		"nft is missing":    {"", fs.ErrNotExist, feed, Unknown, "nft", ""},
		"not permitted":     {"", errors.New("Operation not permitted"), feed, Unknown, "not permitted", ""},
		"the port":          {input("accept", "udp dport 5000 drop"), nil, feed, Cure, "udp 233.252.0.1:5000", "use os udp_receiver 233.252.0.1:5000"},
		"rejected":          {input("accept", "udp dport 5000 reject with icmp port-unreachable"), nil, feed, Cure, "udp 233.252.0.1:5000", "use os"},
		"in a range":        {input("accept", "udp dport 4990-5010 counter packets 0 bytes 0 drop"), nil, feed, Cure, "5000", "use os"},
		"in a set":          {input("accept", "udp dport { 53, 4000-4100, 5000 } drop"), nil, feed, Cure, "5000", "use os"},
		"another port":      {input("accept", "udp dport 5001 drop"), nil, feed, Good, "5000", ""},
		"another protocol":  {input("accept", "tcp dport 5000 drop"), nil, feed, Good, "5000", ""},
		"all but some":      {input("drop", "udp dport 53 accept"), nil, feed, Cure, "5000", "use os"},
		"accepted":          {input("drop", "udp dport 5000 accept"), nil, feed, Good, "5000", ""},
		"a comment":         {input("accept", "udp dport 53 accept comment \"do not drop\""), nil, feed, Good, "drops nothing", ""},
		"what is forwarded": {"table ip f {\n chain forward {\n type filter hook forward priority 0; policy drop;\n }\n}", nil, feed, Good, "drops nothing", ""},
		"a sender":          {input("accept", "ip saddr 10.0.0.9 drop"), nil, feed, Cure, "5000", "use os"},
		"a listener":        {input("accept", "tcp dport 6379 drop"), nil, ports("tcp", "10.0.0.1:6379"), Cure, "tcp 10.0.0.1:6379", "use os tcp_server 10.0.0.1:6379"},
		"on all addresses":  {input("accept", "tcp dport 6379 drop"), nil, ports("tcp", "0.0.0.0:6379"), Cure, "6379", "use os tcp_server *:6379"},
		"two":               {input("drop", ""), nil, ports("udp", "10.0.0.1:1", "udp", "10.0.0.1:2"), Cure, "udp 10.0.0.1:1, udp 10.0.0.1:2", `use os udp_receiver 10.0.0.1:1\nuse os udp_receiver 10.0.0.1:2`},
		"nobody":            {input("drop", ""), nil, ports(), Note, "no process", ""},
		"who is not known":  {input("drop", ""), nil, func() ([]Port, error) { return nil, errors.New("statistics: denied") }, Unknown, "denied", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := healthy()
			s.Offloaded = x.offloaded
			s.Command = func(name string, _ ...string) (string, error) {
				if name == "nft" {
					return x.nft, x.err
				}
				return "", fs.ErrNotExist
			}
			r := firewall(s)
			require.Len(t, r, 1)
			require.Equal(t, x.status, r[0].Status, "%s", r[0].Text)
			require.Contains(t, r[0].Text, x.text)
			require.Contains(t, r[0].Cure, x.cure)
			require.NotRegexp(t, "[A-Z]{4}", r[0].Cure, "a placeholder")
			require.Equal(t, x.cure != "", r[0].Cure != "")
		})
	}
}

// The tables of iptables are read by iptables-save, also where nft shows no rules of its own.
func TestFirewallOfIptables(t *testing.T) {
	for name, x := range map[string]struct {
		saved  string
		err    error
		status Status
	}{
		"empty":    {"*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\nCOMMIT\n", nil, Good},
		"a port":   {"*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p udp -m udp --dport 5000 -j DROP\nCOMMIT\n", nil, Cure},
		"a range":  {"*filter\n-A INPUT -p udp -m multiport --dports 53,4000:6000 -j REJECT --reject-with icmp-port-unreachable\n", nil, Cure},
		"another":  {"*filter\n-A INPUT -p udp -m udp --dport 5001 -j DROP\n", nil, Good},
		"all":      {"*filter\n:INPUT DROP [0:0]\n-A INPUT -p udp -m udp --dport 53 -j ACCEPT\n", nil, Cure},
		"accepted": {"*filter\n:INPUT DROP [0:0]\n-A INPUT -p udp -m udp --dport 5000 -j ACCEPT\n", nil, Good},
		"missing":  {"", fs.ErrNotExist, Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			s, files := healthy()
			files["proc/net/ip_tables_names"] = &fstest.MapFile{Data: []byte("filter\n")}
			s.Command = func(name string, _ ...string) (string, error) {
				switch name {
				case "nft":
					return "", nil
				case "iptables-save":
					return x.saved, x.err
				}
				return "", fs.ErrNotExist
			}
			r := firewall(s)
			require.Len(t, r, 1)
			require.Equal(t, x.status, r[0].Status, "%s", r[0].Text)
		})
	}
}

// A rule that asks for the state of connections has a cure for the ports that are offloaded, and none where there are none.
func TestConntrackOfOffloadedPorts(t *testing.T) {
	s, files := healthy()
	files["proc/sys/net/netfilter/nf_conntrack_count"] = &fstest.MapFile{Data: []byte("5\n")}
	files["proc/sys/net/netfilter/nf_conntrack_max"] = &fstest.MapFile{Data: []byte("100\n")}
	s.Command = func(string, ...string) (string, error) {
		return "table inet filter {\n chain input {\n type filter hook input priority 0; policy drop;\n ct state established,related accept\n }\n}", nil
	}
	s.Offloaded = ports("udp", "233.252.0.1:5000", "udp", "10.0.0.1:5001", "tcp", "10.0.0.1:80")
	r := conntrack(s)
	require.Equal(t, Cure, r[0].Status, r[0].Text)
	require.Contains(t, r[0].Cure, "udp dport { 5000, 5001 } notrack")
	require.Contains(t, r[0].Cure, "tcp dport { 80 } notrack")
	s.Offloaded = ports()
	require.Equal(t, Note, conntrack(s)[0].Status)
	s.Command = func(string, ...string) (string, error) { return "", errors.New("not permitted") }
	require.Equal(t, Unknown, conntrack(s)[0].Status)
}

// The ports are those of the statistics of processes that run: of offloaded UDP sockets and listeners, each once.
func TestOffloadedPorts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stats")
	list, err := offloaded(dir)
	require.NoError(t, err, "nothing has published there")
	require.Empty(t, list)
	f, err := stats.Create(stats.Config{Directory: dir, Sockets: 8})
	require.NoError(t, err)
	at := 0
	for _, row := range stats.SectionOf(stats.Sockets).Counters {
		if row.Name == "offloaded" {
			break
		}
		at += row.Words()
	}
	for i, x := range []struct {
		info      string
		offloaded uint64
	}{
		{"protocol=udp\nlocal=233.252.0.1:5000\nstate=open\n", 1},
		{"protocol=udp\nlocal=233.252.0.1:5000\nstate=open\n", 1},
		{"protocol=udp\nlocal=10.0.0.1:5001\nstate=open\n", 0},
		{"protocol=tcp\nlocal=10.0.0.1:80\nstate=listening\n", 1},
		{"protocol=tcp\nlocal=10.0.0.1:80\nremote=10.0.0.2:41230\nstate=open\n", 1},
		{"protocol=udp\nstate=open\n", 1},
	} {
		b := f.Open(stats.Sockets, nil, uint64(i))
		b.SetInfo(x.info)
		b.Counters()[at] = x.offloaded
	}
	list, err = offloaded(dir)
	require.NoError(t, err)
	require.Equal(t, []Port{{"tcp", netip.MustParseAddrPort("10.0.0.1:80")}, {"udp", netip.MustParseAddrPort("233.252.0.1:5000")}}, list)
	require.NoError(t, f.Close())
	list, err = offloaded(dir)
	require.NoError(t, err)
	require.Empty(t, list, "the process has ended")
}
