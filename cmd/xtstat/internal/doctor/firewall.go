package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What is redirected to a ring, and what leaves by a link, passes no rule of the kernel's firewall. The two checks here are about the ports that
// are offloaded now.

// filterRule is a rule or a chain's policy that drops or accepts packets.
type filterRule struct {
	drops    bool
	protocol string // empty: any
	ports    string // "5000", "4990-5010", "53, 5000"; empty: any
}

var (
	quoted    = regexp.MustCompile(`"[^"]*"`)
	nftDrop   = regexp.MustCompile(`\b(drop|reject)\b`)
	nftAccept = regexp.MustCompile(`\baccept\b`)
	nftPorts  = regexp.MustCompile(`\b(?:(udp|tcp|th) )?dport (?:\{ ?([^}]*)\}|([0-9-]+))`)
	nftOf     = regexp.MustCompile(`\b(udp|tcp|icmp|igmp|icmpv6) `)
	iptOf     = regexp.MustCompile(`-p (\S+)`)
	iptPorts  = regexp.MustCompile(`--dports? (\S+)`)
	iptVerb   = regexp.MustCompile(`-j (DROP|REJECT|ACCEPT)\b`)
)

// nftRules are the rules in what "nft list ruleset" prints, without those of chains that see forwarded packets alone.
func nftRules(text string) (list []filterRule) {
	forward := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(quoted.ReplaceAllString(line, ""))
		if strings.HasPrefix(line, "chain ") {
			forward = false
		}
		hook := strings.Contains(line, " hook ")
		forward = forward || hook && strings.Contains(line, " hook forward ")
		drops, accepts := nftDrop.MatchString(line), nftAccept.MatchString(line)
		if forward || !drops && !accepts || hook && accepts {
			continue
		}
		r := filterRule{drops: drops}
		if m := nftPorts.FindStringSubmatch(line); m != nil {
			r.protocol, r.ports = m[1], cmp.Or(m[2], m[3])
			if r.protocol == "th" { // of any transport
				r.protocol = ""
			}
		} else if m := nftOf.FindStringSubmatch(line); m != nil {
			r.protocol = m[1]
		}
		list = append(list, r)
	}
	return list
}

// iptablesRules are the rules in what iptables-save prints, as nftRules.
func iptablesRules(text string) (list []filterRule) {
	for line := range strings.Lines(text) {
		line = quoted.ReplaceAllString(line, "")
		switch {
		case strings.HasPrefix(line, ":INPUT DROP") || strings.HasPrefix(line, ":OUTPUT DROP"):
			list = append(list, filterRule{drops: true})
		case strings.HasPrefix(line, "-A FORWARD") || !strings.HasPrefix(line, "-A "):
		default:
			m := iptVerb.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			r := filterRule{drops: m[1] != "ACCEPT"}
			if m := iptOf.FindStringSubmatch(line); m != nil {
				r.protocol = m[1]
			}
			if m := iptPorts.FindStringSubmatch(line); m != nil {
				r.ports = strings.ReplaceAll(m[1], ":", "-")
			}
			list = append(list, r)
		}
	}
	return list
}

// names reports whether the rule is about the port by its number.
func (r *filterRule) names(p Port) bool {
	if r.protocol != "" && r.protocol != p.Protocol {
		return false
	}
	for part := range strings.SplitSeq(r.ports, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		low, err := strconv.Atoi(first)
		high := low
		if isRange {
			high, _ = strconv.Atoi(last)
		}
		if n := int(p.Local.Port()); err == nil && low <= n && n <= high {
			return true
		}
	}
	return false
}

// isFiltered reports whether rules drop what comes for a port: one that names it, or one for any port where none accepts it by its number.
func isFiltered(p Port, rules []filterRule) bool {
	accepted := slices.ContainsFunc(rules, func(r filterRule) bool { return !r.drops && r.names(p) })
	return slices.ContainsFunc(rules, func(r filterRule) bool {
		return r.drops && (r.names(p) || r.ports == "" && (r.protocol == "" || r.protocol == p.Protocol) && !accepted)
	})
}

// filterRules reads the rules of nftables, and those of iptables' own tables if it has some.
func filterRules(s *System) ([]filterRule, error) {
	text, err := s.Command("nft", "list", "ruleset")
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("nft is not installed, so that it is not known what rules nftables has")
	}
	if err != nil {
		return nil, err
	}
	rules := nftRules(text)
	names, err := s.read("proc/net/ip_tables_names")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if names == "" {
		return rules, nil
	}
	if text, err = s.Command("iptables-save"); err != nil {
		return nil, fmt.Errorf("iptables has tables (%s): %w", strings.Join(strings.Fields(names), ", "), err)
	}
	return append(rules, iptablesRules(text)...), nil
}

