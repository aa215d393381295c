package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// probe serves on a free port and is its own client, whose connections are on the rings, too: HTTP/2 first, then HTTP/1.1.
func probe(ctx context.Context, c config) error {
	if c.cert != "" {
		return errors.New("-probe: checks the certificate it makes itself: leave out -cert and -key")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c.listen = "127.0.0.1:0"
	var asked error
	err := run(ctx, c, func(s *server) {
		defer stop()
		fmt.Println(s.listener.Path())
		for _, proto := range []string{"HTTP/2.0", "HTTP/1.1"} {
			n, err := ask(ctx, s, proto, c.probe/2)
			if err != nil {
				asked = fmt.Errorf("%s: request %d: %w", proto, n, err)
				return
			}
			fmt.Printf("%s: %d requests, every answer right\n", proto, n)
		}
	})
	return errors.Join(asked, err)
}

// ask makes requests for d and checks what comes back.
func ask(ctx context.Context, s *server, proto string, d time.Duration) (n int, err error) {
	leaf, err := x509.ParseCertificate(s.cert.Certificate[0])
	if err != nil {
		return 0, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return s.network.DialContext(ctx, network, address)
		}, ForceAttemptHTTP2: proto == "HTTP/2.0"}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	url := "https://" + s.listener.Addr().String() + "/echo"
	for end := time.Now().Add(d); n == 0 || time.Now().Before(end); n++ {
		text := bytes.Repeat([]byte{byte(n)}, n*37%20_000)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
		if err != nil {
			return n, err
		}
		r, err := client.Do(request)
		if err != nil {
			return n, err
		}
		got, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		switch {
		case err != nil:
			return n, err
		case r.StatusCode != http.StatusOK || r.Proto != proto:
			return n, fmt.Errorf("%s over %s", r.Status, r.Proto)
		case !bytes.Equal(got, text):
			return n, fmt.Errorf("%d bytes came back of %d", len(got), len(text))
		}
	}
	return n, nil
}
