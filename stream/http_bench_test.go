package stream

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
)

// BenchmarkHTTP fetches bodies of 1 MiB, over TCP and over a stream.
func BenchmarkHTTP(b *testing.B) {
	body := make([]byte, 1<<20)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	run := func(b *testing.B, ln net.Listener, transport *http.Transport) {
		srv := &http.Server{Handler: handler}
		go func() { _ = srv.Serve(ln) }()
		defer srv.Close()
		client := &http.Client{Transport: transport}
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			resp, err := client.Get("http://" + ln.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != int64(len(body)) {
				b.Fatal(n, err)
			}
			_ = resp.Body.Close()
		}
		transport.CloseIdleConnections()
	}
	dialer := &net.Dialer{Control: cubic}
	b.Run("tcp", func(b *testing.B) {
		run(b, cubicListen(b), &http.Transport{DialContext: dialer.DialContext})
	})
	b.Run("stream", func(b *testing.B) {
		ln, err := NewListener(cubicListen(b), nil)
		if err != nil {
			b.Fatal(err)
		}
		run(b, ln, &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return Client(ctx, nc, nil)
		}})
	})
}
