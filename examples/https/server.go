package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/socketxtreme/socketxtreme/conf"
	"github.com/socketxtreme/socketxtreme/reactor/netconn"
	"github.com/socketxtreme/socketxtreme/xtreme"
)

// server is a running server.
type server struct {
	network  *netconn.Network
	listener *netconn.Listener
	cert     tls.Certificate
}

// grace is how long requests under way have at the end.
const grace = 5 * time.Second

// run serves until ctx is done, then lets requests under way end. ready is called when it listens.
func run(ctx context.Context, c config, ready func(*server)) (err error) {
	settings := conf.FromEnvironment()
	settings.Ring = c.ring
	engine, err := xtreme.New(settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	network, err := netconn.New(engine, netconn.Config{Loops: c.loops, Name: "https"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.Close()) }()
	if ctx.Err() != nil {
		return nil // it was stopped while the loops were made
	}

	cert, err := loadOrMake(c.cert, c.key)
	if err != nil {
		return err
	}
	listener, err := network.Listen("tcp", c.listen)
	if err != nil {
		return err
	}
	// From here on it is package net/http, as ever.
	web := &http.Server{Handler: handler(), ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}}
	served := make(chan error, 1)
	go func() { served <- web.ServeTLS(listener, "", "") }()
	ready(&server{network, listener, cert})
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := web.Shutdown(end); err != nil {
		return fmt.Errorf("requests did not end within %v: %w", grace, errors.Join(err, web.Close()))
	}
	return nil
}

// handler makes the handler of the example's pages.
func handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "hello over %s\n", r.Proto)
	})
	mux.HandleFunc("GET /bytes/{n}", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.PathValue("n"))
		if err != nil || n < 0 || n > 1<<30 {
			http.Error(w, "n: want 0 to 2^30", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(n))
		_, _ = io.CopyN(w, zeros{}, int64(n))
	})
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		_, _ = w.Write(body)
	})
	return mux
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
