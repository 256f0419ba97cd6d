package main

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/go-iwarp/iwarp/stream"
)

// BenchmarkUnary calls with 100 octets, over TCP and over a stream, one call at a time and many at once:
//
//	cd examples/grpc && go test -run '^$' -bench Unary -count 5
func BenchmarkUnary(b *testing.B) {
	for _, way := range []struct {
		name string
		ln   func() (net.Listener, error)
		dial func(context.Context, string) (net.Conn, error)
	}{
		{
			"tcp", func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") },
			func(ctx context.Context, address string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", address)
			},
		},
		{
			"stream", func() (net.Listener, error) { return stream.Listen("tcp", "127.0.0.1:0", nil) },
			func(ctx context.Context, address string) (net.Conn, error) {
				return (&stream.Dialer{}).DialContext(ctx, "tcp", address)
			},
		},
	} {
		ln, err := way.ln()
		if err != nil {
			b.Fatal(err)
		}
		srv := grpc.NewServer()
		h := health.NewServer()
		name := string(make([]byte, 100))
		h.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
		healthpb.RegisterHealthServer(srv, h)
		go func() { _ = srv.Serve(ln) }()
		conn, err := grpc.NewClient("passthrough:///"+ln.Addr().String(),
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(way.dial))
		if err != nil {
			b.Fatal(err)
		}
		client := healthpb.NewHealthClient(conn)
		call := func() {
			if _, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{Service: name}); err != nil {
				b.Error(err)
			}
		}
		b.Run(way.name+"/one", func(b *testing.B) {
			for b.Loop() {
				call()
			}
		})
		b.Run(way.name+"/many", func(b *testing.B) {
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					call()
				}
			})
		})
		_ = conn.Close()
		srv.Stop()
	}
}
