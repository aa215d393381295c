package ringtest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socketxtreme/socketxtreme/internal/clock"
	"github.com/socketxtreme/socketxtreme/internal/sys"
	"github.com/socketxtreme/socketxtreme/ring"
	"github.com/socketxtreme/socketxtreme/ring/transport/kernel"
)

// drowsy is a Fake that sleeps: on a list of its bell and of its sockets. Its faults lose wake-ups.
type drowsy struct {
	*Fake
	list    sys.Epoll
	bell    sys.EventFD
	events  []sys.EpollEvent
	packets bool // fault: it does not watch its sockets
	wakes   bool // fault: Wake rings nothing
}

func newDrowsy(t *testing.T, c ring.DriverConfig) *drowsy {
	f, err := NewFake(c)
	if err != nil {
		t.Fatal(err)
	}
	d := &drowsy{Fake: f.(*Fake), events: make([]sys.EpollEvent, 8)}
	if d.list, err = sys.NewEpoll(); err == nil {
		d.bell, err = sys.NewEventFD()
	}
	if err == nil {
		if e := d.list.Control(unix.EPOLL_CTL_ADD, d.bell.FD(), unix.EPOLLIN, 0, 0); e != 0 {
			err = e
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.list.Close(); _ = d.bell.Close() })
	return d
}

func (d *drowsy) FD() int { return d.list.FD() }

func (d *drowsy) Attach(s *ring.Socket) error {
	if !d.packets {
		if e := d.list.Control(unix.EPOLL_CTL_ADD, kernel.FD(s), unix.EPOLLIN, 1, 0); e != 0 {
			return e
		}
	}
	return d.Fake.Attach(s)
}

func (d *drowsy) Arm(clock.Time, clock.Time) (bool, error) {
	return len(d.results) > 0 || len(d.Script) > 0, nil
}

func (d *drowsy) Disarm() { d.bell.Drain() }

func (d *drowsy) Wait(limit time.Duration) error {
	if len(d.results) > 0 || len(d.Script) > 0 {
		return nil
	}
	_, e := d.list.WaitPpoll(d.events, limit)
	d.bell.Drain()
	if e != 0 && e != unix.EINTR {
		return e
	}
	return nil
}

func (d *drowsy) Wake() {
	if !d.wakes {
		d.bell.Signal()
	}
}

// TestOverADrowsyRing is what TestLostWakeUpsFailTheCases runs in another process.
func TestOverADrowsyRing(t *testing.T) {
	fault, way, _ := strings.Cut(os.Getenv("DROWSY"), " ")
	if way == "" {
		t.Skip("DROWSY is not set: run by TestLostWakeUpsFailTheCases")
	}
	b := Backend{Name: "drowsy", Sleeps: 10, Driver: func(c ring.DriverConfig) (ring.Driver, error) {
		d := newDrowsy(t, c)
		d.packets, d.wakes = fault == "packets", fault == "wakes"
		return d, nil
	}}
	map[string]func(*testing.T, Backend){"Wait": wakeByWait, "FD": wakeByFD}[way](t, b)
}

// The suite's cases pass over a driver that loses nothing and fail over one that loses wake-ups.
func TestLostWakeUpsFailTheCases(t *testing.T) {
	for _, fault := range []string{"none", "packets", "wakes"} {
		for _, way := range []string{"Wait", "FD"} {
			t.Run(fault+" by "+way, func(t *testing.T) {
				t.Parallel() // most of it is waiting for wake-ups that do not come
				c := exec.Command(os.Args[0], "-test.run", "^TestOverADrowsyRing$", "-test.v")
				c.Env = append(os.Environ(), "DROWSY="+fault+" "+way)
				out, err := c.CombinedOutput()
				require.NotContains(t, string(out), "--- SKIP")
				if fault == "none" {
					require.NoError(t, err, "%s", out)
					return
				}
				require.Error(t, err, "wake-ups were lost and the case passed: %s", out)
				require.Contains(t, string(out), "--- FAIL: TestOverADrowsyRing")
				require.Contains(t, string(out), "the wake-up is lost")
			})
		}
	}
}

// The cases of waking fail when a wake-up is lost, each for its own, and pass over the same driver when none is.
func TestWakingIsStrict(t *testing.T) {
	needsWake := map[string]bool{"Wake": true, "posted work": true, "a returned buffer": true}
	for _, way := range []sleepMode{byWait, byFD} {
		for _, fault := range []string{"none", "packets", "wakes"} {
			for _, e := range wakeEvents {
				for _, timing := range []string{"asleep", "falling asleep"} {
					t.Run(way.String()+"/fault: "+fault+"/"+e.name+", "+timing, func(t *testing.T) {
						x := newSleeper(t, Backend{Name: "fake", Driver: func(c ring.DriverConfig) (ring.Driver, error) {
							d := newDrowsy(t, c)
							d.packets, d.wakes = fault == "packets", fault == "wakes"
							return d, nil
						}}, way)
						loses := fault == "wakes" && needsWake[e.name] || fault == "packets" && !needsWake[e.name]
						rounds := 100
						if loses {
							x.limit, rounds = 200*time.Millisecond, 200 // the event may come before the sleep
						}
						var err error
						for i := 0; i < rounds && err == nil; i++ {
							if timing == "asleep" {
								err = x.asleep(e)
							} else {
								err = x.fallingAsleep(e, i)
							}
						}
						if loses {
							x.ErrorIs(err, errLost)
							return
						}
						x.NoError(err)
					})
				}
			}
		}
	}
}
