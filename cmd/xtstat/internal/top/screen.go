package top

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/socketxtreme/socketxtreme/cmd/xtstat/internal/live"
	"github.com/socketxtreme/socketxtreme/stats"
)

var styles = map[Style]tcell.Style{
	Plain:    tcell.StyleDefault,
	Title:    tcell.StyleDefault.Bold(true),
	Dim:      tcell.StyleDefault.Dim(true),
	Good:     tcell.StyleDefault.Foreground(tcell.ColorGreen),
	Warn:     tcell.StyleDefault.Foreground(tcell.ColorYellow),
	Bad:      tcell.StyleDefault.Foreground(tcell.ColorRed).Bold(true),
	Selected: tcell.StyleDefault.Reverse(true),
}

// Show draws the screen on the terminal until the user quits or ctx ends. What the process did last stays on the screen when it ends.
func Show(ctx context.Context, r *stats.Reader, interval time.Duration) error {
	screen, err := tcell.NewScreen()
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	if err := screen.Init(); err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	defer screen.Fini()
	events, stop := make(chan tcell.Event, 16), make(chan struct{})
	defer close(stop)
	go screen.ChannelEvents(events, stop)
	m, v := &live.Model{}, &View{Order: live.ByPackets}
	if err := m.Update(r, time.Now()); err != nil {
		return err
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		draw(screen, m, v)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if !v.Paused {
				if err := m.Update(r, time.Now()); err != nil {
					return err
				}
			}
		case e := <-events:
			switch e := e.(type) {
			case *tcell.EventResize:
				screen.Sync()
			case *tcell.EventKey:
				if v.key(keyOf(e), len(m.Sockets)) {
					return nil
				}
			}
		}
	}
}

// keyOf is a key as View.key knows it.
func keyOf(e *tcell.EventKey) rune {
	switch e.Key() {
	case tcell.KeyRune:
		return e.Rune()
	case tcell.KeyUp:
		return 'k'
	case tcell.KeyDown:
		return 'j'
	case tcell.KeyEnter:
		return '\n'
	case tcell.KeyEscape:
		return '\x1b'
	case tcell.KeyCtrlC:
		return 'q'
	}
	return 0
}

// key does what a key asks for; true: the user quits.
func (v *View) key(k rune, sockets int) (quit bool) {
	switch k {
	case 'q':
		return true
	case 'p', 'b', 's', 'u', 'd', 'i':
		v.Order, v.Selected = live.Order(k), 0
	case 'k':
		v.Selected--
	case 'j':
		v.Selected++
	case '\n':
		v.Inside = !v.Inside && sockets > 0
	case '\x1b':
		v.Inside, v.Help = false, false
	case ' ':
		v.Paused = !v.Paused
	case '?', 'h':
		v.Help = !v.Help
	}
	v.Selected = max(0, min(v.Selected, sockets-1))
	return false
}

// draw draws the model.
func draw(screen tcell.Screen, m *live.Model, v *View) {
	if !v.Inside { // the one that is looked into stays where it is
		m.Sort(v.Order)
	}
	width, height := screen.Size()
	screen.Clear()
	for y, line := range Render(m, v, width, height) {
		x := 0
		for _, s := range line {
			for _, c := range s.Text {
				screen.SetContent(x, y, c, nil, styles[s.Style])
				x++
			}
		}
	}
	screen.Show()
}

// Print writes the screen as plain text, once for each interval: for pipes and files. cycles 0: until ctx or the process ends.
func Print(ctx context.Context, w io.Writer, r *stats.Reader, interval time.Duration, cycles int) error {
	m, v := &live.Model{}, &View{Order: live.ByPackets}
	v.Selected = -1
	if err := m.Update(r, time.Now()); err != nil {
		return err
	}
	for n := 0; cycles == 0 || n < cycles; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
		if err := m.Update(r, time.Now()); err != nil {
			return err
		}
		m.Sort(v.Order)
		for _, line := range Render(m, v, plainWidth, plainHeight) {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
		if !m.Process.Live {
			return nil
		}
	}
	return nil
}

// The size of the plain text.
const plainWidth, plainHeight = 120, 60
