package ip_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/internal/ip/iptest"
	"github.com/socketxtreme/socketxtreme/internal/wire"
	"github.com/socketxtreme/socketxtreme/udp"
)

func mustPrefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func igmpFrame(ttl uint8, group wire.Addr, q wire.Query) []byte {
	q.Group = group
	b, err := q.Append(nil)
	if err != nil {
		panic(err)
	}
	d := iptest.Datagram{Eth: wire.EthernetFields{Target: wire.GroupMAC(wire.AllSystems), Source: gwMAC, Type: wire.TypeIPv4},
		IP: wire.IPv4Fields{TTL: ttl, Protocol: wire.ProtocolIGMP, Source: gateway, Target: wire.AllSystems, Options: wire.RouterAlert[:]}}
	return d.Frame(b)
}

// reported is a record of a report in a form to compare.
type reported struct {
	kind    uint8
	group   wire.Addr
	sources string
}

// report takes the one report that was sent apart.
func (w *world) report() (list []reported) {
	w.T.Helper()
	s := w.Parse(w.Only())
	w.Equal(wire.AllIGMPRouters, s.IP.Target())
	w.Equal(wire.GroupMAC(wire.AllIGMPRouters), s.Eth.Target())
	w.Equal(uint8(1), s.IP.TTL())
	w.Equal(wire.RouterAlert[:], s.Options)
	h, body, d := wire.ParseIGMP(s.Segment)
	w.Equal(wire.Accept, d)
	w.Equal(wire.IGMPv3Report, h.Type())
	for range h.Records() {
		var r wire.Record
		r, body, d = wire.ParseRecord(body)
		w.Equal(wire.Accept, d)
		x := reported{kind: r.Type, group: r.Group}
		for i := range r.NumSources() {
			x.sources += r.Source(i).String() + " "
		}
		list = append(list, x)
	}
	return list
}

// Each change is reported at once and once more within a second, in the records of RFC 9776 section 5.1.
func TestChangesAreReported(t *testing.T) {
	w := newWorld(t)
	a, b := w.Socket(udp.Endpoint{Local: grp}), w.Socket(udp.Endpoint{Local: grp})
	s1, s2 := wire.Addr{10, 0, 0, 11}, wire.Addr{10, 0, 0, 12}
	twice := func(want, again reported) {
		t.Helper()
		w.Equal([]reported{want}, w.report())
		w.After(time.Second)
		w.Equal([]reported{again}, w.report())
		w.After(time.Hour)
		w.Empty(w.Out())
	}
	w.NoError(w.UDP.Join(w.Now, a, grp, iface, s1))
	twice(reported{wire.AllowNew, grp, "10.0.0.11 "}, reported{wire.ChangeToInclude, grp, "10.0.0.11 "})
	w.NoError(w.UDP.Join(w.Now, b, grp, iface, s2))
	twice(reported{wire.AllowNew, grp, "10.0.0.12 "}, reported{wire.ChangeToInclude, grp, "10.0.0.11 10.0.0.12 "})
	w.NoError(w.UDP.Leave(w.Now, a, grp, iface, s1))
	twice(reported{wire.BlockOld, grp, "10.0.0.11 "}, reported{wire.ChangeToInclude, grp, "10.0.0.12 "})
	w.NoError(w.UDP.Join(w.Now, a, grp, iface, none4))
	twice(reported{wire.ChangeToExclude, grp, ""}, reported{wire.ChangeToExclude, grp, ""})
	w.UDP.Remove(w.Now, a) // closed
	twice(reported{wire.ChangeToInclude, grp, "10.0.0.12 "}, reported{wire.ChangeToInclude, grp, "10.0.0.12 "})
	w.NoError(w.UDP.Leave(w.Now, b, grp, iface, s2))
	twice(reported{wire.BlockOld, grp, "10.0.0.12 "}, reported{wire.ChangeToInclude, grp, ""})
	// A second member changes nothing that anybody outside must know.
	c := w.Socket(udp.Endpoint{Local: grp})
	w.NoError(w.UDP.Join(w.Now, b, grp, iface, none4))
	w.report()
	w.NoError(w.UDP.Join(w.Now, c, grp, iface, none4))
	w.Empty(w.Out())
	w.NoError(w.UDP.Leave(w.Now, c, grp, iface, none4))
	w.Empty(w.Out())
	// All systems is never reported.
	w.NoError(w.UDP.Join(w.Now, c, wire.AllSystems, iface, none4))
	w.Empty(w.Out())
}

