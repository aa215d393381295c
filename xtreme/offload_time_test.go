package xtreme_test

import (
	"slices"
	"testing"
	"time"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// Who stamps what an offloaded ring receives, by setting, by configuration of poller and socket: a ring that is polled 5 ms late tells so by its
// stamps unless the XDP program took them. Where the ring stamps, the path names the setting; where a card was asked for, that it has none.
func TestOffloadTime(t *testing.T) {
	const late = 5 * time.Millisecond
	for _, test := range []struct {
		name    string
		set     func(*conf.Settings)
		poller  xtreme.PollerConfig
		socket  xtreme.UDPConfig
		source  ring.StampSource
		reasons []string
	}{
		{name: "default", source: ring.StampPoll, reasons: []string{"stamp.poll"}},
		{name: "SX_OFFLOAD_TIME=xdp", set: func(s *conf.Settings) { s.Offload.Time = conf.TimeXDP }, source: ring.StampLink},
		{name: "SX_OFFLOAD_TIME=hardware", set: func(s *conf.Settings) { s.Offload.Time = conf.TimeHardware }, source: ring.StampLink,
			reasons: []string{"xdp.no_hw_time"}},
		{name: "PollerConfig xdp", poller: xtreme.PollerConfig{OffloadTime: conf.TimeXDP}, source: ring.StampLink},
		{name: "PollerConfig poll beats the setting", set: func(s *conf.Settings) { s.Offload.Time = conf.TimeXDP },
			poller: xtreme.PollerConfig{OffloadTime: conf.TimePoll}, source: ring.StampPoll, reasons: []string{"stamp.poll"}},
		{name: "VMA_HW_TS_CONVERSION=3", set: func(s *conf.Settings) { s.CardTime = 3 }, source: ring.StampLink,
			reasons: []string{"xdp.no_hw_time", "card.no_stamps"}},
		{name: "HardwareTimestamps", socket: xtreme.UDPConfig{HardwareTimestamps: xtreme.Ptr(ring.HardwareTimestampsSync)},
			source:  ring.StampLink,
			reasons: []string{"xdp.no_hw_time", "card.no_stamps"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newCabled(t)
			if test.set != nil {
				w.engine = w.newEngine(test.set)
			}
			p := w.newPoller("stamped", test.poller)
			x := w.other(p)
			test.socket.Timestamps = true
			s := x.udp(w.at(0), test.socket)
			w.Equal("bypass", s.Path().Tier)
			for _, code := range []string{"stamp.poll", "xdp.no_hw_time", "card.no_stamps"} {
				w.Equal(slices.Contains(test.reasons, code), has(s.Path(), code), "%s: %v", code, s.Path())
			}
			peer := w.net.Dial(s.LocalAddr())
			x.poll()
			for range 9 {
				_, err := peer.Write([]byte("stamp"))
				w.NoError(err)
				time.Sleep(late) // nobody polls
				polled := realtime(t)
				c := x.event(s, xtreme.EventPacket)
				w.Equal(test.source, c.Time.Source)
				if test.source == ring.StampPoll {
					w.GreaterOrEqual(c.Time.Nanos, polled)
				} else {
					w.Less(c.Time.Nanos, polled)
				}
				w.NoError(c.Packet.Release())
			}
			plain := x.udp(w.at(0))
			w.False(has(plain.Path(), "stamp.poll"), "it did not ask for stamps")
		})
	}
}

// What an interface was opened with holds for pollers that come later; they are told.
func TestOffloadTimeOfTheFirstPoller(t *testing.T) {
	w := newCabled(t)
	first := w.udp(w.at(0), xtreme.UDPConfig{Timestamps: true})
	w.True(has(first.Path(), "stamp.poll"))
	second := w.other(w.newPoller("second", xtreme.PollerConfig{OffloadTime: conf.TimeXDP}))
	s := second.udp(w.at(0), xtreme.UDPConfig{Timestamps: true})
	w.True(has(s.Path(), "stamp.poll"), "%v", s.Path())
	_, err := w.engine.NewPoller("kernel", xtreme.PollerConfig{RingKind: conf.RingEpoll, OffloadTime: conf.TimeXDP})
	w.ErrorContains(err, "OffloadTime is for rings of kind offload")
	_, err = w.engine.NewPoller("bad", xtreme.PollerConfig{OffloadTime: "sundial"})
	w.ErrorContains(err, `"sundial": want poll, xdp or hardware`)
}
