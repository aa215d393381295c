package command

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/websocket"

	"github.com/socketxtreme/socketxtreme/internal/testnet"
)

// browser is a page in a headless Chromium, driven over the DevTools protocol.
type browser struct {
	t    *testing.T
	conn *websocket.Conn

	mu       sync.Mutex
	last     int
	waiting  map[int]chan reply
	problems []string // what the page's console has of errors and warnings
}

// reply is what came for a call.
type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// newBrowser starts Chromium with an empty page of a size.
func newBrowser(t *testing.T, width, height int) *browser {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		testnet.Missing(t, "chromium", err)
	}
	dir := t.TempDir()
	cmd := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps", "--remote-debugging-port=0",
		"--remote-allow-origins=*", "--user-data-dir="+dir, fmt.Sprintf("--window-size=%d,%d", width, height), "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+dir)
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its children end with it: they write to the folder
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = log.Close()
		for range 500 {
			if syscall.Kill(-cmd.Process.Pid, 0) != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	b := &browser{t: t, waiting: map[int]chan reply{}}
	port := ""
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "DevToolsActivePort"))
		port, _, _ = strings.Cut(string(text), "\n")
		return err == nil && port != ""
	}, 60*time.Second, 50*time.Millisecond, "Chromium has not started")
	require.Eventually(t, func() bool { return b.connect(port) }, 60*time.Second, 50*time.Millisecond, "Chromium has no page")
	t.Cleanup(func() { _ = b.conn.Close() })
	go b.read()
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil)
	}
	return b
}

// connect connects to the page.
func (b *browser) connect(port string) bool {
	answer, err := http.Get("http://127.0.0.1:" + port + "/json/list")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	var pages []struct{ Type, WebSocketDebuggerURL string }
	if err := json.NewDecoder(answer.Body).Decode(&pages); err != nil {
		return false
	}
	for _, p := range pages {
		if p.Type == "page" {
			b.conn, err = websocket.Dial(p.WebSocketDebuggerURL, "", "http://127.0.0.1")
			require.NoError(b.t, err)
			b.conn.MaxPayloadBytes = 64 << 20
			return true
		}
	}
	return false
}

// read takes what the browser says until the connection ends.
func (b *browser) read() {
	for {
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			reply
		}
		if err := websocket.JSON.Receive(b.conn, &m); err != nil {
			return
		}
		b.mu.Lock()
		if c := b.waiting[m.ID]; c != nil {
			delete(b.waiting, m.ID)
			c <- m.reply
		}
		var level struct {
			Type  string
			Entry struct{ Level string }
		}
		_ = json.Unmarshal(m.Params, &level) // other events have other parameters
		switch {
		case m.Method == "Runtime.exceptionThrown",
			m.Method == "Runtime.consoleAPICalled" && (level.Type == "error" || level.Type == "warning" || level.Type == "assert"),
			m.Method == "Log.entryAdded" && (level.Entry.Level == "error" || level.Entry.Level == "warning"):
			b.problems = append(b.problems, m.Method+" "+string(m.Params))
		}
		b.mu.Unlock()
	}
}

// call calls a method of the protocol.
func (b *browser) call(method string, params any) json.RawMessage {
	b.t.Helper()
	if params == nil {
		params = struct{}{}
	}
	c := make(chan reply, 1)
	b.mu.Lock()
	b.last++
	id := b.last
	b.waiting[id] = c
	b.mu.Unlock()
	require.NoError(b.t, websocket.JSON.Send(b.conn, map[string]any{"id": id, "method": method, "params": params}))
	select {
	case r := <-c:
		require.Nil(b.t, r.Error, method)
		return r.Result
	case <-time.After(60 * time.Second):
		require.Fail(b.t, "no answer", method)
		return nil
	}
}

// value is that of an expression in the page, a text; of one that throws what it says.
func (b *browser) value(expression string) string {
	b.t.Helper()
	var x struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	require.NoError(b.t, json.Unmarshal(b.call("Runtime.evaluate", map[string]any{"expression": "String(" + expression + ")", "returnByValue": true}), &x))
	if x.ExceptionDetails != nil {
		return x.ExceptionDetails.Exception.Description
	}
	return fmt.Sprint(x.Result.Value)
}

// shows waits until an expression's value is one that good accepts, and returns it.
func (b *browser) shows(expression string, good func(string) bool) (value string) {
	b.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if value = b.value(expression); good(value) {
			return value
		}
		if time.Now().After(end) {
			require.Fail(b.t, "not shown", "%s: %s", expression, value)
		}
	}
}

// key presses a key.
func (b *browser) key(key, text string) {
	b.t.Helper()
	down := map[string]any{"type": "keyDown", "key": key}
	if text != "" {
		down["text"] = text
	}
	if code := map[string]int{"Escape": 27, "Enter": 13}[key]; code != 0 {
		down["windowsVirtualKeyCode"] = code
	}
	b.call("Input.dispatchKeyEvent", down)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key})
}

// click clicks in the middle of the first element that a selector finds.
func (b *browser) click(selector string) {
	b.t.Helper()
	var at struct{ X, Y float64 }
	where := b.value(fmt.Sprintf("(e => { e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect(); "+
		"return JSON.stringify({x: r.x + r.width / 2, y: r.y + r.height / 2}); })(document.querySelector(%q))", selector))
	require.NoError(b.t, json.Unmarshal([]byte(where), &at), where)
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		b.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1})
	}
}

// picture writes what the page looks like to a PNG file.
func (b *browser) picture(w io.Writer) {
	b.t.Helper()
	var x struct{ Data []byte }
	require.NoError(b.t, json.Unmarshal(b.call("Page.captureScreenshot", map[string]any{"format": "png"}), &x))
	_, err := w.Write(x.Data)
	require.NoError(b.t, err)
}

// console is what the page's console has of errors and warnings.
func (b *browser) console() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.problems...)
}
