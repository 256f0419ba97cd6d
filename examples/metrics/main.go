// Command metrics is a service whose numbers Prometheus collects at /metrics.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/metrics/prom"
)

func main() {
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// serve answers each client until it closes, or the listener shuts down.
func serve(ctx context.Context, ln *iwarp.Listener) {
	for {
		c, err := ln.Accept(ctx)
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			buf := make([]byte, 64)
			for {
				m, err := c.Recv(ctx, buf)
				if err != nil || c.Send(ctx, buf[:m.Length]) != nil {
					return
				}
			}
		}()
	}
}

func run(w io.Writer) error {
	ctx := context.Background()
	device, err := iwarp.NewDevice(nil)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(prom.NewCollector(device, "echo"))
	web := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer web.Close()

	ln, err := iwarp.Listen("tcp", "127.0.0.1:0", &iwarp.Config{Device: device})
	if err != nil {
		return err
	}
	go serve(ctx, ln)
	c, err := iwarp.Dial(ctx, "tcp", ln.Addr().String(), nil)
	if err != nil {
		return err
	}
	buf := make([]byte, 64)
	for range 3 {
		err = errors.Join(err, c.Send(ctx, []byte("hello")))
		_, rerr := c.Recv(ctx, buf)
		err = errors.Join(err, rerr)
	}
	if err = errors.Join(err, show(w, web.URL), c.Close(), ln.Shutdown(ctx)); err != nil {
		return err
	}
	return show(w, web.URL)
}

// show prints some of what Prometheus would get.
func show(w io.Writer, url string) error {
	r, err := http.Get(url)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	for s := bufio.NewScanner(r.Body); s.Scan(); {
		if l := s.Text(); strings.HasPrefix(l, "iwarp_connections{") || strings.HasPrefix(l, "iwarp_payload_received") {
			fmt.Fprintln(w, l)
		}
	}
	return nil
}