func TestQueriesAreAnswered(t *testing.T) {
	w := newWorld(t)
	id := w.Socket(udp.Endpoint{})
	other := wire.Addr{239, 1, 1, 9}
	s1, s2, s3 := wire.Addr{10, 0, 0, 11}, wire.Addr{10, 0, 0, 12}, wire.Addr{10, 0, 0, 13}
	w.NoError(w.UDP.Join(w.Now, id, grp, iface, none4))
	w.NoError(w.UDP.Join(w.Now, id, other, iface, s1))
	w.NoError(w.UDP.Join(w.Now, id, other, iface, s2))
	w.After(2 * time.Second)
	w.Out()
	ask := func(group wire.Addr, q wire.Query) {
		q.Version, q.MaxResponse = 3, 5*time.Second
		w.In(igmpFrame(1, group, q))
		w.Empty(w.Out(), "not at once: everybody answers")
		w.After(5 * time.Second)
	}
	ask(none4, wire.Query{})
	w.Equal([]reported{{wire.ModeIsExclude, grp, ""}, {wire.ModeIsInclude, other, "10.0.0.11 10.0.0.12 "}}, w.report())
	ask(grp, wire.Query{})
	w.Equal([]reported{{wire.ModeIsExclude, grp, ""}}, w.report())
	ask(other, wire.Query{Sources: append(s2[:], s3[:]...)})
	w.Equal([]reported{{wire.ModeIsInclude, other, "10.0.0.12 "}}, w.report())
	ask(grp, wire.Query{Sources: s3[:]})
	w.Equal([]reported{{wire.ModeIsInclude, grp, "10.0.0.13 "}}, w.report())
	ask(wire.Addr{239, 9, 9, 9}, wire.Query{})
	w.Empty(w.Out())
	// A maximum response time of 0 is at once, not never (and not a division by it).
	w.In(igmpFrame(1, grp, wire.Query{Version: 3}))
	w.After(0)
	w.report()
	// Many queries about the same are one answer.
	for range 50 {
		w.In(igmpFrame(1, none4, wire.Query{Version: 3, MaxResponse: time.Second}))
	}
	w.After(time.Second)
	w.Len(w.report(), 2)
}

// A report longer than a packet becomes several.
func TestManyGroups(t *testing.T) {
	w := newWorld(t)
	id := w.Socket(udp.Endpoint{})
	const groups = 300
	for i := range groups {
		w.NoError(w.UDP.Join(w.Now, id, wire.Addr{239, 2, byte(i >> 8), byte(i)}, iface, none4))
		w.Only()
	}
	w.After(time.Second)
	w.Out()
	w.In(igmpFrame(1, none4, wire.Query{Version: 3}))
	w.After(0)
	n := 0
	for _, b := range w.Out() {
		w.LessOrEqual(len(b), 14+1500)
		s := w.Parse(b)
		h, _, d := wire.ParseIGMP(s.Segment)
		w.Equal(wire.Accept, d)
		n += h.Records()
	}
	w.Equal(groups, n)
}

// A report of more sources than a packet holds is divided into records: a router that is told of a part only would stop forwarding the others.
// Of an exclusion the first sources are reported alone (RFC 9776 section 4.2.16).
func TestSourcesThatDoNotFitAPacket(t *testing.T) {
	w := newWorld(t)
	a := w.Socket(udp.Endpoint{Local: grp})
	const n = 1000
	for i := range n {
		w.NoError(w.UDP.Join(w.Now, a, grp, iface, wire.Addr{10, 1, byte(i >> 8), byte(i)}))
		w.Out()
	}
	w.After(time.Hour)
	w.Out()
	w.In(igmpFrame(1, grp, wire.Query{Version: 3}))
	w.After(time.Second)
	seen := map[wire.Addr]int{}
	for _, frame := range w.Out() {
		_, body, d := wire.ParseIGMP(w.Parse(frame).Segment)
		w.Equal(wire.Accept, d)
		for len(body) > 0 {
			var r wire.Record
			r, body, d = wire.ParseRecord(body)
			w.Equal(wire.Accept, d)
			w.Equal(wire.ModeIsInclude, r.Type)
			for i := range r.NumSources() {
				seen[r.Source(i)]++
			}
		}
	}
	w.Len(seen, n)
}
