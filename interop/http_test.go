package interop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHTTP: net/http on both ends, connections kept alive. A request of http.Transport that gets an idle connection leaves the dial that it has
// begun to itself: seldom there is one more.
func TestHTTP(t *testing.T) {
	inEachWorld(t, workers, 2, func(t *testing.T, w world) {
		ln, err := w.listen("tcp", w.at)
		require.NoError(t, err)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })}
		served := make(chan error, 1)
		go func() { served <- server.Serve(ln) }()
		transport := &http.Transport{DialContext: w.dial, MaxIdleConnsPerHost: workers, MaxConnsPerHost: workers}
		client := &http.Client{Transport: transport, Timeout: patience}
		fillPool(t, func() (func(), error) {
			r, err := client.Post("http://"+ln.Addr().String(), "text/plain", strings.NewReader("held"))
			if err != nil {
				return nil, err
			}
			return func() { // until the body is read the connection is in use
				_, _ = io.Copy(io.Discard, r.Body)
				_ = r.Body.Close()
			}, nil
		})
		together(t, func(worker int) error {
			for i := range requests {
				text := strings.Repeat(fmt.Sprint(worker, " "), i)
				r, err := client.Post("http://"+ln.Addr().String(), "text/plain", strings.NewReader(text))
				if err != nil {
					return err
				}
				got, err := io.ReadAll(r.Body)
				_ = r.Body.Close()
				if err != nil || string(got) != text {
					return fmt.Errorf("got %d bytes, want %d: %w", len(got), len(text), err)
				}
			}
			return nil
		})
		transport.CloseIdleConnections()
		require.NoError(t, server.Shutdown(context.Background()))
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
}
