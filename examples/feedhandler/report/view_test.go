package report

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/handler"
	"github.com/socketxtreme/socketxtreme/examples/feedhandler/live"
	"github.com/socketxtreme/socketxtreme/feed"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

func TestViews(t *testing.T) {
	l, err := live.Open(live.Config{Ring: conf.RingEpoll, Idle: time.Millisecond, Channels: []live.Channel{{
		Handler: handler.Config{Name: "ch", Proto: handler.DEEP},
		Lines:   []live.Line{mustLine(t, "233.252.0.1:45999@lo"), mustLine(t, "233.252.0.2:45999@lo")}}}})
	require.NoError(t, err)
	for _, terminal := range []bool{false, true} {
		var b bytes.Buffer
		v := &View{out: &b, terminal: terminal}
		v.Each(l) // the first call only looks at the clock
		require.Zero(t, b.Len())
		v.last = v.last.Add(-2 * time.Second)
		v.Each(l)
		require.Contains(t, b.String(), "ch")
		require.Contains(t, b.String(), "INIT")
		require.Equal(t, terminal, strings.Contains(b.String(), "line B"))
		b.Reset()
		v.last = v.last.Add(-2 * time.Second)
		v.Each(l)
		require.Equal(t, terminal, strings.HasPrefix(b.String(), "\x1b["), "a terminal is drawn over")
	}
	require.NoError(t, l.Run(t.Context()))
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	require.False(t, isTerminal(f))
	require.NoError(t, f.Close())
}

// A line that falls silent, sends again, or travels another way is told: at once, on a terminal above the picture.
func TestWhatHappensToALineIsTold(t *testing.T) {
	channels := []live.Channel{{Handler: handler.Config{Name: "ch", Proto: handler.DEEP},
		Lines: []live.Line{mustLine(t, "233.252.0.1:45999@lo"), mustLine(t, "233.252.0.2:45999@lo")}}}
	c, err := handler.NewChannel(handler.Config{Name: "ch", Proto: handler.DEEP,
		Lines: []netip.AddrPort{channels[0].Lines[0].Group, channels[0].Lines[1].Group}})
	require.NoError(t, err)
	want := "ch line B 233.252.0.2:45999@lo: dead: nothing has come for 3s; next is 7\n" +
		"ch line B 233.252.0.2:45999@lo: alive again; next is 9\n" +
		"233.252.0.1:45999@lo: the path has changed: kernel (bypass lost: link.down)\n"
	for _, terminal := range []bool{false, true} {
		var b bytes.Buffer
		v := &View{out: &b, terminal: terminal, channels: channels}
		logged := 0
		tell := v.OnEvent(func(*handler.Channel, *feed.Event) { logged++ })
		tell(c, &feed.Event{Kind: feed.LineDead, Line: 1, Seq: 7})
		tell(c, &feed.Event{Kind: feed.LineAlive, Line: 1, Seq: 9})
		tell(c, &feed.Event{Kind: feed.StateChanged})
		v.Moved("233.252.0.1:45999@lo", xtreme.Path{Tier: "kernel", Kind: "offload", Shadow: true, Lost: "link.down",
			Reasons: []xtreme.Reason{{Code: "link.down", Text: "down"}}})
		require.Equal(t, 3, logged, "the event log has all of them")
		if terminal {
			require.Zero(t, b.Len(), "with the next picture")
		}
		v.Close()
		require.Equal(t, want, b.String())
	}
}

func mustLine(t *testing.T, s string) live.Line {
	l, err := live.ParseLine(s)
	require.NoError(t, err)
	return l
}