// firewall: rules that drop what an offloaded port receives.
func firewall(s *System) []Result {
	rules, err := filterRules(s)
	if err != nil {
		return unknown(err)
	}
	drops := 0
	for _, r := range rules {
		if r.drops {
			drops++
		}
	}
	if drops == 0 {
		return good("the firewall drops nothing")
	}
	all, err := s.Offloaded()
	if err != nil {
		return unknown(fmt.Errorf("%d rules drop or reject, and what ports are offloaded is not known: %w", drops, err))
	}
	if len(all) == 0 {
		return note("%d rules drop or reject, and no process that runs has offloaded a port, which would pass by them", drops)
	}
	var filtered []Port
	for _, p := range all {
		if isFiltered(p, rules) {
			filtered = append(filtered, p)
		}
	}
	if len(filtered) == 0 {
		return good("%d rules drop or reject, none of them what comes for offloaded ports (%s)", drops, listOf(all))
	}
	return cure(keepWithKernel(s, filtered), "rules drop or reject what comes for offloaded ports, which pass by them: %s", listOf(filtered))
}

// listOf are ports in words.
func listOf(list []Port) string {
	const most = 8
	var words []string
	for _, p := range list[:min(len(list), most)] {
		words = append(words, p.Protocol+" "+p.Local.String())
	}
	if len(list) > most {
		words = append(words, fmt.Sprintf("and %d more", len(list)-most))
	}
	return strings.Join(words, ", ")
}

// keepWithKernel is the command that has sockets of ports served by the kernel, through its filters, once their program starts again.
func keepWithKernel(s *System, list []Port) string {
	roles := map[string]string{"udp": "udp_receiver", "tcp": "tcp_server"}
	text := `application-id * *\n`
	for _, p := range list {
		address := p.Local.Addr().String()
		if p.Local.Addr().IsUnspecified() {
			address = "*"
		}
		text += fmt.Sprintf(`use os %s %s:%d\n`, roles[p.Protocol], address, p.Local.Port())
	}
	return fmt.Sprintf("printf '%s' >> %s, and start the program again; or take the rules away", text, cmp.Or(s.Getenv("VMA_CONFIG_FILE"), "/etc/libvma.conf"))
}

// conntrack sees half of what an offloaded socket does.
func conntrack(s *System) []Result {
	n, err := s.number(sysctl("net.netfilter.nf_conntrack_count"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return good("connections are not tracked")
	case err != nil:
		return unknown(err)
	}
	most, err := s.number(sysctl("net.netfilter.nf_conntrack_max"))
	if err == nil && n*10 > most*9 {
		return cure("sysctl -w net.netfilter.nf_conntrack_max="+strconv.Itoa(2*most), "%d of %d connections are tracked: what is new is dropped soon", n, most)
	}
	text, err := s.Command("nft", "list", "ruleset")
	if err != nil {
		return unknown(fmt.Errorf("%d connections are tracked, and whether rules ask for their state is not known: %w", n, err))
	}
	if !strings.Contains(text, "ct state") {
		return note("connections are tracked (%d): those of offloaded sockets are not among them", n)
	}
	list, err := s.Offloaded()
	if err != nil {
		return unknown(fmt.Errorf("rules ask for the state of connections, and what ports are offloaded is not known: %w", err))
	}
	if len(list) == 0 {
		return note("rules ask for the state of connections, and no process that runs has offloaded a port, whose packets the kernel does not track")
	}
	return cure(untracked(list), "rules ask for the state of connections: answers that come by the kernel's side of offloaded sockets are new to them")
}

// untracked is the command that takes ports out of connection tracking.
func untracked(list []Port) string {
	const table = "inet socketxtreme"
	text := "nft add table " + table + "; nft 'add chain " + table + " prerouting { type filter hook prerouting priority raw; }'"
	for _, protocol := range []string{"tcp", "udp"} {
		var numbers []string
		for _, p := range list {
			if n := strconv.Itoa(int(p.Local.Port())); p.Protocol == protocol && !slices.Contains(numbers, n) {
				numbers = append(numbers, n)
			}
		}
		if len(numbers) > 0 {
			text += fmt.Sprintf("; nft 'add rule %s prerouting %s dport { %s } notrack'", table, protocol, strings.Join(numbers, ", "))
		}
	}
	return text
}
