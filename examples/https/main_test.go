package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socketxtreme/socketxtreme/conf"
)

// asProgram makes the test binary the program, for tests that want one in a namespace.
const asProgram = "HTTPS_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestParse(t *testing.T) {
	c, err := parse(nil)
	require.NoError(t, err)
	require.Equal(t, config{listen: "127.0.0.1:8443", ring: conf.RingAuto, loops: 1}, c)
	for _, args := range [][]string{{"-ring", "x"}, {"-loops", "0"}, {"-loops", "17"}, {"-cert", "x"}, {"-key", "x"}, {"-probe", "-1s"}, {"x"}} {
		_, err := parse(args)
		require.Error(t, err, args)
		require.ErrorContains(t, err, args[len(args)-1])
	}
}

func TestProbe(t *testing.T) {
	for _, c := range []config{{ring: conf.RingAuto, loops: 1}, {ring: conf.RingEpoll, loops: 2}} {
		c.probe = 100 * time.Millisecond
		require.NoError(t, probe(context.Background(), c))
	}
	require.Error(t, probe(context.Background(), config{cert: "x", key: "x", probe: 1, loops: 1}))
}

// TestStoppedWhileItStarts: it ends without serving, and that is no error.
func TestStoppedWhileItStarts(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	c := config{listen: "127.0.0.1:0", ring: conf.RingEpoll, loops: 4}
	require.NoError(t, run(ctx, c, func(*server) { t.Error("it served") }))
}

// TestCertificateFromFilesAndGracefulEnd: a request that is under way when the server is told to stop is answered.
func TestCertificateFromFilesAndGracefulEnd(t *testing.T) {
	made, err := loadOrMake("", "")
	require.NoError(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey.(*ecdsa.PrivateKey))
	require.NoError(t, err)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ready, ended := make(chan *server, 1), make(chan error, 1)
	go func() {
		ended <- run(ctx, config{listen: "127.0.0.1:0", ring: conf.RingEpoll, loops: 1, cert: certFile, key: keyFile},
			func(s *server) { ready <- s })
	}()
	s := <-ready
	roots := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(made.Certificate[0])
	require.NoError(t, err)
	roots.AddCert(leaf)
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	r, err := client.Get("https://" + s.listener.Addr().String() + "/bytes/20000000")
	require.NoError(t, err)
	stop()
	n, err := io.Copy(io.Discard, r.Body)
	require.NoError(t, err)
	require.EqualValues(t, 20_000_000, n)
	require.NoError(t, r.Body.Close())
	require.NoError(t, <-ended)
	require.Error(t, run(context.Background(), config{listen: "127.0.0.1:0", loops: 1, cert: keyFile, key: certFile, ring: conf.RingEpoll}, nil))
}

// Without the flag the environment's kind of ring is used.
func TestRingOfTheEnvironment(t *testing.T) {
	t.Setenv("SX_RING", "epoll")
	c, err := parse(nil)
	require.NoError(t, err)
	require.Equal(t, conf.RingEpoll, c.ring)
}
