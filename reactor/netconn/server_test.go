package netconn

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
)

// certificate is a self-signed one for 127.0.0.1, and the pool that trusts it.
func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestTLSOnBothEnds(t *testing.T) {
	cert, pool := certificate(t)
	onEach(t, func(t *testing.T, kind conf.RingKind) {
		n := newNetwork(t, kind, Config{})
		c, a := pair(t, n, "tcp")
		server := tls.Server(a, &tls.Config{Certificates: []tls.Certificate{cert}})
		client := tls.Client(c, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
		text := make([]byte, 1<<20)
		_, _ = rand.Read(text)
		result := make(chan error, 1)
		go func() {
			_, err := io.Copy(server, server) // echo until the client's end
			if err == nil {
				err = server.CloseWrite()
			}
			result <- err
		}()
		go func() {
			_, _ = client.Write(text)
			_ = client.CloseWrite()
		}()
		got, err := io.ReadAll(client)
		require.NoError(t, err)
		require.True(t, bytes.Equal(text, got))
		require.NoError(t, wait(t, result))
	})
}

func TestHTTP(t *testing.T) {
	cert, pool := certificate(t)
	file := filepath.Join(t.TempDir(), "file")
	content := bytes.Repeat([]byte("content "), 100_000)
	require.NoError(t, os.WriteFile(file, content, 0o644))
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Proto", r.Proto)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
		_, _ = w.Write(body)
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })

	onEach(t, func(t *testing.T, kind conf.RingKind) {
		for _, proto := range []string{"HTTP/1.1", "HTTPS/1.1", "HTTPS/2.0"} {
			t.Run(strings.ReplaceAll(proto, "/", " "), func(t *testing.T) {
				n := newNetwork(t, kind, Config{})
				ln := listen(t, n, "tcp")
				server := &http.Server{Handler: mux, ErrorLog: log.New(io.Discard, "", 0), ReadTimeout: patience,
					TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}}
				transport := &http.Transport{DialContext: n.DialContext, TLSClientConfig: &tls.Config{RootCAs: pool},
					ForceAttemptHTTP2: proto == "HTTPS/2.0", MaxIdleConnsPerHost: 8}
				if proto == "HTTPS/1.1" {
					server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
				}
				served := make(chan error, 1)
				scheme := "http"
				if proto == "HTTP/1.1" {
					go func() { served <- server.Serve(ln) }()
				} else {
					scheme = "https"
					go func() { served <- server.ServeTLS(ln, "", "") }()
				}
				url := fmt.Sprintf("%s://%s", scheme, ln.Addr())
				client := &http.Client{Transport: transport, Timeout: patience}
				var all sync.WaitGroup
				for g := range 8 {
					all.Go(func() {
						for i := range 25 {
							text := bytes.Repeat([]byte{byte(g), byte(i)}, i*1500)
							r, err := client.Post(url+"/echo", "text/plain", bytes.NewReader(text))
							if !noError(t, err) {
								return
							}
							got, err := io.ReadAll(r.Body)
							noError(t, err)
							_ = r.Body.Close()
							if !bytes.Equal(text, got) || "HTTPS"+r.Header.Get("Proto")[4:] != strings.Replace(proto, "HTTP/", "HTTPS/", 1) {
								t.Errorf("%d bytes of %d, %s", len(got), len(text), r.Header.Get("Proto"))
							}
						}
					})
				}
				all.Wait()
				r, err := client.Get(url + "/file")
				require.NoError(t, err)
				got, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				require.True(t, bytes.Equal(content, got))
				_ = r.Body.Close()
				transport.CloseIdleConnections()
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				require.NoError(t, server.Shutdown(ctx))
				require.ErrorIs(t, wait(t, served), http.ErrServerClosed)
			})
		}
	})
}

func noError(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	return err == nil
}
