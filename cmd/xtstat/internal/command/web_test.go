package command

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startWeb starts xtstat web for a program, and returns the process and the page's address.
func startWeb(p *program, more ...string) (*exec.Cmd, string) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "XTSTAT_TEST_RUN=web -k "+p.dir+" --listen 127.0.0.1:0 "+strings.Join(more, " "))
	out, err := cmd.StderrPipe()
	p.NoError(err)
	p.NoError(cmd.Start())
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	p.NoError(err, line)
	_, address, found := strings.Cut(strings.TrimSpace(line), " at ")
	p.True(found, line)
	return cmd, address
}

// sendUntil sends datagrams until the test calls what it returns.
func sendUntil(p *program) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				p.send(20)
				time.Sleep(5 * time.Millisecond)
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		close(end)
		<-ended
	})
	p.t.Cleanup(stop) // a test that has failed before
	return stop
}

// The page in a real browser: charts move with what a sender sends, keys and clicks, both colour schemes, the end of the process, and nothing
// in its console.
func TestWebInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes ten seconds")
	}
	b := newBrowser(t, 1280, 900)
	p := startEcho(t, "epoll")
	stop := sendUntil(p)
	cmd, address := startWeb(p, "-i", "0.2")
	b.call("Page.navigate", map[string]any{"url": address})
	is := func(want string) func(string) bool { return func(s string) bool { return s == want } }
	has := func(want string) func(string) bool { return func(s string) bool { return strings.Contains(s, want) } }
	b.shows("document.getElementById('state').textContent", is("running"))
	var before []string
	charts := []string{"rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "hit_ratio", "batch"}
	curve := func(chart string) string {
		return "document.querySelector('#chart-" + chart + " .curve').getAttribute('d')"
	}
	for _, x := range charts {
		before = append(before, b.shows(curve(x), has("L")))
	}
	for i, x := range charts {
		b.shows(curve(x), func(s string) bool { return s != before[i] && strings.Contains(s, "L") })
	}
	b.shows("document.querySelector('#chart-rx_packets output').textContent", func(s string) bool { return s != "0/s" && strings.HasSuffix(s, "/s") })
	b.shows("document.getElementById('sockets').textContent", has("127.0.0.1:"+strconv.Itoa(p.port)))
	p.run("-z", "-c", "1") // an event: gaps between polls may have taken the place of all from before
	b.shows("document.getElementById('events').textContent", has("a baseline was stored"))
	b.shows("document.getElementById('pools').textContent", has("free"))
	b.shows("document.querySelectorAll('#gaps li').length", is("8"))

	colour := "getComputedStyle(document.body).backgroundColor"
	for scheme, want := range map[string]string{"light": "rgb(246, 247, 249)", "dark": "rgb(15, 18, 22)"} {
		b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
		b.shows(colour, is(want))
	}
	if path := os.Getenv("XTSTAT_TEST_PICTURE"); path != "" {
		f, err := os.Create(path)
		p.NoError(err)
		b.picture(f)
		p.NoError(f.Close())
	}

	b.key("i", "i")
	b.shows("document.querySelector('[aria-pressed=true]').dataset.order", is("i"))
	b.click("[data-order=p]")
	b.shows("document.querySelector('[aria-pressed=true]').dataset.order", is("p"))
	b.key("ArrowDown", "")
	b.shows("[...document.querySelectorAll('#sockets tbody tr')].findIndex(r => r.className === 'chosen')", is("1"))
	b.key("ArrowUp", "")
	b.key("Enter", "\r")
	b.shows("document.getElementById('inside').open", is("true"))
	b.shows("document.querySelector('#inside pre').textContent", has("Local Address"))
	b.key("Escape", "")
	b.shows("document.getElementById('inside').open", is("false"))
	b.click("#sockets tbody tr")
	b.shows("document.querySelector('#inside pre').textContent", has("rx "))
	b.click("#inside button")
	b.shows("document.getElementById('inside').open", is("false"))
	b.key("?", "?")
	b.shows("document.getElementById('help').open", is("true"))
	b.key("Escape", "")
	b.shows("document.getElementById('help').open", is("false"))
	b.key(" ", " ")
	b.shows("document.getElementById('state').textContent", is("paused"))
	times := b.value("document.getElementById('times').textContent")
	time.Sleep(1500 * time.Millisecond)
	p.Equal(times, b.value("document.getElementById('times').textContent"), "nothing changes while it is paused")
	b.click("#pause")
	b.shows("document.getElementById('state').textContent", is("running"))

	stop()
	p.kill()
	b.shows("document.getElementById('state').textContent", has("ended"))
	p.Empty(b.console())
	p.NoError(cmd.Process.Signal(syscall.SIGINT))
	p.NoError(cmd.Wait(), "an interrupt ends it")
}

func TestWebOnOtherAddresses(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "[::]:9470", "192.0.2.1:9470", "9470"} {
		_, errs, code := run("web", "-k", t.TempDir(), "--listen", address)
		require.Equal(t, exitUsage, code)
		require.Contains(t, errs, "loopback")
		require.Contains(t, errs, address)
	}
	_, errs, code := run("web", "-i", "0")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "interval 0")
}
