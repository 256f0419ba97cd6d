// Command grpc is a gRPC server and its client over iWARP: grpc with another listener and another dialer. The server is
// stopped gracefully. The service is gRPC's own health check, so that no code need be generated.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/go-iwarp/iwarp/stream"
)

func main() {
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer) error {
	ln, err := stream.Listen("tcp", "127.0.0.1:0", nil)
	if err != nil {
		return err
	}
	srv := grpc.NewServer()
	healthpb.RegisterHealthServer(srv, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()

	conn, err := grpc.NewClient("passthrough:///"+ln.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return (&stream.Dialer{}).DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		return err
	}
	answer, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
	if err != nil {
		return err
	}
	fmt.Fprintln(w, answer.GetStatus())
	srv.GracefulStop() // while the client is connected
	if err := conn.Close(); err != nil {
		return err
	}
	return <-served
}
